package scheduler

import (
	"context"
	"errors"
	"fmt"
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

	// Events take what happens; nil for none.
	Events     *Events
	Log        zerolog.Logger
	Registerer prometheus.Registerer
}

// Core is what the rooms of an instance share: accept, pull and steer.
type Core struct {
	Config
	Watch *Watch
}

// NewCore checks the configuration and sets what it leaves out.
func NewCore(cfg Config) (*Core, error) {
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
	return &Core{Config: cfg, Watch: newWatch(&cfg)}, nil
}

// Of returns the bucket of a uid.
func (c *Core) Of(uid message.UID) message.Bucket { return uid.Bucket(c.Timeline.Buckets()) }

// AwaitJournal returns once the journal holds the changes, and reports whether it refused a content.
func (c *Core) AwaitJournal(ctx context.Context, changes []Recorded) (bare bool, err error) {
	if len(changes) == 0 {
		return false, nil
	}
	if err := c.Journal.Await(ctx, changes, func(_ int, b bool) { bare = bare || b }); err != nil {
		return false, fmt.Errorf("wait for the journal: %w: %w", ErrOutcomeUnknown, err)
	}
	return bare, nil
}

// CheckDue returns an error for a due time beyond the limit.
func (c *Core) CheckDue(due message.Milli, now time.Time) error {
	if limit := message.CeilMilli(now.Add(c.MaxDelay)); due > limit {
		return fmt.Errorf("%w: due %s, and the limit is %d days from now", ErrTooFar,
			due.Time().Format("2006-01-02T15:04:05.000Z07:00"), c.MaxDelay/(24*time.Hour))
	}
	return nil
}
