package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// RaceConfig configures one race of a node.
type RaceConfig struct {
	// Name distinguishes the races of a node. A race's znodes are below /tarry/<namespace>/races/<name>. If Name is
	// empty, they are /tarry/<namespace>/leader and term. A registry takes either the nameless race or named ones,
	// which have a label "race".
	Name string

	// Lead is called whenever this instance leads.
	Lead Lead

	// Floor returns the highest term known outside ZooKeeper; stored is the highest that ZooKeeper itself knows, or 0.
	// A new term is above both. If Floor returns an error, the instance does not stand. Floor may be nil.
	Floor func(ctx context.Context, stored uint64) (uint64, error)
}

// Race is one leadership that the instances compete for, with its own znodes, lease and terms. The races of a node are
// independent of each other: they share only its session and its health.
type Race struct {
	node    *Node
	cfg     RaceConfig
	dir     string // contains the race's two znodes
	leader  string
	term    string
	log     zerolog.Logger
	metrics *metrics
	wake    chan struct{} // flag: there may be something to do

	mu sync.Mutex

	state   State       // without the fields that State adds
	current *leadership // nil while not leading
	known   Leader      // the last leader seen; the zero value means none
}

// Race adds a race for the node to take part in. Call it before Run.
func (n *Node) Race(cfg RaceConfig) (*Race, error) {
	if cfg.Floor == nil {
		cfg.Floor = func(context.Context, uint64) (uint64, error) { return 0, nil }
	}
	dir, registerer, log := n.root, n.cfg.Registerer, n.log
	if cfg.Name != "" {
		if err := checkName("race", cfg.Name); err != nil {
			return nil, fmt.Errorf("election: %w", err)
		}
		dir += "/races/" + cfg.Name
		log = log.With().Str("race", cfg.Name).Logger()
		if registerer != nil {
			registerer = prometheus.WrapRegistererWith(prometheus.Labels{"race": cfg.Name}, registerer)
		}
	}
	if slices.ContainsFunc(n.races, func(r *Race) bool { return r.dir == dir }) {
		return nil, fmt.Errorf("election: race: %q is there already", cfg.Name)
	}
	r := &Race{
		node: n, cfg: cfg, dir: dir, leader: dir + "/leader", term: dir + "/term",
		log: log, metrics: newMetrics(registerer), wake: make(chan struct{}, 1), state: State{Role: Standby},
	}
	n.races = append(n.races, r)
	return r, nil
}

// State returns this instance's state in the race.
func (r *Race) State() State {
	_, trouble := r.node.connected()
	r.mu.Lock()
	defer r.mu.Unlock()
	state := r.state
	if r.current != nil {
		state.Term = r.current.win.leader.Term
	} else if trouble != nil {
		state.Role = Disconnected
	}
	if trouble != nil {
		state.Err = trouble
	}
	return state
}

// Leader asks ZooKeeper for the leader. With an error it returns the last known answer.
func (r *Race) Leader(ctx context.Context) (Leader, bool, error) {
	found, err := r.ask(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		found, err = Leader{}, nil
	}
	if err != nil {
		found = r.lastKnown()
	} else {
		r.learn(found)
	}
	return found, found != Leader{}, err
}

