package site

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// goodHistory has a bit of everything that is allowed: 40 messages, even ones on core, a cancel of each kind, a
// duplicate within a window, a redelivery by the stream, three leaderships.
func goodHistory() *History {
	h := NewHistory("good")
	start := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	for seq := range 40 {
		due := start.Add(time.Duration(seq) * time.Second)
		s := &Sent{
			Seq: seq, subject: fmt.Sprintf("good.%d", seq), stream: seq%2 == 1, Body: []byte{0, byte(seq), 0xff},
			header: nats.Header{SeqHeader: {strconv.Itoa(seq)}, "x-Two": {"1", "2"}},
			Id:     fmt.Sprintf("id-%d", seq), Key: fmt.Sprintf("key-%d", seq),
			Uid: fmt.Sprintf("t-%d", seq), Kept: true,
			NotBefore: due, notAfter: due.Add(3 * time.Millisecond), Due: due.UnixMilli() + 2,
		}
		h.Sent[seq] = s
		if seq >= 30 && seq < 33 { // canceled, perhaps canceled, unknown whether
			continue
		}
		h.Arrivals = append(h.Arrivals, delivered(s, due.Add(4*time.Millisecond), uint64(seq)))
	}
	h.canceled = []Canceled{
		canceled(30, start, OkCancel), canceled(31, start, "maybe_delivered"), canceled(32, start, ""),
		canceled(33, start.Add(40*time.Second), "already_delivered"),
		canceled(34, start, "in_flight"), canceled(35, start, ""),
	}
	h.windows = []Window{{Why: "kill", From: start.Add(20 * time.Second), to: start.Add(25 * time.Second)}}
	h.Arrivals = append(h.Arrivals, delivered(h.Sent[20], start.Add(21*time.Second), 20))
	again := delivered(h.Sent[5], start.Add(30*time.Second), 5)
	h.Arrivals = append(h.Arrivals, again)
	h.Leaders = []leading{{"a", 1, start}, {"b", 2, start.Add(22 * time.Second)}, {"a", 5, start.Add(30 * time.Second)}}
	return h
}

// delivered is how s should arrive.
func delivered(s *Sent, at time.Time, stored uint64) Arrival {
	header := nats.Header{
		nats.MsgIdHdr: {s.Uid + "@good"}, "Tarry-Id": {s.Id}, "Tarry-Key": {s.Key}, "Tarry-Attempt": {"1"},
		"Tarry-Due": {strconv.FormatInt(s.Due, 10)}, "Tarry-Once": {"secret " + strconv.Itoa(s.Seq)},
	}
	for name, values := range s.header {
		header[name] = values
	}
	if !s.stream {
		stored = 0
	}
	return Arrival{Seq: s.Seq, At: at, Subject: s.subject, header: header, Body: s.Body, Stored: stored}
}

func TestCheck_FindsNothingInAGoodHistory(t *testing.T) {
	t.Parallel()
	Report(t, Check(goodHistory()))
	Report(t, Check(goodHistory().Snapshot()))
}

