package history_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/check/history"
)

var start = time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }

// teller writes histories.
type teller struct {
	all   []history.Event
	calls int
}

func (t *teller) tell(e history.Event) { t.all = append(t.all, e) }

// call tells a call from one second to another, with the answer's phase and fields.
func (t *teller) call(from, to float64, asked, answered history.Event) {
	t.calls++
	asked.At, asked.Phase, asked.Call = at(from), history.Invoke, t.calls
	t.tell(asked)
	if answered.Phase == "" {
		return
	}
	answered.At, answered.Call, answered.Kind, answered.Message = at(to), t.calls, asked.Kind, asked.Message
	t.tell(answered)
}

func (t *teller) push(m string, from, due float64) {
	t.call(from, from+0.01, history.Event{Kind: history.Push, Message: m, Body: "body of " + m},
		history.Event{Phase: history.OK, UID: "uid " + m, Due: at(due)})
}

func (t *teller) deliver(m string, when float64) {
	t.tell(history.Event{At: at(when), Kind: history.Deliver, Message: m, UID: "uid " + m, Attempt: 1,
		Body: "body of " + m, By: "consumer"})
}

func (t *teller) lease(m string, from, until float64, attempt int, receipt string) {
	t.tell(history.Event{At: at(from), Kind: history.Lease, Message: m, UID: "uid " + m, Attempt: attempt,
		Body: "body of " + m, By: "worker", Receipt: receipt, Until: at(until)})
}

func (t *teller) settle(m string, when float64, word, receipt, phase string) {
	t.call(when, when+0.01, history.Event{Kind: history.Settle, Message: m, Word: word, Receipt: receipt},
		history.Event{Phase: phase})
}

