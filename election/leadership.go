package election

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// ending is the stable word for why a leadership ended, in logs and metrics.
type ending string

const (
	endDeadline  ending = "deadline"  // no renewal was acknowledged in time
	endExpired   ending = "expired"   // the session is over
	endFenced    ending = "fenced"    // the znode is gone, or a later leader won
	endResigned  ending = "resigned"  // asked to
	endUnhealthy ending = "unhealthy" // for 2·S, while another member is healthy
	endReturned  ending = "returned"  // lead came back by itself
	endStopped   ending = "stopped"   // Run's context ended
)

// leadership is one term of this instance, from the win until the znode is given up.
type leadership struct {
	z    *ZooKeeper
	s    *session
	win  win
	term uint64

	lease  *lease
	cancel context.CancelCauseFunc
	gone   chan struct{} // closed when all is over
	wg     sync.WaitGroup

	mu    sync.Mutex
	why   ending
	cause error
}

// runLeadership leads until it ends, and returns how to stay away afterwards.
func (z *ZooKeeper) runLeadership(ctx context.Context, s *session, w win, lead Lead) absence {
	l := &leadership{z: z, s: s, win: w, term: w.term, gone: make(chan struct{})}
	under, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	l.cancel = cancel
	l.lease = newLease(w.until, func() {
		l.lose(endDeadline, fmt.Errorf("no renewal was acknowledged for %v", s.timing().lease()))
	})
	defer close(l.gone)
	defer cancel(nil)

	z.setCurrent(l)
	z.setRole(Leading, nil)
	z.learn(Leader{Instance: z.cfg.Instance, Address: z.cfg.Address, Term: w.term, Since: w.since.UTC()})
	z.metrics.lead(w.term)
	z.log.Info().Uint64("term", w.term).Dur("trusted_for", l.lease.remaining()).Msg("leadership won")

	l.lease.start()

	calls, stopCalls := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	l.wg.Go(func() { done <- lead(context.WithValue(under, leaseKey{}, l.lease), w.term) })
	l.hold(ctx, calls, done)
	valid := l.lease.remaining() > 0
	l.lease.end()
	stopCalls()
	l.wg.Wait()
	if valid {
		l.giveUp(ctx)
	}
	return l.leave()
}

// hold renews the lease and watches for every reason to end, until lead has returned. ctx is Run's; the calls
// made here run under the other, since the lease is held until lead is back.
func (l *leadership) hold(ctx, calls context.Context, done <-chan error) {
	t := l.s.timing()
	renewal := time.NewTicker(t.renewal())
	defer renewal.Stop()
	nag := time.NewTicker(t.session())
	defer nag.Stop()
	stop, over := ctx.Done(), l.s.over
	for {
		select {
		case <-renewal.C:
			l.renew(calls)
			l.considerHealth(calls, t)
			l.z.tellConnection(l.s)
		case <-l.s.news:
			l.z.tellConnection(l.s)
			l.renew(calls) // back on another server: do not wait for the next turn
		case <-nag.C:
			if l.ended() {
				l.z.log.Warn().Uint64("term", l.term).Msg("waiting for the leader's work to return")
			}
		case <-over:
			over = nil
			l.lose(endExpired, l.s.reason())
		case <-stop:
			stop = nil
			l.resign(endStopped, "shutting down")
		case err := <-done:
			if !l.ended() {
				l.resign(endReturned, strings.TrimSuffix(fmt.Sprintf("the leader's work returned: %v", err), ": <nil>"))
			}
			return
		}
	}
}

// renew sends one renewal; more than one may be under way, so that one that hangs does not stop the next.
func (l *leadership) renew(ctx context.Context) {
	if l.lease.remaining() <= 0 || !l.s.up() {
		return
	}
	l.wg.Go(func() {
		sent := time.Now()
		err := l.z.renew(ctx, l.s, &l.win)
		switch {
		case err == nil:
			l.z.metrics.renewal.Observe(time.Since(sent).Seconds())
			l.lease.extend(sent.Add(l.s.timing().lease()))
			l.z.settle(l, nil)
		case fenced(err):
			l.lose(endFenced, err)
		case l.s.reason() == nil && ctx.Err() == nil:
			l.z.settle(l, err)
			l.z.log.Warn().Err(err).Uint64("term", l.term).Dur("trusted_for", l.lease.remaining()).
				Msg("lease not renewed")
		}
	})
}

