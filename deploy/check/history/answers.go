package history

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// lives is the state of a message from its push to its end. Before, it has none; after, it has that of its end, in the
// words of tarry get.
const lives = "lives"

// words of answers that say where a message is.
const (
	unknownID = "unknown_id"
	duplicate = "duplicate"
	already   = "already_" // and how it ended
	expired   = "expired"
)

// judgeMost is how long the answers about one message may be judged.
const judgeMost = 20 * time.Second

// Kinds of steps that no user asked for.
const (
	itself = "ends as"
	seenAt = "seen"
)

// step is what happens to one message at some moment: a call at one between its begin and its answer, or an end that
// nobody asked for.
type step struct {
	kind, verb    string // verb: of a settle
	phase, answer string
	receipt       string
	taken         bool // tarry may have the push later than its answer says
}

// p4Answers: the answers about one message are linearizable: there is one order of all that was asked for, and of what
// became of the message by itself, in which each answer is true at a moment between its call and its return. What a
// loss of the store undid, and a message that may have two uids, are not judged.
func (c *checker) p4Answers() {
	for _, s := range c.order {
		steps := c.steps(s)
		if len(steps) == 0 {
			continue
		}
		c.judged++
		switch porcupine.CheckOperationsTimeout(life, steps, judgeMost) {
		case porcupine.Ok:
			continue
		case porcupine.Unknown:
			c.fail("P4 true answers", s.name, "not judged within %s: %s", judgeMost, told(steps))
			continue
		}
		c.fail("P4 true answers", s.name, "no order of these makes every answer true: %s", told(steps))
		c.found[len(c.found)-1].draw = func(w io.Writer) error {
			_, info := porcupine.CheckOperationsVerbose(life, steps, judgeMost)
			return porcupine.Visualize(life, info, w)
		}
	}
}

// steps returns what happened to a message, or nothing if that cannot be judged.
func (c *checker) steps(s *story) (all []porcupine.Operation) {
	calls := s.calls()
	if len(calls) == 0 || len(s.pushes) == 0 ||
		s.requeued || s.pushes[0].begun.Dead != "" { // what is asked of one life is answered of the last
		return nil
	}
	first, last := s.pushes[0].begun.At, s.lastEvent()
	for _, k := range calls {
		if k.ok() || k.fail() {
			if c.undone(k) {
				return nil
			}
		} else if c.mayWithin(Loss, k.begun.At, last) || c.mayWithin(Leases, k.begun.At, last) {
			return nil // that it was made may have shown, and then not
		}
	}
	if s.renamed() {
		return nil
	}
	add := func(from, to time.Time, what step, unknown bool) {
		one := porcupine.Operation{ClientId: len(all), Input: what, Call: from.UnixNano(), Return: to.UnixNano()}
		if unknown {
			one.Return = math.MaxInt64
		}
		all = append(all, one)
	}
	taken := slices.ContainsFunc(s.pushes, func(p *call) bool { return p.ended.Word == Taken })
	begun := map[string]time.Time{} // of the first sending of a settlement: the lease may be over at the next
	unknown := map[step]bool{}      // one that may have its effect at any time stands for all of its repeats
	for _, k := range calls {
		from := k.begun.At
		if k.begun.Kind == Settle {
			which := k.begun.Word + k.begun.Receipt
			if k.begun.Word == nack { // a nack of what was settled as dead is answered like the last nack
				which = dead + k.begun.Receipt
			}
			if t, again := begun[which]; again {
				from = t
			}
			begun[which] = from
		}
		what := step{kind: k.begun.Kind, phase: cmp.Or(k.ended.Phase, Unknown), answer: k.ended.Word, taken: taken}
		if what.kind == Settle {
			what.verb = k.begun.Word
		}
		if what.phase == Unknown {
			what.answer, what.receipt = "", k.begun.Receipt
			if unknown[what] {
				continue
			}
			unknown[what] = true
		}
		add(from, k.ended.At, what, what.phase == Unknown)
	}
	// What became of it by itself: nobody knows when.
	if len(s.seen()) > 0 || c.mayWithin(Repeats, first, last) { // a try may have been in vain that nobody saw
		add(first, first, step{kind: itself, answer: dead}, true)
	}
	if s.pushes[0].begun.TTL != "" {
		add(first, first, step{kind: itself, answer: expired}, true)
	}
	if seen := s.seen(); len(seen) > 0 {
		e := slices.MinFunc(seen, func(a, b Event) int { return a.At.Compare(b.At) })
		from := func(t time.Time) time.Time { return slices.MaxFunc([]time.Time{first, t}, time.Time.Compare) }
		add(from(e.At.Add(-consumerLag)), first, step{kind: itself, answer: delivered[len(already):]}, true)
		if due, known := c.leastDue(s, e.At); known && due.Before(e.At) {
			add(from(due), e.At, step{kind: seenAt}, false) // somebody took it when it was due
		}
	}
	for _, e := range s.ends {
		if slices.Contains(append(living, "delivered", canceled, dead, expired), e.Word) {
			add(e.At, e.At, step{kind: Look, phase: OK, answer: e.Word}, false)
		}
	}
	return all
}

