package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// wellFormed: each call has its own number.
func (c *checker) wellFormed() {
	for _, n := range slices.Sorted(maps.Keys(c.calls)) {
		if one := c.calls[n]; one.stray {
			c.fail("history: calls", one.begun.Message, "two calls have the number %d", n)
		}
	}
}

// p1Lost: what was acknowledged is delivered, or ends where it can be seen, or was perhaps canceled.
func (c *checker) p1Lost() {
	for _, s := range c.order {
		kept := s.kept()
		if kept == nil || len(s.seen()) > 0 || len(s.ends) > 0 || c.undone(kept) {
			continue
		}
		if slices.ContainsFunc(s.cancels, func(k *call) bool { return !k.fail() }) {
			continue
		}
		c.fail("P1 kept", s.name, "acknowledged at %s as %s, and never seen", stamp(kept.ended.At), kept.ended.UID)
	}
}

// p2Early: nobody sees a message before the least time that may have been its due time then. A due time is out of
// question once a change to another, made after it, was answered OK.
func (c *checker) p2Early() {
	for _, s := range c.order {
		for _, seen := range s.seen() {
			if least, known := c.leastDue(s, seen.At); known && seen.At.Before(least) {
				c.fail("P2 never early", s.name, "%s early: seen at %s by %s, due at %s", least.Sub(seen.At), stamp(seen.At),
					by(seen), stamp(least))
			}
		}
	}
}

// p2Asked: no answer tells a due time before the one that was asked for, by the call or, of a push that was sent
// before, by an earlier sending or a change since. Due times are whole milliseconds.
func (c *checker) p2Asked() {
	for _, s := range c.order {
		all := slices.Concat(s.pushes, s.reschedules)
		for _, k := range all {
			asked := k.begun.Due
			for _, o := range all {
				due := o.begun.Due
				if k.begun.Kind == Push && !o.begun.At.After(k.ended.At) && !due.IsZero() && due.Before(asked) {
					asked = due
				}
			}
			if early := asked.Sub(k.ended.Due); k.ok() && !k.ended.Due.IsZero() && early > time.Millisecond {
				c.fail("P2 as asked", s.name, "due at %s was asked for at %s, and %s answered", stamp(k.begun.Due),
					stamp(k.begun.At), stamp(k.ended.Due))
			}
		}
	}
}

// leastDue returns the earliest due time that a message may have had at a time, if all that it may have had are known.
// A nack that was answered with no time gave it none.
func (c *checker) leastDue(s *story, at time.Time) (least time.Time, known bool) {
	changes := slices.DeleteFunc(slices.Concat(s.pushes, s.reschedules, s.settles), func(one *call) bool {
		return one.fail() || one.begun.At.After(at) ||
			one.begun.Kind == Settle && (one.begun.Word != nack || one.ok() && one.ended.Due.IsZero()) ||
			one.begun.Kind == Reschedule && one.begun.Body != "" && !one.ok() // an edit keeps the due time
	})
	for _, one := range changes {
		over, sure := one.over()
		replaced := sure && slices.ContainsFunc(changes, func(next *call) bool {
			ended, done := next.over()
			return done && next.begun.Kind != Push && next.begun.At.After(over) && !ended.After(at) && !c.undone(next)
		})
		if replaced {
			continue
		}
		due := one.begun.Due
		if one.ok() && !one.ended.Due.IsZero() {
			due = one.ended.Due
		}
		if due.IsZero() {
			return due, false
		}
		if !known || due.Before(least) {
			least, known = due, true
		}
	}
	return least, known
}

// p3Terms: leaderships have rising terms, in the order in which they began.
func (c *checker) p3Terms() {
	for i := 1; i < len(c.leaders); i++ {
		if before, now := c.leaders[i-1], c.leaders[i]; now.Term <= before.Term {
			c.fail("P3 one leader", "", "%s led term %d at %s, after %s led term %d at %s", by(now), now.Term, stamp(now.At),
				by(before), before.Term, stamp(before.At))
		}
	}
}

// Words of a cancel's answer that say what became of a message.
const (
	canceled  = "canceled"
	delivered = "already_delivered"
)

// p4Canceled: a message whose cancel was answered OK is delivered to nobody, neither before nor after. One that
// consumers pull may have come before, and was sent back; so may one that a webhook posted in vain, or whose answer it
// did not live to note.
func (c *checker) p4Canceled() {
	for _, s := range c.order {
		for _, k := range s.cancels {
			if !k.ok() || k.ended.Word != canceled || c.undone(k) {
				continue
			}
			for _, seen := range s.seen() {
				over := seen.Kind == Deliver && seen.Word != Posted &&
					(seen.Word != Accepted || !c.mayWithin(Repeats, seen.At, k.ended.At))
				if over || seen.At.After(k.ended.At) {
					c.fail("P4 honest cancel", s.name, "canceled at %s, seen at %s by %s", stamp(k.ended.At), stamp(seen.At),
						by(seen))
				}
			}
		}
	}
}