func TestCheck_FindsEachWayToSpoilAHistory(t *testing.T) {
	t.Parallel()
	drop := func(seq int) func(*History) {
		return func(h *History) {
			h.Arrivals = slices.DeleteFunc(h.Arrivals, func(a Arrival) bool { return a.Seq == seq })
		}
	}
	header := func(name string, values ...string) func(*History) {
		return func(h *History) {
			delete(h.Arrivals[7].header, name)
			if len(values) > 0 {
				h.Arrivals[7].header[name] = values
			}
		}
	}
	again := func(seq int, after time.Duration, change func(*Arrival)) func(*History) {
		return func(h *History) {
			i := slices.IndexFunc(h.Arrivals, func(a Arrival) bool { return a.Seq == seq })
			a := h.Snapshot().Arrivals[i]
			a.At = a.At.Add(after)
			change(&a)
			h.Arrivals = append(h.Arrivals, a)
		}
	}
	same := func(*Arrival) {}
	for _, mutant := range []struct {
		name  string
		rule  string
		spoil func(h *History)
	}{
		{"a message never came", RuleLost, drop(3)},
		{"a message whose cancel said in flight never came", RuleLost, drop(34)},
		{"a message whose cancel said delivered never came", RuleLost, drop(33)},
		{"a message came a microsecond early", ruleEarly, func(h *History) {
			h.Arrivals[7].At = h.Sent[7].NotBefore.Add(-time.Microsecond)
		}},
		{"a message came before its own Tarry-Due", ruleEarly, func(h *History) {
			h.Arrivals[7].At = h.Sent[7].NotBefore.Add(time.Millisecond)
		}},
		{"a message nobody pushed", ruleUnasked, func(h *History) { h.Arrivals[7].Seq = 1000 }},
		{"a message that is none of ours", ruleUnasked, func(h *History) { h.Arrivals[7].Seq = -1 }},
		{"one bit of a body", ruleBody, func(h *History) { h.Arrivals[7].Body = []byte{0, 7, 0xfe} }},
		{"a body cut short", ruleBody, func(h *History) { h.Arrivals[7].Body = h.Arrivals[7].Body[:2] }},
		{"an empty body", ruleBody, func(h *History) { h.Arrivals[7].Body = nil }},
		{"another subject", ruleSubject, func(h *History) { h.Arrivals[7].Subject = "good.8" }},
		{"core in place of the stream", ruleSubject, func(h *History) { h.Arrivals[7].Stored = 0 }},
		{"a user header lost", ruleHeader, header("x-Two")},
		{"a user header's second value lost", ruleHeader, header("x-Two", "1")},
		{"a user header's values swapped", ruleHeader, header("x-Two", "2", "1")},
		{"a user header's case changed", ruleHeader, func(h *History) {
			header("x-Two")(h)
			header("X-Two", "1", "2")(h)
		}},
		{"a tag left", ruleHeader, header("Tarry-Delay", "20m")},
		{"no Nats-Msg-Id", ruleOwn, header(nats.MsgIdHdr)},
		{"another Nats-Msg-Id than answered", ruleOwn, header(nats.MsgIdHdr, "t-8@good")},
		{"the Nats-Msg-Id of another namespace", ruleOwn, header(nats.MsgIdHdr, "t-7@better")},
		{"two Nats-Msg-Ids", ruleOwn, header(nats.MsgIdHdr, "t-7@good", "t-7@good")},
		{"another Tarry-Id", ruleOwn, header("Tarry-Id", "t-7")},
		{"another Tarry-Key", ruleOwn, header("Tarry-Key", "key-8")},
		{"another Tarry-Due than answered", ruleOwn, func(h *History) { h.Sent[7].Due++ }},
		{"a Tarry-Due before the one asked for", ruleOwn, func(h *History) {
			h.Sent[7].Due, h.Sent[7].NotBefore = 0, h.Sent[7].notAfter
		}},
		{"a Tarry-Due after the last possible", ruleOwn, func(h *History) {
			h.Sent[7].Due, h.Sent[7].notAfter = 0, h.Sent[7].NotBefore.Add(-time.Hour)
		}},
		{"a Tarry-Due that is no number", ruleOwn, header("Tarry-Due", "2030-01-31T08:00:07Z")},
		{"no secret", ruleOwn, header("Tarry-Once")},
		{"the secret of another delivery", ruleOwn, header("Tarry-Once", "secret 5")},
		{"another attempt", ruleOwn, header("Tarry-Attempt", "2")},
		{"seen after a cancel that said OK", RuleCanceled, func(h *History) {
			h.Arrivals = append(h.Arrivals, delivered(h.Sent[30], h.Sent[30].notAfter, 30))
		}},
		{"seen before a cancel that said OK", RuleCanceled, func(h *History) {
			h.canceled = append(h.canceled, canceled(7, h.Arrivals[7].At.Add(time.Minute), OkCancel))
		}},
		{"a message whose cancel did nothing never came", RuleLost, func(h *History) {
			h.canceled = append(h.canceled, canceled(3, h.Sent[3].NotBefore, "unavailable"))
			drop(3)(h)
		}},
		{"a message whose cancel did not find it never came", RuleLost, func(h *History) {
			h.Sent[3].Uid = ""
			h.canceled = append(h.canceled, canceled(3, h.Sent[3].NotBefore, "unknown_id"))
			drop(3)(h)
		}},
		{"said to be unknown", ruleUnknown, func(h *History) {
			h.canceled = append(h.canceled, canceled(8, h.Sent[8].NotBefore, "unknown_id"))
		}},
		{"said to be delivered long before it was", ruleDenied, func(h *History) {
			h.canceled[3].At = h.Sent[33].NotBefore.Add(-time.Minute)
		}},
		{"twice before the fault", ruleRepeated, again(8, 12*time.Second-5*time.Millisecond, same)},
		{"twice without a fault", ruleRepeated, again(8, time.Second, same)},
		{"twice after the fault", ruleRepeated, again(24, 2*time.Second, same)},
		{"twice around a fault, though recorded before it", ruleRepeated, func(h *History) {
			h.windows[0].Recorded = map[string]bool{h.Sent[16].Uid + "@good": true}
			again(16, 5*time.Second, same)(h)
		}},
		{"twice under another Nats-Msg-Id", ruleRenamed, again(22, time.Second, func(a *Arrival) {
			a.header[nats.MsgIdHdr] = []string{"t-0@good"}
		})},
		{"twice under another Nats-Msg-Id, though acknowledged before a loss", ruleRenamed, func(h *History) {
			h.windows[0].Lost = true
			again(22, time.Second, func(a *Arrival) { a.header[nats.MsgIdHdr] = []string{"t-0@good"} })(h)
		}},
		{"stored twice, even around a fault", ruleStored, again(21, time.Second, func(a *Arrival) { a.Stored = 999 })},
		{"a term came twice", ruleTerm, func(h *History) { h.Leaders[2].term = 2 }},
		{"a term fell", ruleTerm, func(h *History) { h.Leaders[1].term = 7 }},
	} {
		t.Run(mutant.name, func(t *testing.T) {
			t.Parallel()
			h := goodHistory().Snapshot()
			mutant.spoil(h)
			found := Check(h)
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == mutant.rule }) {
				t.Errorf("found %v, want %s", found, mutant.rule)
			}
		})
	}
}

