package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

// sameStore compares the store of this instance with the leader's. Nobody
// delivers what an instance keeps in another one, so such an instance takes
// nothing, answers nothing from its store and does not stand for the leadership.
//
// What is compared is a name that stands in the store itself and outlives its
// servers. Each instance registers the one it sees. Where nobody leads, or
// ZooKeeper is away, nothing is known and the last verdict stands. One verdict does
// not outlive its leader: that of a leader which may have been dead all the while. If
// the store was emptied as it died, nobody has a store of the name that it registered,
// and an instance that no other differs from goes on. A leader that was seen with
// another store for longer than its session was alive, and its store is not this one.
type sameStore struct {
	a    *App
	seen atomic.Pointer[string] // the name of this instance's store, nil before the first answer
	// other is set while the store is not the leader's.
	other atomic.Bool
	since time.Time // when a difference was seen first, zero while there is none
	last  time.Time // when it was seen last
}

const (
	// sameStorePause is between two looks.
	sameStorePause = 2 * time.Second
	admitPatience  = 4 * time.Second
)

// errOtherStore is the answer of an instance that has another store than the leader. It
// names no addresses: whoever may push need not know them.
var errOtherStore = fmt.Errorf("%w: the store of this instance is not the leader's: "+
	"compare redis.addrs, redis.master and redis.db", scheduler.ErrUnavailable)

// name is what this instance registers, empty before it is known.
func (s *sameStore) name() string {
	if name := s.seen.Load(); name != nil {
		return *name
	}
	return ""
}

// admit waits until nothing says that the store is not the leader's. Here the
// first look counts: nothing was taken yet that a wrong verdict would harm. An
// election that is away delays a start by admitPatience and no longer.
func (s *sameStore) admit(ctx context.Context) error {
	if s.a.p.identity == nil {
		return nil
	}
	for began := time.Now(); ; {
		known := s.look(ctx, 0)
		if !s.other.Load() && (known || time.Since(began) > admitPatience) {
			return nil
		}
		if !rest(ctx, recoverPause) {
			return context.Cause(ctx)
		}
	}
}

// run goes on looking until ctx ends. The leader renews its store's name after a
// loss and registers it a moment later: a difference counts once it has lasted.
func (s *sameStore) run(ctx context.Context) error {
	if s.a.p.identity == nil {
		return nil
	}
	for rest(ctx, sameStorePause) {
		s.look(ctx, s.a.p.session+sameStorePause)
	}
	return nil
}

// look compares once, and reports whether there was anything to compare, or no
// leader to compare with. A difference counts after patience.
func (s *sameStore) look(ctx context.Context, patience time.Duration) (known bool) {
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	mine, err := s.a.p.identity(ctx)
	if err != nil || mine == "" {
		return false
	}
	s.seen.Store(&mine)
	theirs, leader, err := s.leaders(ctx, mine)
	alive := s.last.Sub(s.since) >= s.a.p.session+sameStorePause // the leader that had another store
	if err == nil && leader == "" && s.other.Load() && !alive && s.alone(ctx, mine) {
		s.since = time.Time{}
		s.other.Store(false)
		s.a.log.Info().Msg("nobody leads and no other instance has another store: this one counts")
	}
	if err != nil || theirs == "" {
		return err == nil && leader == ""
	}
	was := s.other.Load()
	if mine == theirs {
		s.since = time.Time{}
		if s.other.Store(false); was {
			s.a.log.Info().Str("leader", leader).Msg("the store is the leader's again")
		}
		return true
	}
	if s.last = time.Now(); s.since.IsZero() {
		s.since = s.last
	}
	if !was && s.last.Sub(s.since) >= patience {
		s.other.Store(true)
		s.a.log.Error().Str("leader", leader).
			Msg("the store is not the leader's: nothing is taken here; compare redis.addrs, redis.master and redis.db")
	}
	return true
}

// alone reports whether no other instance is registered with another store. A leader that died after its store was
// lost has left a name that nobody has any more.
func (s *sameStore) alone(ctx context.Context, mine string) bool {
	members, err := s.a.elector.Members(ctx)
	if err != nil {
		return false
	}
	for _, m := range members {
		if m.Instance != s.a.p.instance && m.Store != "" && m.Store != mine {
			return false
		}
	}
	return true
}

// leaders is the name of the leader's store, empty where it is not known, and the
// leader, empty where nobody leads. mine is what this instance has if it leads.
func (s *sameStore) leaders(ctx context.Context, mine string) (store, leader string, err error) {
	l, led, err := s.a.elector.Leader(ctx)
	if err != nil || !led {
		return "", "", err
	}
	if l.Instance == s.a.p.instance {
		return mine, l.Instance, nil
	}
	members, err := s.a.elector.Members(ctx)
	if err != nil {
		return "", "", err
	}
	for _, m := range members {
		if m.Instance == l.Instance {
			return m.Store, l.Instance, nil
		}
	}
	return "", "", errors.New("the leader is not registered")
}
