package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// A member znode goes with its session. Each instance therefore writes what it says once per S into a second one, which
// stays. An instance that has only the second is gone, and was last seen when that was written.

const (
	// goneKeep is how long one that is gone is listed. Where every start has a name of its own, they would pile up.
	goneKeep = 7 * 24 * time.Hour
	// eachMost bounds the members of one listing.
	eachMost = 256
)

func (n *Node) known() string { return n.root + "/known" }

// mention writes what this instance says into the znode that stays, once per S. Nothing else waits for it.
func (m *member) mention(ctx context.Context) error {
	if m.n.cfg.Tell == nil || !m.s.up() || time.Since(m.told) < m.s.timing().session() {
		return nil
	}
	data, _, err := m.content()
	if err != nil {
		return err
	}
	at := m.n.known() + "/" + m.n.cfg.Instance
	err = m.s.set(ctx, at, data, -1)
	if errors.Is(err, zk.ErrNoNode) {
		if err = m.n.ensure(ctx, m.s, m.n.known(), ""); err == nil {
			err = m.s.create(ctx, at, data, 0, m.n.acl)
		}
	}
	if err == nil {
		m.told = time.Now()
	}
	return err
}

// each reads the znodes of members below a path, by name, up to eachMost. It omits one that is removed while it reads
// them. bad is why one cannot be read.
func (s *session) each(ctx context.Context, at string,
	see func(name string, m memberNode, stat zk.Stat, bad error) error) error {
	names, err := s.children(ctx, at)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	} else if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	slices.Sort(names)
	for _, name := range names[:min(len(names), eachMost)] {
		found, err := s.get(ctx, at+"/"+name)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		} else if err != nil {
			return fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		m, err := decodeMember(found.data)
		if err := see(name, m, found.stat, err); err != nil {
			return fmt.Errorf("member %s: %w", name, err)
		}
	}
	return nil
}

// Gone lists the instances that were registered and are not, by name, for goneKeep, except those that Forget has
// removed. One that restarts is among them meanwhile.
func (n *Node) Gone(ctx context.Context) ([]Gone, error) {
	s, err := n.connected()
	if s == nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	var list []Gone
	err = s.each(ctx, n.known(), func(name string, m memberNode, stat zk.Stat, bad error) error {
		seen := time.UnixMilli(stat.Mtime)
		if bad != nil || time.Since(seen) > goneKeep {
			return s.remove(ctx, n.known()+"/"+name, stat.Version)
		}
		list = append(list, Gone{m.Member, seen})
		return nil
	})
	if err != nil {
		return nil, err
	}
	members, err := n.Members(ctx) // after: one that registered meanwhile is not gone
	return slices.DeleteFunc(list, func(g Gone) bool {
		return slices.ContainsFunc(members, func(m Member) bool { return m.Instance == g.Instance })
	}), err
}

// Forget removes an instance from those that are gone. It returns ErrNotGone if it is not among them.
func (n *Node) Forget(ctx context.Context, instance string) error {
	gone, err := n.Gone(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(gone, func(g Gone) bool { return g.Instance == instance }) {
		return ErrNotGone
	}
	s, err := n.connected()
	if s == nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if err := s.remove(ctx, n.known()+"/"+instance, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return nil
}
