package publish

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Config configures a Publisher.
type Config struct {
	// Conn may serve other parts as well. The Publisher wraps its existing error handler.
	Conn *nats.Conn
	// Namespace distinguishes the Nats-Msg-Ids of namespaces that deliver into one stream: the id is the uid, followed
	// outside of the default namespace by "@" and the namespace.
	Namespace string
	// Own are streams that are never a destination: the intake and the rejects.
	Own []string

	// Topics are the settings of topics: partitions, and whether messages may be lost without a listener. It may be
	// nil.
	Topics *scheduler.Topics

	// Timeout bounds the wait for each publish's answer. Default 2 s.
	Timeout time.Duration
	// Pending bounds the publishes without an answer. The scheduler has its own bound; publishes beyond this one are
	// NotSent. Default 65,536.
	Pending int
	// Window is how long a stream must recognize a Nats-Msg-Id so that it recognizes every retry: the session time-out
	// plus the publish time-outs. A stream with a shorter window is logged, once.
	Window time.Duration
	// Refresh is the interval between two readings of the streams. Default 5 s.
	Refresh time.Duration
	// Lease returns how long the leadership of a Send's context is still certain. If that is 0 or less, nothing is
	// sent. It may be nil.
	Lease func(context.Context) time.Duration

	Log        zerolog.Logger
	Registerer prometheus.Registerer
}

// Publisher publishes due messages on their subjects. It implements scheduler.Publisher on NATS.
type Publisher struct {
	cfg     Config
	nc      *nats.Conn
	log     zerolog.Logger
	metrics publishMetrics

	space   string // the suffix of every Nats-Msg-Id
	pending *pendings
	inbox   string // ends with a dot; a token follows
	routes  atomic.Pointer[routes]
	refresh chan struct{} // requests a new reading, capacity 1

	online atomic.Bool // the connection is up, according to its events
	deaf   atomic.Bool // the server denies the subscription to our inbox

	barriers barriers
	hidden   hidden

	// Only the reader uses these:

	warned  map[string]bool // streams whose weakness was logged
	silent  bool            // the failure to list the streams was logged
	without int             // readings in a row that found no JetStream
}

var _ scheduler.Publisher = (*Publisher)(nil)

const (
	defaultTimeout = 2 * time.Second
	defaultPending = 1 << 16
	defaultRefresh = 5 * time.Second
)

// New checks the configuration. The Publisher sends only while Run runs.
func New(cfg Config) (*Publisher, error) {
	if cfg.Conn == nil {
		return nil, errors.New("publisher: a connection is needed")
	}
	for value, fallback := range map[*time.Duration]time.Duration{&cfg.Timeout: defaultTimeout,
		&cfg.Refresh: defaultRefresh} {
		if *value <= 0 {
			*value = fallback
		}
	}
	if cfg.Pending <= 0 {
		cfg.Pending = defaultPending
	}
	p := &Publisher{
		cfg: cfg, nc: cfg.Conn, log: cfg.Log.With().Str("component", "publisher").Logger(),
		metrics: newPublishMetrics(cfg.Registerer),
		space:   msgIDSpace(cfg.Namespace), pending: newPendings(cfg.Pending, cfg.Timeout),
		inbox: cfg.Conn.NewInbox() + ".", refresh: make(chan struct{}, 1),
		barriers: barriers{timeout: cfg.Timeout}, warned: map[string]bool{},
	}
	return p, nil
}

// Ready reports whether messages can be published now: there is a connection, answers can reach us, and the streams are
// known.
func (p *Publisher) Ready() bool {
	return p.online.Load() && !p.deaf.Load() && p.routes.Load() != nil
}

// Lane returns the lane in which the message is parked: with all messages of its stream, or on core NATS with all
// messages of its subject. The partitions of a topic may lie in several streams, and on core each partition has its own
// consumer. The subject on which a message leaves therefore determines its lane.
func (p *Publisher) Lane(m *message.Message) message.Lane {
	look := topicLook{all: p.cfg.Topics}
	subject, _ := look.of(m)
	if r := p.routes.Load(); r != nil {
		if to := p.route(r, subject); to != nil {
			return to.lane
		}
	}
	return message.LaneCore.Lane(subject)
}