// good is a history with a bit of everything that is allowed.
func good() []history.Event {
	t := &teller{}
	t.tell(history.Event{At: at(0), Kind: history.Lead, By: "a", Term: 1})
	t.tell(history.Event{At: at(20), Kind: history.Lead, By: "b", Term: 2})
	for i := range 5 {
		m := fmt.Sprint("plain", i)
		t.push(m, 1, 10+float64(i))
		t.deliver(m, 10.002+float64(i))
	}
	t.push("canceled", 1, 10)
	t.call(5, 5.1, history.Event{Kind: history.Cancel, Message: "canceled"},
		history.Event{Phase: history.OK, Word: "canceled"})
	t.push("kept", 1, 10) // its cancel came too late
	t.call(12, 12.1, history.Event{Kind: history.Cancel, Message: "kept"},
		history.Event{Phase: history.Fail, Word: "already_delivered"})
	t.deliver("kept", 10.001)
	t.push("perhaps", 1, 10) // nobody knows whether its cancel came
	t.call(5, 0, history.Event{Kind: history.Cancel, Message: "perhaps"}, history.Event{})
	t.push("later", 1, 10)
	t.call(5, 5.1, history.Event{Kind: history.Reschedule, Message: "later", Due: at(30)},
		history.Event{Phase: history.OK, Due: at(30)})
	t.deliver("later", 30.001)
	t.push("sooner", 1, 40) // changed while the answer to another change was lost
	t.call(5, 0, history.Event{Kind: history.Reschedule, Message: "sooner", Due: at(8)}, history.Event{})
	t.deliver("sooner", 8.001)
	t.call(1, 0, history.Event{Kind: history.Push, Message: "unanswered", Body: "x"}, history.Event{})
	again := history.Event{Kind: history.Push, Message: "again", Due: at(40)} // sent again after a change
	t.call(2, 0, again, history.Event{})
	t.call(4, 0, history.Event{Kind: history.Reschedule, Message: "again", Due: at(30)}, history.Event{})
	t.call(12, 12.1, again, history.Event{Phase: history.OK, UID: "uid again", Due: at(30)})
	t.tell(history.Event{At: at(30.001), Kind: history.Deliver, Message: "again", UID: "uid again", Attempt: 1})
	t.push("twice", 1, 19.9)
	t.deliver("twice", 19.95)
	t.deliver("twice", 20.5)
	t.call(19.9, 21, history.Event{Kind: history.Fault, By: "kill", Word: history.Repeats},
		history.Event{Phase: history.OK})
	t.push("changed", 1, 19.9) // pushed anew with another body, whose answer was lost
	t.call(2, 0, history.Event{Kind: history.Push, Message: "changed", Body: "other"}, history.Event{})
	t.deliver("changed", 19.95)
	t.deliver("changed", 20.5)
	t.push("pulled", 1, 10)
	t.lease("pulled", 10.1, 40, 1, "r1")
	t.settle("pulled", 11, "nack", "r1", history.OK)
	t.all[len(t.all)-1].Due = at(14.9)
	t.lease("pulled", 15, 16, 2, "r2") // lapses
	t.lease("pulled", 17, 40, 3, "r3")
	t.settle("pulled", 18, "release", "r3", history.OK)
	t.lease("pulled", 19, 40, 3, "r4")
	t.settle("pulled", 20, "ack", "r4", history.OK)
	t.tell(history.Event{At: at(99), Kind: history.End, Message: "pulled", Word: "delivered"})
	t.push("ended", 1, 10)
	t.all[len(t.all)-2].TTL = "10s"
	t.tell(history.Event{At: at(99), Kind: history.End, Message: "ended", Word: "expired"})
	t.push("edited", 1, 10) // tried before, so it got another uid
	t.call(5, 5.1, history.Event{Kind: history.Reschedule, Message: "edited", Body: "edit"},
		history.Event{Phase: history.OK, UID: "uid of the edit", Due: at(10)})
	t.tell(history.Event{At: at(10.1), Kind: history.Deliver, Message: "edited", UID: "uid of the edit", Attempt: 1,
		Body: "edit"})
	t.push("hooked", 1, 10) // refused, and canceled before the next try
	t.deliver("hooked", 10.1)
	t.all[len(t.all)-1].Word = history.Posted
	t.call(12, 12.1, history.Event{Kind: history.Cancel, Message: "hooked"},
		history.Event{Phase: history.OK, Word: "canceled"})
	t.push("extended", 1, 10)
	t.lease("extended", 10.1, 12, 1, "e1")
	t.call(11, 11.1, history.Event{Kind: history.Settle, Message: "extended", Word: "extend", Receipt: "e1"},
		history.Event{Phase: history.OK, Until: at(20)})
	t.lease("extended", 20.5, 40, 2, "e2")
	for i, m := range []string{"first of k", "second of k"} {
		t.push(m, 1, 10)
		t.all[len(t.all)-2].Key = "k"
		t.lease(m, 11+2*float64(i), 40, 1, "k"+fmt.Sprint(i))
		t.settle(m, 12+2*float64(i), "ack", "k"+fmt.Sprint(i), history.OK)
	}
	t.push("asked", 1, 30)
	t.call(2, 2.1, history.Event{Kind: history.Look, Message: "asked"},
		history.Event{Phase: history.OK, Word: "waiting"})
	t.call(3, 8, history.Event{Kind: history.Cancel, Message: "asked"}, // beside the next: which was first, nobody knows
		history.Event{Phase: history.OK, Word: "canceled"})
	t.call(4, 9, history.Event{Kind: history.Reschedule, Message: "asked", Due: at(40)},
		history.Event{Phase: history.OK, Due: at(40)})
	t.call(10, 10.1, history.Event{Kind: history.Reschedule, Message: "asked", Due: at(50)},
		history.Event{Phase: history.Fail, Word: "already_canceled"})
	t.tell(history.Event{At: at(99), Kind: history.End, Message: "asked", Word: "canceled"})
	t.call(60, 62, history.Event{Kind: history.Fault, Word: history.Loss}, history.Event{Phase: history.OK})
	t.push("lost", 61, 70)
	t.push("taken", 1, 70) // by NATS, and by tarry just before the loss
	t.all[len(t.all)-1].Word = history.Taken
	t.push("revived", 1, 70) // its cancel was lost
	t.call(61, 61.1, history.Event{Kind: history.Cancel, Message: "revived"},
		history.Event{Phase: history.OK, Word: "canceled"})
	t.deliver("revived", 70.1)
	t.call(80, 81, history.Event{Kind: history.Fault, Word: history.Leases}, history.Event{Phase: history.OK})
	t.push("forgotten", 1, 10)
	t.lease("forgotten", 79, 95, 1, "f1")
	t.lease("forgotten", 82, 95, 1, "f2")
	return t.all
}

