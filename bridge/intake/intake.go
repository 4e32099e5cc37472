package intake

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
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/rejects"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Acceptor accepts pushes; the scheduler implements it.
type Acceptor interface {
	Accept(p *scheduler.Push, done func(scheduler.Accepted))
}

// Config configures an Intake.
type Config struct {
	Conn      *nats.Conn
	Namespace string
	// Prefix is the first part of the subjects to which pushes by tag are published.
	Prefix string
	Accept Acceptor
	// Reject records in the journal a push that is not accepted. If nil, there is no journal.
	Reject func(context.Context, *scheduler.Rejected) error
	// Topics are the settings of topics; nil for none.
	Topics *scheduler.Topics
	Clock  *scheduler.Clock
	// Events take what happens; nil for none.
	Events *scheduler.Events
	// Stamps samples the clock that timestamps pushes. If nil, the timestamps are trusted.
	Stamps *ClockSampler

	// Contents reports what the intake holds to parts that were built before it. Default: one of its own.
	Contents *Contents

	// Replicas and MaxBytes are the settings of the intake stream, and of the stream of pushes whose bucket does not
	// answer; 0 bytes is no limit.
	Replicas int
	MaxBytes int64
	// Buckets is the scheduler's number of buckets. 0 means one: then a push never steps aside.
	Buckets message.Bucket
	// RejectBytes bounds the stream of rejects, and RejectsPerSubject the number of rejects of one subject. Defaults 64
	// MiB and 1,000.
	RejectBytes       int64
	RejectsPerSubject int64
	// SizeLimit bounds body and headers of a push, in addition to the server's max_payload. 0 is no additional limit.
	SizeLimit int
	// AckWait is how long NATS waits for an acknowledgement, or for word that a push is worked on, before it delivers the
	// push to another instance. Default 2.5 s.
	AckWait time.Duration

	Log        zerolog.Logger
	Registerer prometheus.Registerer
}

// Intake receives pushes by tag. See the package comment.
type Intake struct {
	*Contents
	cfg     Config
	js      jetstream.JetStream
	log     zerolog.Logger
	metrics intakeMetrics

	rejects    *rejects.Writer
	room       *link.Room
	acks       *link.Queue[ack]
	working    working
	refused    *link.Queue[arrival]
	said       rejectLog
	aside      *aside
	ackPending int // maxAckPending, except in tests
	// created is when the present life of the stream began, in Unix nanoseconds: when its consumer was created. A stream
	// that is made anew loses its consumer, and that of a stream which came back shorter is made anew (watch).
	created atomic.Int64
	changed chan struct{} // whether pushes can be accepted
	trouble trouble
	buckets troubles // the buckets that do not answer while others do
}

// ErrRefused reports that a stream on the server, or a setting, prevents the intake until an operator changes it.
// The error names it.
var ErrRefused = errors.New("the intake cannot be set up")

const (
	consumerName = "tarry"
	// inFlight and inFlightBytes bound the pushes that this instance has received and not acknowledged.
	inFlight           = 10_000
	inFlightBytes      = 64 << 20
	defaultAckWait     = 2500 * time.Millisecond
	defaultRejectBytes = 64 << 20
	defaultRejects     = 1000   // of one subject
	maxAckPending      = 50_000 // of all instances together
	reopenPause        = time.Second
	recheckPause       = 10 * time.Second
)

// New checks the configuration. It does not contact the server yet.
func New(cfg Config) (*Intake, error) {
	if cfg.Conn == nil || cfg.Accept == nil || cfg.Clock == nil {
		return nil, errors.New("intake: a connection, a scheduler and a clock are needed")
	}
	if cfg.Namespace == "" || cfg.Prefix == "" {
		return nil, errors.New("intake: a namespace and a prefix are needed")
	}
	cfg.Replicas = max(cfg.Replicas, 1)
	for value, fallback := range map[*int64]int64{
		&cfg.RejectBytes: defaultRejectBytes, &cfg.RejectsPerSubject: defaultRejects, &cfg.MaxBytes: -1,
	} {
		if *value <= 0 {
			*value = fallback
		}
	}
	if cfg.AckWait <= 0 {
		cfg.AckWait = defaultAckWait
	}
	if cfg.Contents == nil {
		cfg.Contents = NewContents(cfg.Conn, cfg.Namespace)
	}
	js, err := jetstream.New(cfg.Conn)
	if err != nil {
		return nil, fmt.Errorf("intake: %w", err)
	}
	in := &Intake{
		Contents: cfg.Contents, cfg: cfg, js: js, log: cfg.Log.With().Str("component", "intake").Logger(),
		metrics: newIntakeMetrics(cfg.Registerer),
		room:    link.NewRoom(inFlight, inFlightBytes), ackPending: maxAckPending, changed: make(chan struct{}, 1),
	}
	in.acks, in.refused, in.said = link.NewQueue[ack](1), link.NewQueue[arrival](rejectWorkers), rejectLog{log: in.log}
	dropping := rejectLog{log: in.log}
	in.rejects, err = rejects.NewWriter(rejects.WriterConfig{Conn: cfg.Conn, Namespace: cfg.Namespace,
		Prefix: cfg.Prefix, Topics: cfg.Topics, Bytes: cfg.RejectBytes, PerSubject: cfg.RejectsPerSubject,
		Dropped: func(subject string, n int) {
			in.metrics.dropped.Add(float64(n))
			dropping.dropped(subject, n)
		}})
	if err != nil {
		return nil, fmt.Errorf("intake: %w", err)
	}
	in.aside = newAside(in)
	return in, nil
}

