package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/scheduler"
)

// Acceptor takes pushes: the scheduler.
type Acceptor interface {
	Accept(p *scheduler.Push, done func(scheduler.Accepted))
}

// IntakeConfig is what an Intake is made of.
type IntakeConfig struct {
	Conn      *nats.Conn
	Namespace string
	// Prefix is the first part of the subjects that pushes by tag are published to.
	Prefix string
	Accept Acceptor
	// Topics are the settings of topics; nil for none.
	Topics *scheduler.Topics
	Clock  *scheduler.Clock
	// Stamps knows the clock that stamps pushes. It may be nil: then its stamps are
	// believed.
	Stamps *ClockSampler

	// Replicas and MaxBytes are those of the intake stream, and of the stream of pushes
	// whose bucket does not answer; 0 bytes is no limit.
	Replicas int
	MaxBytes int64
	// Buckets is how many the scheduler has. 0 is one: then a push never steps aside.
	Buckets int
	// RejectBytes bounds the stream of rejects, and RejectsPerSubject how many of
	// one subject it holds. Defaults 64 MiB and 1,000.
	RejectBytes       int64
	RejectsPerSubject int64
	// SizeLimit bounds body and headers of a push; the server's max_payload does
	// so as well. 0 is no limit of our own.
	SizeLimit int
	// InFlight and InFlightBytes bound what this instance has taken and not
	// acknowledged. Defaults 10,000 and 64 MiB.
	InFlight      int
	InFlightBytes int64
	// AckWait is how long NATS waits for an acknowledgement before it gives a push
	// to another instance. Default 30 s.
	AckWait time.Duration

	Log        zerolog.Logger
	Registerer prometheus.Registerer
}

// Intake takes the messages that producers tagged, from a stream that keeps
// them while every instance is down, and hands them to the scheduler. A push
// is acknowledged only after the scheduler has it; one that comes again is the
// same message by its uid, which is made of its place in the stream. What
// cannot be accepted goes to the stream of rejects with the reason, and only
// then is acknowledged. What cannot be accepted now is given back to NATS for a
// while.
//
//	               ┌─ accepted, repeated ─────────────▶ ack
//	stream ─▶ push ┼─ refused ─▶ stream of rejects ───▶ ack
//	               ├─ its bucket alone is away ─▶ aside ─▶ ack
//	               └─ store away or full ─────────────▶ nak, after a pause again
//
// All instances share one durable consumer.
type Intake struct {
	cfg     IntakeConfig
	nc      *nats.Conn
	js      jetstream.JetStream
	log     zerolog.Logger
	metrics intakeMetrics

	stream, rejects string // names
	enabled         atomic.Bool
	room            *room
	acks            *ackQueue
	refused         *rejectQueue
	passing         *passing // of the intake stream
	passingAside    *passing
	aside           *aside
	ackPending      int // maxAckPending, but in tests
	trouble         trouble
	buckets         troubles // of buckets that do not answer while others do
}

// ErrIntakeRefused: a stream on the server, or a setting, stands in the way
// and will until somebody changes it. The error names it.
var ErrIntakeRefused = errors.New("the intake cannot be set up")

const (
	consumerName       = "tarry"
	defaultInFlight    = 10_000
	defaultFlightBytes = 64 << 20
	defaultAckWait     = 30 * time.Second
	defaultRejectBytes = 64 << 20
	defaultRejects     = 1000   // of one subject
	maxAckPending      = 50_000 // of all instances together
	reopenPause        = time.Second
	recheckPause       = 10 * time.Second
)

// StreamName is the intake stream of a namespace.
func StreamName(namespace string) string { return streamPrefix + namespace }

// RejectsName is the stream of rejects of a namespace.
func RejectsName(namespace string) string { return rejectsPrefix + namespace }

const (
	streamPrefix  = "TARRY_"
	rejectsPrefix = "TARRY_REJECTED_"
)

// NewIntake checks the configuration. Nothing is asked of the server yet.
func NewIntake(cfg IntakeConfig) (*Intake, error) {
	if cfg.Conn == nil || cfg.Accept == nil || cfg.Clock == nil {
		return nil, errors.New("intake: a connection, a scheduler and a clock are needed")
	}
	if cfg.Namespace == "" || cfg.Prefix == "" {
		return nil, errors.New("intake: a namespace and a prefix are needed")
	}
	cfg.Replicas = max(cfg.Replicas, 1)
	for value, fallback := range map[*int64]int64{
		&cfg.RejectBytes: defaultRejectBytes, &cfg.RejectsPerSubject: defaultRejects,
		&cfg.InFlightBytes: defaultFlightBytes, &cfg.MaxBytes: -1,
	} {
		if *value <= 0 {
			*value = fallback
		}
	}
	if cfg.InFlight <= 0 {
		cfg.InFlight = defaultInFlight
	}
	if cfg.AckWait <= 0 {
		cfg.AckWait = defaultAckWait
	}
	js, err := jetstream.New(cfg.Conn)
	if err != nil {
		return nil, fmt.Errorf("intake: %w", err)
	}
	in := &Intake{
		cfg: cfg, nc: cfg.Conn, js: js, log: cfg.Log.With().Str("component", "intake").Logger(),
		metrics: newIntakeMetrics(cfg.Registerer),
		stream:  StreamName(cfg.Namespace), rejects: RejectsName(cfg.Namespace),
		room: newRoom(cfg.InFlight, cfg.InFlightBytes), ackPending: maxAckPending,
	}
	in.acks = newAckQueue(cfg.Conn, in.room)
	in.refused = newRejectQueue(in)
	in.aside = newAside(in)
	in.passing = newPassing(func(ctx context.Context) (backlog, error) { return in.held(ctx, in.stream) })
	in.passingAside = newPassing(func(ctx context.Context) (backlog, error) { return in.held(ctx, in.aside.stream) })
	return in, nil
}