func TestCheck_FindsNothingInAGoodHistory(t *testing.T) {
	t.Parallel()
	for _, v := range history.Check(good()) {
		t.Error(v)
	}
	var file bytes.Buffer
	if err := history.Write(&file, good()); err != nil {
		t.Fatal(err)
	}
	again, err := history.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(again, good()) {
		t.Error("what was written is read as another history")
	}
}

// one returns the n-th event of a kind about a message.
func one(all []history.Event, kind, message string, n int) *history.Event {
	for i := range all {
		if e := &all[i]; e.Kind == kind && e.Message == message {
			if n--; n < 0 {
				return e
			}
		}
	}
	panic("no such event: " + kind + " of " + message)
}

func TestCheck_FindsEachWayToSpoilAHistory(t *testing.T) {
	t.Parallel()
	drop := func(kind, message string) func([]history.Event) []history.Event {
		return func(all []history.Event) []history.Event {
			return slices.DeleteFunc(all, func(e history.Event) bool { return e.Kind == kind && e.Message == message })
		}
	}
	// change changes the n-th event, and with a second function the one before it.
	change := func(kind, message string, n int, how ...func(*history.Event)) func([]history.Event) []history.Event {
		return func(all []history.Event) []history.Event {
			for back, how := range how {
				how(one(all, kind, message, n-back))
			}
			return all
		}
	}
	add := func(how func(t *teller)) func([]history.Event) []history.Event {
		return func(all []history.Event) []history.Event {
			t := &teller{all: all, calls: 1000}
			how(t)
			return t.all
		}
	}
	deliver := func(message string, how func(*history.Event)) func([]history.Event) []history.Event {
		return change(history.Deliver, message, 0, how)
	}
	lease := func(n int, how func(*history.Event)) func([]history.Event) []history.Event {
		return change(history.Lease, "pulled", n, how)
	}
	tell := func(e history.Event) func([]history.Event) []history.Event {
		return add(func(t *teller) { t.tell(e) })
	}
	for _, mutant := range []struct {
		name, rule string
		spoil      func([]history.Event) []history.Event
	}{
		{"a message never came", "P1", drop(history.Deliver, "plain3")},
		{"a message whose cancel failed never came", "P1", drop(history.Deliver, "kept")},
		{"what ended is nowhere", "P1", drop(history.End, "ended")},
		{"a microsecond early", "P2", deliver("plain3", func(e *history.Event) { e.At = at(13).Add(-time.Microsecond) })},
		{"at its old due time", "P2", deliver("later", func(e *history.Event) { e.At = at(10.5) })},
		{"a lease before its time", "P2", lease(0, func(e *history.Event) { e.At = at(9.9) })},
		{"a retry before its time", "P2", lease(1, func(e *history.Event) { e.At = at(14.5) })},
		{"a due time before the one asked for", "P2 as asked",
			change(history.Reschedule, "later", 1, func(e *history.Event) { e.Due = at(29) })},
		{"a term twice", "P3", tell(history.Event{At: at(30), Kind: history.Lead, By: "c", Term: 2})},
		{"a term that falls", "P3", tell(history.Event{At: at(30), Kind: history.Lead, By: "c", Term: 1})},
		{"seen after its cancel", "P4", add(func(t *teller) { t.deliver("canceled", 10.5) })},
		{"seen before its cancel", "P4", add(func(t *teller) { t.deliver("canceled", 4.5) })},
		{"leased after its cancel", "P4", add(func(t *teller) { t.lease("canceled", 10.5, 20, 1, "x") })},
		{"said to be delivered before it was", "P4", deliver("kept", func(e *history.Event) { e.At = at(20) })},
		{"another body", "P5 one content", deliver("plain3", func(e *history.Event) { e.Body = "body of plain4" })},
		{"another body at the second try", "P5 one content", lease(1, func(e *history.Event) { e.Body += "!" })},
		{"two bodies of one attempt", "P5 one content",
			change(history.Deliver, "changed", 1, func(e *history.Event) { e.Body = "other" })},
		{"another uid than answered", "P5 one content", deliver("plain3", func(e *history.Event) { e.UID = "uid 9" })},
		{"the uid of another", "P5 one content", deliver("plain3", func(e *history.Event) { e.UID = "uid plain2" })},
		{"nobody pushed it", "P5 one content", add(func(t *teller) { t.deliver("stranger", 10) })},
		{"twice without a fault", "P5 no repeat", add(func(t *teller) { t.deliver("plain3", 14) })},
		{"twice after the fault was over", "P5 no repeat", add(func(t *teller) { t.deliver("twice", 21.5) })},
		{"an attempt left out", "P5 attempts", lease(1, func(e *history.Event) { e.Attempt = 3 })},
		{"an attempt that does not count", "P5 attempts", lease(2, func(e *history.Event) { e.Attempt = 2 })},
		{"a release that counts", "P5 attempts", lease(3, func(e *history.Event) { e.Attempt = 4 })},
		{"a second lease beside the first", "P5 one lease", lease(1, func(e *history.Event) { e.Until = at(18) })},
		{"a second lease before the nack", "P5 one lease", lease(1, func(e *history.Event) { e.At = at(10.5) })},
		{"a second lease though the release failed", "P5 one lease",
			change(history.Settle, "pulled", 3, func(e *history.Event) { e.Phase = history.Fail })},
		{"leased after its acknowledgement", "P5 one end", add(func(t *teller) { t.lease("pulled", 50, 60, 4, "r5") })},
		{"two ends", "P5 one end", tell(history.Event{At: at(99), Kind: history.End, Message: "ended", Word: "dead"})},
		{"the old content after an edit", "P4 edited", change(history.Deliver, "edited", 0, func(e *history.Event) {
			e.UID, e.Body = "uid edited", "body of edited"
		})},
		{"another uid than the edit's", "P5 one content",
			change(history.Deliver, "edited", 0, func(e *history.Event) { e.UID = "uid of nobody" })},
		{"a second lease before the extended one is over", "P5 one lease",
			change(history.Lease, "extended", 1, func(e *history.Event) { e.At = at(19) })},
		{"two of a key at once", "P6 serial",
			change(history.Lease, "second of k", 0, func(e *history.Event) { e.At = at(11.5) })},
		{"lost before the loss", "P1", change(history.Push, "lost", 1, func(e *history.Event) { e.At = at(59.9) },
			func(e *history.Event) { e.At = at(59) })},
		{"lost though it was stored at once", "P1",
			change(history.Push, "taken", 1, func(e *history.Event) { e.Word = "" })},
		{"revived by nothing", "P4 honest", change(history.Cancel, "revived", 1,
			func(e *history.Event) { e.At = at(59.9) }, func(e *history.Event) { e.At = at(59) })},
		{"a lease forgotten by nothing", "P5 one lease",
			change(history.Lease, "forgotten", 1, func(e *history.Event) { e.At = at(79.5) })},
		{"an attempt forgotten by nothing", "P5 attempts", change(history.Lease, "forgotten", 0,
			func(e *history.Event) { e.At, e.Until = at(81.5), at(81.9) })},
		{"an answer that comes too late to be true", "P4 true",
			change(history.Reschedule, "asked", 0, func(e *history.Event) { e.At = at(8.5) })},
		{"an end that nobody asked for", "P4 true",
			change(history.Reschedule, "asked", 3, func(e *history.Event) { e.Word = "already_expired" })},
		{"said to be unknown while it waits", "P4 true", change(history.Look, "asked", 1, func(e *history.Event) {
			e.Phase, e.Word = history.Fail, "unknown_id"
		})},
		{"another end than was answered", "P4 true",
			change(history.End, "asked", 0, func(e *history.Event) { e.Word = "expired" })},
		{"a duplicate of nothing", "P4 true", add(func(t *teller) {
			t.call(0.1, 0.2, history.Event{Kind: history.Push, Message: "asked", Body: "body of asked"},
				history.Event{Phase: history.Fail, Word: "duplicate"})
		})},
		{"acknowledged, and then moved", "P4 true", add(func(t *teller) {
			t.call(21, 21.1, history.Event{Kind: history.Reschedule, Message: "pulled", Due: at(50)},
				history.Event{Phase: history.OK, Due: at(50)})
		})},
		{"canceled though the target has it", "P4 honest",
			deliver("hooked", func(e *history.Event) { e.Word = history.Accepted })},
		{"canceled by nobody", "P4 true", add(func(t *teller) {
			t.call(2.2, 2.3, history.Event{Kind: history.Look, Message: "asked"},
				history.Event{Phase: history.OK, Word: "canceled"})
		})},
		{"dead without a try", "P4 true", change(history.End, "asked", 0, func(e *history.Event) { e.Word = "dead" })},
		{"in the intake though it was answered", "P4 true", change(history.Look, "asked", 1, func(e *history.Event) {
			e.Phase, e.Word = history.Fail, "in_intake"
		})},
		{"two answers to one call", "history",
			tell(history.Event{At: at(2), Kind: history.Push, Phase: history.OK, Call: 1})},
		{"an answer to a call of another kind", "history",
			tell(history.Event{At: at(9), Kind: history.Push, Phase: history.OK, Call: 12})},
		{"two calls of one number", "history",
			tell(history.Event{At: at(2), Kind: history.Push, Phase: history.Invoke, Call: 1, Message: "plain0"})},
	} {
		t.Run(mutant.name, func(t *testing.T) {
			t.Parallel()
			found := history.Check(mutant.spoil(good()))
			if !slices.ContainsFunc(found, func(v history.Violation) bool { return strings.HasPrefix(v.Rule, mutant.rule) }) {
				t.Errorf("found %v, and nothing of %s", found, mutant.rule)
			}
		})
	}
}

