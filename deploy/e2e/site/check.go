package site

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/check/history"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// The rules of check.
const (
	RuleLost     = "lost"                  // acknowledged, not canceled, and never seen
	ruleEarly    = "early"                 // seen before it was due
	ruleUnasked  = "unasked"               // nobody pushed it
	ruleBody     = "changed body"          // not byte for byte
	ruleHeader   = "changed header"        // user headers differ, or a tag is left
	ruleSubject  = "wrong subject"         //
	ruleOwn      = "wrong header of tarry" // Tarry-Id, -Key, -Due, -Attempt, Nats-Msg-Id
	RuleCanceled = "seen though canceled"  // a cancel had been answered OK
	ruleDenied   = "canceled though seen"  // "already delivered" about a message that came later
	ruleUnknown  = "unknown though kept"   // "unknown id" about a message whose push had been answered with its uid
	ruleRepeated = "repeated"              // a duplicate that no fault explains
	ruleRenamed  = "renamed"               // a duplicate under another Nats-Msg-Id
	ruleStored   = "stored twice"          // in a stream, within its duplicate window
	ruleTerm     = "term"                  // terms that do not rise, or two leaders of one
)

// Violation is one thing that must not be.
type Violation struct {
	Rule string
	Seq  int
	what string
}

// Check holds a history against the promises.
func Check(h *History) []Violation {
	c := checker{h: h, by: map[int][]Arrival{}, once: map[string]int{}}
	for _, a := range h.Arrivals {
		s := h.Sent[a.Seq]
		if s == nil {
			c.fail(ruleUnasked, a.Seq, "%s on %s with %v", Quoted(a.Body), a.Subject, a.header)
			continue
		}
		c.one(s, a)
		c.by[a.Seq] = append(c.by[a.Seq], a)
	}
	for _, seq := range slices.Sorted(maps.Keys(h.Sent)) {
		c.repeats(h.Sent[seq])
	}
	c.cancels()
	spared := h.sparedLocked()
	for _, seq := range slices.Sorted(maps.Keys(h.Sent)) {
		if s := h.Sent[seq]; s.Kept && len(c.by[seq]) == 0 && !spared[seq] {
			c.fail(RuleLost, seq, "due %s on %s, uid %q", Stamp(s.NotBefore), s.subject, s.Uid)
		}
	}
	c.terms()
	if len(c.found) == 0 { // what deploy/check knows of the same promises agrees
		for _, v := range history.Check(h.eventsLocked()) {
			seq, _ := strconv.Atoi(v.Message)
			if picture, err := v.Draw(); err != nil || picture != "" {
				v.What += fmt.Sprintf("; drawn in %s %v", picture, err)
			}
			c.fail(v.Rule, seq, "%s", v.What)
		}
	}
	return c.found
}

type checker struct {
	h     *History
	by    map[int][]Arrival
	once  map[string]int // by secret: the message after the one that had it, since 0 is none
	found []Violation
}

func (c *checker) fail(rule string, seq int, format string, args ...any) {
	c.found = append(c.found, Violation{rule, seq, fmt.Sprintf(format, args...)})
}

// one looks at an arrival by itself.
func (c *checker) one(s *Sent, a Arrival) {
	if early := s.NotBefore.Sub(a.At); early > 0 {
		c.fail(ruleEarly, s.Seq, "by %s: due %s, seen %s", early, Stamp(s.NotBefore), Stamp(a.At))
	}
	if !bytes.Equal(a.Body, s.Body) {
		c.fail(ruleBody, s.Seq, "got %s, want %s", Quoted(a.Body), Quoted(s.Body))
	}
	if a.Subject != s.subject || (a.Stored > 0) != s.stream {
		c.fail(ruleSubject, s.Seq, "got %s (stream sequence %d), want %s", a.Subject, a.Stored, s.subject)
	}
	c.headers(s, a)
}

// headers compares the user's, and judges those of tarry.
func (c *checker) headers(s *Sent, a Arrival) {
	rest := maps.Clone(a.header)
	own := func(name string) string {
		values := rest[name]
		delete(rest, name)
		if len(values) != 1 {
			c.fail(ruleOwn, s.Seq, "%s is %q, want one value", name, values)
			return ""
		}
		return values[0]
	}
	uid, ours := strings.CutSuffix(own(nats.MsgIdHdr), "@"+c.h.ns)
	id, attempt, once := own("Tarry-Id"), own("Tarry-Attempt"), own("Tarry-Once")
	due, err := strconv.ParseInt(own("Tarry-Due"), 10, 64)
	key := ""
	if s.Key != "" {
		key = own("Tarry-Key")
	}
	switch {
	case uid == "" || !ours || s.Uid != "" && uid != s.Uid && !c.h.anewLocked(s):
		c.fail(ruleOwn, s.Seq, "%s is %q, want %q", nats.MsgIdHdr, a.header[nats.MsgIdHdr], s.Uid+"@"+c.h.ns)
	case id != cmp.Or(s.Id, uid):
		c.fail(ruleOwn, s.Seq, "Tarry-Id is %q, want %q", id, cmp.Or(s.Id, uid))
	case key != s.Key:
		c.fail(ruleOwn, s.Seq, "Tarry-Key is %q, want %q", key, s.Key)
	case once != "" && c.once[once] > 0 && c.once[once] != s.Seq+1:
		c.fail(ruleOwn, s.Seq, "Tarry-Once is %q, as of message %d", once, c.once[once]-1)
	case attempt != "1":
		c.fail(ruleOwn, s.Seq, "Tarry-Attempt is %q, want 1", attempt)
	case err != nil || s.Due != 0 && due != s.Due:
		c.fail(ruleOwn, s.Seq, "Tarry-Due is %d (%v), want %d", due, err, s.Due)
	case due < s.NotBefore.UnixMilli() || !s.notAfter.IsZero() && due > s.notAfter.Add(dueSlack).UnixMilli() &&
		due > s.notAfter.Add(time.Duration(lab.Slowness()*float64(dueSlack))).UnixMilli():
		c.fail(ruleOwn, s.Seq, "Tarry-Due is %d, want %d to %d", due, s.NotBefore.UnixMilli(), s.notAfter.UnixMilli())
	case a.At.UnixMilli() < due:
		c.fail(ruleEarly, s.Seq, "its own Tarry-Due is %d, seen %d", due, a.At.UnixMilli())
	}
	c.once[once] = s.Seq + 1
	if !maps.EqualFunc(rest, s.header, slices.Equal) {
		c.fail(ruleHeader, s.Seq, "got %q, want %q", rest, s.header)
	}
}

