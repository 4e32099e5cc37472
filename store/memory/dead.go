package memory

import (
	"context"
	"fmt"

	"github.com/tarry-mq/tarry/scheduler"
)

// Requeue gives what is dead another life.
func (t *Timeline) Requeue(ctx context.Context, dead scheduler.UID, m *scheduler.Message,
	now scheduler.Milli) (result scheduler.RequeueResult, err error) {
	n := dead.Bucket(len(t.buckets))
	if at := m.UID.Bucket(len(t.buckets)); at != n {
		return result, fmt.Errorf("requeue %s as %s: it lies in bucket %d, not %d", dead, m.UID, n, at)
	}
	err = t.in(ctx, n, func(b *bucket) error {
		result.Number = b.cert.Number
		first := b.first()
		b.requeue(&result, dead, m, now)
		result.Head = b.earlier(first)
		return nil
	})
	return result, err
}

func (b *bucket) requeue(result *scheduler.RequeueResult, dead scheduler.UID, given *scheduler.Message,
	now scheduler.Milli) {
	old := b.entries[dead]
	if e := b.entries[given.UID]; e != nil { // it was made before: uids are given out once
		result.Code, result.Info = scheduler.RequeueDone, b.brief(e)
		if old != nil {
			result.Dead = old.version
		}
		return
	}
	if old == nil {
		return
	}
	if old.state != scheduler.StateDead {
		result.Code, result.Info = scheduler.RequeueNotDead, b.brief(old)
		return
	}
	m := *given
	m.ID, m.Topic, m.Key = old.message.ID, old.message.Topic, old.message.Key
	if m.ID != "" {
		for e := b.last(nameOf(&m)); e != nil; e = e.next {
			if !e.state.Ended() {
				result.Code, result.Info = scheduler.RequeueNamed, b.brief(e)
				return
			}
		}
	}
	uncertain := old.message.Mark.Uncertain
	b.cut(old, uncertain, cause{kind: scheduler.KindRequeued, other: m.UID}, 0, now)
	delete(b.names, nameOf(&m)) // its attempts count from 1 again, and the next may read like an old one
	e := b.accept(&m)
	b.wait(e, e.message.Score(), scheduler.Mark{Uncertain: uncertain})
	b.amended(e, true, cause{kind: scheduler.KindRequeue, other: dead}, now)
	result.Code, result.Info, result.Dead = scheduler.RequeueDone, b.brief(e), old.version
}

// Purge ends dead messages for good.
func (t *Timeline) Purge(ctx context.Context, n int, uids []scheduler.UID,
	now scheduler.Milli) (done []scheduler.UID, number uint64, err error) {
	err = t.in(ctx, n, func(b *bucket) error {
		number = b.cert.Number
		for _, uid := range uids {
			switch e := b.entries[uid]; {
			case e == nil:
				continue
			case e.state == scheduler.StateDead:
				b.cut(e, e.message.Mark.Uncertain, cause{kind: scheduler.KindPurged}, 0, now)
			case e.kind != scheduler.KindPurged:
				continue
			}
			done = append(done, uid)
		}
		return nil
	})
	return done, number, err
}
