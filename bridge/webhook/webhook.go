package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Source is the part of the scheduler from which webhooks pull.
type Source interface {
	Upcoming(ctx context.Context, within time.Duration, tell func(topic string)) error
	Await(ctx context.Context, topic string, within time.Duration) bool
	Pull(ctx context.Context, p scheduler.Poll) ([]scheduler.PulledMessage, error)
	Settle(ctx context.Context, orders []scheduler.Settlement) ([]scheduler.Settled, []error)
	Failing(ctx context.Context, target string, failed bool, within time.Duration) (since time.Time, err error)
	Pause(ctx context.Context, pattern, by string) (inEffect bool, err error)
}

// Config configures a Service.
type Config struct {
	Source            Source
	Topics            *scheduler.Topics
	Clock             *scheduler.Clock
	Instance, Version string
	// Own are this process's listeners, which no target may be.
	Own []net.Addr
	// Transport sends the requests if it is set, and judges no address.
	Transport http.RoundTripper
	// Events take what happens; nil for none.
	Events *scheduler.Events
	// Drain is how long Run waits for answers once it stops.
	Drain      time.Duration
	Log        zerolog.Logger
	Registerer prometheus.Registerer
}

// Service posts what is ready. Use says to where.
type Service struct {
	cfg     Config
	client  atomic.Pointer[http.Client]
	targets atomic.Pointer[map[string]*target] // by pattern
	heard   chan string
	look    chan struct{} // capacity 1: list the topics now
	work    sync.WaitGroup
	posts   *prometheus.CounterVec
	seconds prometheus.Histogram
}

const (
	// soon is how far ahead a topic gets a goroutine, and lookEvery how often topics are listed. An announcement that is
	// lost costs at most that time.
	soon      = 10 * time.Second
	lookEvery = 5 * time.Second
	// heardMost bounds what was heard and not yet looked at; the rest waits for the next list. placesMost bounds the
	// topics that have a goroutine, and placesLeast is what each target may have in any case.
	heardMost   = 4096
	placesMost  = 10_000
	placesLeast = 100
	// queuedMost bounds the topics of a target that wait for a place. The rest waits for the next list.
	queuedMost = 10_000
	// pullRest is the pause after a pull that failed.
	pullRest = 250 * time.Millisecond
	// pullBytes bounds the bodies of one pull, and so of one batch.
	pullBytes = 1 << 20
)

// New builds a Service without targets.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, heard: make(chan string, heardMost),
		look: make(chan struct{}, 1),
		posts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tarry_webhook_posts_total",
			Help: "Requests to webhooks' targets, by pattern of topics and outcome: delivered, failed, gone."},
			[]string{"pattern", "outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tarry_webhook_seconds",
			Help:    "How long webhooks' targets took to answer, in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.002, 3, 10)}),
	}
	cfg.Registerer.MustRegister(s.posts, s.seconds)
	s.client.Store(s.newClient(nil))
	s.targets.Store(&map[string]*target{})
	return s
}

// Use replaces all targets, and the networks that they may be in although they are not public. A target that stays as
// it is keeps what it knows of its requests.
func (s *Service) Use(all []Target, allow []netip.Prefix) error {
	next, err := build(all, *s.targets.Load())
	if err != nil {
		return err
	}
	// Before the targets that need it. Connections to what is no more allowed end with the client that made them.
	s.client.Swap(s.newClient(allow)).CloseIdleConnections()
	for _, t := range next {
		t.closed.Store(0)
	}
	s.targets.Store(&next)
	s.Heard("", 0)
	return nil
}

// Check returns what Use would refuse.
func Check(all []Target) error {
	_, err := build(all, nil)
	return err
}

// build returns the targets by pattern, those of before where they are the same.
func build(all []Target, before map[string]*target) (map[string]*target, error) {
	next := make(map[string]*target, len(all))
	for _, one := range all {
		t := before[one.Pattern]
		if t == nil || !reflect.DeepEqual(t.Target, one) {
			fresh, err := newTarget(one)
			if err != nil {
				return nil, fmt.Errorf("webhook of %s: %w", one.Pattern, err)
			}
			if fresh.line = new(line); t != nil {
				fresh.line = t.line
			}
			t = fresh
		}
		next[one.Pattern] = t
	}
	return next, nil
}

