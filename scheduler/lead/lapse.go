package lead

import (
	"context"
	"errors"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

const (
	// lapseLeast and lapsePause are the least time between two looks for what is over, and the time after a failure.
	lapseLeast = 20 * time.Millisecond
	lapsePause = 250 * time.Millisecond
	// lapseMost is the time after which lapse looks although it knows of nothing: poll, which tells it, may be held up by
	// another bucket.
	lapseMost  = 5 * time.Second
	lapseBatch = 500
)

// lapse ends, until ctx ends, what is over in a bucket: leases whose consumers did not answer, and times to live. It
// needs no NATS. Any instance may lease at any time, so poll tells of what may be over earlier than lapse knows.
func (l *leadership) lapse(ctx context.Context, bucket message.Bucket) error {
	next := message.Milli(1) // look at once
	for {
		wait := lapseMost
		if next > 0 {
			wait = min(max(next.Time().Sub(l.cfg.Clock.Now()), 0), lapseMost)
		}
		select {
		case <-ctx.Done():
			return nil
		case at := <-l.overs[bucket]:
			if next == 0 || at < next {
				next = at
			}
			continue
		case <-time.After(wait):
		}
		var err error
		pause := lapseLeast
		switch next, err = l.endOver(ctx, bucket); {
		case errors.Is(err, scheduler.ErrStaleTerm):
			return err
		case err != nil:
			if !errors.Is(err, scheduler.ErrUncertified) && ctx.Err() == nil {
				l.log.Warn().Err(err).Int("bucket", int(bucket)).Msg("leases that are over cannot be ended now")
			}
			next, pause = 1, lapsePause
		}
		_ = scheduler.Sleep(ctx, pause)
	}
}

// mayBeOver informs lapse of when something in a bucket may be over.
func (l *leadership) mayBeOver(bucket message.Bucket, at message.Milli) {
	select {
	case l.overs[bucket] <- at:
	default: // it has not taken the last look's answer yet, and takes the next one's
	}
}

// endOver ends what is over, and returns when to look again.
func (l *leadership) endOver(ctx context.Context, bucket message.Bucket) (next message.Milli, err error) {
	var page scheduler.LeasePage
	now := l.cfg.Clock.Milli()
	err = l.call(ctx, func(ctx context.Context) error {
		page, err = l.cfg.Timeline.Leases(ctx, bucket, scheduler.LeaseQuery{Over: true, Limit: lapseBatch}, now)
		return err
	})
	if err != nil {
		return 0, err
	}
	items := make([]scheduler.Settle, len(page.Leases))
	for i := range page.Leases {
		over := &page.Leases[i]
		m := &over.Message
		items[i] = scheduler.Settle{Verb: scheduler.Expire, UID: m.UID, Topic: m.Topic}
		if over.Nonce != 0 {
			items[i] = scheduler.Settle{Verb: scheduler.Nack, UID: m.UID, Topic: m.Topic, Nonce: over.Nonce, Over: true,
				Kind: message.KindLapsed, Reason: message.KindLapsed.Words("", false)}
			l.cfg.Topics.Retried(&items[i], m, l.cfg.Clock.Latest())
		}
	}
	for len(items) > 0 {
		var settled []scheduler.Settled
		var made scheduler.Effect
		err = l.call(ctx, func(ctx context.Context) error {
			settled, made, err = l.cfg.Timeline.Settle(ctx, bucket, l.term, items, now)
			return err
		})
		if err != nil || len(settled) == 0 {
			return 0, err
		}
		l.cfg.Hasten(bucket, made.Earlier)
		l.ended(page.Leases[len(page.Leases)-len(items):], items, settled)
		items = items[len(settled):]
	}
	return page.Due, nil
}

// ended counts what became of leases and times to live that were over.
func (l *leadership) ended(page []scheduler.LeaseInfo, items []scheduler.Settle, settled []scheduler.Settled) {
	m := l.metrics
	for i := range settled {
		if settled[i].Code != scheduler.SettleDone {
			continue
		}
		of := &page[i].Message.Message
		if items[i].Nonce != 0 {
			m.lapsed.Inc()
			l.cfg.Events.Of(scheduler.EventLapsed, of, items[i].Reason)
		}
		switch settled[i].Info.State {
		case message.StateExpired:
			m.expired.Inc()
			l.cfg.Events.Of(scheduler.EventExpired, of, items[i].Reason)
		case message.StateDead:
			m.dead.Inc()
			l.cfg.Events.Of(scheduler.EventDead, of, items[i].Reason)
		}
		if l.cfg.Over != nil {
			lapsed := items[i].Nonce != 0
			l.cfg.Over(items[i].Topic, lapsed, !lapsed && page[i].Message.Mark.Refusals == 0, settled[i].Info.State)
		}
	}
}
