package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/scheduler"
)

// PublisherConfig is what a Publisher is made of.
type PublisherConfig struct {
	// Conn may serve other parts as well. The Publisher puts its error handler in
	// front of the existing one.
	Conn *nats.Conn
	// Namespace keeps the Nats-Msg-Ids of namespaces apart that deliver into one
	// stream: it is the uid, and outside of the default namespace "@" and its name.
	Namespace string
	// Own are streams that are never a destination: the intake and the rejects.
	Own []string

	// Topics are the settings of topics: partitions, and what is lost where nobody
	// listens. It may be nil.
	Topics *scheduler.Topics

	// Timeout bounds the wait for each publish's answer. Default 2 s.
	Timeout time.Duration
	// Pending bounds the publishes without an answer. The scheduler keeps to a
	// bound of its own; what exceeds this one is NotSent. Default 65,536.
	Pending int
	// Window is how long a stream must recognize a Nats-Msg-Id for every retry to
	// be recognized: the session time-out plus the publish time-outs. A stream with
	// a shorter one is logged, once.
	Window time.Duration
	// Refresh is the time between two readings of the streams. Default 5 s.
	Refresh time.Duration
	// Lease is how long this instance may still act as leader; with 0 or less left
	// nothing is sent. It may be nil.
	Lease func() time.Duration
	// OnReady is called each time Ready turns true. It must not block. It may be nil.
	OnReady func()

	Log        zerolog.Logger
	Registerer prometheus.Registerer
}

// Publisher puts due messages on their subjects: scheduler.Publisher on NATS.
type Publisher struct {
	cfg     PublisherConfig
	nc      *nats.Conn
	log     zerolog.Logger
	metrics publishMetrics

	space   string // what ends every Nats-Msg-Id
	pending *pendings
	inbox   string // ends with a dot; a token follows
	routes  atomic.Pointer[routes]
	refresh chan struct{} // a wish for a new reading, capacity 1

	online atomic.Bool // between the events of the connection
	deaf   atomic.Bool // the server does not let us listen on our inbox
	ready  atomic.Bool // what OnReady was last told

	barriers barriers
	hidden   hidden

	mu     sync.Mutex
	warned map[string]bool // streams whose duplicate window was told of
	silent bool            // the list of streams is not answered, and that was logged

	without int // readings in a row that said that there is no JetStream; the reader's own
}

var _ scheduler.Publisher = (*Publisher)(nil)

const (
	defaultTimeout = 2 * time.Second
	defaultPending = 1 << 16
	defaultRefresh = 5 * time.Second
)

// NewPublisher checks the configuration. Run must run for anything to be sent.
func NewPublisher(cfg PublisherConfig) (*Publisher, error) {
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

// Ready reports whether messages can be handed over now: there is a connection,
// answers can reach us, and the streams are known.
func (p *Publisher) Ready() bool {
	return p.online.Load() && !p.deaf.Load() && p.routes.Load() != nil
}

// Lane is where the message is parked: with all that its stream holds, or on
// core NATS with all on its subject. The partitions of a topic may lie in
// several streams, and on core each has a consumer of its own, so each message
// goes by the subject it leaves on.
func (p *Publisher) Lane(m *scheduler.Message) string {
	look := topicLook{all: p.cfg.Topics}
	subject, _ := look.of(m)
	if r := p.routes.Load(); r != nil {
		if to := p.route(r, subject); to != nil {
			return to.lane
		}
	}
	return "core:" + subject
}

// Run keeps the Publisher alive until ctx ends: it listens for answers, reads
// the streams and ends what waits too long. On its way out it resolves what is
// still open.
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
	defer unsubscribe(sub)
	if err := sub.SetPendingLimits(-1, -1); err != nil { // bounded by Pending; a dropped ack would be a lost answer
		return fmt.Errorf("publisher: listen for answers: %w", err)
	}
	events, err := p.nc.Subscribe(advisories, func(*nats.Msg) {
		p.hidden.doubt()
		p.wish()
	})
	if err != nil {
		return fmt.Errorf("publisher: listen for changes of streams: %w", err)
	}
	defer unsubscribe(events)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.watch(ctx, status) })
	group.Go(func() error { return p.sweep(ctx) })
	group.Go(func() error { return p.readStreams(ctx) })
	err = group.Wait()
	p.online.Store(false)
	p.told()
	p.resolve(p.pending.takeWhere(func(*entry) bool { return true }),
		scheduler.Outcome{Kind: scheduler.Unknown, Err: errStopped})
	return err
}

// unsubscribe ends a subscription; on a closed connection there is none left.
func unsubscribe(sub *nats.Subscription) { _ = sub.Unsubscribe() }

// watch follows the connection. The moment it is lost every open publish is of
// unknown outcome: the answers were bound for a connection that is gone.
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
				p.told()
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
	p.told()
}

// told calls OnReady when Ready has turned true.
func (p *Publisher) told() {
	now := p.Ready()
	if p.ready.Swap(now) != now && now && p.cfg.OnReady != nil {
		p.cfg.OnReady()
	}
}

// sweep ends what waits longer than the publish time-out.
func (p *Publisher) sweep(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		taken, heard, next := p.pending.overdue(now)
		if len(taken) > 0 {
			p.unanswered(taken, now)
			p.resolve(taken, scheduler.Outcome{Kind: scheduler.Unknown, Err: errNoAnswer})
			p.wish() // a stream that is gone does not answer
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

// unanswered learns from publishes that had no answer in time, or only the answer of a
// stream that another one's subject leads to.
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

// resolve gives entries that were taken out their outcome.
func (p *Publisher) resolve(taken []entry, outcome scheduler.Outcome) {
	for i := range taken {
		if taken[i].message != nil {
			p.metrics.count(outcome.Kind, 1)
			taken[i].done(taken[i].message, outcome)
		}
	}
}

// What an outcome that no server has a word for says.
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
