package election

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rs/zerolog"
)

// remindEvery is how often the log repeats what has not changed.
const remindEvery = 30 * time.Second

// ZooKeeper elects one of several instances. The package comment is its design.
type ZooKeeper struct {
	cfg         ZooKeeperConfig
	paths       paths
	acl         []zk.ACL
	incarnation string // of this value: no other process and no earlier life has it
	open        opener
	log         zerolog.Logger
	metrics     *metrics
	health      *health

	running atomic.Bool

	mu sync.Mutex

	state   State
	session *session    // nil between two
	current *leadership // nil while not leading
	known   Leader      // the last leader seen
	isKnown bool
	owned   []int64 // the last sessions of this value, the newest at the end
}

var _ Elector = (*ZooKeeper)(nil)

// NewZooKeeper checks the config by field and connects nowhere yet: Run does.
func NewZooKeeper(cfg ZooKeeperConfig) (*ZooKeeper, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	return newZooKeeper(cfg, nil)
}

// newZooKeeper takes the opener of a test, or nil for real connections. cfg is complete.
func newZooKeeper(cfg ZooKeeperConfig, open opener) (*ZooKeeper, error) {
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	z := &ZooKeeper{
		cfg:         cfg,
		paths:       pathsOf(cfg.Namespace),
		acl:         zk.WorldACL(zk.PermAll),
		incarnation: rand.Text(),
		open:        open,
		metrics:     m,
		health:      newHealth(cfg.Healthy),
		state:       State{Role: Disconnected, Err: errNotUp},
		log: cfg.Log.With().Str("component", "election").
			Str("ns", cfg.Namespace).Str("instance", cfg.Instance).Logger(),
	}
	if cfg.Username != "" {
		z.acl = zk.AuthACL(zk.PermAll)
	}
	if open == nil {
		z.open = realOpener(cfg, z.log)
	}
	return z, nil
}

// Run takes part until ctx ends: session after session, each on a connection of its own.
func (z *ZooKeeper) Run(ctx context.Context, lead func(ctx context.Context, term uint64) error) error {
	if !z.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer z.running.Store(false)

	checks, stopChecks := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { z.health.watch(checks, timing(z.cfg.Session).check()) })
	defer wg.Wait()
	defer stopChecks()

	for ctx.Err() == nil {
		err := z.oneSession(ctx, lead)
		if errors.Is(err, ErrDuplicateInstance) {
			z.setRole(Disconnected, err)
			z.log.Error().Err(err).Msg("instance refused")
			return err
		}
		if ctx.Err() != nil {
			break
		}
		z.metrics.sessionLosses.Inc()
		z.setRole(Disconnected, err)
		z.log.Warn().Err(err).Msg("zookeeper session lost, opening a new one")
		pause(ctx, dialPause)
	}
	z.setRole(Disconnected, errClosed)
	return nil
}

// oneSession lives through one session, from connecting to its end, and returns why it ended.
func (z *ZooKeeper) oneSession(ctx context.Context, lead Lead) error {
	s, err := openSession(z.open, timing(z.cfg.Session))
	if err != nil {
		return err
	}
	z.setSession(s)
	member := &member{z: z, s: s}
	defer func() {
		z.setSession(nil)
		s.close()
		member.wait()
	}()
	if err := z.awaitConnection(ctx, s); err != nil {
		return err
	}
	if err := member.register(ctx); err != nil {
		return err
	}
	member.follow()
	return z.standBy(ctx, s, lead)
}

// awaitConnection waits for the first handshake, for as long as it takes.
func (z *ZooKeeper) awaitConnection(ctx context.Context, s *session) error {
	remind := time.NewTicker(remindEvery)
	defer remind.Stop()
	for !s.up() {
		z.tellConnection(s)
		select {
		case <-s.news:
		case <-remind.C:
		case <-s.over:
			return s.reason()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	z.remember(s.client.SessionID())
	granted := s.timing().session()
	s.told.up = true
	z.log.Info().Dur("session", granted).Msg("zookeeper session opened")
	if granted != z.cfg.Session {
		z.log.Warn().Dur("asked", z.cfg.Session).Dur("granted", granted).
			Msg("zookeeper granted another session time-out")
	}
	return nil
}

// tellConnection logs that the connection is gone, or back, once, and again while it stays away.
func (z *ZooKeeper) tellConnection(s *session) {
	up := s.up()
	if up {
		if !s.told.up {
			s.told.up = true
			z.log.Info().Msg("zookeeper connection is back")
		}
		return
	}
	if s.reason() != nil {
		return // Run tells that
	}
	err := s.trouble()
	z.mu.Lock()
	if z.current == nil {
		z.state.Role = Disconnected
	}
	z.state.Err = err
	z.mu.Unlock()
	if s.told.up {
		s.told.up, s.told.last = false, time.Time{}
		z.log.Warn().Msg("zookeeper connection lost")
	}
	var dial *dialError
	if now := time.Now(); errors.As(err, &dial) && now.Sub(s.told.last) >= remindEvery {
		s.told.last = now
		z.log.Warn().Err(err).Strs("servers", z.cfg.Servers).Msg("zookeeper unreachable")
	}
}

// Resign ends this instance's leadership in an orderly way.
func (z *ZooKeeper) Resign(ctx context.Context, reason string) error {
	z.mu.Lock()
	l := z.current
	z.mu.Unlock()
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

// pause waits, or returns at once when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
