package memory

import (
	"fmt"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
)

// name is a client id on its topic and within its key.
type name struct{ id, topic, key string }

// nameOf is the name of a message that has an id.
func nameOf(m *scheduler.Message) name { return name{m.ID, m.Topic, m.Key} }

// called is who has a name.
type called struct {
	// last is the last attempt; entry.next leads to those before it.
	last *entry
	// past are attempts before these, which have ended and are remembered: the latest
	// pastLimit, for pushes of theirs that come again.
	past []scheduler.UID
}

const pastLimit = 32

// errManyNames: a look-up that leaves topic or key open would grow with their number.
var errManyNames = fmt.Errorf("%w: more than %d topics and keys have it; name the topic and the key, or use the uid",
	scheduler.ErrAmbiguousID, scheduler.MaxNamesOfID)

// nameBucket is the bucket that a name lives in.
func (t *Timeline) nameBucket(id, key string) int {
	if key == "" {
		key = id
	}
	return int(scheduler.Hash(key)) % len(t.buckets)
}

// last is the last attempt under a name, nil for none.
func (b *bucket) last(n name) *entry {
	if c := b.names[n]; c != nil {
		return c.last
	}
	return nil
}

// entry of a name, made where there is none.
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

// name points e's name to it. Earlier attempts that still live keep the name
// too: a cancel by it must find them all.
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

// unname takes e from its name, if it still stands there.
func (b *bucket) unname(e *entry) {
	n := nameOf(e.message)
	c := b.names[n]
	if c == nil {
		return
	}
	c.past = slices.DeleteFunc(c.past, func(uid scheduler.UID) bool { return uid == e.uid })
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

// repeats reports whether a push is one of the attempts under its name once more:
// one of its number with its content. Which content an attempt had that is forgotten
// nobody can tell, so that no push is taken for it.
func (b *bucket) repeats(m *scheduler.Message) bool {
	c := b.names[nameOf(m)]
	same := func(e *entry) bool {
		return e != nil && e.message.Attempt == m.Attempt && e.message.Digest == m.Digest
	}
	for e := c.last; e != nil; e = e.next {
		if same(e) {
			return true
		}
	}
	return slices.ContainsFunc(c.past, func(uid scheduler.UID) bool { return same(b.entries[uid]) })
}

// called visits every message that has a name that ref fits.
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