// consumerLag is what a consumer may be behind, on a busy machine, what it was sent.
const consumerLag = 5 * time.Second

// p4Denied: a message of which a cancel says that it was delivered has been.
func (c *checker) p4Denied() {
	for _, s := range c.order {
		for _, k := range s.cancels {
			if k.ended.Word != delivered || len(s.seen()) == 0 {
				continue
			}
			if !slices.ContainsFunc(s.seen(), func(e Event) bool { return !e.At.After(k.ended.At.Add(consumerLag)) }) {
				c.fail("P4 honest cancel", s.name, "already delivered, it was said at %s; first seen at %s",
					stamp(k.ended.At), stamp(s.seen()[0].At))
			}
		}
	}
}

// p4Edited: once an edit was answered OK, nobody gets the content from before.
func (c *checker) p4Edited() {
	for _, s := range c.order {
		for _, seen := range s.seen() {
			for _, e := range s.reschedules {
				if e.begun.Body == "" || !e.ok() || c.undone(e) || !seen.At.After(e.ended.At) || s.gives(seen, e) {
					continue
				}
				c.fail("P4 edited", s.name, "its content was changed at %s, and %s had %.48q at %s", stamp(e.ended.At), by(seen),
					seen.Body, stamp(seen.At))
			}
		}
	}
}

// gives reports whether a content that was seen may have been given after an edit began.
func (s *story) gives(seen Event, edit *call) bool {
	given := slices.Clone(s.reschedules)
	if kept := s.kept(); kept != nil {
		given = append(given, kept)
	} else {
		given = append(given, s.pushes...)
	}
	return slices.ContainsFunc(given, func(g *call) bool {
		over, sure := g.over()
		return !g.fail() && g.begun.Body == seen.Body && (!sure || !over.Before(edit.begun.At))
	})
}

// p5Contents: one uid, and one attempt of it, never carry two contents, and a message has the body that was pushed.
func (c *checker) p5Contents() {
	owner, content := map[string]string{}, map[string]Event{}
	for _, s := range c.order {
		for _, seen := range s.seen() {
			if len(s.pushes) == 0 {
				c.fail("P5 one content", s.name, "seen at %s by %s, and nobody pushed it", stamp(seen.At), by(seen))
				continue
			}
			if other, taken := owner[seen.UID]; taken && other != s.name {
				c.fail("P5 one content", s.name, "its uid %s is that of message %s", seen.UID, other)
			}
			owner[seen.UID] = s.name
			try := fmt.Sprint(seen.UID, " ", seen.Attempt)
			before, had := content[try]
			// A loss of the store takes an edit with it that nobody was told of.
			undone := had && c.forgot(before, seen) && (c.unsure(s, before.Body) || c.unsure(s, seen.Body))
			if had && before.Body != seen.Body && !undone {
				c.fail("P5 one content", s.name, "attempt %d has the body %.48q and %.48q", seen.Attempt, before.Body, seen.Body)
			}
			content[try] = seen
			given := slices.Concat(s.pushes, s.reschedules)
			if !slices.ContainsFunc(given, func(p *call) bool { return !p.fail() && p.begun.Body == seen.Body }) {
				c.fail("P5 one content", s.name, "seen at %s with the body %.48q", stamp(seen.At), seen.Body)
			}
			kept := s.kept()
			if kept != nil && kept.ended.UID != "" && !c.undone(kept) &&
				!slices.ContainsFunc(given, func(p *call) bool { return p.named(seen.UID) }) {
				c.fail("P5 one content", s.name, "answered as %s, seen as %s", kept.ended.UID, seen.UID)
			}
		}
	}
}

// unsure reports whether the edit to a body may not have lasted.
func (c *checker) unsure(s *story, body string) bool {
	return slices.ContainsFunc(s.reschedules, func(e *call) bool {
		return e.begun.Body == body && (!e.ok() || c.undone(e))
	})
}

// p5Repeats: a delivery that names the same attempt once more is the fault of something.
func (c *checker) p5Repeats() {
	for _, s := range c.order {
		type try struct { // content that was edited after a try begins anew, under another uid
			uid     string
			attempt int
		}
		first := map[try]Event{}
		for _, seen := range s.deliveries {
			this := try{seen.UID, seen.Attempt}
			before, again := first[this]
			if again && !c.may(Repeats, seen.At) && !c.may(Loss, seen.At) {
				c.fail("P5 no repeat", s.name, "attempt %d at %s and again at %s", seen.Attempt, stamp(before.At),
					stamp(seen.At))
			}
			if !again {
				first[this] = seen
			}
		}
	}
}