func TestRead_RefusesWhatItCannotJudge(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"at":"2030-01-31T08:00:00Z","kind":"pull"}`:                                   "the kind is \"pull\"",
		`{"at":"2030-01-31T08:00:00Z","kind":"push"}`:                                   "the phase of a push",
		`{"at":"2030-01-31T08:00:00Z","kind":"deliver","phase":"ok"}`:                   "the phase of a deliver",
		`{"kind":"deliver"}`:                                                            "a deliver without at",
		`{"at":"2030-01-31T08:00:00Z","kind":"deliver","topic":"orders"}`:               "unknown field",
		`{"at":"2030-01-31T08:00:00Z","kind":"settle","phase":"invoke","word":"acked"}`: "the word of a settle",
		`{"at":"2030-01-31T08:00:00Z","kind":"fault","phase":"invoke","word":"repeat"}`: "the word of a fault",
		`{"at":"today","kind":"deliver"}`:                                               "parsing time",
		"{\"at\":\"2030-01-31T08:00:00Z\",\"kind\":\"deliver\",\"message\":\"a\"}\n{":   "line 2",
	} {
		if _, err := history.Read(strings.NewReader(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	var file bytes.Buffer
	if err := history.Write(&file, good()[:4]); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte(`{"at":"2030-01-31T08:00:00+01:00","kind":"lease","message":"\u0000"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := history.Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		history.Check(all)
		var first, second bytes.Buffer
		if err := history.Write(&first, all); err != nil {
			t.Fatal(err)
		}
		again, err := history.Read(bytes.NewReader(first.Bytes()))
		if err != nil || history.Write(&second, again) != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("read again, after %v, it is\n%s\nand was\n%s", err, &second, &first)
		}
	})
}
