package e2e_test

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
)

// The rules of check.
const (
	ruleLost     = "lost"                  // acknowledged, not canceled, and never seen
	ruleEarly    = "early"                 // seen before it was due
	ruleUnasked  = "unasked"               // nobody pushed it
	ruleBody     = "changed body"          // not byte for byte
	ruleHeader   = "changed header"        // user headers differ, or a tag is left
	ruleSubject  = "wrong subject"         //
	ruleOwn      = "wrong header of tarry" // Tarry-Id, -Key, -Due, -Attempt, Nats-Msg-Id
	ruleCanceled = "seen though canceled"  // a cancel had been answered OK
	ruleDenied   = "canceled though seen"  // "already delivered" about a message that came later
	ruleUnknown  = "unknown though kept"   // "unknown id" about a message whose push had been answered with its uid
	ruleRepeated = "repeated"              // a duplicate that no fault explains
	ruleRenamed  = "renamed"               // a duplicate under another Nats-Msg-Id
	ruleStored   = "stored twice"          // in a stream, within its duplicate window
	ruleTerm     = "term"                  // terms that do not rise, or two leaders of one
)

// violation is one thing that must not be.
type violation struct {
	rule string
	seq  int
	what string
}

// check holds a history against the promises.
func check(h *history) []violation {
	c := checker{h: h, by: map[int][]arrival{}}
	for _, a := range h.arrivals {
		s := h.sent[a.seq]
		if s == nil {
			c.fail(ruleUnasked, a.seq, "%s on %s with %v", quoted(a.body), a.subject, a.header)
			continue
		}
		c.one(s, a)
		c.by[a.seq] = append(c.by[a.seq], a)
	}
	for _, seq := range slices.Sorted(maps.Keys(h.sent)) {
		c.repeats(h.sent[seq])
	}
	c.cancels()
	spared := h.sparedLocked()
	for _, seq := range slices.Sorted(maps.Keys(h.sent)) {
		if s := h.sent[seq]; s.kept && len(c.by[seq]) == 0 && !spared[seq] {
			c.fail(ruleLost, seq, "due %s on %s, uid %q", stamp(s.notBefore), s.subject, s.uid)
		}
	}
	c.terms()
	return c.found
}

type checker struct {
	h     *history
	by    map[int][]arrival
	found []violation
}

func (c *checker) fail(rule string, seq int, format string, args ...any) {
	c.found = append(c.found, violation{rule, seq, fmt.Sprintf(format, args...)})
}

// one looks at an arrival by itself.
func (c *checker) one(s *sent, a arrival) {
	if early := s.notBefore.Sub(a.at); early > 0 {
		c.fail(ruleEarly, s.seq, "by %s: due %s, seen %s", early, stamp(s.notBefore), stamp(a.at))
	}
	if !bytes.Equal(a.body, s.body) {
		c.fail(ruleBody, s.seq, "got %s, want %s", quoted(a.body), quoted(s.body))
	}
	if a.subject != s.subject || (a.stored > 0) != s.stream {
		c.fail(ruleSubject, s.seq, "got %s (stream sequence %d), want %s", a.subject, a.stored, s.subject)
	}
	c.headers(s, a)
}

// headers compares the user's, and judges those of tarry.
func (c *checker) headers(s *sent, a arrival) {
	rest := maps.Clone(a.header)
	own := func(name string) string {
		values := rest[name]
		delete(rest, name)
		if len(values) != 1 {
			c.fail(ruleOwn, s.seq, "%s is %q, want one value", name, values)
			return ""
		}
		return values[0]
	}
	uid, ours := strings.CutSuffix(own(nats.MsgIdHdr), "@"+c.h.ns)
	id, attempt := own("Tarry-Id"), own("Tarry-Attempt")
	due, err := strconv.ParseInt(own("Tarry-Due"), 10, 64)
	key := ""
	if s.key != "" {
		key = own("Tarry-Key")
	}
	switch {
	case uid == "" || !ours || s.uid != "" && uid != s.uid:
		c.fail(ruleOwn, s.seq, "%s is %q, want %q", nats.MsgIdHdr, a.header[nats.MsgIdHdr], s.uid+"@"+c.h.ns)
	case id != cmp.Or(s.id, uid):
		c.fail(ruleOwn, s.seq, "Tarry-Id is %q, want %q", id, cmp.Or(s.id, uid))
	case key != s.key:
		c.fail(ruleOwn, s.seq, "Tarry-Key is %q, want %q", key, s.key)
	case attempt != "1":
		c.fail(ruleOwn, s.seq, "Tarry-Attempt is %q, want 1", attempt)
	case err != nil || s.due != 0 && due != s.due:
		c.fail(ruleOwn, s.seq, "Tarry-Due is %d (%v), want %d", due, err, s.due)
	case due < s.notBefore.UnixMilli() || !s.notAfter.IsZero() && due > s.notAfter.Add(dueSlack).UnixMilli():
		c.fail(ruleOwn, s.seq, "Tarry-Due is %d, want %d to %d", due, s.notBefore.UnixMilli(), s.notAfter.UnixMilli())
	case a.at.UnixMilli() < due:
		c.fail(ruleEarly, s.seq, "its own Tarry-Due is %d, seen %d", due, a.at.UnixMilli())
	}
	if !maps.EqualFunc(rest, s.header, slices.Equal) {
		c.fail(ruleHeader, s.seq, "got %q, want %q", rest, s.header)
	}
}

