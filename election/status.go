package election

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"
)

// Leader asks ZooKeeper who leads; where it gives no answer, the last known leader comes with the error.
func (z *ZooKeeper) Leader(ctx context.Context) (Leader, bool, error) {
	s, err := z.upSession()
	if err != nil {
		l, ok := z.lastKnown()
		return l, ok, err
	}
	n, err := s.get(ctx, z.paths.leader)
	if errors.Is(err, zk.ErrNoNode) {
		z.forget()
		return Leader{}, false, nil
	}
	if err == nil {
		var found leaderNode
		if found, err = decodeLeader(n.data); err == nil {
			z.learn(found.leader())
			return found.leader(), true, nil
		}
	} else {
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	l, ok := z.lastKnown()
	return l, ok, err
}

// Members lists the registered instances. One that leaves while they are read is left out.
func (z *ZooKeeper) Members(ctx context.Context) ([]Member, error) {
	s, err := z.upSession()
	if err != nil {
		return nil, err
	}
	names, err := s.children(ctx, z.paths.instances)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	found := make(map[string]Member, len(names))
	for _, name := range names {
		n, err := s.get(ctx, z.paths.member(name))
		if errors.Is(err, zk.ErrNoNode) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		m, err := decodeMember(n.data)
		if err != nil {
			return nil, fmt.Errorf("member %s: %w", name, err)
		}
		found[name] = m.Member
	}
	list := make([]Member, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		list = append(list, found[name])
	}
	return list, nil
}

// State returns where this instance stands.
func (z *ZooKeeper) State() State {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.state
}

func (z *ZooKeeper) upSession() (*session, error) {
	z.mu.Lock()
	s, err := z.session, z.state.Err
	z.mu.Unlock()
	if s != nil && s.up() {
		return s, nil
	}
	if err == nil {
		return nil, ErrUnreachable
	}
	return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
}

func (z *ZooKeeper) setSession(s *session) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.session = s
}

// setRole moves the state; a leader's state belongs to its leadership until that is over.
func (z *ZooKeeper) setRole(r Role, err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.state = State{Role: r, Err: err}
	if z.current != nil {
		z.state.Term = z.current.term
	}
}

func (z *ZooKeeper) setCurrent(l *leadership) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.current = l
}

// learn keeps who leads, and reports whether that is news.
func (z *ZooKeeper) learn(l Leader) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	news := !z.isKnown || z.known.Instance != l.Instance || z.known.Term != l.Term
	z.known, z.isKnown = l, true
	return news
}

func (z *ZooKeeper) forget() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.known, z.isKnown = Leader{}, false
}

func (z *ZooKeeper) lastKnown() (Leader, bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.known, z.isKnown
}

// maxOwned bounds how far back own sessions are known. An old one expires on its own.
const maxOwned = 16

// remember notes a session as this value's own.
func (z *ZooKeeper) remember(session int64) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.owned = append(z.owned, session)
	if extra := len(z.owned) - maxOwned; extra > 0 {
		z.owned = slices.Delete(z.owned, 0, extra)
	}
}

// owns says that a znode is of the running session or of an earlier one of this value. What the znode says of itself
// would not do: after a wipe a late renewal may have written this value's name into another's.
func (z *ZooKeeper) owns(stat zk.Stat) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return slices.Contains(z.owned, stat.EphemeralOwner)
}