// of returns the target of a topic, or nil.
func (s *Service) of(topic string) *target {
	targets := *s.targets.Load()
	if len(targets) == 0 {
		return nil
	}
	if t := s.cfg.Topics.Of(topic); t != nil && t.Webhook {
		return targets[t.Pattern]
	}
	return nil
}

// Heard tells that a message of a topic is due earlier than was known; without a topic, that any may be.
func (s *Service) Heard(topic string, due message.Milli) {
	switch {
	case topic == "":
		scheduler.Signal(s.look)
	case s.of(topic) != nil && due.Time().Before(s.cfg.Clock.Now().Add(soon)):
		select {
		case s.heard <- topic:
		default:
		}
	}
}

// Run posts until ctx ends. Then it waits for the answers that are under way; what was not begun goes back.
func (s *Service) Run(ctx context.Context) error {
	posting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	ended := make(chan string)
	p := places{of: s.of, most: placesMost, least: placesLeast, topics: map[string]*line{}}
	p.run = func(topic string) {
		s.work.Go(func() {
			s.consume(ctx, posting, topic)
			select {
			case ended <- topic:
			case <-ctx.Done():
			}
		})
	}
	s.work.Go(func() { s.list(ctx) })
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case topic := <-s.heard:
			p.begin(topic)
		case topic := <-ended:
			p.end(topic)
		}
	}
	defer time.AfterFunc(s.cfg.Drain, func() { cancel(errStopping) }).Stop()
	s.work.Wait()
	return nil
}

// list tells the topics that have something due soon, from time to time, until ctx ends. A store that answers slowly
// holds up nothing else.
func (s *Service) list(ctx context.Context) {
	tick := time.Tick(lookEvery)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.look:
		case <-tick:
		}
		if len(*s.targets.Load()) == 0 || ctx.Err() != nil {
			continue
		}
		err := s.cfg.Source.Upcoming(ctx, soon, func(topic string) {
			if s.of(topic) != nil {
				select {
				case s.heard <- topic:
				case <-ctx.Done():
				}
			}
		})
		if err != nil {
			s.cfg.Log.Debug().Err(err).Msg("webhooks do not know all that is ready")
		}
	}
}

var errStopping = errors.New("the instance stopped before the target answered")

// consume pulls what is ready on a topic, for as long as something will be soon.
func (s *Service) consume(ctx, posting context.Context, topic string) {
	for s.cfg.Source.Await(ctx, topic, soon) {
		t := s.of(topic)
		if t == nil {
			return
		}
		if wait := time.Until(time.Unix(0, t.closed.Load())); wait > 0 { // another instance may be able to post
			_ = scheduler.Sleep(ctx, min(wait, pullRest))
			continue
		}
		slots := t.take(ctx)
		if slots == 0 {
			return
		}
		if s.of(topic) != t { // it waited while the settings changed
			t.slots.Release(int64(slots))
			continue
		}
		found, err := s.cfg.Source.Pull(ctx, scheduler.Poll{Topic: topic, Webhook: true, Max: max(slots, t.Batch),
			Bytes: pullBytes, Lease: t.timeout + leaseMore, Consumer: fmt.Sprintf("%.64s", "webhook@"+s.cfg.Instance)})
		groups := t.groups(found)
		t.slots.Release(int64(slots - len(groups)))
		for _, g := range groups {
			s.work.Go(func() {
				defer t.slots.Release(1)
				s.deliver(ctx, posting, t, g)
			})
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Debug().Err(err).Str("topic", topic).Msg("a webhook could not pull")
			_ = scheduler.Sleep(ctx, pullRest)
		}
		if t.line.queued.Load() > 0 { // others wait for its place, and it for another
			s.Heard(topic, 0)
			return
		}
	}
}
