package election

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// soloRetry is the average pause before Solo retries after a failure.
const soloRetry = time.Second

// SoloConfig configures a single instance.
type SoloConfig struct {
	Instance string
	Address  string
	Version  string

	// Lead is called from start to end.
	Lead Lead

	// NextTerm returns 1 + the highest term that any store knows.
	NextTerm func(ctx context.Context) (uint64, error)

	// Healthy is only reported: there is no other instance to lead instead. If nil, the instance is always healthy.
	Healthy func() error
	// Tell returns what else is reported, from memory; it may be nil.
	Tell func() Told

	Log        zerolog.Logger
	Registerer prometheus.Registerer
}

// Solo is the node of a single instance and its one race, which it leads from start to end. Its leaderships have no
// lease, since no other instance can win. The caller must keep a second instance out; see LockFile.
type Solo struct {
	cfg     SoloConfig
	log     zerolog.Logger
	metrics *metrics
	began   time.Time
	running atomic.Bool

	mu sync.Mutex

	state State
	since time.Time // start of the last leadership
}

// NewSolo validates the config field by field.
func NewSolo(cfg SoloConfig) (*Solo, error) {
	if err := checkMember(cfg.Instance, cfg.Address, cfg.Version); err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	if cfg.Tell == nil {
		cfg.Tell = func() Told { return Told{} }
	}
	if cfg.Healthy == nil {
		cfg.Healthy = func() error { return nil }
	}
	newLosses(cfg.Registerer) // stays 0: there is no session to lose
	return &Solo{
		cfg:     cfg,
		metrics: newMetrics(cfg.Registerer),
		began:   time.Now(),
		state:   State{Role: Disconnected},
		log:     cfg.Log.With().Str("component", "election").Str("instance", cfg.Instance).Logger(),
	}, nil
}

// Run leads until ctx ends, waits for Lead and returns nil. After a failure it tries again after about a second, under
// a new term.
func (s *Solo) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer s.running.Store(false)
	for ctx.Err() == nil {
		err := s.leadOnce(ctx)
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

// leadOnce leads under one term until Lead has returned. Lead's context ends with ctx.
func (s *Solo) leadOnce(ctx context.Context) error {
	s.setState(State{Role: Candidate})
	term, err := s.cfg.NextTerm(ctx)
	if err != nil {
		return fmt.Errorf("next term: %w", err)
	}
	if term == 0 || term > maxTerm {
		return fmt.Errorf("next term: %d is outside 1 to %d", term, uint64(maxTerm))
	}
	under, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	since := time.Now()
	s.mu.Lock()
	s.state, s.since = State{Role: Leading, Term: term}, since.UTC()
	s.mu.Unlock()
	s.metrics.races.WithLabelValues("won").Inc()
	s.metrics.lead(term)
	s.log.Info().Uint64("term", term).Msg("leadership won")

	done := make(chan error, 1)
	go func() { done <- s.cfg.Lead(under, term) }() // awaited below, whatever happens

	why, cause := endReturned, fmt.Errorf("%w: the leader's work returned", ErrResigned)
	select {
	case <-ctx.Done():
		why, cause = endStopped, fmt.Errorf("%w: shutting down", ErrResigned)
	case err := <-done:
		if err != nil {
			cause = fmt.Errorf("%w: %w", cause, err)
		}
	}
	cancel(cause)
	s.metrics.end(why)
	s.setState(State{Role: Resigning, Term: term, Err: cause})
	s.log.Info().Str("why", string(why)).AnErr("cause", cause).Uint64("term", term).
		Dur("after", time.Since(since)).Msg("leadership ended")
	if why == endStopped {
		<-done
	}
	return cause
}

// Resign always fails, because no instance could take over.
func (s *Solo) Resign(context.Context, string) error {
	if s.State().Role != Leading {
		return ErrNotLeader
	}
	return ErrSolo
}

// Leader returns this instance while it leads.
func (s *Solo) Leader(context.Context) (Leader, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Role != Leading {
		return Leader{}, false, nil
	}
	return Leader{s.cfg.Instance, s.cfg.Address, s.state.Term, s.since}, true, nil
}

// Members returns this instance.
func (s *Solo) Members(context.Context) ([]Member, error) {
	return []Member{{
		Instance: s.cfg.Instance, Address: s.cfg.Address, Version: s.cfg.Version,
		Healthy: s.cfg.Healthy() == nil, Since: s.began.UTC(), Told: s.cfg.Tell(),
	}}, nil
}

// Gone returns none: there is one instance.
func (s *Solo) Gone(context.Context) ([]Gone, error) { return nil, nil }

// Forget refuses: no instance is gone.
func (s *Solo) Forget(context.Context, string) error { return ErrNotGone }

// State returns this instance's state.
func (s *Solo) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *Solo) setState(st State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = st
}