// goodRows is what the journal should have of a good history.
func goodRows(h *History) map[string]*Row {
	rows := map[string]*Row{}
	for _, s := range h.Sent {
		sum := md5.Sum(s.Body)
		end := change{version: 2, state: stateDelivered, at: s.Due, term: 1}
		for _, a := range h.Arrivals {
			if a.Seq == s.Seq && s.stream {
				end.stream, end.sequence = "GOOD", a.Stored
			}
		}
		if s.Seq >= 30 && s.Seq < 33 {
			end.state, end.term = stateCanceled, 0
		}
		rows[s.Uid] = &Row{uid: s.Uid, topic: s.subject, id: s.Id, key: s.Key, body: hex.EncodeToString(sum[:]), Seq: s.Seq,
			due: s.Due, state: end.state, version: 2,
			changes: []change{{version: 1, state: stateWaiting, at: s.Due - 2}, end}}
	}
	return rows
}

func TestCompare_FindsEachWayToSpoilAJournal(t *testing.T) {
	t.Parallel()
	bare := func(rows map[string]*Row) {
		of := rows["t-8"]
		rows["t-99"] = &Row{uid: "t-99", Seq: -1, state: stateDelivered, version: 2, changes: of.changes[1:]}
	}
	for _, mutant := range []struct {
		name  string
		rule  string // empty: nothing is wrong
		spoil func(*History, map[string]*Row)
	}{
		{"as it should be", "", func(*History, map[string]*Row) {}},
		{"a row is missing", ruleUnwritten, func(_ *History, rows map[string]*Row) { delete(rows, "t-8") }},
		{"a row is there twice", ruleTwice, func(_ *History, rows map[string]*Row) {
			again := *rows["t-8"]
			again.uid = "t-98"
			rows["t-98"] = &again
		}},
		{"another body", ruleContent, func(_ *History, rows map[string]*Row) { rows["t-8"].body = rows["t-9"].body }},
		{"canceled, and it came", ruleEnd, func(_ *History, rows map[string]*Row) {
			rows["t-8"].state, rows["t-8"].changes[1].state = stateCanceled, stateCanceled
		}},
		{"a change is missing", ruleGap, func(_ *History, rows map[string]*Row) {
			rows["t-8"].changes = rows["t-8"].changes[1:]
		}},
		{"the last change is missing", ruleGap, func(_ *History, rows map[string]*Row) {
			rows["t-8"].changes = rows["t-8"].changes[:1]
		}},
		{"another place", rulePlace, func(_ *History, rows map[string]*Row) { rows["t-9"].changes[1].sequence++ }},
		{"an end without its acceptance", ruleGap, func(_ *History, rows map[string]*Row) { bare(rows) }},
		{"an end without its acceptance, before a loss", "", func(h *History, rows map[string]*Row) {
			h.windows[0].Lost = true
			bare(rows)
		}},
		{"an end without its acceptance, after a loss", ruleGap, func(h *History, rows map[string]*Row) {
			h.windows[0].Lost = true
			bare(rows)
			rows["t-99"].changes = rows["t-39"].changes[1:]
		}},
	} {
		t.Run(mutant.name, func(t *testing.T) {
			t.Parallel()
			h := goodHistory().Snapshot()
			rows := goodRows(h)
			mutant.spoil(h, rows)
			found := compare(h, rows)
			if mutant.rule == "" && len(found) > 0 || mutant.rule != "" &&
				!slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == mutant.rule }) {
				t.Errorf("found %v, want %q", found, mutant.rule)
			}
		})
	}
}

// canceled is a cancel that took no time.
func canceled(seq int, at time.Time, word string) Canceled { return Canceled{seq, at, at, word} }