// p5Attempts: each lease of a message is one try more than the one before, but for one after a release.
func (c *checker) p5Attempts() {
	for _, s := range c.order {
		for i := 1; i < len(s.leases); i++ {
			before, now := s.leases[i-1], s.leases[i]
			if before.UID != now.UID { // content that was edited after a try begins anew
				continue
			}
			// A try whose answer was lost is seen by nobody.
			lost := now.Attempt > before.Attempt && c.mayWithin(Repeats, before.At, now.At)
			same, more := now.Attempt == before.Attempt, now.Attempt == before.Attempt+1 || lost
			released, sure := s.released(before.Receipt)
			switch {
			case c.forgot(before, now), now.Receipt == before.Receipt && same:
			case released && sure && (same || lost), released && !sure && (same || more), !released && more:
			default:
				c.fail("P5 attempts rise", s.name, "attempt %d at %s after %d at %s", now.Attempt, stamp(now.At),
					before.Attempt, stamp(before.At))
			}
		}
	}
}

// released reports whether a lease may have been given back, and whether it certainly was.
func (s *story) released(receipt string) (maybe, sure bool) {
	for _, k := range s.settles {
		if k.begun.Receipt == receipt && k.begun.Word == release && !k.fail() {
			maybe, sure = true, sure || k.ok()
		}
	}
	return maybe, sure
}

// p5Leases: no two leases of a message overlap: the one before is over, or was settled, once the next begins.
func (c *checker) p5Leases() {
	for _, s := range c.order {
		for i := 1; i < len(s.leases); i++ {
			before, now := s.leases[i-1], s.leases[i]
			if now.Receipt != before.Receipt && s.holds(before, now.At) && !c.forgot(before, now) {
				c.fail("P5 one lease", s.name, "%s has it from %s, and %s until %s", by(now), stamp(now.At), by(before),
					stamp(before.Until))
			}
		}
	}
}

// p5Serial: no two leases of one key of a serial topic overlap.
func (c *checker) p5Serial() {
	type lease struct {
		Event
		of *story
	}
	keys := map[string][]lease{}
	for _, s := range c.order {
		if len(s.pushes) > 0 && s.pushes[0].begun.Key != "" {
			for _, l := range s.leases {
				keys[s.pushes[0].begun.Key] = append(keys[s.pushes[0].begun.Key], lease{l, s})
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		for _, before := range keys[key] {
			for _, now := range keys[key] {
				if now.of != before.of && now.At.After(before.At) && before.of.holds(before.Event, now.At) &&
					!c.forgot(before.Event, now.Event) {
					c.fail("P6 serial", now.of.name, "%s has it from %s, and %s has %s of the same key until %s", by(now.Event),
						stamp(now.At), by(before.Event), before.of.name, stamp(before.of.leasedUntil(before.Event)))
				}
			}
		}
	}
}

// holds reports whether a lease certainly stands at a time: it is not over, and nobody settles it.
func (s *story) holds(l Event, at time.Time) bool {
	return at.Before(s.leasedUntil(l)) && !slices.ContainsFunc(s.settles, func(k *call) bool {
		return k.begun.Receipt == l.Receipt && k.begun.Word != extend && !k.fail() && !k.begun.At.After(at)
	})
}

// leasedUntil returns when a lease ends, which the consumer may have extended.
func (s *story) leasedUntil(l Event) time.Time {
	until := l.Until
	for _, k := range s.settles {
		if k.begun.Word == extend && k.begun.Receipt == l.Receipt && k.ok() && k.ended.Until.After(until) {
			until = k.ended.Until
		}
	}
	return until
}

// p5Ends: what ended has one end, and nobody gets it after an end that was settled.
func (c *checker) p5Ends() {
	for _, s := range c.order {
		if len(s.ends) > 1 {
			c.fail("P5 one end", s.name, "it ended as %s and as %s", s.ends[0].Word, s.ends[1].Word)
		}
		for _, k := range s.settles {
			if over, sure := k.over(); sure && !c.undone(k) && (k.begun.Word == ack || k.begun.Word == dead) {
				for _, l := range s.leases {
					if l.At.After(over) {
						c.fail("P5 one end", s.name, "%s at %s, and leased again at %s", k.begun.Word, stamp(over), stamp(l.At))
					}
				}
			}
		}
	}
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.000000") }

// by names who an event concerns.
func by(e Event) string { return cmp.Or(e.By, "nobody") }
