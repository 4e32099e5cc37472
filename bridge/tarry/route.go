package tarry

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// way is how a push reaches tarry.
type way int

const (
	undecided way = iota
	byStream      // through the intake stream
	byRequest     // by asking an instance
)

// router decides the way by looking for the intake stream, never by trying: a publish to a subject that has a core
// subscriber but no stream is delivered and reports an error. A stream once found is trusted until a publish says that
// it is gone; its absence is looked at again every few seconds, since instances create it when they start.
type router struct {
	stream string // the name it must have
	filter string // what it must hold
	find   func(ctx context.Context, subject string) (string, error)
	again  time.Duration

	turn chan struct{} // one look-up at a time; a channel, so that waiting ends with the context
	last atomic.Pointer[decision]
}

type decision struct {
	way way
	at  time.Time
}

func newRouter(c config, find func(context.Context, string) (string, error)) *router {
	r := &router{
		stream: "TARRY_" + c.namespace, filter: c.prefix + ".>", find: find,
		again: 10 * time.Second, turn: make(chan struct{}, 1),
	}
	if c.fixed != undecided {
		r.find = nil
		r.last.Store(&decision{way: c.fixed})
	}
	return r
}

// decide returns the way, after one look-up at most.
func (r *router) decide(ctx context.Context) (way, error) {
	if w := r.known(); w != undecided {
		return w, nil
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return undecided, fmt.Errorf("tarry: look up the intake stream: %w", ctx.Err())
	}
	if w := r.known(); w != undecided { // whoever had the turn before has found it
		return w, nil
	}
	name, err := r.find(ctx, r.filter)
	switch {
	case err == nil && name == r.stream:
		return r.remember(byStream), nil
	case err == nil:
		return undecided, fmt.Errorf("%w: the stream %q holds %q, and tarry's intake is called %q; set "+
			"tarry.Namespace and tarry.Prefix to its settings",
			ErrNoIntake, name, r.filter, r.stream)
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrJetStreamNotEnabled),
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		return r.remember(byRequest), nil
	}
	if d := r.last.Load(); d != nil { // an old answer is better than none
		return d.way, nil
	}
	return undecided, fmt.Errorf(
		"tarry: look up the intake stream (tarry.ByStream saves it where JetStream may not be asked): %w", err)
}

func (r *router) known() way {
	d := r.last.Load()
	if d == nil || (r.find != nil && d.way == byRequest && time.Since(d.at) > r.again) {
		return undecided
	}
	return d.way
}

func (r *router) remember(w way) way {
	r.last.Store(&decision{way: w, at: time.Now()})
	return w
}

// forget has the next push look again.
func (r *router) forget() {
	if r.find != nil {
		r.last.Store(nil)
	}
}
