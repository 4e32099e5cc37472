package history

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Violation is a promise that a history breaks.
type Violation struct {
	Rule    string // the promise's number and a word
	Message string // the recorder's name of the message, if one is concerned
	What    string
	draw    func(w io.Writer) error // may be nil
}

func (v Violation) String() string {
	if v.Message == "" {
		return v.Rule + ": " + v.What
	}
	return v.Rule + ": message " + v.Message + ": " + v.What
}

// Draw keeps a picture of the violation, a page of HTML, in a new file. The name is empty if there is none.
func (v Violation) Draw() (name string, err error) {
	if v.draw == nil {
		return "", nil
	}
	file, err := os.CreateTemp("", "tarry-check-*.html")
	if err != nil {
		return "", err
	}
	if err := errors.Join(v.draw(file), file.Close()); err != nil {
		return "", fmt.Errorf("draw %s: %w", v.Rule, err)
	}
	return file.Name(), nil
}

// Check holds a history against the promises.
func Check(all []Event) []Violation {
	found, _, _ := Judge(all)
	return found
}

// Judge is Check, and tells of how many of all messages the answers were judged: a fault that may have undone one of
// them, or another uid, makes that impossible.
func Judge(all []Event) (found []Violation, judged, of int) {
	c := checker{messages: map[string]*story{}, calls: map[int]*call{}}
	c.read(all)
	for _, rule := range []func(){c.wellFormed, c.p1Lost, c.p2Early, c.p2Asked, c.p3Terms, c.p4Canceled, c.p4Denied,
		c.p4Edited, c.p4Answers, c.p5Contents, c.p5Repeats, c.p5Attempts, c.p5Leases, c.p5Serial, c.p5Ends} {
		rule()
	}
	return c.found, c.judged, len(c.order)
}

type checker struct {
	messages map[string]*story // by the recorder's name
	order    []*story          // the same, in the order of their first events
	calls    map[int]*call
	leaders  []Event
	faults   []*call
	found    []Violation
	judged   int
}

// story is what happened to one message.
type story struct {
	name        string
	pushes      []*call
	cancels     []*call
	reschedules []*call
	settles     []*call
	looks       []*call
	deliveries  []Event
	leases      []Event
	ends        []Event
	requeued    bool
}

// call is a call with its answer. Without one its outcome is unknown.
type call struct {
	begun, ended Event // ended has no time if no answer came
	stray        bool  // another call has its number
}

func (c *call) ok() bool { return c.ended.Phase == OK }

// named reports whether the message may have a uid since the call: an edit after a try may give it another, and the
// answer that tells it may be lost.
func (c *call) named(uid string) bool {
	return c.ok() && c.ended.UID == uid || !c.ok() && !c.fail() && c.begun.Kind == Reschedule && c.begun.Body != ""
}

func (c *call) fail() bool { return c.ended.Phase == Fail }

// over returns when the call had its effect at the latest. That of an unknown outcome may come at any time.
func (c *call) over() (time.Time, bool) { return c.ended.At, c.ok() }

// covers reports whether a fault may show at some time from one to another.
func (c *call) covers(from, to time.Time) bool {
	return !to.Before(c.begun.At) && (c.ended.At.IsZero() || !from.After(c.ended.At))
}

func (c *checker) fail(rule, message, format string, args ...any) {
	c.found = append(c.found, Violation{Rule: rule, Message: message, What: fmt.Sprintf(format, args...)})
}

func (c *checker) of(name string) *story {
	s := c.messages[name]
	if s == nil {
		s = &story{name: name}
		c.messages[name], c.order = s, append(c.order, s)
	}
	return s
}

// read sorts events into calls and stories.
func (c *checker) read(all []Event) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Event) int { return a.At.Compare(b.At) })
	for _, e := range all {
		switch {
		case e.Phase == Invoke:
			one := &call{begun: e, stray: c.calls[e.Call] != nil}
			c.calls[e.Call] = one
			c.begin(one)
		case e.Phase != "":
			one := c.calls[e.Call]
			if one == nil || !one.ended.At.IsZero() || one.begun.Kind != e.Kind {
				c.fail("history: answers", e.Message, "an answer of %s without its call, number %d", e.Kind, e.Call)
				continue
			}
			one.ended = e
		case e.Kind == Lead:
			c.leaders = append(c.leaders, e)
		case e.Kind == Deliver:
			s := c.of(e.Message)
			s.deliveries = append(s.deliveries, e)
		case e.Kind == Lease:
			s := c.of(e.Message)
			s.leases = append(s.leases, e)
		case e.Kind == End:
			s := c.of(e.Message)
			s.ends = append(s.ends, e)
		}
	}
}

func (c *checker) begin(one *call) {
	if one.begun.Kind == Fault {
		c.faults = append(c.faults, one)
		return
	}
	s := c.of(one.begun.Message)
	switch one.begun.Kind {
	case Push:
		s.pushes = append(s.pushes, one)
		if one.begun.Dead != "" {
			c.of(one.begun.Dead).requeued = true
		}
	case Cancel:
		s.cancels = append(s.cancels, one)
	case Reschedule:
		s.reschedules = append(s.reschedules, one)
	case Settle:
		s.settles = append(s.settles, one)
	case Look:
		s.looks = append(s.looks, one)
	}
}

// may reports whether a fault of a word may show at a time.
func (c *checker) may(word string, at time.Time) bool { return c.mayWithin(word, at, at) }

func (c *checker) mayWithin(word string, from, to time.Time) bool {
	return slices.ContainsFunc(c.faults, func(f *call) bool { return f.begun.Word == word && f.covers(from, to) })
}

// undone reports whether a fault may have undone what was answered.
func (c *checker) undone(one *call) bool {
	if one.ended.Word == Taken {
		return slices.ContainsFunc(c.faults, func(f *call) bool {
			return f.begun.Word == Loss && f.covers(one.begun.At, one.begun.At.AddDate(100, 0, 0))
		})
	}
	return c.mayWithin(Loss, one.begun.At, one.ended.At)
}

// forgot reports whether a fault may have had a lease forgotten before the next.
func (c *checker) forgot(before, now Event) bool {
	return c.mayWithin(Leases, before.At, now.At) || c.mayWithin(Loss, before.At, now.At)
}

// seen are the times at which consumers got a message.
func (s *story) seen() []Event { return slices.Concat(s.deliveries, s.leases) }

// kept returns the first push that was answered OK.
func (s *story) kept() *call {
	for _, p := range s.pushes {
		if p.ok() {
			return p
		}
	}
	return nil
}
