package e2e_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// goodHistory has a bit of everything that is allowed: 40 messages, even ones on core, a cancel of each kind, a
// duplicate within a window, a redelivery by the stream, three leaderships.
func goodHistory() *history {
	h := newHistory("good")
	start := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	for seq := range 40 {
		due := start.Add(time.Duration(seq) * time.Second)
		s := &sent{
			seq: seq, subject: fmt.Sprintf("good.%d", seq), stream: seq%2 == 1, body: []byte{0, byte(seq), 0xff},
			header: nats.Header{seqHeader: {strconv.Itoa(seq)}, "x-Two": {"1", "2"}},
			id:     fmt.Sprintf("id-%d", seq), key: fmt.Sprintf("key-%d", seq),
			uid: fmt.Sprintf("t-%d", seq), kept: true,
			notBefore: due, notAfter: due.Add(3 * time.Millisecond), due: due.UnixMilli() + 2,
		}
		h.sent[seq] = s
		if seq >= 30 && seq < 33 { // canceled, perhaps canceled, unknown whether
			continue
		}
		h.arrivals = append(h.arrivals, delivered(s, due.Add(4*time.Millisecond), uint64(seq)))
	}
	h.canceled = []canceled{
		{30, start, okCancel}, {31, start, "maybe_delivered"}, {32, start, ""},
		{33, start.Add(40 * time.Second), "already_delivered"},
		{34, start, "in_flight"}, {35, start, ""},
	}
	h.windows = []window{{why: "kill", from: start.Add(20 * time.Second), to: start.Add(25 * time.Second)}}
	h.arrivals = append(h.arrivals, delivered(h.sent[20], start.Add(21*time.Second), 20))
	again := delivered(h.sent[5], start.Add(30*time.Second), 5)
	h.arrivals = append(h.arrivals, again)
	h.leaders = []leading{{"a", 1, start}, {"b", 2, start.Add(22 * time.Second)}, {"a", 5, start.Add(30 * time.Second)}}
	return h
}

// delivered is how s should arrive.
func delivered(s *sent, at time.Time, stored uint64) arrival {
	header := nats.Header{
		nats.MsgIdHdr: {s.uid + "@good"}, "Tarry-Id": {s.id}, "Tarry-Key": {s.key}, "Tarry-Attempt": {"1"},
		"Tarry-Due": {strconv.FormatInt(s.due, 10)},
	}
	for name, values := range s.header {
		header[name] = values
	}
	if !s.stream {
		stored = 0
	}
	return arrival{seq: s.seq, at: at, subject: s.subject, header: header, body: s.body, stored: stored}
}

func TestCheck_FindsNothingInAGoodHistory(t *testing.T) {
	t.Parallel()
	report(t, check(goodHistory()))
	report(t, check(goodHistory().snapshot()))
}

