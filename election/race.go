package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

var (
	errForeign = errors.New("the leader znode belongs to another session")
	errNoStat  = errors.New("the answer holds no stat") // outcome unknown, as far as a lease is concerned
)

// win is a leadership that is proven: its term, the version of the term znode that stands for it, and the
// deadline that an acknowledged write gives.
type win struct {
	term    uint64
	version int32
	until   time.Time
	since   time.Time
	data    []byte // the leader znode's content
}

// race tries to become leader once. Nil without an error: somebody else was faster.
func (z *ZooKeeper) race(ctx context.Context, s *session) (*win, error) {
	t, err := s.get(ctx, z.paths.term)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, z.makePaths(ctx, s) // the next look races
	} else if err != nil {
		return nil, err
	}
	stored, err := decodeTerm(t.data)
	if err != nil {
		return nil, err
	}
	floor, err := z.floor(ctx, s, stored)
	if err != nil {
		return nil, err
	}
	term, err := nextTerm(stored, floor)
	if err != nil {
		return nil, err
	}
	w := &win{term: term, version: t.stat.Version + 1, since: time.Now()}
	w.data, err = encode(leaderNode{
		Instance: z.cfg.Instance, Address: z.cfg.Address, Incarnation: z.incarnation, Term: term, Since: w.since.UTC(),
	})
	if err != nil {
		return nil, err
	}
	lease := s.timing().lease()
	w.until = w.since.Add(lease)
	_, err = s.multi(ctx, lease,
		&zk.CreateRequest{Path: z.paths.leader, Data: w.data, Acl: z.acl, Flags: zk.FlagEphemeral},
		&zk.SetDataRequest{Path: z.paths.term, Data: encodeTerm(term), Version: t.stat.Version},
	)
	switch {
	case err == nil:
		return w, nil
	case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion):
		return nil, nil
	case errors.Is(err, zk.ErrNoNode):
		return nil, z.makePaths(ctx, s)
	case refused(err):
		return nil, fmt.Errorf("race for term %d: %w", term, err)
	}
	z.log.Warn().Err(err).Uint64("term", term).Msg("outcome of the race unknown, asking")
	return z.prove(ctx, s, w)
}

func (z *ZooKeeper) floor(ctx context.Context, s *session, stored uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timing().floor())
	defer cancel()
	floor, err := z.cfg.Floor(ctx, stored)
	if err != nil {
		return 0, fmt.Errorf("highest term stored elsewhere: %w", err)
	}
	return floor, nil
}

// prove finds out whether a race of unknown outcome was won. It asks until it knows, or the session is over and
// with it whatever the race may have created.
func (z *ZooKeeper) prove(ctx context.Context, s *session, w *win) (*win, error) {
	for {
		mine, err := z.isMine(ctx, s, w)
		if err == nil && !mine {
			return nil, nil // a leader znode of this session without proof is a leftover: the next look removes it
		}
		if err == nil {
			sent := time.Now()
			if err = z.renew(ctx, s, w); err == nil {
				w.until = sent.Add(s.timing().lease())
				return w, nil
			}
		}
		if refused(err) || errors.Is(err, errForeign) {
			return nil, wrap("prove the race", err)
		}
		if err := rest(ctx, s, s.timing().check()); err != nil {
			return nil, wrap("prove the race", err)
		}
	}
}

// isMine holds the leader znode against the term znode: created and set in one transaction, by this session.
func (z *ZooKeeper) isMine(ctx context.Context, s *session, w *win) (bool, error) {
	if err := s.sync(ctx, z.paths.root); err != nil {
		return false, err
	}
	leader, err := s.get(ctx, z.paths.leader)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	term, err := s.get(ctx, z.paths.term)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return leader.stat.EphemeralOwner == s.client.SessionID() &&
		term.stat.Mzxid == leader.stat.Czxid && term.stat.Version == w.version, nil
}

// renew writes the leader znode, but only while no later leadership has begun. Repeating it is harmless. The term's
// version starts again where the znodes were wiped, and may then be the same for somebody else: so the znode that was
// written must belong to this session too.
func (z *ZooKeeper) renew(ctx context.Context, s *session, w *win) error {
	answers, err := s.multi(ctx, s.timing().lease(),
		&zk.CheckVersionRequest{Path: z.paths.term, Version: w.version},
		&zk.SetDataRequest{Path: z.paths.leader, Data: w.data, Version: -1},
	)
	if err != nil {
		return wrap("renew the lease", err)
	}
	if len(answers) != 2 || answers[1].Stat == nil {
		return wrap("renew the lease", errNoStat)
	}
	if answers[1].Stat.EphemeralOwner != s.client.SessionID() {
		return wrap("renew the lease", errForeign)
	}
	return nil
}

// fenced says that a renewal found another leadership, or none, in the place of this one.
func fenced(err error) bool {
	return errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, errForeign)
}

// giveUp removes the leader znode, but only while no later leadership has begun. Nil: it is gone, or another's.
func (z *ZooKeeper) giveUp(ctx context.Context, s *session, w *win) error {
	_, err := s.multi(ctx, s.timing().call(),
		&zk.CheckVersionRequest{Path: z.paths.term, Version: w.version},
		&zk.DeleteRequest{Path: z.paths.leader, Version: -1},
	)
	if fenced(err) {
		return nil
	}
	return wrap("delete the leader znode", err)
}

// removeLeftover deletes a leader znode that this process left behind: of a race whose outcome came too late, or of its
// earlier session. The term is read before the znode is looked at, so when another instance
// has won in between, the check fails and its znode stays.
func (z *ZooKeeper) removeLeftover(ctx context.Context, s *session) error {
	term, err := s.get(ctx, z.paths.term)
	if err != nil {
		return err
	}
	n, err := s.get(ctx, z.paths.leader)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	} else if err != nil {
		return err
	}
	if !z.owns(n.stat) {
		return nil
	}
	_, err = s.multi(ctx, s.timing().call(),
		&zk.CheckVersionRequest{Path: z.paths.term, Version: term.stat.Version},
		&zk.DeleteRequest{Path: z.paths.leader, Version: n.stat.Version},
	)
	if err == nil {
		z.log.Warn().Msg("removed a leader znode that this instance left behind")
	}
	return wrap("remove a leader znode left behind", err)
}