// living are the states of a message that has not ended, in the words of tarry get.
var living = []string{"waiting", "ready", "in_flight"}

// life is what may become of a message. It is what users may rely on, so it knows of no store and no leader.
var life = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{""} },
	Step: func(state, input, _ any) (next []any) {
		for _, s := range input.(step).from(state.(string)) {
			next = append(next, s)
		}
		return next
	},
	DescribeOperation: func(input, _ any) string { return input.(step).String() },
}).ToModel()

func (st step) String() string {
	return strings.Join(slices.DeleteFunc([]string{st.kind, st.verb, st.phase, st.answer}, func(word string) bool {
		return word == ""
	}), " ")
}

// from returns the states in which a message may be after a step from a state: none if the answer is not true of it.
func (st step) from(state string) []string {
	same := []string{state}
	is := func(true bool) []string {
		if true {
			return same
		}
		return nil
	}
	// to: what lives becomes one of them; what has ended so already, stays.
	to := func(ends ...string) []string {
		if state == lives {
			return ends
		}
		return is(slices.Contains(ends, state))
	}
	switch how, ended := strings.CutPrefix(st.answer, already); {
	case st.kind == itself:
		if state == lives {
			return []string{lives, st.answer}
		}
		return same
	case st.kind == seenAt:
		return is(state == lives)
	case st.phase == Unknown:
		return st.perhaps(state)
	case st.kind == Look && st.phase == OK:
		return is(state == st.answer || state == lives && slices.Contains(living, st.answer))
	case st.phase == Fail && ended:
		return is(state == how)
	case st.answer == unknownID && st.phase == Fail: // what has ended is forgotten in time
		return is(state != lives)
	case st.answer == "in_flight" && st.phase == Fail:
		return is(state == lives)
	case st.answer == "in_intake" && st.phase == Fail:
		return is(state != lives || st.taken)
	case st.answer == duplicate && st.phase == Fail:
		return is(state != "")
	case st.phase == Fail:
		return same
	case st.kind == Push && state == "":
		return []string{lives}
	case st.kind == Push:
		return same
	case st.kind == Cancel:
		return to(canceled)
	case st.kind == Reschedule:
		return is(state == lives)
	case st.verb == ack:
		return to("delivered")
	case st.verb == dead:
		return to(dead)
	case st.verb == nack:
		return to(lives, dead, expired)
	default: // release and extend
		return to(lives, expired)
	}
}

// perhaps returns what a step may lead to of which nobody knows whether it was made.
func (st step) perhaps(state string) []string {
	ends := map[string]string{ack: "delivered", dead: dead, nack: dead}[st.verb]
	switch {
	case st.kind == Push && state == "":
		return []string{"", lives}
	case st.kind == Cancel && state == lives:
		return []string{lives, canceled}
	case ends != "" && state == lives:
		return []string{lives, ends}
	}
	return []string{state}
}

// calls returns what was asked about a message, in time.
func (s *story) calls() []*call {
	all := slices.Concat(s.pushes, s.cancels, s.reschedules, s.settles, s.looks)
	slices.SortStableFunc(all, func(a, b *call) int { return a.begun.At.Compare(b.begun.At) })
	return all
}

// renamed reports whether the message may have had more than one uid: of the former, other answers are true.
func (s *story) renamed() bool {
	uids := map[string]bool{}
	for _, k := range slices.Concat(s.pushes, s.reschedules) {
		if k.ok() && k.ended.UID != "" {
			uids[k.ended.UID] = true
		}
		if k.begun.Kind == Reschedule && k.begun.Body != "" && !k.ok() && !k.fail() {
			return true
		}
	}
	for _, e := range s.seen() {
		uids[e.UID] = true
	}
	return len(uids) > 1
}

func (s *story) lastEvent() (last time.Time) {
	for _, k := range s.calls() {
		if k.begun.At.After(last) {
			last = k.begun.At
		}
		if k.ended.At.After(last) {
			last = k.ended.At
		}
	}
	for _, e := range slices.Concat(s.deliveries, s.leases, s.ends) {
		if e.At.After(last) {
			last = e.At
		}
	}
	return last
}

// told lists steps for people.
func told(steps []porcupine.Operation) string {
	var all []string
	for _, one := range steps {
		what := one.Input.(step)
		if what.kind == itself {
			continue
		}
		until := "?"
		if one.Return != math.MaxInt64 {
			until = stamp(time.Unix(0, one.Return))
		}
		all = append(all, fmt.Sprintf("%s to %s %s", stamp(time.Unix(0, one.Call)), until, what))
	}
	return strings.Join(all, "; ")
}
