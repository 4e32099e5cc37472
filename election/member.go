package election

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"
)

var (
	// errReplaced means that another instance has registered under this instance's name while this one was alive.
	errReplaced = errors.New("member znode belongs to another session")

	// errOldRead means that a lagging server returned the znode of this instance's previous session.
	errOldRead = errors.New("member znode of an earlier session")
)

// member maintains this instance's znode among the members, for one session.
type member struct {
	n *Node
	s *session

	since   time.Time
	held    Member    // last known content of the znode
	written time.Time // when it was written; zero if unknown
	told    time.Time // when the znode that stays was written
}

// register creates the znode. It replaces a znode of an earlier session of this process. It gives a znode of another
// process 2·S to expire: a crashed predecessor's znode does, and a live instance's does not.
func (m *member) register(ctx context.Context) error {
	m.since = time.Now()
	var waited time.Time
	for {
		err := m.try(ctx)
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrDuplicateInstance) {
			if waited.IsZero() {
				waited = time.Now()
				m.n.log.Info().Err(err).Msg("waiting for an earlier registration to expire")
			}
			if limit := m.s.timing().patience(); time.Since(waited) >= limit {
				return fmt.Errorf("%w (still there after %v)", err, limit)
			}
		}
		m.n.setSession(m.s, err)
		m.n.log.Debug().Err(err).Msg("not registered yet")
		if err := rest(ctx, m.s, m.s.timing().check()); err != nil {
			return err
		}
	}
}

// try creates the znode once, or removes one of this node's own earlier sessions.
func (m *member) try(ctx context.Context) error {
	data, now, err := m.content()
	if err != nil {
		return err
	}
	err = m.create(ctx, data)
	if err == nil {
		m.held, m.written = now, time.Now()
		return nil
	}
	if !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	n, err := m.s.get(ctx, m.path())
	if err != nil {
		return err
	}
	if n.stat.EphemeralOwner == m.s.client.SessionID() {
		return nil // created by an earlier try whose reply was lost; refresh takes care of its content
	}
	if m.n.owns(n.stat) {
		if err := m.s.remove(ctx, m.path(), n.stat.Version); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		return m.create(ctx, data)
	}
	other, err := decodeMember(n.data)
	if err != nil {
		m.n.log.Debug().Err(err).Msg("member znode under this name is not readable")
	}
	return fmt.Errorf("instance %s of namespace %s: %w by another live process (address %q, since %s)",
		m.n.cfg.Instance, m.n.cfg.Namespace, ErrDuplicateInstance, other.Address,
		other.Since.UTC().Format(time.RFC3339))
}

func (m *member) path() string { return m.n.instances() + "/" + m.n.cfg.Instance }

func (m *member) create(ctx context.Context, data []byte) error {
	if err := m.n.ensure(ctx, m.s, m.n.instances(), ""); err != nil {
		return err
	}
	return m.s.create(ctx, m.path(), data, zk.FlagEphemeral, m.n.acl)
}

func (m *member) content() (data []byte, now Member, err error) {
	now = Member{
		Instance: m.n.cfg.Instance, Address: m.n.cfg.Address, Version: m.n.cfg.Version,
		Healthy: m.n.health.now() == nil, Store: m.n.cfg.Store(), Linked: m.n.peers.linkStands(),
		Since: m.since.UTC(),
	}
	if m.n.cfg.Tell != nil {
		now.Told = m.n.cfg.Tell()
	}
	data, err = encode(memberNode{Member: now, Incarnation: m.n.incarnation, Peer: m.n.peerAddress()})
	return data, now, err
}

// refresh writes the znode if what it says has changed since the last write, and once per S in case the znode was
// removed.
func (m *member) refresh(ctx context.Context) error {
	data, now, err := m.content()
	if err != nil {
		return err
	}
	fresh := time.Since(m.written) < m.s.timing().session()
	if !m.s.up() || fresh && m.held == now {
		return nil
	}
	n, err := m.s.get(ctx, m.path())
	switch {
	case errors.Is(err, zk.ErrNoNode):
		err = m.create(ctx, data)
	case err != nil:
	case n.stat.EphemeralOwner != m.s.client.SessionID():
		if m.n.owns(n.stat) {
			return errOldRead
		}
		m.s.die(errReplaced) // registering anew finds out whether the other instance is alive
		return errReplaced
	default:
		err = m.s.set(ctx, m.path(), data, n.stat.Version)
	}
	if err != nil {
		return err
	}
	m.held, m.written = now, time.Now()
	return nil
}

// maxTerm keeps terms below 2^53, because Lua and JSON represent numbers as doubles.
const maxTerm = 1<<53 - 1

// errBadZnode means that a znode holds data that no tarry instance writes.
var errBadZnode = errors.New("unreadable znode")

// leaderNode is the leader znode's content. Incarnation distinguishes two lives of one instance name.
type leaderNode struct {
	Leader
	Incarnation string `json:"incarnation"`
	Peer        string `json:"peer,omitempty"` // where standbys hold their link; empty if it takes none
}

// memberNode is a member znode's content.
type memberNode struct {
	Member
	Incarnation string `json:"incarnation"`
	Peer        string `json:"peer,omitempty"` // as of a leader
}

// encode cannot fail: the types hold nothing that JSON rejects, except a year past 9999.
func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return b, wrap("encode znode", err)
}

func decodeLeader(b []byte) (leaderNode, error) {
	var n leaderNode
	if err := json.Unmarshal(b, &n); err != nil {
		return leaderNode{}, fmt.Errorf("%w: leader: %w", errBadZnode, err)
	}
	if err := checkMember(n.Instance, n.Address, ""); err != nil {
		return leaderNode{}, fmt.Errorf("%w: leader: %w", errBadZnode, err)
	}
	if n.Term > maxTerm {
		return leaderNode{}, fmt.Errorf("%w: leader: term %d is above %d", errBadZnode, n.Term, uint64(maxTerm))
	}
	return n, nil
}

func decodeMember(b []byte) (memberNode, error) {
	var n memberNode
	if err := json.Unmarshal(b, &n); err != nil {
		return memberNode{}, fmt.Errorf("%w: member: %w", errBadZnode, err)
	}
	if err := checkMember(n.Instance, n.Address, n.Version); err != nil {
		return memberNode{}, fmt.Errorf("%w: member: %w", errBadZnode, err)
	}
	if told := len(n.Lacks) + len(n.Settings); told > maxTold {
		return memberNode{}, fmt.Errorf("%w: member: it says %d bytes, at most %d", errBadZnode, told, maxTold)
	}
	return n, nil
}

func encodeTerm(term uint64) []byte { return strconv.AppendUint(nil, term, 10) }

func decodeTerm(b []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil || n > maxTerm {
		return 0, fmt.Errorf("%w: term: %.30q is not a number up to %d", errBadZnode, b, uint64(maxTerm))
	}
	return n, nil
}

// nextTerm returns one more than the highest known term. A term is never reused, so running out is an error.
func nextTerm(stored, floor uint64) (uint64, error) {
	top := max(stored, floor)
	if top >= maxTerm {
		return 0, fmt.Errorf("term %d is the last one below 2^53", top)
	}
	return top + 1, nil
}