func TestCheck_FindsEachWayToSpoilAHistory(t *testing.T) {
	t.Parallel()
	drop := func(seq int) func(*history) {
		return func(h *history) {
			h.arrivals = slices.DeleteFunc(h.arrivals, func(a arrival) bool { return a.seq == seq })
		}
	}
	header := func(name string, values ...string) func(*history) {
		return func(h *history) {
			delete(h.arrivals[7].header, name)
			if len(values) > 0 {
				h.arrivals[7].header[name] = values
			}
		}
	}
	again := func(seq int, after time.Duration, change func(*arrival)) func(*history) {
		return func(h *history) {
			i := slices.IndexFunc(h.arrivals, func(a arrival) bool { return a.seq == seq })
			a := h.snapshot().arrivals[i]
			a.at = a.at.Add(after)
			change(&a)
			h.arrivals = append(h.arrivals, a)
		}
	}
	same := func(*arrival) {}
	for _, mutant := range []struct {
		name  string
		rule  string
		spoil func(h *history)
	}{
		{"a message never came", ruleLost, drop(3)},
		{"a message whose cancel said in flight never came", ruleLost, drop(34)},
		{"a message whose cancel said delivered never came", ruleLost, drop(33)},
		{"a message came a microsecond early", ruleEarly, func(h *history) {
			h.arrivals[7].at = h.sent[7].notBefore.Add(-time.Microsecond)
		}},
		{"a message came before its own Tarry-Due", ruleEarly, func(h *history) {
			h.arrivals[7].at = h.sent[7].notBefore.Add(time.Millisecond)
		}},
		{"a message nobody pushed", ruleUnasked, func(h *history) { h.arrivals[7].seq = 1000 }},
		{"a message that is none of ours", ruleUnasked, func(h *history) { h.arrivals[7].seq = -1 }},
		{"one bit of a body", ruleBody, func(h *history) { h.arrivals[7].body = []byte{0, 7, 0xfe} }},
		{"a body cut short", ruleBody, func(h *history) { h.arrivals[7].body = h.arrivals[7].body[:2] }},
		{"an empty body", ruleBody, func(h *history) { h.arrivals[7].body = nil }},
		{"another subject", ruleSubject, func(h *history) { h.arrivals[7].subject = "good.8" }},
		{"core in place of the stream", ruleSubject, func(h *history) { h.arrivals[7].stored = 0 }},
		{"a user header lost", ruleHeader, header("x-Two")},
		{"a user header's second value lost", ruleHeader, header("x-Two", "1")},
		{"a user header's values swapped", ruleHeader, header("x-Two", "2", "1")},
		{"a user header's case changed", ruleHeader, func(h *history) {
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
		{"another Tarry-Due than answered", ruleOwn, func(h *history) { h.sent[7].due++ }},
		{"a Tarry-Due before the one asked for", ruleOwn, func(h *history) {
			h.sent[7].due, h.sent[7].notBefore = 0, h.sent[7].notAfter
		}},
		{"a Tarry-Due after the last possible", ruleOwn, func(h *history) {
			h.sent[7].due, h.sent[7].notAfter = 0, h.sent[7].notBefore.Add(-dueSlack)
		}},
		{"a Tarry-Due that is no number", ruleOwn, header("Tarry-Due", "2030-01-31T08:00:07Z")},
		{"another attempt", ruleOwn, header("Tarry-Attempt", "2")},
		{"seen after a cancel that said OK", ruleCanceled, func(h *history) {
			h.arrivals = append(h.arrivals, delivered(h.sent[30], h.sent[30].notAfter, 30))
		}},
		{"seen before a cancel that said OK", ruleCanceled, func(h *history) {
			h.canceled = append(h.canceled, canceled{7, h.arrivals[7].at.Add(time.Minute), okCancel})
		}},
		{"a message whose cancel did nothing never came", ruleLost, func(h *history) {
			h.canceled = append(h.canceled, canceled{3, h.sent[3].notBefore, "unavailable"})
			drop(3)(h)
		}},
		{"a message whose cancel did not find it never came", ruleLost, func(h *history) {
			h.sent[3].uid = ""
			h.canceled = append(h.canceled, canceled{3, h.sent[3].notBefore, "unknown_id"})
			drop(3)(h)
		}},
		{"said to be unknown", ruleUnknown, func(h *history) {
			h.canceled = append(h.canceled, canceled{8, h.sent[8].notBefore, "unknown_id"})
		}},
		{"said to be delivered long before it was", ruleDenied, func(h *history) {
			h.canceled[3].at = h.sent[33].notBefore.Add(-time.Minute)
		}},
		{"twice before the fault", ruleRepeated, again(8, 12*time.Second-5*time.Millisecond, same)},
		{"twice without a fault", ruleRepeated, again(8, time.Second, same)},
		{"twice after the fault", ruleRepeated, again(24, 2*time.Second, same)},
		{"twice around a fault, first seen long before it", ruleRepeated, func(h *history) {
			h.windows[0].since = h.windows[0].from.Add(-2 * time.Second)
			again(16, 5*time.Second, same)(h)
		}},
		{"twice under another Nats-Msg-Id", ruleRenamed, again(22, time.Second, func(a *arrival) {
			a.header[nats.MsgIdHdr] = []string{"t-0@good"}
		})},
		{"stored twice, even around a fault", ruleStored, again(21, time.Second, func(a *arrival) { a.stored = 999 })},
		{"a term came twice", ruleTerm, func(h *history) { h.leaders[2].term = 2 }},
		{"a term fell", ruleTerm, func(h *history) { h.leaders[1].term = 7 }},
	} {
		t.Run(mutant.name, func(t *testing.T) {
			t.Parallel()
			h := goodHistory().snapshot()
			mutant.spoil(h)
			found := check(h)
			if !slices.ContainsFunc(found, func(v violation) bool { return v.rule == mutant.rule }) {
				t.Errorf("found %v, want %s", found, mutant.rule)
			}
		})
	}
}
