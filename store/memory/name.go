package memory

import (
	"fmt"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// name is a client id within a topic and a key.
type name struct{ id, topic, key string }

// nameOf returns the name of a message that has an id.
func nameOf(m *message.Message) name { return name{m.ID, m.Topic, m.Key} }

// called is the set of messages that have a name.
type called struct {
	// last is the last attempt; entry.next leads to the earlier ones.
	last *entry
	// past holds older attempts that have ended and are remembered: the latest pastLimit, so that a repeated push of
	// one is recognized.
	past []message.UID
}

const pastLimit = 32

// errManyNames bounds a look-up that leaves topic or key open: its cost would grow with the number of names.
var errManyNames = fmt.Errorf("%w: more than %d topics and keys have it; name the topic and the key, or use the uid",
	scheduler.ErrAmbiguousID, scheduler.MaxNamesOfID)

// nameBucket returns the bucket that a name belongs to.
func (t *Timeline) nameBucket(id, key string) message.Bucket {
	return message.BucketOf(message.HashedName(id, key), t.Buckets())
}

// last returns the last attempt under a name, or nil.
func (b *bucket) last(n name) *entry {
	if c := b.names[n]; c != nil {
		return c.last
	}
	return nil
}

// sole returns the one attempt under an exact name if it waits and was certainly not delivered, or nil.
func (b *bucket) sole(ref scheduler.Ref) *entry {
	e := b.last(name{ref.ID, ref.Topic, ref.Key})
	if e == nil || e.next != nil || e.state != message.StateWaiting || b.uncertain(e) {
		return nil
	}
	return e
}

// entry returns the record of a name and creates it if there is none.
func (b *bucket) entry(n name) *called {
	c := b.names[n]
	if c == nil {
		c = new(called)
		b.names[n] = c
		if b.ids[n.id] == nil {
			b.ids[n.id] = map[name]struct{}{}
		}
		b.ids[n.id][n] = struct{}{}
	}
	return c
}

// name points e's name to e. Earlier attempts that have not ended keep the name too, because a cancel by name must find
// them all.
func (b *bucket) name(e *entry) {
	c := b.entry(nameOf(e.message))
	var lives, over []*entry // the latest first
	for old := c.last; old != nil; old = old.next {
		if old.state.Ended() {
			over = append(over, old)
		} else {
			lives = append(lives, old)
		}
	}
	for _, old := range slices.Backward(over) {
		c.past = append(c.past, old.uid)
		old.next = nil
	}
	c.past = c.past[max(len(c.past)-pastLimit, 0):]
	c.last = e
	for at := e; ; at = at.next {
		if at.next = nil; len(lives) == 0 {
			return
		}
		at.next, lives = lives[0], lives[1:]
	}
}

// unname removes e from its name, if it is still there.
func (b *bucket) unname(e *entry) {
	n := nameOf(e.message)
	c := b.names[n]
	if c == nil {
		return
	}
	c.past = slices.DeleteFunc(c.past, func(uid message.UID) bool { return uid == e.uid })
	for at := &c.last; *at != nil; at = &(*at).next {
		if *at == e {
			*at, e.next = e.next, nil
			break
		}
	}
	if c.last == nil {
		delete(b.names, n)
		if delete(b.ids[n.id], n); len(b.ids[n.id]) == 0 {
			delete(b.ids, n.id)
		}
	}
}

// repeats reports whether a push repeats one of the attempts under its name, with the same number and content. The
// content of a forgotten attempt is unknown, so no push counts as a repeat of it.
func (b *bucket) repeats(m *message.Message) bool {
	c := b.names[nameOf(m)]
	same := func(e *entry) bool {
		return e != nil && e.message.Attempt == m.Attempt && e.message.Digest == m.Digest
	}
	for e := c.last; e != nil; e = e.next {
		if same(e) {
			return true
		}
	}
	return slices.ContainsFunc(c.past, func(uid message.UID) bool { return same(b.entries[uid]) })
}

// called visits every message whose name matches ref.
func (b *bucket) called(ref scheduler.Ref, visit func(*entry)) error {
	if ref.Exact() {
		for e := b.last(name{ref.ID, ref.Topic, ref.Key}); e != nil; e = e.next {
			visit(e)
		}
		return nil
	}
	visited := 0
	for n := range b.ids[ref.ID] {
		if ref.Topic != "" && n.topic != ref.Topic || ref.Keyed && n.key != ref.Key ||
			ref.Topic == "" && !ref.Viewer.Sees(n.topic) {
			continue
		}
		if visited++; visited > scheduler.MaxNamesOfID {
			return errManyNames
		}
		for e := b.last(n); e != nil; e = e.next {
			visit(e)
		}
	}
	return nil
}

// calls holds the pushes that were stored in the last minutes, by their call. A call is kept for CallKeep to twice
// that: a book takes calls for CallKeep, and is forgotten after twice that.
type calls struct {
	now, before book
	limit       int
}

type book struct {
	began time.Time
	uids  map[string]message.UID
}

func (b *book) young(keep time.Duration) bool { return len(b.uids) > 0 && time.Since(b.began) <= keep }

// of returns the uid of the push that was stored with a call, if any.
func (c *calls) of(call string) message.UID {
	if call == "" {
		return ""
	}
	for _, b := range []*book{&c.now, &c.before} {
		switch uid := b.uids[call]; {
		case !b.young(2 * scheduler.CallKeep):
			*b = book{}
		case uid != "":
			return uid
		}
	}
	return ""
}

func (c *calls) room() bool { return !c.now.young(scheduler.CallKeep) || len(c.now.uids) < c.limit }

func (c *calls) keep(m *message.Message) {
	if m.Call == "" {
		return
	}
	if !c.now.young(scheduler.CallKeep) {
		c.before, c.now = c.now, book{time.Now(), map[string]message.UID{}}
	}
	c.now.uids[m.Call] = m.UID
}
