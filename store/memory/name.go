package memory

import (
	"fmt"

	"github.com/tarry-mq/tarry/scheduler"
)

// name is a client id within its key.
type name struct{ id, key string }

// errManyKeys: an id alone does not tell which message is meant.
var errManyKeys = fmt.Errorf("%w: more than %d keys have it; name the key, or use the uid", scheduler.ErrAmbiguousID, scheduler.MaxKeysOfID)

// nameBucket is the bucket that a name lives in.
func (t *Timeline) nameBucket(id, key string) int {
	if key == "" {
		key = id
	}
	return int(scheduler.Hash(key)) % len(t.buckets)
}

// name points e's name to it. Earlier attempts that still live keep the name
// too: a cancel by it must find them all.
func (b *bucket) name(e *entry) {
	n := name{e.message.ID, e.message.Key}
	for old := b.names[n]; old != nil; {
		next := old.next
		if old.state.Ended() {
			b.unname(old)
		}
		old = next
	}
	e.next = b.names[n]
	b.names[n] = e
	if b.keys[n.id] == nil {
		b.keys[n.id] = map[string]struct{}{}
	}
	b.keys[n.id][n.key] = struct{}{}
}

// unname takes e from its name, if it still stands there.
func (b *bucket) unname(e *entry) {
	n := name{e.message.ID, e.message.Key}
	if b.names[n] == e {
		b.names[n] = e.next
	} else {
		for at := b.names[n]; at != nil; at = at.next {
			if at.next == e {
				at.next = e.next
				break
			}
		}
	}
	e.next = nil
	if b.names[n] == nil {
		delete(b.names, n)
		if delete(b.keys[n.id], n.key); len(b.keys[n.id]) == 0 {
			delete(b.keys, n.id)
		}
	}
}

// called visits every message that has the id that ref names, under its key or
// under any.
func (b *bucket) called(ref scheduler.Ref, visit func(*entry)) error {
	keys := map[string]struct{}{ref.Key: {}}
	if !ref.Keyed {
		keys = b.keys[ref.ID]
		more := len(keys)
		if _, keyless := keys[""]; keyless {
			more--
		}
		if more > scheduler.MaxKeysOfID {
			return errManyKeys
		}
	}
	for key := range keys {
		for e := b.names[name{ref.ID, key}]; e != nil; e = e.next {
			visit(e)
		}
	}
	return nil
}