// Enabled reports whether there is an intake stream: false until Run has made
// it, and where JetStream is off.
func (in *Intake) Enabled() bool { return in.enabled.Load() }

// Backlog returns the last sequence of the intake stream, 0 where there is no
// stream.
func (in *Intake) Backlog(ctx context.Context) (uint64, error) {
	var info streamInfo
	err := apiAsk(ctx, in.nc, apiStreamInfo+in.stream, nil, &info)
	if errors.Is(err, errNoJetStream) && !in.Enabled() {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("backlog: %w", err)
	}
	return info.State.LastSeq, nil
}

// Held is how much stands in the streams of the intake.
type Held struct {
	Pushes  uint64 // not accepted yet
	Aside   uint64 // of those, the ones whose bucket does not answer
	Rejects uint64
}

// Held asks all streams. Where JetStream is off they hold nothing.
func (in *Intake) Held(ctx context.Context) (Held, error) {
	var h Held
	for stream, n := range map[string]*uint64{in.stream: &h.Pushes, in.aside.stream: &h.Aside, in.rejects: &h.Rejects} {
		b, err := in.held(ctx, stream)
		if errors.Is(err, errNoJetStream) && !in.Enabled() {
			return Held{}, nil
		} else if err != nil {
			return Held{}, fmt.Errorf("ask what %s holds: %w", stream, err)
		}
		*n = b.count
	}
	h.Pushes += h.Aside
	return h, nil
}

// Run makes the streams and takes pushes in until ctx ends. It returns early
// only when the very first set-up is refused for good (ErrIntakeRefused):
// later it keeps trying, so that a mistake on the server does not end an
// instance that works. On its way out it waits for what the scheduler has.
func (in *Intake) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx, for the acks of what is under way
	defer stop()
	group, work := errgroup.WithContext(work)
	group.Go(func() error { return in.acks.run(work) })
	group.Go(func() error { return in.refused.run(work) })
	group.Go(func() error { return in.aside.run(work) })
	serving, end := context.WithCancel(ctx)
	defer end()
	group.Go(func() error { return in.aside.serve(serving) })
	group.Go(func() error {
		defer stop()
		err := in.serve(ctx)
		end() // gives back what is held, which the drain waits for
		in.drain()
		return err
	})
	err := group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// serve opens the intake and consumes, again and again until ctx ends.
func (in *Intake) serve(ctx context.Context) error {
	opened := false
	for {
		err := in.open(ctx)
		if err == nil {
			err = in.aside.look(ctx) // before a newer push can pass what stands there
		}
		pause := reopenPause
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			opened = true
			if err = in.consume(ctx); ctx.Err() == nil {
				in.log.Warn().Err(err).Msg("intake interrupted, opening it again")
			}
		case errors.Is(err, errNoJetStream) && !opened:
			in.without()
			pause = recheckPause
		case errors.Is(err, ErrIntakeRefused) && !opened:
			return err
		case errors.Is(err, ErrIntakeRefused):
			in.log.Error().Err(err).Msg("the intake cannot be opened")
			pause = recheckPause
		default:
			if in.trouble.loud(time.Now()) {
				in.log.Warn().Err(err).Msg("the intake cannot be opened yet, retrying")
			}
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// without says what is weaker where JetStream is off.
func (in *Intake) without() {
	if in.enabled.Swap(false) || in.trouble.loud(time.Now()) {
		in.log.Warn().Str("subject", "tarry."+in.cfg.Namespace+".api.push").Msg(
			"jetstream is off: pushes are taken by request only, " +
				"and are not kept while every instance is down; a producer must wait for the answer to know")
	}
}

// drain waits for what the scheduler still has, as long as a push may wait for
// its acknowledgement; the rest is delivered again to another instance.
func (in *Intake) drain() {
	ctx, stop := context.WithTimeout(context.Background(), drainLimit)
	defer stop()
	in.room.empty(ctx)
}

const drainLimit = 5 * time.Second

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// trouble paces what is tried and said while something is away.
type trouble struct {
	mu     sync.Mutex
	spoke  time.Time
	fails  int
	pause  time.Time // nothing is handed over before
	window time.Time // further failures until then are the same one
	// forgets: nothing that failed for three times the longest pause means that it
	// worked meanwhile.
	forgets bool
}

// troubles are those of single buckets.
type troubles struct {
	mu sync.Mutex
	by map[int]*trouble
}

// of returns the trouble of a bucket. A bucket's recovery is not reported, so trouble
// that is long over starts over.
func (t *troubles) of(bucket int) *trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[int]*trouble{}
	}
	if t.by[bucket] == nil {
		t.by[bucket] = &trouble{forgets: true}
	}
	return t.by[bucket]
}

// loud reports whether it is time to log again.
func (t *trouble) loud(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.spoke) < quietFor {
		return false
	}
	t.spoke = now
	return true
}

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// failed records a push that could not be accepted now and returns how long it
// should stay away. Many pushes fail of one cause: they count once.
func (t *trouble) failed(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.After(t.window) {
		if t.forgets && now.Sub(t.window) > 3*maxPause {
			t.fails = 0
		}
		t.fails++
		t.pause = now.Add(min(firstPause<<min(t.fails-1, 10), maxPause))
		t.window = t.pause
	}
	return max(t.pause.Sub(now), 0) + firstPause
}

// worked records that pushes are accepted again.
func (t *trouble) worked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fails, t.pause, t.window = 0, time.Time{}, time.Time{}
}

// wait is how long to hold pushes back.
func (t *trouble) wait(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pause.Sub(now)
}
