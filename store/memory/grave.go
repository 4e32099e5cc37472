package memory

import (
	"container/list"

	"github.com/tarry-mq/tarry/scheduler"
)

// graveyard holds the tombstones of a bucket: cancels of ids that nobody knew
// yet, waiting for pushes that still stand in the intake stream.
type graveyard struct {
	at     map[grave]*list.Element
	oldest *list.List // of *tombstone, in order of burial
}

// grave is the name that a tombstone stands for; any means the id under any key.
type grave struct {
	id, key string
	any     bool
}

type tombstone struct {
	grave
	sequence uint64
	laid     scheduler.Milli
}

func newGraveyard() graveyard {
	return graveyard{at: map[grave]*list.Element{}, oldest: list.New()}
}

// bury lays a tombstone, or renews it; beyond limit the oldest goes. It tells
// how many went.
func (g *graveyard) bury(at grave, sequence uint64, now scheduler.Milli, limit int) (dropped int) {
	if el := g.at[at]; el != nil {
		stone := el.Value.(*tombstone)
		stone.sequence, stone.laid = max(stone.sequence, sequence), now
		g.oldest.MoveToBack(el)
		return 0
	}
	g.at[at] = g.oldest.PushBack(&tombstone{grave: at, sequence: sequence, laid: now})
	for g.oldest.Len() > limit {
		g.drop(g.oldest.Front())
		dropped++
	}
	return dropped
}

// covers tells whether a push was stored no later than a cancel of its name.
func (g *graveyard) covers(m *scheduler.Message) bool {
	if m.Stored == 0 || m.ID == "" || len(g.at) == 0 {
		return false
	}
	for _, at := range [...]grave{{id: m.ID, key: m.Key}, {id: m.ID, any: true}} {
		if el := g.at[at]; el != nil && el.Value.(*tombstone).sequence >= m.Stored {
			return true
		}
	}
	return false
}

// trim drops up to limit tombstones that were laid at or before the given time.
func (g *graveyard) trim(until scheduler.Milli, limit int) {
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