func (r *Race) ask(ctx context.Context) (Leader, error) {
	s, err := r.node.connected()
	if s == nil {
		return Leader{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	n, err := s.get(ctx, r.leader)
	if err != nil {
		return Leader{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	found, err := decodeLeader(n.data)
	return found.Leader, err
}

// Resign gives up leadership now and stays away long enough for another instance to win. It returns when leadership has
// been given up, or returns ErrNotLeader.
func (r *Race) Resign(ctx context.Context, reason string) error {
	r.mu.Lock()
	l := r.current
	r.mu.Unlock()
	if l == nil {
		return ErrNotLeader
	}
	l.resign(endResigned, reason)
	select {
	case <-l.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("resign: %w", context.Cause(ctx))
	}
}

// setRole sets the role in the state.
func (r *Race) setRole(role Role, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = State{Role: role, Err: err}
}

// settle records in the state whether the lease is being renewed.
func (r *Race) settle(l *leadership, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == l && r.state.Role == Leading {
		r.state.Err = err
	}
}

func (r *Race) setCurrent(l *leadership) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = l
}

// learn records the leader, the zero value for none, and reports whether it has changed.
func (r *Race) learn(l Leader) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	news := r.known.Instance != l.Instance || r.known.Term != l.Term
	r.known = l
	return news
}

func (r *Race) lastKnown() Leader {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known
}

// standby is the state of a standby between two looks.
type standby struct {
	*Race

	s     *session
	made  bool            // the race's znodes existed
	fired <-chan zk.Event // the outstanding watch on the race's znodes, or nil
	seen  int64           // czxid of the leader znode last read, or 0
	away  backoff         // do not stand before this ends
	err   error           // why the last try failed; shown until the next one

	met     leaderNode    // the last leader
	missing time.Time     // since when there is none; zero while there is one
	unlink  func()        // ends the link to the leader, and waits for it
	dead    chan struct{} // flag: the link was cut, and the leader does not answer
}

// standBy looks, stands and leads until the session or ctx ends. A watch triggers a look. A look every S/6 in any case
// covers a lost watch, and keeps answers coming on the connection.
func (r *Race) standBy(ctx context.Context, s *session) {
	b := &standby{Race: r, s: s, unlink: func() {}, dead: make(chan struct{}, 1)}
	defer func() { b.unlink() }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := b.look(ctx); err != nil && ctx.Err() == nil && s.reason() == nil {
			r.setRole(Standby, err)
			r.log.Debug().Err(err).Msg("election step failed")
		}
		timer.Reset(b.patience())
		select {
		case <-ctx.Done():
			return
		case <-s.over:
			return
		case <-b.fired:
			b.fired = nil
		case <-b.dead:
			b.bury(ctx)
		case <-r.wake:
		case <-timer.C:
		}
	}
}

// link holds a link to a leader that takes one.
func (b *standby) link(ctx context.Context, leader leaderNode) {
	b.unlink()
	p := b.node.peers
	if p == nil || leader.Peer == "" {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	owed := b.node.owes()
	go func() { // unlink waits for it
		defer close(over)
		p.follow(ctx, leader, owed, func() { raise(b.dead) })
	}()
	b.unlink = func() {
		stop()
		<-over
		select {
		case <-b.dead: // of that leader
		default:
		}
	}
}

// bury opens the place of a leader whose link was cut and who does not answer.
func (b *standby) bury(ctx context.Context) {
	leader := b.met
	if b.node.peers.linkStands() {
		return // it has answered since
	}
	if b.node.health.now() != nil || time.Now().Before(b.away.until) || b.node.owes() || !b.node.mayDepose(leader) {
		b.log.Info().Str("leader", leader.Instance).Msg("another instance takes over, or the leader's session decides")
		return
	}
	removed, err := b.depose(ctx, b.s, leader)
	if err != nil || !removed {
		b.log.Warn().Err(err).Str("leader", leader.Instance).Msg("the dead leader's znode was not removed here")
		return
	}
	b.node.hasDeposed(leader)
	b.node.peers.suspect(hello{Instance: leader.Instance, Incarnation: leader.Incarnation})
	b.metrics.deposed.Inc()
	b.log.Warn().Str("leader", leader.Instance).Uint64("term", leader.Term).Msg("removed the znode of a dead leader")
	b.seen = 0
	raise(b.wake) // stand at once
}

// patience returns how long to wait for an event before looking anyway.
func (b *standby) patience() time.Duration {
	most := b.s.timing().retry()
	if back := time.Until(b.away.until); back > 0 {
		return min(most, back)
	}
	return most
}

// look takes one step: if the leader znode exists it stands by, otherwise it stands. It sets the watch first, so that
// it misses no change between the two. The returned error is only for the record; the next look follows in any case.
func (b *standby) look(ctx context.Context) error {
	if !b.s.up() {
		return b.s.trouble()
	}
	if !b.made {
		if err := b.node.ensure(ctx, b.s, b.term, "0"); err != nil {
			return err
		}
		b.made = true
	}
	if b.fired == nil {
		fired, err := b.s.watch(ctx, b.dir)
		if errors.Is(err, zk.ErrNoNode) {
			return b.makePaths(ctx, b.s)
		} else if err != nil {
			return err
		}
		b.fired = fired
	}
	n, err := b.s.get(ctx, b.leader)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		b.stand(ctx)
		return nil
	case err != nil:
		return err
	case n.stat.Czxid == b.seen:
		b.setRole(Standby, b.err)
		return nil
	}
	return b.meet(ctx, n)
}

// meet judges a leader znode that is new to this standby: another instance's, or one that this process left behind.
func (b *standby) meet(ctx context.Context, n znode) error {
	if b.node.owns(n.stat) {
		if err := b.removeLeftover(ctx, b.s); err != nil {
			return err
		}
		raise(b.wake) // look again
		return nil
	}
	found, err := decodeLeader(n.data)
	b.seen, b.err = n.stat.Czxid, err
	if err != nil {
		b.log.Warn().Err(err).Msg("leader znode was not written by an instance, waiting for it to go")
		return err
	}
	if b.away.yield {
		b.away = backoff{}
	}
	b.met, b.missing = found, time.Time{}
	b.setRole(Standby, nil)
	if b.learn(found.Leader) {
		b.log.Info().Str("leader", found.Instance).Str("address", found.Address).Uint64("term", found.Term).
			Msg("standing by")
	}
	b.link(ctx, found)
	return nil
}

var errUnproved = errors.New("deposed while it lived: it waits for a peer to reach its peer port")

// unproved reports whether this instance was deposed, and has not shown since then that others can reach it, while
// another one could lead. If nobody does for 2·S, nobody could do better.
func (b *standby) unproved(ctx context.Context) bool {
	t := b.s.timing()
	since, owed := b.node.owed()
	switch {
	case !owed:
		return false
	case time.Since(since) < t.patience():
		return true
	case b.node.peers.provedSince(since) || time.Since(b.missing) > t.patience():
		b.node.owe(time.Time{})
		return false
	}
	members, err := b.node.Members(ctx)
	return err != nil || slices.ContainsFunc(members, func(m Member) bool {
		return m.Healthy && m.Instance != b.node.cfg.Instance
	})
}

// stand tries to win the leader znode, and leads if it has won.
func (b *standby) stand(ctx context.Context) {
	b.seen = 0
	b.learn(Leader{})
	b.unlink()
	if b.missing.IsZero() {
		b.missing = time.Now()
	}
	if err := b.node.health.now(); err != nil {
		b.setRole(Standby, err)
		return
	}
	if time.Now().Before(b.away.until) {
		b.setRole(Standby, b.err)
		return
	}
	if b.unproved(ctx) {
		b.setRole(Standby, errUnproved)
		return
	}
	b.setRole(Candidate, nil)
	b.err = nil
	won, err := b.win(ctx, b.s)
	switch {
	case err != nil && ctx.Err() != nil:
	case err != nil:
		b.away, b.err = backoff{until: time.Now().Add(b.s.timing().retry())}, err
		b.metrics.races.WithLabelValues("failed").Inc()
		b.setRole(Standby, err)
		b.log.Warn().Err(err).Msg("could not stand for leader")
	case won == nil:
		b.metrics.races.WithLabelValues("lost").Inc()
		b.setRole(Standby, nil)
	default:
		b.metrics.races.WithLabelValues("won").Inc()
		b.away = b.reign(ctx, b.s, *won)
		raise(b.wake) // look again
	}
}
