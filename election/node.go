package election

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

const (
	// remindEvery is how often the log repeats a state that has not changed.
	remindEvery = 30 * time.Second

	// maxOwned limits how many of a node's own sessions it remembers. An older one expires on its own.
	maxOwned = 16
)

// Node is this instance in ZooKeeper: one session at a time, the znode by which other instances know it, its health,
// and the races that it takes part in. The package comment describes its design.
type Node struct {
	cfg         NodeConfig
	root        string // the namespace's znode
	acl         []zk.ACL
	incarnation string // identifies this value: no other process and no earlier life of this one has it
	open        opener
	log         zerolog.Logger
	losses      prometheus.Counter
	health      *health
	peers       *peers // nil without links
	races       []*Race
	news        chan struct{} // flag: the connection or the health changed

	running atomic.Bool

	mu sync.Mutex

	session *session // nil between two sessions
	err     error    // why no race can run on the session; nil while the member is registered
	owned   []int64  // the last sessions of this value, the newest last
	// deposed are the leaders that this instance has taken for dead and not examined yet, and barred is until when it
	// takes none for dead. proof is since when it owes the proof that others can reach it, or zero.
	deposed []deposal
	barred  time.Time
	proof   time.Time
}

// deposal is a leader that was taken for dead.
type deposal struct {
	leaderNode
	at time.Time
}

// NewNode validates the config field by field. It does not connect yet; Run does.
func NewNode(cfg NodeConfig) (*Node, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	return newNode(cfg, nil)
}

// newNode takes a test's opener, or nil for real connections. cfg must be complete.
func newNode(cfg NodeConfig, open opener) (*Node, error) {
	n := &Node{
		cfg:         cfg,
		root:        "/tarry/" + cfg.Namespace,
		acl:         zk.WorldACL(zk.PermAll),
		incarnation: rand.Text(),
		open:        open,
		losses:      newLosses(cfg.Registerer),
		news:        make(chan struct{}, 1),
		err:         errNotUp,
		log: cfg.Log.With().Str("component", "election").
			Str("ns", cfg.Namespace).Str("instance", cfg.Instance).Logger(),
	}
	n.health = newHealth(cfg.Healthy, n.wake)
	if cfg.Peers != nil {
		n.peers = newPeers(n, *cfg.Peers)
	}
	if cfg.Username != "" {
		n.acl = zk.AuthACL(zk.PermAll)
	}
	if open == nil {
		n.open = realOpener(cfg, n.log)
	}
	return n, nil
}

// wake makes the node and its races look for changes.
func (n *Node) wake() {
	raise(n.news)
	for _, r := range n.races {
		raise(r.wake)
	}
}

// Run takes part in the races until ctx ends, in session after session, each on a connection of its own. When ctx ends,
// Run ends the leaderships, waits for their Leads, gives the leaderships up, closes the connection and returns nil. Any
// other return is a refusal that a retry would not cure.
func (n *Node) Run(ctx context.Context) error {
	if !n.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer n.running.Store(false)

	checks, stopChecks := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { n.health.watch(checks, timing(n.cfg.Session).check()) })
	if n.peers != nil {
		wg.Go(func() { n.peers.serve(checks) })
	}
	defer wg.Wait()
	defer stopChecks()

	for ctx.Err() == nil {
		err := n.oneSession(ctx)
		if errors.Is(err, ErrDuplicateInstance) {
			n.log.Error().Err(err).Msg("instance refused")
			return err
		}
		if ctx.Err() != nil {
			break
		}
		n.losses.Inc()
		n.log.Warn().Err(err).Msg("zookeeper session lost, opening a new one")
		pause(ctx, dialPause)
	}
	n.setSession(nil, errClosed)
	return nil
}