// dueSlack is by how much, on a fast machine, a due time may be later than the answer to the push allows: an instance
// reads its clocks one after the other, and may stand still between.
const dueSlack = 250 * time.Millisecond

// repeats looks at all arrivals of one message. A consumer of a stream may get one stored message twice, which is
// between it and NATS.
func (c *checker) repeats(s *Sent) {
	var came []Arrival
	stored := map[uint64]bool{}
	for _, a := range c.by[s.Seq] {
		if a.Stored == 0 || !stored[a.Stored] {
			came = append(came, a)
		}
		stored[a.Stored] = true
	}
	if len(came) < 2 {
		return
	}
	slices.SortFunc(came, func(a, b Arrival) int { return a.At.Compare(b.At) })
	first := came[0].header.Get(nats.MsgIdHdr)
	for _, a := range came[1:] {
		id := a.header.Get(nats.MsgIdHdr)
		switch {
		case id != first:
			if !c.h.anewLocked(s) {
				c.fail(ruleRenamed, s.Seq, "as %s, and again as %s", first, id)
			}
		case a.Stored > 0:
			c.fail(ruleStored, s.Seq, "%s at sequences %d and %d", id, came[0].Stored, a.Stored)
		case !c.inWindow(id, a.At):
			c.fail(ruleRepeated, s.Seq, "%s at %s and again at %s", id, Stamp(came[0].At), Stamp(a.At))
		}
	}
}

// inWindow reports whether what was seen before may be seen again then.
func (c *checker) inWindow(id string, at time.Time) bool {
	return slices.ContainsFunc(c.h.windows, func(w Window) bool {
		return !w.Recorded[id] && !at.Before(w.From) && (w.to.IsZero() || !at.After(w.to))
	})
}

func (c *checker) cancels() {
	for _, k := range c.h.canceled {
		came := c.by[k.Seq]
		s := c.h.Sent[k.Seq]
		switch {
		// by tag, the answer may arrive before any instance has the push
		case (k.Word == "unknown_id" || k.Word == "in_intake") && s != nil && s.Uid != "" && !c.h.Lossy:
			c.fail(ruleUnknown, k.Seq, "uid %s, asked for at %s", s.Uid, Stamp(k.At))
		case k.Word == OkCancel && len(came) > 0:
			c.fail(RuleCanceled, k.Seq, "canceled at %s, seen at %s", Stamp(k.At), Stamp(came[0].At))
		case k.Word == "already_delivered" && len(came) > 0 && !slices.ContainsFunc(came, func(a Arrival) bool {
			return !a.At.After(k.At.Add(consumerLag))
		}):
			c.fail(ruleDenied, k.Seq, "already delivered, it was said at %s; first seen at %s", Stamp(k.At),
				Stamp(came[0].At))
		}
	}
}

// consumerLag is what a consumer on a busy machine may be behind.
const consumerLag = 5 * time.Second

// terms holds the leaderships to strictly rising terms, in the order in which they began.
func (c *checker) terms() {
	leaders := slices.Clone(c.h.Leaders)
	slices.SortFunc(leaders, func(a, b leading) int { return a.at.Compare(b.at) })
	for i := 1; i < len(leaders); i++ {
		if before, now := leaders[i-1], leaders[i]; now.term <= before.term {
			c.fail(ruleTerm, -1, "%s led term %d at %s, after %s led term %d at %s",
				now.instance, now.term, Stamp(now.at), before.instance, before.term, Stamp(before.at))
		}
	}
}

// Report fails the test for each violation, the first few of each rule in full.
func Report(t *testing.T, found []Violation) {
	t.Helper()
	const whole = 5
	count := map[string]int{}
	for _, v := range found {
		if count[v.Rule]++; count[v.Rule] <= whole {
			t.Errorf("%s: message %d: %s", v.Rule, v.Seq, v.what)
		}
	}
	for rule, n := range count {
		if n > whole {
			t.Errorf("%s: %d in all", rule, n)
		}
	}
}

func Stamp(t time.Time) string { return t.UTC().Format("15:04:05.000000") }

// Quoted shows the beginning of a body.
func Quoted(b []byte) string {
	const limit = 48
	if len(b) > limit {
		return fmt.Sprintf("%q... (%d bytes)", b[:limit], len(b))
	}
	return fmt.Sprintf("%q", b)
}
