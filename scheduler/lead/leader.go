package lead

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Config configures a Leader.
type Config struct {
	Timeline  scheduler.Timeline
	Publisher scheduler.Publisher
	Clock     *scheduler.Clock
	// Topics are the settings of topics; nil for none.
	Topics *scheduler.Topics
	// Journal is asked whether it is ready: ends are not forgotten while it is not. It is nil if no journal is kept.
	Journal scheduler.Journal
	// Intake returns nil while the consumer of the intake answers: ends are not forgotten while it does not, because
	// acknowledgements may be lost. It is nil without an intake.
	Intake func(ctx context.Context) error
	// EndedKeep is how long the timeline remembers an end.
	EndedKeep time.Duration
	// ClaimBatch and ClaimBytes bound one claim.
	ClaimBatch, ClaimBytes int
	// Pending limits the messages handed to NATS and not answered yet, over all buckets.
	Pending int
	// Attempts is how many permanent refusals make a message dead.
	Attempts int
	// CallTimeout bounds one call of the timeline.
	CallTimeout time.Duration
	// StopTimeout bounds how long a leader that stops waits for what is in flight.
	StopTimeout time.Duration

	// Whole returns once the leader of a term may use a bucket: its server is certified, and the bucket holds what it
	// should. It is called before the bucket is begun, and again when its server has changed. An error ends Run. Whole
	// is nil if the caller of Run takes care of that.
	Whole func(ctx context.Context, term uint64, bucket message.Bucket) error

	// Hasten tells of orders that begin earlier, since a lease was over. It may be nil where no consumer pulls.
	Hasten func(bucket message.Bucket, earlier []scheduler.Earlier)

	// Over is told of each message for pull that was over: whether its lease had lapsed, or no consumer had ever
	// leased it, and its state by now. It may be nil.
	Over func(topic string, lapsed, untried bool, now message.State)

	// Events take what happens; nil for none.
	Events *scheduler.Events

	// Admit is asked before lanes are listed, as scheduler.Config has it. nil admits all.
	Admit func() error

	Log        zerolog.Logger
	Registerer prometheus.Registerer
}

// Leader does the leader's work while its instance leads, and knows on any instance why messages are held back.
type Leader struct {
	cfg     Config
	log     zerolog.Logger
	metrics *metrics
	leading atomic.Pointer[leadership]
	// claims is the number of the last claim in each bucket. Only one Run at a time uses it.
	claims []uint64
}

// New checks the configuration.
func New(cfg Config) (*Leader, error) {
	switch {
	case cfg.Timeline == nil || cfg.Publisher == nil || cfg.Clock == nil:
		return nil, errors.New("leader: a timeline, a publisher and a clock are needed")
	case cfg.ClaimBatch < 1 || cfg.ClaimBytes < 1 || cfg.Pending < 1 || cfg.Attempts < 1:
		return nil, errors.New("leader: claim batch, claim bytes, pending and attempts must be at least 1")
	case cfg.EndedKeep <= 0 || cfg.CallTimeout <= 0 || cfg.StopTimeout <= 0:
		return nil, errors.New("leader: ended keep, call and stop time-outs must be positive")
	}
	return &Leader{cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Registerer),
		claims: make([]uint64, cfg.Timeline.Buckets())}, nil
}

// Run does the leader's work under one term. lease returns how long the leadership is still certain, which bounds every
// call. Run begins the term in every bucket, sweeps what earlier leaders had claimed, and dispatches until ctx ends. It
// then waits for the messages in flight, bounded by the stop time-out and the lease, and returns the rest. Buckets are
// independent: a bucket that does not answer, or that must be made whole because its server changed, does not block the
// others.
//
// Run returns ErrStaleTerm if a store knew a higher term, or the error of Whole. Without Whole it returns
// ErrUncertified if the store's server is not the certified one. Otherwise it returns the cause of ctx's end.
func (r *Leader) Run(ctx context.Context, term uint64, lease func() time.Duration) error {
	l := &leadership{Leader: r, term: term, lease: lease, lanes: newLaneBook(),
		holds: newHolds(r.cfg.Topics)}
	l.scanners = make([]atomic.Pointer[scanner], r.cfg.Timeline.Buckets())
	l.away, l.overs = make([]atomic.Bool, len(l.scanners)), make([]chan message.Milli, len(l.scanners))
	for bucket := range r.cfg.Timeline.Buckets() {
		l.overs[bucket] = make(chan message.Milli, 1)
		l.scanners[bucket].Store(newScanner(l, bucket))
	}
	r.leading.Store(l)
	defer r.leading.CompareAndSwap(l, nil)

	group, ctx := errgroup.WithContext(ctx)
	for bucket := range r.cfg.Timeline.Buckets() {
		group.Go(func() error { return l.keep(ctx, bucket) })
		group.Go(func() error { return l.lapse(ctx, bucket) })
	}
	group.Go(func() error { return l.poll(ctx) })
	group.Go(func() error { return every(ctx, trimPause, l.forget()) })
	group.Go(func() error { return every(ctx, pauseLook, l.watchPauses) })
	group.Go(func() error { return every(ctx, refusalLook, l.watchRefusals()) })
	err := group.Wait()
	if over(err) {
		return fmt.Errorf("lead term %d: %w", term, err)
	}
	return context.Cause(ctx)
}

// ReadPauses reports whether this instance leads. If so it reads what is paused, and returns once nothing that is
// paused is on its way to NATS any more.
func (r *Leader) ReadPauses(ctx context.Context) (leads bool, err error) {
	l := r.leading.Load()
	if l == nil {
		return false, nil
	}
	if err := l.readPauses(ctx); err != nil {
		return true, err
	}
	for bucket := range l.scanners {
		if err := l.scanners[bucket].Load().handedOver(ctx); err != nil {
			return true, err
		}
	}
	return true, nil
}

// Nudge informs a leader in this process that a bucket's head came earlier, and reports whether this instance leads.
func (r *Leader) Nudge(bucket message.Bucket, due message.Milli) (leads bool) {
	l := r.leading.Load()
	if l != nil && bucket >= 0 && bucket < r.cfg.Timeline.Buckets() {
		l.scanners[bucket].Load().inbox.nudge(due)
	}
	return l != nil
}
