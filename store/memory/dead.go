package memory

import (
	"context"
	"fmt"

	"github.com/tarry-mq/tarry/scheduler"
)

// purged is what became of a dead message that is gone for good.
const purged = "purged"

// Requeue gives what is dead another life.
func (t *Timeline) Requeue(ctx context.Context, dead scheduler.UID, m *scheduler.Message, now scheduler.Milli) (result scheduler.RequeueResult, err error) {
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

func (b *bucket) requeue(result *scheduler.RequeueResult, dead scheduler.UID, given *scheduler.Message, now scheduler.Milli) {
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
	m.ID, m.Key = old.message.ID, old.message.Key
	if m.ID != "" {
		for e := b.names[name{m.ID, m.Key}]; e != nil; e = e.next {
			if !e.state.Ended() {
				result.Code, result.Info = scheduler.RequeueNamed, b.brief(e)
				return
			}
		}
	}
	uncertain := old.message.Mark.Uncertain
	b.cut(old, uncertain, scheduler.RequeuedAs+string(m.UID), 0, now)
	e := b.accept(&m)
	b.wait(e, e.message.Score(), scheduler.Mark{Uncertain: uncertain})
	b.amended(e, true, scheduler.RequeueOf(dead, uncertain), now)
	result.Code, result.Info, result.Dead = scheduler.RequeueDone, b.brief(e), old.version
}

// Purge ends dead messages for good.
func (t *Timeline) Purge(ctx context.Context, n int, uids []scheduler.UID, now scheduler.Milli) (done []scheduler.UID, number uint64, err error) {
	err = t.in(ctx, n, func(b *bucket) error {
		number = b.cert.Number
		for _, uid := range uids {
			switch e := b.entries[uid]; {
			case e == nil:
				continue
			case e.state == scheduler.StateDead:
				b.cut(e, e.message.Mark.Uncertain, purged, 0, now)
			case e.state != scheduler.StateCanceled || e.reason != purged:
				continue
			}
			done = append(done, uid)
		}
		return nil
	})
	return done, number, err
}