// oneSession lives through one session, from connecting to its end, and returns why it ended. The session outlives its
// races, and each race gives up on it the leadership that it won.
func (n *Node) oneSession(ctx context.Context) (err error) {
	s, err := openSession(n.open, timing(n.cfg.Session), maxOutstanding*max(1, len(n.races)), n.wake)
	if err != nil {
		n.setSession(nil, err)
		return err
	}
	n.setSession(s, errNotUp)
	m := &member{n: n, s: s}
	var beside sync.WaitGroup
	defer func() {
		n.setSession(nil, err)
		s.close()
		beside.Wait()
	}()
	if err := n.awaitConnection(ctx, s); err != nil {
		return err
	}
	if err := m.register(ctx); err != nil {
		return err
	}
	n.setSession(s, nil)
	beside.Go(func() { n.attend(s, m) })
	var races sync.WaitGroup
	for _, r := range n.races {
		races.Go(func() { r.standBy(ctx, s) })
	}
	races.Wait()
	select {
	case <-s.over:
		return s.reason()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// awaitConnection waits for the first handshake, for as long as it takes.
func (n *Node) awaitConnection(ctx context.Context, s *session) error {
	for !s.up() {
		n.logConnection(s)
		select {
		case <-n.news: // also raised at every dial that failed
		case <-s.over:
			return s.reason()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	n.remember(s.client.SessionID())
	granted := s.timing().session()
	s.logged.up = true
	n.log.Info().Dur("session", granted).Msg("zookeeper session opened")
	if granted != n.cfg.Session {
		n.log.Warn().Dur("asked", n.cfg.Session).Dur("granted", granted).
			Msg("zookeeper granted another session time-out")
	}
	return nil
}

// attend logs changes of the connection and keeps the member znode in step with the health until the session is over.
func (n *Node) attend(s *session, m *member) {
	tick := time.Tick(s.timing().retry())
	for {
		n.logConnection(s)
		n.examine(s.timing())
		if err := m.refresh(context.Background()); err != nil { // ends with the session; see call
			n.log.Debug().Err(err).Msg("member not written")
		}
		if err := m.mention(context.Background()); err != nil {
			n.log.Debug().Err(err).Msg("known instance not written")
		}
		select {
		case <-n.news:
		case <-tick:
		case <-s.over:
			return
		}
	}
}

// logConnection logs once that the connection is gone or back, and repeats it while the connection stays away.
func (n *Node) logConnection(s *session) {
	switch {
	case s.reason() != nil: // Run logs that
		return
	case s.up():
		if !s.logged.up {
			s.logged.up = true
			n.log.Info().Msg("zookeeper connection is back")
		}
		return
	case s.logged.up:
		s.logged.up, s.logged.last = false, time.Time{}
		n.log.Warn().Msg("zookeeper connection lost")
	}
	err := s.trouble()
	var dial *dialError
	if now := time.Now(); errors.As(err, &dial) && now.Sub(s.logged.last) >= remindEvery {
		s.logged.last = now
		n.log.Warn().Err(err).Strs("servers", n.cfg.Servers).Msg("zookeeper unreachable")
	}
}

// setSession sets the session and the reason why no race can run on it.
func (n *Node) setSession(s *session, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.session, n.err = s, err
}

// connected returns the session, or nil unless it is up, and why no race can run on it, or nil if one can.
func (n *Node) connected() (*session, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.session != nil && !n.session.up() {
		return nil, n.session.trouble()
	}
	return n.session, n.err
}

// remember records a session as this value's own.
func (n *Node) remember(session int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owned = append(n.owned, session)
	if extra := len(n.owned) - maxOwned; extra > 0 {
		n.owned = slices.Delete(n.owned, 0, extra)
	}
}

// owns reports whether a znode belongs to the running session or to an earlier one of this value. The znode's content
// is no proof: after a wipe, a late renewal may have written this value's name into another instance's znode.
func (n *Node) owns(stat zk.Stat) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.owned, stat.EphemeralOwner)
}

// ensure creates a persistent znode, and those above it, if they are missing. It looks first, so that existing znodes
// do not need the right to create.
func (n *Node) ensure(ctx context.Context, s *session, at, data string) error {
	if at == "/" {
		return nil
	}
	if stat, err := s.exists(ctx, at); err != nil || stat != nil {
		return err
	}
	if err := n.ensure(ctx, s, path.Dir(at), ""); err != nil {
		return err
	}
	acl := n.acl
	if at == "/tarry" {
		acl = zk.WorldACL(zk.PermAll) // shared by namespaces that may have other credentials
	}
	if err := s.create(ctx, at, []byte(data), 0, acl); !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	return nil
}

func (n *Node) instances() string { return n.root + "/instances" }

// peerAddress returns where other instances reach this one, or an empty text.
func (n *Node) peerAddress() string {
	if n.peers == nil {
		return ""
	}
	return n.peers.cfg.Address
}

// registered reads a member znode.
func (n *Node) registered(ctx context.Context, instance string) (m memberNode, version int32, err error) {
	s, err := n.connected()
	if s == nil {
		return m, 0, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if err := checkName("instance", instance); err != nil {
		return m, 0, err
	}
	found, err := s.get(ctx, n.instances()+"/"+instance)
	if err == nil {
		m, err = decodeMember(found.data)
	}
	return m, found.stat.Version, err
}

// mayDepose reports whether this instance may take a leader for dead: not twice, and not while its links are not
// trusted.
func (n *Node) mayDepose(leader leaderNode) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Now().After(n.barred) && !slices.ContainsFunc(n.deposed, func(d deposal) bool {
		return d.Incarnation == leader.Incarnation && d.Term == leader.Term
	})
}

func (n *Node) hasDeposed(leader leaderNode) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deposed = append(n.deposed, deposal{leader, time.Now()})
}

// examine looks, once its session must have expired, whether a leader that this instance took for dead is alive. If so,
// its links are not trusted for a while.
func (n *Node) examine(t timing) {
	n.mu.Lock()
	if len(n.deposed) == 0 || time.Since(n.deposed[0].at) < t.patience() {
		n.mu.Unlock()
		return
	}
	leader := n.deposed[0]
	n.mu.Unlock()
	m, _, err := n.registered(context.Background(), leader.Instance) // ends with the session; see call
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return // asked again
	}
	alive := err == nil && m.Incarnation == leader.Incarnation
	n.mu.Lock()
	n.deposed = n.deposed[1:]
	if alive {
		n.barred = time.Now().Add(10 * t.session())
	}
	n.mu.Unlock()
	if alive {
		n.log.Warn().Str("leader", leader.Instance).Dur("wait", 10*t.session()).
			Msg("a leader that seemed to be dead is alive: its session alone decides for a while")
	}
}

// owe notes since when this instance owes the proof that others can reach it; the zero time ends that.
func (n *Node) owe(since time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.proof = since
}

func (n *Node) owed() (since time.Time, is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proof, !n.proof.IsZero()
}

// owes reports whether the proof is still missing.
func (n *Node) owes() bool {
	since, owed := n.owed()
	return owed && !n.peers.provedSince(since)
}

// Members lists the registered instances by name. It omits an instance that leaves while it reads them.
func (n *Node) Members(ctx context.Context) ([]Member, error) {
	s, err := n.connected()
	if s == nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	var list []Member
	err = s.each(ctx, n.instances(), func(_ string, m memberNode, _ zk.Stat, bad error) error {
		list = append(list, m.Member)
		return bad
	})
	if err != nil {
		return nil, err
	}
	return list, err
}