// Run keeps the Publisher alive until ctx ends: it receives answers, reads the streams and times out pending publishes.
// Before it returns it resolves those that are still open.
func (p *Publisher) Run(ctx context.Context) error {
	previous := p.nc.ErrorHandler()
	p.nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		p.asyncError(err)
		if previous != nil {
			previous(nc, sub, err)
		}
	})
	defer p.nc.SetErrorHandler(previous)
	p.barriers.start(p.nc.LastError())

	status := p.nc.StatusChanged()
	defer p.nc.RemoveStatusListener(status)
	sub, err := p.nc.Subscribe(p.inbox+"*", p.reply)
	if err != nil {
		return fmt.Errorf("publisher: listen for answers: %w", err)
	}
	defer link.Unsubscribe(sub)
	if err := sub.SetPendingLimits(-1, -1); err != nil { // bounded by Pending; a dropped ack would be a lost answer
		return fmt.Errorf("publisher: listen for answers: %w", err)
	}
	events, err := p.nc.Subscribe(link.Advisories, func(*nats.Msg) {
		p.hidden.doubt()
		p.wish()
	})
	if err != nil {
		return fmt.Errorf("publisher: listen for changes of streams: %w", err)
	}
	defer link.Unsubscribe(events)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.watch(ctx, status) })
	group.Go(func() error { return p.sweep(ctx) })
	group.Go(func() error { return p.readStreams(ctx) })
	err = group.Wait()
	p.online.Store(false)
	p.resolve(p.pending.takeWhere(func(*entry) bool { return true }),
		scheduler.Outcome{Kind: scheduler.Unknown, Err: errStopped})
	return err
}

// watch follows the connection. When it is lost, every open publish has an unknown outcome: the answers were addressed
// to a connection that is gone.
func (p *Publisher) watch(ctx context.Context, status <-chan nats.Status) error {
	if p.nc.IsConnected() {
		p.connected()
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case s := <-status:
			switch s {
			case nats.CONNECTED:
				p.connected()
			case nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED:
				p.online.Store(false)
				p.barriers.forget()
				p.resolve(p.pending.takeWhere(func(*entry) bool { return true }),
					scheduler.Outcome{Kind: scheduler.Unknown, Err: errDisconnected})
			}
		}
	}
}

func (p *Publisher) connected() {
	p.deaf.Store(false)
	p.online.Store(true)
	p.wish()
}

// sweep ends publishes that wait longer than the publish time-out.
func (p *Publisher) sweep(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		taken, heard, next := p.pending.overdue(now)
		if len(taken) > 0 {
			p.unanswered(taken, now)
			p.resolve(taken, scheduler.Outcome{Kind: scheduler.Unknown, Err: errNoAnswer})
			p.wish() // the stream may be gone
		}
		for i := range heard {
			p.hidden.foundCore(heard[i].subject, now)
		}
		p.resolve(heard, scheduler.Outcome{Kind: scheduler.Delivered})
		var due <-chan time.Time
		if next > 0 {
			timer.Reset(next)
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-due:
		case <-p.pending.kick:
		}
	}
}

// unanswered updates hidden from publishes that had no answer in time, or only an answer from another stream than the
// expected one.
func (p *Publisher) unanswered(taken []entry, now time.Time) {
	for i := range taken {
		switch e := &taken[i]; {
		case e.other != nil:
			p.hidden.answered(e.subject, *e.other, now)
		case e.to != nil && e.to.hidden:
			p.hidden.silent(e.subject, now)
		}
	}
}

// resolve reports the outcome of entries that were taken out.
func (p *Publisher) resolve(taken []entry, outcome scheduler.Outcome) {
	for i := range taken {
		if taken[i].message != nil {
			p.metrics.outcomes[outcome.Kind].Inc()
			taken[i].done(taken[i].message, outcome)
		}
	}
}

// The errors of outcomes for which the server has no error of its own.
var (
	errNoAnswer     = errors.New("no answer within the publish time-out")
	errDisconnected = errors.New("the connection was lost before the answer")
	errStopped      = errors.New("the publisher stopped before the answer")
	errNotReady     = errors.New("nats is not connected, or its streams are not known yet")
	errNoLease      = errors.New("the leadership has no time left")
	errTableFull    = errors.New("too many publishes without an answer")
	errNobody       = errors.New("nobody listens on the subject")
	errUnsure       = errors.New("a stream that may hold the subject does not answer")
)

// publishMetrics counts outcomes by kind; nothing is labeled by subject.
type publishMetrics struct {
	outcomes [scheduler.Unknown + 1]prometheus.Counter
	streams  prometheus.Gauge
}

func newPublishMetrics(reg prometheus.Registerer) publishMetrics {
	auto := promauto.With(reg)
	vec := auto.NewCounterVec(prometheus.CounterOpts{Name: "tarry_publishes_total",
		Help: "Publishes to NATS by outcome; every attempt counts."}, []string{"outcome"})
	m := publishMetrics{streams: auto.NewGauge(prometheus.GaugeOpts{Name: "tarry_streams",
		Help: "Streams that messages can be delivered to."})}
	for kind, word := range [...]string{"delivered", "not_sent", "unanswered", "no_listener", "refused", "unknown"} {
		m.outcomes[kind] = vec.WithLabelValues(word)
	}
	return m
}
