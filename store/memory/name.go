package memory

import "github.com/tarry-mq/tarry/scheduler"

// nameBucket is the bucket that a name lives in.
func (t *Timeline) nameBucket(id, key string) int {
	if key == "" {
		key = id
	}
	return int(scheduler.Hash(key)) % len(t.buckets)
}

// named is the message that a name points to, the last attempt of several; nil
// when the name is free.
func (b *bucket) named(id, key string) *entry {
	for e := b.names[id]; e != nil; e = e.next {
		if e.message.Key == key {
			return e
		}
	}
	return nil
}

// name points e's name to it. Earlier attempts that still live keep the name
// too: a cancel by it must find them all.
func (b *bucket) name(e *entry) {
	for old := b.names[e.message.ID]; old != nil; {
		next := old.next
		if old.message.Key == e.message.Key && old.state.Ended() {
			b.unname(old)
		}
		old = next
	}
	e.next = b.names[e.message.ID]
	b.names[e.message.ID] = e
}

// unname takes e from its name, if it still stands there.
func (b *bucket) unname(e *entry) {
	id := e.message.ID
	if b.names[id] == e {
		if e.next == nil {
			delete(b.names, id)
		} else {
			b.names[id] = e.next
		}
		e.next = nil
		return
	}
	for at := b.names[id]; at != nil; at = at.next {
		if at.next == e {
			at.next, e.next = e.next, nil
			return
		}
	}
}
