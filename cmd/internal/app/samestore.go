package app

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/scheduler"
)

// sameStore compares the store of this instance with the leader's. Messages in another store are never delivered, so an
// instance with another store accepts nothing, answers nothing from its store and does not stand for the leadership.
//
// It compares a name that is kept in the store itself and outlives its servers. Each instance registers the name that
// it sees. Without a leader, or while ZooKeeper is unreachable, the last verdict remains, with one exception. A leader
// that died when the store was emptied leaves behind a name that no store has any more. If the leader may have been
// dead while its name differed, and no other instance has registered a different name, this instance continues. A
// leader whose store differed for longer than its session lasts was alive, so its store really is another one.
type sameStore struct {
	*opened
	seen atomic.Pointer[string] // the name of this instance's store, nil before the first answer
	// other is set while the store is not the leader's.
	other atomic.Bool
	since time.Time // when a difference was seen first, zero while there is none
	last  time.Time // when it was seen last
}

const admitPatience = 4 * time.Second

// errOtherStore is the answer of an instance that has another store than the leader. It names no addresses: callers
// that may push need not know them.
var errOtherStore = fmt.Errorf("%w: the store of this instance is not the leader's: "+
	"compare redis.addrs, redis.master and redis.db", scheduler.ErrUnavailable)

// name returns the name that this instance registers, empty before it is known.
func (s *sameStore) name() string {
	if name := s.seen.Load(); name != nil {
		return *name
	}
	return ""
}

// admit waits until there is no sign that the store is not the leader's. It believes the first look, because no message
// has been accepted yet that a wrong verdict could harm. An unreachable election delays a start by at most
// admitPatience.
func (s *sameStore) admit(ctx context.Context, c *cluster) error {
	for began := time.Now(); ; {
		_, known := s.look(ctx, c, 0)
		if !s.other.Load() && (known || time.Since(began) > admitPatience) {
			return nil
		}
		if scheduler.Sleep(ctx, recoverPause) != nil {
			return context.Cause(ctx)
		}
	}
}

// look compares the two names once. It reports whether the result is known: it has both names, or there is no leader. A
// difference counts once it has lasted for patience. It returns what it has seen of the election, empty if that does
// not answer.
func (s *sameStore) look(ctx context.Context, c *cluster, patience time.Duration) (v view, known bool) {
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	v, err := c.look(ctx)
	if s.identity == nil { // on one machine there is one store
		return v, true
	}
	mine, unknown := s.identity(ctx)
	if unknown != nil || mine == "" {
		return v, false
	}
	s.seen.Store(&mine)
	alive := s.last.Sub(s.since) >= s.cfg.ZooKeeper.Session+rosterPause // the leader that had another store
	if err == nil && !v.led && s.other.Load() && !alive && s.alone(v, mine) {
		s.since = time.Time{}
		s.other.Store(false)
		s.log.Info().Msg("nobody leads and no other instance has another store: this one counts")
	}
	theirs := v.leads.Store
	if v.led && v.leader.Instance == s.cfg.Instance {
		theirs = mine
	}
	if err != nil || theirs == "" {
		return v, err == nil && !v.led
	}
	was := s.other.Load()
	if mine == theirs {
		s.since = time.Time{}
		if s.other.Store(false); was {
			s.log.Info().Str("leader", v.leader.Instance).Msg("the store is the leader's again")
		}
		return v, true
	}
	if s.last = time.Now(); s.since.IsZero() {
		s.since = s.last
	}
	if !was && s.last.Sub(s.since) >= patience {
		s.other.Store(true)
		s.log.Error().Str("leader", v.leader.Instance).
			Msg("the store is not the leader's: nothing is taken here; compare redis.addrs, redis.master and redis.db")
	}
	return v, true
}

// alone reports whether every other instance has registered the name of this store. An instance that has not registered
// a name yet may have the leader's store, so it counts as different.
func (s *sameStore) alone(v view, mine string) bool {
	return !slices.ContainsFunc(v.members, func(m election.Member) bool {
		return m.Instance != s.cfg.Instance && m.Store != mine
	})
}
