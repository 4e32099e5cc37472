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
	endResigned  ending = "resigned"  // Resign was called
	endUnhealthy ending = "unhealthy" // for 2·S, while another member is healthy
	endReturned  ending = "returned"  // Lead returned by itself
	endStopped   ending = "stopped"   // Run's context ended
)

// leadership is one term of this instance, from the win until the znode is given up.
type leadership struct {
	r   *Race
	s   *session
	win win

	lease  *lease
	cancel context.CancelCauseFunc
	gone   chan struct{} // closed when all is over
	wg     sync.WaitGroup

	mu    sync.Mutex
	why   ending
	cause error
}

// reign leads until the leadership ends, and returns how long to stay away afterwards.
func (r *Race) reign(ctx context.Context, s *session, w win) backoff {
	l := &leadership{r: r, s: s, win: w, gone: make(chan struct{})}
	under, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	l.cancel = cancel
	l.lease = newLease(w.until, func() {
		l.lose(endDeadline, fmt.Errorf("no renewal was acknowledged for %v", s.timing().lease()))
	})
	defer close(l.gone)
	defer cancel(nil)

	r.setCurrent(l)
	r.setRole(Leading, nil)
	r.learn(w.leader)
	r.metrics.lead(w.leader.Term)
	r.node.peers.leads(w.leader.Term)
	r.log.Info().Uint64("term", w.leader.Term).Dur("trusted_for", l.lease.remaining()).Msg("leadership won")

	l.lease.start()

	calls, stopCalls := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	l.wg.Go(func() { done <- r.cfg.Lead(context.WithValue(under, leaseKey{}, l.lease), w.leader.Term) })
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

// hold renews the lease and watches for every reason to end until Lead has returned. ctx is Run's. Calls made here run
// under calls, since the lease is held until Lead has returned.
func (l *leadership) hold(ctx, calls context.Context, done <-chan error) {
	t := l.s.timing()
	renewal := time.Tick(t.renewal())
	nag := time.Tick(t.session())
	stop, over := ctx.Done(), l.s.over
	for {
		select {
		case <-renewal:
			l.renew(calls)
			l.considerHealth(calls, t)
		case <-l.r.wake:
			l.renew(calls) // back on another server: do not wait for the next turn
		case <-nag:
			if l.ended() {
				l.r.log.Warn().Uint64("term", l.win.leader.Term).Msg("waiting for the leader's work to return")
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

// renew sends one renewal. More than one may be under way, so that a renewal that hangs does not stop the next.
func (l *leadership) renew(ctx context.Context) {
	if l.lease.remaining() <= 0 || !l.s.up() {
		return
	}
	l.wg.Go(func() {
		sent := time.Now()
		err := l.r.renew(ctx, l.s, &l.win)
		switch {
		case err == nil:
			l.r.metrics.renewal.Observe(time.Since(sent).Seconds())
			l.lease.extend(sent.Add(l.s.timing().lease()))
			l.r.settle(l, nil)
		case fenced(err):
			l.lose(endFenced, err)
		case l.s.reason() == nil && ctx.Err() == nil:
			l.r.settle(l, err)
			l.r.log.Warn().Err(err).Uint64("term", l.win.leader.Term).Dur("trusted_for", l.lease.remaining()).
				Msg("lease not renewed")
		}
	})
}

// considerHealth resigns if this instance has been unhealthy for 2·S and another one could do better.
func (l *leadership) considerHealth(ctx context.Context, t timing) {
	bad, why := l.r.node.health.badFor()
	if bad < t.patience() || l.ended() || !l.s.up() {
		return
	}
	l.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, t.call())
		defer cancel()
		members, err := l.r.node.Members(ctx)
		if err != nil {
			l.r.log.Debug().Err(err).Msg("members not read")
			return
		}
		for _, m := range members {
			if m.Healthy && m.Instance != l.r.node.cfg.Instance {
				l.resign(endUnhealthy, fmt.Sprintf("unhealthy for %v (%v) while %s is healthy",
					bad.Round(time.Millisecond), why, m.Instance))
				return
			}
		}
	})
}

// lose ends the leadership and its lease at once: nothing more may be done in its name.
func (l *leadership) lose(why ending, err error) {
	l.lease.end()
	l.end(why, fmt.Errorf("%w: %w", ErrLost, err))
}

// resign ends the leadership but not its lease, so that work in flight may be finished.
func (l *leadership) resign(why ending, reason string) {
	l.end(why, fmt.Errorf("%w: %s", ErrResigned, reason))
}

// end cancels the leadership context. The first reason is kept.
func (l *leadership) end(why ending, cause error) {
	l.mu.Lock()
	first := l.cause == nil
	if first {
		l.why, l.cause = why, cause
	}
	l.mu.Unlock()
	if !first {
		l.r.log.Debug().AnErr("cause", cause).Uint64("term", l.win.leader.Term).Msg("leadership had ended before")
		return
	}
	l.r.setRole(Resigning, cause) // before Lead can return: a later role must not be overwritten
	l.r.metrics.end(why)
	l.cancel(cause)
	l.r.node.peers.leads(0)
	level := zerolog.InfoLevel
	if !errors.Is(cause, ErrResigned) {
		level = zerolog.WarnLevel
	}
	l.r.log.WithLevel(level).Str("why", string(why)).AnErr("cause", cause).Uint64("term", l.win.leader.Term).
		Dur("after", time.Since(l.win.since)).Msg("leadership ended")
}

func (l *leadership) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause != nil
}

// backoff keeps an instance from standing again right after a leadership.
type backoff struct {
	until time.Time
	yield bool // over as soon as another instance leads, which was its purpose
}

// giveUp removes the znode while the lease shows that it belongs to this leadership. If giveUp does not run or fails,
// the next look finds out whose the znode is.
func (l *leadership) giveUp(ctx context.Context) {
	if !l.s.up() {
		return
	}
	if err := l.r.giveUp(context.WithoutCancel(ctx), l.s, &l.win); err != nil {
		l.r.log.Warn().Err(err).Uint64("term", l.win.leader.Term).Msg("leader znode not given up yet")
		return
	}
	l.r.log.Info().Uint64("term", l.win.leader.Term).Msg("leader znode given up")
}

// leave makes the instance a standby again and returns how long it does not stand.
func (l *leadership) leave() backoff {
	l.r.learn(Leader{})
	l.r.setCurrent(nil)
	l.r.setRole(Standby, l.cause)
	t, now := l.s.timing(), time.Now()
	away := t.session() + rand.N(t.session())
	switch l.why {
	case endResigned, endUnhealthy:
		return backoff{until: now.Add(away), yield: true}
	case endReturned: // whoever leads next, this instance would fail again
		return backoff{until: now.Add(away)}
	case endFenced: // it was deposed while it lived, or the znodes were wiped
		if l.r.node.peers != nil {
			l.r.node.owe(now)
		}
	case endDeadline: // an instance whose writes get lost must not win again before the others have looked
		return backoff{until: now.Add(t.retry())}
	}
	return backoff{}
}
