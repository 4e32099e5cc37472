package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

var (
	// errReplaced means that another instance has registered under this one's name while it lived.
	errReplaced = errors.New("member znode belongs to another session")

	// errOldRead means that a server that lags showed the znode of this instance's last session.
	errOldRead = errors.New("member znode of an earlier session")
)

// member keeps this instance's znode among the members, for one session.
type member struct {
	z  *ZooKeeper
	s  *session
	wg sync.WaitGroup

	since   time.Time
	written time.Time // when the znode was last known to hold healthy and store; zero: not known
	healthy bool
	store   string
}

// register creates the znode. A znode of an earlier session of this process is replaced; one of another process is
// given 2·S to expire, because a crashed predecessor's does, and a live one's does not.
func (m *member) register(ctx context.Context) error {
	m.since = time.Now()
	var waited time.Time
	for {
		err := m.try(ctx)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrDuplicateInstance):
			if waited.IsZero() {
				waited = time.Now()
				m.z.log.Info().Err(err).Msg("waiting for an earlier registration to expire")
			}
			if limit := m.s.timing().patience(); time.Since(waited) >= limit {
				return fmt.Errorf("%w (still there after %v)", err, limit)
			}
		case errors.Is(err, zk.ErrNoNode):
			err = m.z.makePaths(ctx, m.s)
		}
		if err != nil {
			m.z.setRole(Disconnected, err)
			m.z.log.Debug().Err(err).Msg("not registered yet")
		}
		if err := rest(ctx, m.s, m.s.timing().check()); err != nil {
			return err
		}
	}
}

// try creates the znode once, or removes one of our own earlier sessions.
func (m *member) try(ctx context.Context) error {
	path := m.z.paths.member(m.z.cfg.Instance)
	data, now, err := m.content()
	if err != nil {
		return err
	}
	err = m.s.create(ctx, path, data, zk.FlagEphemeral, m.z.acl)
	if err == nil {
		m.wrote(now)
		return nil
	}
	if !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	n, err := m.s.get(ctx, path)
	if err != nil {
		return err
	}
	if n.stat.EphemeralOwner == m.s.client.SessionID() {
		return nil // created by an earlier try whose reply was lost; refresh sees to its content
	}
	if m.z.owns(n.stat) {
		if err := m.s.remove(ctx, path, n.stat.Version); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		return m.s.create(ctx, path, data, zk.FlagEphemeral, m.z.acl)
	}
	other, err := decodeMember(n.data)
	if err != nil {
		m.z.log.Debug().Err(err).Msg("member znode under this name is not readable")
	}
	return fmt.Errorf("instance %s of namespace %s: %w by another live process (address %q, since %s)",
		m.z.cfg.Instance, m.z.cfg.Namespace, ErrDuplicateInstance, other.Address,
		other.Since.UTC().Format(time.RFC3339))
}

func (m *member) content() (data []byte, now Member, err error) {
	now = Member{
		Instance: m.z.cfg.Instance, Address: m.z.cfg.Address, Version: m.z.cfg.Version,
		Healthy: m.z.health.now() == nil, Store: m.z.cfg.Store(), Since: m.since.UTC(),
	}
	data, err = encode(memberNode{Member: now, Incarnation: m.z.incarnation})
	return data, now, err
}

// wrote remembers what the znode holds now.
func (m *member) wrote(now Member) {
	m.healthy, m.store, m.written = now.Healthy, now.Store, time.Now()
}

// follow keeps the znode in step with the health until the session is over. wait waits for it.
func (m *member) follow() {
	m.wg.Go(func() {
		tick := time.NewTicker(m.s.timing().retry())
		defer tick.Stop()
		for {
			if err := m.refresh(context.Background()); err != nil { // ends with the session, see call
				m.z.log.Debug().Err(err).Msg("member not written")
			}
			select {
			case <-m.z.health.changed:
			case <-tick.C:
			case <-m.s.over:
				return
			}
		}
	})
}

func (m *member) wait() { m.wg.Wait() }

// refresh writes the znode when the health or the store has changed since, and once per S in case somebody removed it.
func (m *member) refresh(ctx context.Context) error {
	data, now, err := m.content()
	if err != nil {
		return err
	}
	fresh := time.Since(m.written) < m.s.timing().session()
	if !m.s.up() || fresh && m.healthy == now.Healthy && m.store == now.Store {
		return nil
	}
	path := m.z.paths.member(m.z.cfg.Instance)
	n, err := m.s.get(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		err = m.s.create(ctx, path, data, zk.FlagEphemeral, m.z.acl)
	case err != nil:
	case n.stat.EphemeralOwner != m.s.client.SessionID():
		if m.z.owns(n.stat) {
			return errOldRead
		}
		m.s.die(errReplaced) // registering anew finds out whether the other one is alive
		return errReplaced
	default:
		err = m.s.set(ctx, path, data, n.stat.Version)
	}
	if err != nil {
		return err
	}
	m.wrote(now)
	return nil
}

// makePaths creates the persistent znodes of the namespace that are missing. Looking first spares
// those that exist from needing the right to create.
func (z *ZooKeeper) makePaths(ctx context.Context, s *session) error {
	for _, p := range []struct{ path, data string }{
		{"/tarry", ""}, {z.paths.root, ""}, {z.paths.term, "0"}, {z.paths.instances, ""},
	} {
		stat, err := s.exists(ctx, p.path)
		if err != nil {
			return err
		}
		if stat != nil {
			continue
		}
		acl := z.acl
		if p.path == "/tarry" {
			acl = zk.WorldACL(zk.PermAll) // shared by namespaces that may have other credentials
		}
		err = s.create(ctx, p.path, []byte(p.data), 0, acl)
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	s.flag() // look again
	return nil
}