// considerHealth resigns when this instance has been unhealthy for 2·S and another one could do better.
func (l *leadership) considerHealth(ctx context.Context, t timing) {
	bad, why := l.z.health.badFor()
	if bad < t.patience() || l.ended() || !l.s.up() {
		return
	}
	l.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, t.call())
		defer cancel()
		members, err := l.z.Members(ctx)
		if err != nil {
			l.z.log.Debug().Err(err).Msg("members not read")
			return
		}
		for _, m := range members {
			if m.Healthy && m.Instance != l.z.cfg.Instance {
				l.resign(endUnhealthy, fmt.Sprintf("unhealthy for %v (%v) while %s is healthy",
					bad.Round(time.Millisecond), why, m.Instance))
				return
			}
		}
	})
}

// lose ends the leadership and its lease at once: nothing may be done in its name any more.
func (l *leadership) lose(why ending, err error) {
	l.lease.end()
	l.end(why, fmt.Errorf("%w: %w", ErrLost, err))
}

// resign ends the leadership but not its lease: what is in flight may be finished.
func (l *leadership) resign(why ending, reason string) {
	l.end(why, fmt.Errorf("%w: %s", ErrResigned, reason))
}

// end cancels the leadership context; the first reason stays.
func (l *leadership) end(why ending, cause error) {
	l.mu.Lock()
	first := l.cause == nil
	if first {
		l.why, l.cause = why, cause
	}
	l.mu.Unlock()
	if !first {
		l.z.log.Debug().AnErr("cause", cause).Uint64("term", l.term).Msg("leadership had ended before")
		return
	}
	l.z.setRole(Resigning, cause) // before lead can return: what comes then must not be overwritten
	l.z.metrics.end(why)
	l.cancel(cause)
	level := zerolog.InfoLevel
	if !errors.Is(cause, ErrResigned) {
		level = zerolog.WarnLevel
	}
	l.z.log.WithLevel(level).Str("why", string(why)).AnErr("cause", cause).Uint64("term", l.term).
		Dur("after", time.Since(l.win.since)).Msg("leadership ended")
}

func (l *leadership) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause != nil
}

// absence is how long an instance does not stand after a leadership.
type absence struct {
	until time.Time
	yield bool // over as soon as another instance leads: that is what it was for
}

// giveUp removes the znode while the lease says that it is this leadership's. Where it is not done, or fails, the next
// look finds out whose the znode is.
func (l *leadership) giveUp(ctx context.Context) {
	if !l.s.up() {
		return
	}
	if err := l.z.giveUp(context.WithoutCancel(ctx), l.s, &l.win); err != nil {
		l.z.log.Warn().Err(err).Uint64("term", l.term).Msg("leader znode not given up yet")
		return
	}
	l.z.log.Info().Uint64("term", l.term).Msg("leader znode given up")
}

// leave turns the instance back into a standby, and says how long it does not stand.
func (l *leadership) leave() absence {
	l.z.forget()
	l.z.setCurrent(nil)
	l.z.setRole(Standby, l.cause)
	t, now := l.s.timing(), time.Now()
	away := t.session() + rand.N(t.session())
	switch l.why {
	case endResigned, endUnhealthy:
		return absence{until: now.Add(away), yield: true}
	case endReturned: // whoever leads next, this one would fail again
		return absence{until: now.Add(away)}
	case endDeadline: // one whose writes get lost must not win again before the others have looked
		return absence{until: now.Add(t.retry())}
	}
	return absence{}
}

// settle shows in State whether the lease is being renewed.
func (z *ZooKeeper) settle(l *leadership, err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.current == l && z.state.Role == Leading {
		z.state.Err = err
	}
}
