package scheduler

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Config configures a Scheduler.
type Config struct {
	Timeline Timeline
	IDs      *IDs
	Clock    *Clock

	// MaxDelay is how far ahead a message may be due.
	MaxDelay time.Duration
	// EndedKeep is how long the timeline remembers an end.
	EndedKeep time.Duration
	// NamesKeep is how long after that the journal is asked about names; 0 means never. NamesSure refuses a push if the
	// journal does not answer.
	NamesKeep time.Duration
	NamesSure bool
	// Topics are the settings of topics; nil for none.
	Topics *Topics
	// DeadKeep is how long dead messages are kept, 0 for ever.
	DeadKeep time.Duration
	// CallTimeout bounds one call of the timeline.
	CallTimeout time.Duration
	// StopTimeout bounds how long Serve, at its end, waits for the timeline to take what was queued.
	StopTimeout time.Duration

	// Journal is asked before and after every answered change; nil if no journal is kept or nobody waits for it.
	Journal Journal

	// Admit is asked before a call writes to the timeline or answers from it. Its error refuses the call. nil admits all.
	Admit func() error

	// Announce informs the leader, on this or another instance, that a message due earlier than all others was
	// accepted. The announcement may be lost.
	Announce func(bucket message.Bucket, due message.Milli)
	// AnnouncePull informs other instances, on which consumers may wait, that a message of a topic is due earlier than
	// all that they know. The announcement may be lost.
	AnnouncePull func(topic string, due message.Milli)
	// AskPauses makes the leader, on this or another instance, read the pauses, and returns once nothing that is paused
	// is on its way to NATS any more. After an error that is unknown.
	AskPauses func(ctx context.Context) error
	// Backlog is the last sequence that the intake stream holds, and the time by the clock that stamps pushes, for
	// tombstones. They are 0 where there is no stream, or the time is not known.
	Backlog func(ctx context.Context) (last uint64, now time.Time, err error)
	// Passed waits, for a limited time, until the intake has accepted what it held when Passed was called. It is nil if
	// there is no intake.
	Passed func(ctx context.Context) Passage

	Log        zerolog.Logger
	Registerer prometheus.Registerer
}

// Scheduler accepts, looks up and steers messages, on any instance.
type Scheduler struct {
	cfg     Config
	log     zerolog.Logger
	metrics *metrics
	queues  *coalescer
	names   *names
	pauses  knownPauses
	polls   polls
	burials burials
}

// New checks the configuration and builds a Scheduler. Serve must run for pushes to be answered.
func New(cfg Config) (*Scheduler, error) {
	switch {
	case cfg.Timeline == nil || cfg.IDs == nil || cfg.Clock == nil:
		return nil, errors.New("scheduler: a timeline, ids and a clock are needed")
	case cfg.MaxDelay <= 0 || cfg.EndedKeep <= 0 || cfg.CallTimeout <= 0 || cfg.StopTimeout <= 0:
		return nil, errors.New("scheduler: max delay, ended keep, call and stop time-outs must be positive")
	}
	if cfg.Journal == nil {
		cfg.Journal = noJournal{}
	}
	if cfg.Admit == nil {
		cfg.Admit = func() error { return nil }
	}
	if cfg.Announce == nil {
		cfg.Announce = func(message.Bucket, message.Milli) {}
	}
	if cfg.AnnouncePull == nil {
		cfg.AnnouncePull = func(string, message.Milli) {}
	}
	if cfg.AskPauses == nil {
		cfg.AskPauses = func(context.Context) error { return errors.New("nobody to ask") }
	}
	if cfg.Backlog == nil {
		cfg.Backlog = func(context.Context) (uint64, time.Time, error) { return 0, time.Time{}, nil }
	}
	if cfg.Passed == nil {
		cfg.Passed = func(context.Context) Passage { return PassedNothing }
	}
	s := &Scheduler{cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Registerer)}
	s.queues, s.names = newCoalescer(s), newNames(s)
	s.pauses.turn = NewTurn()
	s.polls = polls{s: s, lines: map[string]*line{}, undone: map[undoing]message.Milli{}}
	return s, nil
}

// Serve flushes accepted pushes to the timeline until ctx ends; then it finishes what was queued and refuses the rest
// with ErrStopping.
func (s *Scheduler) Serve(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { s.queues.watch.run(ctx) })
	group.Go(func() { s.polls.run(ctx) })
	if s.cfg.NamesKeep > 0 {
		for i := range s.names.queues {
			group.Go(func() { s.names.run(ctx, &s.names.queues[i]) })
		}
	}
	for bucket := range s.cfg.Timeline.Buckets() {
		group.Go(func() { s.queues.flush(ctx, bucket) })
	}
	group.Wait()
	return nil
}
