package election

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// standby is what a standby knows between two looks.
type standby struct {
	z    *ZooKeeper
	s    *session
	lead Lead

	fired <-chan zk.Event // the outstanding watch on the namespace's znodes; nil: none
	seen  int64           // czxid of the leader znode last read, 0 for none
	away  absence         // do not stand before
	err   error           // why the last try failed, shown until the next one
}

// standBy looks, races and leads until the session or ctx ends. What makes it look is a watch; that it looks every
// S/6 in any case covers a watch that got lost, and keeps answers coming on the connection.
func (z *ZooKeeper) standBy(ctx context.Context, s *session, lead Lead) error {
	b := &standby{z: z, s: s, lead: lead}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		z.tellConnection(s)
		if err := b.look(ctx); err != nil && ctx.Err() == nil && s.reason() == nil {
			z.setRole(b.role(), err)
			z.log.Debug().Err(err).Msg("election step failed")
		}
		timer.Reset(b.patience())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.over:
			return s.reason()
		case <-b.fired:
			b.fired = nil
		case <-s.news:
		case <-z.health.better:
		case <-timer.C:
		}
	}
}

// patience is how long to wait for something to happen before looking anyway.
func (b *standby) patience() time.Duration {
	most := b.s.timing().retry()
	if back := time.Until(b.away.until); back > 0 {
		return min(most, back)
	}
	return most
}

func (b *standby) role() Role {
	if b.s.up() {
		return Standby
	}
	return Disconnected
}

// look does one step: it finds the leader znode there, and stands by, or not there, and stands. It sets the watch
// first, so that no change between the two is missed. An error is only for the record; the next look comes anyway.
func (b *standby) look(ctx context.Context) error {
	if !b.s.up() {
		return b.s.trouble()
	}
	if b.fired == nil {
		fired, err := b.s.watch(ctx, b.z.paths.root)
		if errors.Is(err, zk.ErrNoNode) {
			return b.z.makePaths(ctx, b.s)
		} else if err != nil {
			return err
		}
		b.fired = fired
	}
	stat, err := b.s.exists(ctx, b.z.paths.leader)
	switch {
	case err != nil:
		return err
	case stat == nil:
		return b.stand(ctx)
	case stat.Czxid == b.seen:
		b.z.setRole(Standby, b.err)
		return nil
	}
	return b.meet(ctx)
}

// meet reads a leader znode that is new to this standby: somebody else's, or one that this process left behind.
func (b *standby) meet(ctx context.Context) error {
	n, err := b.s.get(ctx, b.z.paths.leader)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	} else if err != nil {
		return err
	}
	if b.z.owns(n.stat) {
		if err := b.z.removeLeftover(ctx, b.s); err != nil {
			return err
		}
		b.s.flag() // look again
		return nil
	}
	found, err := decodeLeader(n.data)
	b.seen, b.err = n.stat.Czxid, err
	if err != nil {
		b.z.log.Warn().Err(err).Msg("leader znode was not written by an instance, waiting for it to go")
		return err
	}
	if b.away.yield {
		b.away = absence{}
	}
	b.z.setRole(Standby, nil)
	if b.z.learn(found.leader()) {
		b.z.log.Info().Str("leader", found.Instance).Str("address", found.Address).Uint64("term", found.Term).
			Msg("standing by")
	}
	return nil
}

// stand races for the leader znode, and leads when it wins.
func (b *standby) stand(ctx context.Context) error {
	b.seen = 0
	b.z.forget()
	if err := b.z.health.now(); err != nil {
		b.z.setRole(Standby, err)
		return nil
	}
	if time.Now().Before(b.away.until) {
		b.z.setRole(Standby, b.err)
		return nil
	}
	b.z.setRole(Candidate, nil)
	b.err = nil
	won, err := b.z.race(ctx, b.s)
	if err != nil && ctx.Err() != nil {
		return nil
	} else if err != nil {
		b.away, b.err = absence{until: time.Now().Add(b.s.timing().retry())}, err
		b.z.metrics.races.WithLabelValues("failed").Inc()
		b.z.setRole(b.role(), err)
		b.z.log.Warn().Err(err).Msg("could not stand for leader")
		return nil
	}
	if won == nil {
		b.z.metrics.races.WithLabelValues("lost").Inc()
		b.z.setRole(Standby, nil)
		return nil
	}
	b.z.metrics.races.WithLabelValues("won").Inc()
	b.away = b.z.runLeadership(ctx, b.s, *won, b.lead)
	b.s.flag() // look again
	return nil
}

// rest waits for d; it returns early, with the reason, when ctx or the session ends.
func rest(ctx context.Context, s *session, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.over:
		return s.reason()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
