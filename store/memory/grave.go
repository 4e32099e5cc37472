package memory

import (
	"container/list"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// graveyard holds the tombstones of a bucket: cancels of ids that were unknown, kept for pushes that are still in the
// intake stream.
type graveyard struct {
	at     map[grave]*list.Element
	oldest *list.List // of *tombstone, in order of burial
}

// grave is the name that a tombstone is for. If any is set, it is the id on the topic under any key.
type grave struct {
	name
	any bool
}

type tombstone struct {
	grave
	sequence uint64
	laid     message.Milli
}

func newGraveyard() graveyard {
	return graveyard{at: map[grave]*list.Element{}, oldest: list.New()}
}

// bury lays or renews a tombstone and reports whether there was room. Tombstones laid at or before until have expired.
func (g *graveyard) bury(at grave, sequence uint64, now, until message.Milli, limit int) bool {
	if el := g.at[at]; el != nil {
		stone := el.Value.(*tombstone)
		stone.sequence, stone.laid = max(stone.sequence, sequence), now
		g.oldest.MoveToBack(el)
		return true
	}
	if g.oldest.Len() >= limit {
		g.trim(until, 1)
	}
	if g.oldest.Len() >= limit {
		return false
	}
	g.at[at] = g.oldest.PushBack(&tombstone{grave: at, sequence: sequence, laid: now})
	return true
}

// stampsApart is how far apart the clocks may be by which the servers of a NATS cluster stamp pushes.
const stampsApart = 2 * time.Second

// covers reports whether a push was stored no later than a cancel of its name. Its stamp must not be later either: a
// stream that was made anew counts from 1.
func (g *graveyard) covers(m *message.Message) bool {
	if m.Stored == 0 || m.ID == "" || len(g.at) == 0 {
		return false
	}
	for _, at := range [...]grave{{name: nameOf(m)}, {name: name{m.ID, m.Topic, ""}, any: true}} {
		el := g.at[at]
		if el == nil {
			continue
		}
		stone := el.Value.(*tombstone)
		if stone.sequence >= m.Stored && message.CeilMilli(m.UID.Time()) <= stone.laid.Add(stampsApart) {
			return true
		}
	}
	return false
}

// trim drops up to limit tombstones that were laid at or before the given time.
func (g *graveyard) trim(until message.Milli, limit int) {
	for range limit {
		el := g.oldest.Front()
		if el == nil || el.Value.(*tombstone).laid > until {
			return
		}
		g.drop(el)
	}
}

func (g *graveyard) drop(el *list.Element) {
	delete(g.at, g.oldest.Remove(el).(*tombstone).grave)
}