// Run creates the streams and receives pushes until ctx ends. It returns early only if the very first set-up is
// permanently refused (ErrRefused). Later it keeps trying, so that a mistake on the server does not end a working
// instance. Before it returns it waits for the pushes that the scheduler has.
func (in *Intake) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx, for the acks of pushes in progress
	defer stop()
	group, work := errgroup.WithContext(work)
	for _, part := range []func(){
		func() { in.acks.Publish(work, in.nc, in.acknowledge) },
		func() { in.storeRejects(work) },
		func() { in.aside.run(work) },
	} {
		group.Go(func() error { part(); return nil })
	}
	serving, end := context.WithCancel(ctx)
	defer end()
	group.Go(func() error { return in.aside.serve(serving) })
	group.Go(func() error {
		defer stop()
		err := in.serve(ctx)
		end() // returns the held pushes, for which the drain waits
		in.drain()
		return err
	})
	err := group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// serve opens the intake and consumes, repeatedly until ctx ends.
func (in *Intake) serve(ctx context.Context) error {
	opened := false
	for {
		err := in.open(ctx)
		if err == nil {
			err = in.aside.look(ctx) // before a newer push can overtake one that was put aside
		}
		pause := reopenPause
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			opened = true
			if err = in.receive(ctx); ctx.Err() == nil {
				in.log.Warn().Err(err).Msg("intake interrupted, opening it again")
			}
		case errors.Is(err, link.ErrNoJetStream) && !opened:
			in.without()
			pause = recheckPause
		case errors.Is(err, ErrRefused) && !opened:
			return err
		case errors.Is(err, ErrRefused):
			in.log.Error().Err(err).Msg("the intake cannot be opened")
			pause = recheckPause
		default:
			if in.trouble.loud(time.Now()) {
				in.log.Warn().Err(err).Msg("the intake cannot be opened yet, retrying")
			}
		}
		if err := scheduler.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// without records that there is no intake stream, and logs what that means for pushes.
func (in *Intake) without() {
	if in.enabled.Swap(false) || in.trouble.loud(time.Now()) {
		in.log.Warn().Str("subject", "tarry."+in.cfg.Namespace+".api.push").Msg(
			"jetstream is off: pushes are accepted by request only, " +
				"and are not kept while every instance is down; a producer must wait for the answer")
	}
}

// drain waits up to drainLimit for the pushes that the scheduler still has. NATS redelivers the rest to another
// instance.
func (in *Intake) drain() {
	ctx, stop := context.WithTimeout(context.Background(), drainLimit)
	defer stop()
	in.room.Empty(ctx)
}

const drainLimit = 5 * time.Second

// trouble paces retries and log lines during an outage.
type trouble struct {
	mu     sync.Mutex
	spoke  time.Time
	fails  int
	pause  time.Time // no push is handed over before this time
	window time.Time // further failures until then count as the same one
	// forgets means that after three times the longest pause without a failure the outage counts as over.
	forgets bool
}

// troubles holds the trouble of single buckets.
type troubles struct {
	mu sync.Mutex
	by map[message.Bucket]*trouble
}

// of returns the trouble of a bucket. A bucket's recovery is not reported, so trouble that is long over starts afresh.
func (t *troubles) of(bucket message.Bucket) *trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[message.Bucket]*trouble{}
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
	if now.Sub(t.spoke) < link.QuietFor {
		return false
	}
	t.spoke = now
	return true
}

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// failed records a push that could not be accepted now and returns the delay of its redelivery. Many pushes fail for
// one cause; they count once.
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

// worked records that a push was accepted again.
func (t *trouble) worked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fails, t.pause, t.window = 0, time.Time{}, time.Time{}
}

// lasts reports whether a push could not be accepted, and none was since.
func (t *trouble) lasts() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fails > 0
}

// wait returns how long to hold pushes back.
func (t *trouble) wait(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pause.Sub(now)
}

// intakeMetrics count the pushes by tag by outcome.
type intakeMetrics struct {
	accepted, merged, repeated, retried, aside prometheus.Counter
	rejected                                   *prometheus.CounterVec
	renewed, dropped                           prometheus.Counter
}

func newIntakeMetrics(reg prometheus.Registerer) intakeMetrics {
	auto := promauto.With(reg)
	vec := auto.NewCounterVec(prometheus.CounterOpts{Name: "tarry_intake_pushes_total",
		Help: "Pushes by tag: accepted, merged (into a waiting message), repeated (seen before), retried (returned " +
			"to NATS for a while), " +
			"or aside (their bucket does not answer)."}, []string{"outcome"})
	m := intakeMetrics{
		accepted: vec.WithLabelValues("accepted"), merged: vec.WithLabelValues("merged"),
		repeated: vec.WithLabelValues("repeated"), retried: vec.WithLabelValues("retried"),
		aside: vec.WithLabelValues("aside"),
		rejected: auto.NewCounterVec(prometheus.CounterOpts{Name: "tarry_intake_rejected_total",
			Help: "Pushes by tag that were moved to the stream of rejects, by reason."}, []string{"reason"}),
		dropped: auto.NewCounter(prometheus.CounterOpts{Name: "tarry_rejects_dropped_total",
			Help: "Rejects that made room for newer ones in the stream of rejects. With a journal they are there."}),
		renewed: auto.NewCounter(prometheus.CounterOpts{Name: "tarry_intake_consumer_renewed_total",
			Help: "How often the intake's consumer was recreated because NATS returned with a stream that is " +
				"older than it."}),
	}
	return m
}

// count counts a push that was accepted.
func (m *intakeMetrics) count(a scheduler.Accepted) {
	switch {
	case a.Duplicate:
		m.repeated.Inc()
	case a.Merged:
		m.merged.Inc()
	default:
		m.accepted.Inc()
	}
}
