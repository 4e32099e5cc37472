package memory

import (
	"container/list"
	"context"
	"fmt"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Requeue ends a message and stores a new message in its place.
func (t *Timeline) Requeue(ctx context.Context, old message.UID, waits uint64, m *message.Message,
	now message.Milli) (result scheduler.RequeueResult, err error) {
	n := old.Bucket(t.Buckets())
	if at := m.UID.Bucket(t.Buckets()); at != n {
		return result, fmt.Errorf("requeue %s as %s: it lies in bucket %d, not %d", old, m.UID, n, at)
	}
	err = t.in(ctx, n, func(b *bucket) error {
		result.Number = b.cert.Number
		first := b.first()
		if err := b.requeue(&result, old, waits, m, now, func() error { return t.behind(n, b) }); err != nil {
			return err
		}
		result.Earlier = b.earlier(first)
		return nil
	})
	return result, err
}

func (b *bucket) requeue(result *scheduler.RequeueResult, uid message.UID, waits uint64, given *message.Message,
	now message.Milli, behind func() error) error {
	old := b.entries[uid]
	if e := b.entries[given.UID]; e != nil { // the requeue was made before: a uid is assigned once
		result.Code, result.Info = scheduler.RequeueDone, b.brief(e)
		if old == nil || old.kind != message.KindRequeued || old.other != e.uid {
			result.Code = scheduler.RequeueTaken
		} else {
			result.Old = old.version
		}
		return nil
	}
	if old == nil {
		return nil
	}
	waiting := old.state == message.StateWaiting && old.version == waits && !b.uncertain(old)
	if !waiting && (waits > 0 || old.state != message.StateDead) {
		result.Code, result.Info = scheduler.RequeueNotDead, b.brief(old)
		return nil
	}
	m := *given
	m.ID, m.Topic, m.Key = old.message.ID, old.message.Topic, old.message.Key
	if m.ID != "" {
		for e := b.last(nameOf(&m)); e != nil; e = e.next {
			if !e.state.Ended() && e != old {
				result.Code, result.Info = scheduler.RequeueNamed, b.brief(e)
				return nil
			}
		}
	}
	if err := behind(); err != nil {
		return err
	}
	uncertain := old.message.Mark.Uncertain
	var lives *pulling
	if waiting && m.Due == old.message.Due && old.pull != nil { // a retry is not asked for
		lives = &pulling{expires: old.pull.expires}
	}
	b.cut(old, uncertain, cause{kind: message.KindRequeued, other: m.UID}, 0, now)
	delete(b.names, nameOf(&m)) // numbers count from 1 again: a new attempt could be taken for an old one
	e := b.accept(&m)
	e.pull = lives
	b.wait(e, e.message.Score(), message.Mark{Uncertain: uncertain})
	b.amended(e, true, cause{kind: message.KindRequeue, other: uid}, now)
	result.Code, result.Info, result.Old = scheduler.RequeueDone, b.brief(e), old.version
	return nil
}

// Purge ends dead messages for good.
func (t *Timeline) Purge(ctx context.Context, n message.Bucket, uids []message.UID,
	now message.Milli) (done []message.UID, number uint64, err error) {
	err = t.see(ctx, n, func(b *bucket) {
		number = b.cert.Number
		for _, uid := range uids {
			switch e := b.entries[uid]; {
			case e == nil:
				continue
			case e.state == message.StateDead:
				b.cut(e, e.message.Mark.Uncertain, cause{kind: message.KindPurged}, 0, now)
			case e.kind != message.KindPurged:
				continue
			}
			done = append(done, uid)
		}
	})
	return done, number, err
}

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