// dueSlack is by how much a due time may be later than the answer to the push allows: an instance on a busy machine
// reads its clocks one after the other.
const dueSlack = 250 * time.Millisecond

// repeats looks at all arrivals of one message. A consumer of a stream may get one stored message twice, which is
// between it and NATS.
func (c *checker) repeats(s *sent) {
	var came []arrival
	stored := map[uint64]bool{}
	for _, a := range c.by[s.seq] {
		if a.stored == 0 || !stored[a.stored] {
			came = append(came, a)
		}
		stored[a.stored] = true
	}
	if len(came) < 2 {
		return
	}
	slices.SortFunc(came, func(a, b arrival) int { return a.at.Compare(b.at) })
	first := came[0].header.Get(nats.MsgIdHdr)
	for _, a := range came[1:] {
		id := a.header.Get(nats.MsgIdHdr)
		switch {
		case id != first:
			c.fail(ruleRenamed, s.seq, "as %s, and again as %s", first, id)
		case a.stored > 0:
			c.fail(ruleStored, s.seq, "%s at sequences %d and %d", id, came[0].stored, a.stored)
		case !c.inWindow(came[0].at, a.at):
			c.fail(ruleRepeated, s.seq, "%s at %s and again at %s", id, stamp(came[0].at), stamp(a.at))
		}
	}
}

// inWindow reports whether what was seen first may be seen again then.
func (c *checker) inWindow(first, at time.Time) bool {
	return slices.ContainsFunc(c.h.windows, func(w window) bool {
		return !first.Before(w.since) && !at.Before(w.from) && (w.to.IsZero() || !at.After(w.to))
	})
}

func (c *checker) cancels() {
	for _, k := range c.h.canceled {
		came := c.by[k.seq]
		s := c.h.sent[k.seq]
		switch {
		// by tag, the answer may arrive before any instance has the push
		case k.word == "unknown_id" && s != nil && s.uid != "" && !c.h.lossy:
			c.fail(ruleUnknown, k.seq, "uid %s, asked for at %s", s.uid, stamp(k.at))
		case k.word == okCancel && len(came) > 0:
			c.fail(ruleCanceled, k.seq, "canceled at %s, seen at %s", stamp(k.at), stamp(came[0].at))
		case k.word == "already_delivered" && len(came) > 0 && !slices.ContainsFunc(came, func(a arrival) bool {
			return !a.at.After(k.at.Add(consumerLag))
		}):
			c.fail(ruleDenied, k.seq, "already delivered, it was said at %s; first seen at %s", stamp(k.at),
				stamp(came[0].at))
		}
	}
}

// consumerLag is what a consumer on a busy machine may be behind.
const consumerLag = 5 * time.Second

// terms holds the leaderships to strictly rising terms, in the order in which they began.
func (c *checker) terms() {
	leaders := slices.Clone(c.h.leaders)
	slices.SortFunc(leaders, func(a, b leading) int { return a.at.Compare(b.at) })
	for i := 1; i < len(leaders); i++ {
		if before, now := leaders[i-1], leaders[i]; now.term <= before.term {
			c.fail(ruleTerm, -1, "%s led term %d at %s, after %s led term %d at %s",
				now.instance, now.term, stamp(now.at), before.instance, before.term, stamp(before.at))
		}
	}
}

// report fails the test for each violation, the first few of each rule in full.
func report(t *testing.T, found []violation) {
	t.Helper()
	const whole = 5
	count := map[string]int{}
	for _, v := range found {
		if count[v.rule]++; count[v.rule] <= whole {
			t.Errorf("%s: message %d: %s", v.rule, v.seq, v.what)
		}
	}
	for rule, n := range count {
		if n > whole {
			t.Errorf("%s: %d in all", rule, n)
		}
	}
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.000000") }

// quoted shows the beginning of a body.
func quoted(b []byte) string {
	const limit = 48
	if len(b) > limit {
		return fmt.Sprintf("%q... (%d bytes)", b[:limit], len(b))
	}
	return fmt.Sprintf("%q", b)
}
