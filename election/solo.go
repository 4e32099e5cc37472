package election

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// soloRetry is the pause, on average, before Solo tries again what failed.
const soloRetry = time.Second

// Guard makes a second Solo refuse to start. Acquire returns with the guard, or with an error that Is ErrHeld and
// names the holder, or with another one, which is tried again. lost is closed when the guard is gone while it
// was held; nil means that it cannot be. release is called once, after lead has returned.
type Guard interface {
	Acquire(ctx context.Context) (release func(), lost <-chan struct{}, err error)
}

// SoloConfig is what an elector of one instance needs.
type SoloConfig struct {
	Instance string
	Address  string
	Version  string

	// Guard keeps a second instance out. Nil: nothing is shared, as with a store in memory.
	Guard Guard

	// NextTerm is 1 + the highest term that any store knows.
	NextTerm func(ctx context.Context) (uint64, error)

	// Healthy is only shown to others: there is nobody to lead instead. Nil: always healthy.
	Healthy func() error

	Log        zerolog.Logger
	Registerer prometheus.Registerer
}

// Solo leads from start to end: the elector of a single instance.
type Solo struct {
	cfg     SoloConfig
	log     zerolog.Logger
	metrics *metrics
	began   time.Time
	running atomic.Bool

	mu sync.Mutex

	state  State
	leader Leader
}

var _ Elector = (*Solo)(nil)

// NewSolo checks the config by field.
func NewSolo(cfg SoloConfig) (*Solo, error) {
	if err := checkMember(cfg.Instance, cfg.Address, cfg.Version); err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	if cfg.NextTerm == nil {
		return nil, errors.New("election: next term: a function is needed")
	}
	if cfg.Healthy == nil {
		cfg.Healthy = func() error { return nil }
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	return &Solo{
		cfg:     cfg,
		metrics: m,
		began:   time.Now(),
		state:   State{Role: Disconnected},
		log:     cfg.Log.With().Str("component", "election").Str("instance", cfg.Instance).Logger(),
	}, nil
}

// Run leads until ctx ends. A guard that another process holds ends it with ErrHeld; what fails otherwise is
// tried again about once a second, under a new term.
func (s *Solo) Run(ctx context.Context, lead func(ctx context.Context, term uint64) error) error {
	if !s.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer s.running.Store(false)
	for ctx.Err() == nil {
		err := s.hold(ctx, lead)
		if errors.Is(err, ErrHeld) {
			s.setState(State{Role: Disconnected, Err: err})
			s.log.Error().Err(err).Msg("instance refused")
			return err
		}
		if ctx.Err() != nil {
			break
		}
		s.setState(State{Role: Disconnected, Err: err})
		s.log.Warn().Err(err).Msg("not leading, trying again")
		pause(ctx, soloRetry/2+rand.N(soloRetry))
	}
	s.setState(State{Role: Disconnected, Err: context.Cause(ctx)})
	return nil
}

// hold takes the guard, leads under one term, and gives the guard back.
func (s *Solo) hold(ctx context.Context, lead Lead) error {
	release, lost := func() {}, (<-chan struct{})(nil)
	if s.cfg.Guard != nil {
		var err error
		if release, lost, err = s.cfg.Guard.Acquire(ctx); err != nil {
			return fmt.Errorf("guard: %w", err)
		}
	}
	defer release()
	s.setState(State{Role: Candidate})
	term, err := s.cfg.NextTerm(ctx)
	if err != nil {
		return fmt.Errorf("next term: %w", err)
	}
	if term == 0 || term > maxTerm {
		return fmt.Errorf("next term: %d is outside 1 to %d", term, uint64(maxTerm))
	}
	return s.reign(ctx, lead, term, lost)
}

// reign runs lead until it returns. Its context ends first when the guard is lost or ctx ends.
func (s *Solo) reign(ctx context.Context, lead Lead, term uint64, lost <-chan struct{}) error {
	under, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	since := time.Now()
	s.mu.Lock()
	s.state = State{Role: Leading, Term: term}
	s.leader = Leader{Instance: s.cfg.Instance, Address: s.cfg.Address, Term: term, Since: since.UTC()}
	s.mu.Unlock()
	s.metrics.races.WithLabelValues("won").Inc()
	s.metrics.lead(term)
	s.log.Info().Uint64("term", term).Msg("leadership won")

	done := make(chan error, 1)
	go func() { done <- lead(under, term) }() // awaited below, whatever happens

	why, cause := endReturned, error(nil)
	var result error
	select {
	case <-ctx.Done():
		why, cause = endStopped, fmt.Errorf("%w: shutting down", ErrResigned)
	case <-lost:
		s.metrics.sessionLosses.Inc()
		why, cause = endExpired, fmt.Errorf("%w: the guard is gone", ErrLost)
	case result = <-done:
		cause = fmt.Errorf("%w: the leader's work returned", ErrResigned)
		if result != nil {
			cause = fmt.Errorf("%w: %w", cause, result)
		}
	}
	cancel(cause)
	s.metrics.end(why)
	s.setState(State{Role: Resigning, Term: term, Err: cause})
	s.log.Info().Str("why", string(why)).AnErr("cause", cause).Uint64("term", term).
		Dur("after", time.Since(since)).Msg("leadership ended")
	if why != endReturned {
		<-done
	}
	return cause
}

// Resign refuses: nobody could take over.
func (s *Solo) Resign(context.Context, string) error {
	if s.State().Role != Leading {
		return ErrNotLeader
	}
	return ErrSolo
}

// Leader is this instance, while it leads.
func (s *Solo) Leader(context.Context) (Leader, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader, s.state.Role == Leading, nil
}

// Members is this instance.
func (s *Solo) Members(context.Context) ([]Member, error) {
	return []Member{{
		Instance: s.cfg.Instance, Address: s.cfg.Address, Version: s.cfg.Version,
		Healthy: s.cfg.Healthy() == nil, Since: s.began.UTC(),
	}}, nil
}

// State returns where this instance stands.
func (s *Solo) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *Solo) setState(st State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = st
	if st.Role != Leading && st.Role != Resigning {
		s.leader = Leader{}
	}
}
