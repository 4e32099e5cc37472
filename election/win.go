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
	errNoStat  = errors.New("the answer holds no stat") // treated as an unknown outcome
)

// win is a proven leadership: who leads, under which term, the version of the term znode that represents it, and the
// deadline that follows from an acknowledged write.
type win struct {
	leader  Leader
	version int32
	since   time.Time // with its monotonic reading
	until   time.Time // likewise
	data    []byte    // the leader znode's content
}

// win tries once to become leader. It returns nil without an error if another instance was faster.
func (r *Race) win(ctx context.Context, s *session) (*win, error) {
	t, err := s.get(ctx, r.term)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, r.makePaths(ctx, s) // the next look races
	} else if err != nil {
		return nil, err
	}
	stored, err := decodeTerm(t.data)
	if err != nil {
		return nil, err
	}
	floor, err := r.floor(ctx, s, stored)
	if err != nil {
		return nil, err
	}
	term, err := nextTerm(stored, floor)
	if err != nil {
		return nil, err
	}
	w := &win{version: t.stat.Version + 1, since: time.Now()}
	w.leader = Leader{
		Instance: r.node.cfg.Instance, Address: r.node.cfg.Address, Term: term, Since: w.since.UTC(),
	}
	w.data, err = encode(leaderNode{w.leader, r.node.incarnation, r.node.peerAddress()})
	if err != nil {
		return nil, err
	}
	lease := s.timing().lease()
	w.until = w.since.Add(lease)
	_, err = s.multi(ctx, lease,
		&zk.CreateRequest{Path: r.leader, Data: w.data, Acl: r.node.acl, Flags: zk.FlagEphemeral},
		&zk.SetDataRequest{Path: r.term, Data: encodeTerm(term), Version: t.stat.Version},
	)
	switch {
	case err == nil:
		return w, nil
	case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion):
		return nil, nil
	case errors.Is(err, zk.ErrNoNode):
		return nil, r.makePaths(ctx, s)
	case refused(err):
		return nil, fmt.Errorf("race for term %d: %w", term, err)
	}
	r.log.Warn().Err(err).Uint64("term", term).Msg("outcome of the race unknown, asking")
	return r.prove(ctx, s, w)
}

// makePaths creates the race's persistent znodes if they are missing.
func (r *Race) makePaths(ctx context.Context, s *session) error {
	err := r.node.ensure(ctx, s, r.term, "0")
	if err == nil {
		raise(r.wake) // look again
	}
	return err
}

func (r *Race) floor(ctx context.Context, s *session, stored uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timing().floor())
	defer cancel()
	floor, err := r.cfg.Floor(ctx, stored)
	return floor, wrap("highest term outside zookeeper", err)
}

// prove finds out whether a race of unknown outcome was won. It asks until it knows, or until the session is over,
// which removes whatever the race may have created.
func (r *Race) prove(ctx context.Context, s *session, w *win) (*win, error) {
	for {
		mine, err := r.isMine(ctx, s, w)
		if err == nil && !mine {
			return nil, nil // a leader znode of this session without proof is a leftover; the next look removes it
		}
		if err == nil {
			sent := time.Now()
			if err = r.renew(ctx, s, w); err == nil {
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

// isMine reports whether the leader znode and the term znode were both written by the transaction of w, in this
// session.
func (r *Race) isMine(ctx context.Context, s *session, w *win) (bool, error) {
	if err := s.sync(ctx, r.dir); err != nil {
		return false, err
	}
	leader, err := s.get(ctx, r.leader)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	term, err := s.get(ctx, r.term)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return leader.stat.EphemeralOwner == s.client.SessionID() &&
		term.stat.Mzxid == leader.stat.Czxid && term.stat.Version == w.version, nil
}

// renew writes the leader znode, but only while no later leadership has begun. Repeating it is harmless. The term's
// version restarts if the znodes were wiped, and another leadership may then have the same version. Therefore the znode
// that was written must also belong to this session.
func (r *Race) renew(ctx context.Context, s *session, w *win) error {
	answers, err := s.multi(ctx, s.timing().lease(),
		&zk.CheckVersionRequest{Path: r.term, Version: w.version},
		&zk.SetDataRequest{Path: r.leader, Data: w.data, Version: -1},
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

// fenced reports whether a renewal found another leadership, or none, in place of this one.
func fenced(err error) bool {
	return errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, errForeign)
}

// giveUp removes the leader znode, but only while no later leadership has begun. It returns nil if the znode is gone or
// belongs to another leadership.
func (r *Race) giveUp(ctx context.Context, s *session, w *win) error {
	_, err := s.multi(ctx, s.timing().call(),
		&zk.CheckVersionRequest{Path: r.term, Version: w.version},
		&zk.DeleteRequest{Path: r.leader, Version: -1},
	)
	if fenced(err) {
		return nil
	}
	return wrap("delete the leader znode", err)
}

// removeLeftover deletes a leader znode that this process left behind, either from a race whose outcome came too late
// or from its earlier session.
func (r *Race) removeLeftover(ctx context.Context, s *session) error {
	removed, err := r.remove(ctx, s, func(n znode) bool { return r.node.owns(n.stat) })
	if removed {
		r.log.Warn().Msg("removed a leader znode that this instance left behind")
	}
	return wrap("remove a leader znode left behind", err)
}

// depose deletes the znode of a leader that seems to be dead, unless the leader has renewed it in the meantime. That
// only narrows: a living leader may be deposed, and then the term keeps it from writing anything.
func (r *Race) depose(ctx context.Context, s *session, leader leaderNode) (bool, error) {
	removed, err := r.remove(ctx, s, func(n znode) bool {
		now, err := decodeLeader(n.data)
		return err == nil && now.Incarnation == leader.Incarnation && now.Term == leader.Term
	})
	return removed, wrap("delete the leader znode of "+leader.Instance, err)
}

// remove deletes the leader znode if it is the one. It reads the term before it looks at the znode: if another instance
// has won in between, the check fails and that instance's znode stays.
func (r *Race) remove(ctx context.Context, s *session, is func(znode) bool) (bool, error) {
	term, err := s.get(ctx, r.term)
	if err != nil {
		return false, err
	}
	n, err := s.get(ctx, r.leader)
	if errors.Is(err, zk.ErrNoNode) || err == nil && !is(n) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	_, err = s.multi(ctx, s.timing().call(),
		&zk.CheckVersionRequest{Path: r.term, Version: term.stat.Version},
		&zk.DeleteRequest{Path: r.leader, Version: n.stat.Version},
	)
	return err == nil, err
}
