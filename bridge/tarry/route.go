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

// Route is how a push reaches tarry, see [WithRoute].
type Route int

const (
	undecided Route = iota
	// ByStream publishes every push to the intake stream, without looking for it first. A push then needs no instance,
	// but what tarry refuses later is found in the rejects alone.
	ByStream
	// ByRequest sends every push through the direct door, as a request to an instance, and does not use the intake
	// stream. A push then needs a running instance, and its answer is that of tarry itself: a duplicate id is an error at
	// once.
	ByRequest
)

// router decides the route by looking for the intake stream, never by trying: a publish to a subject that has a core
// subscriber but no stream is delivered and reports an error. A stream that was found is trusted until a publish
// reports that it is gone. If none was found, the router looks again every few seconds, since instances create the
// stream when they start.
type router struct {
	stream string // the name it must have
	filter string // what it must hold
	find   func(ctx context.Context, subject string) (string, error)
	again  time.Duration

	turn chan struct{} // one look-up at a time; a channel, so that waiting ends with the context
	last atomic.Pointer[decision]
}

type decision struct {
	route Route
	at    time.Time
}

func newRouter(c config, find func(context.Context, string) (string, error)) *router {
	r := &router{
		stream: "TARRY_" + c.namespace, filter: c.prefix + ".>", find: find,
		again: 10 * time.Second, turn: make(chan struct{}, 1),
	}
	if c.fixed != undecided {
		r.find = nil
		r.last.Store(&decision{route: c.fixed})
	}
	return r
}

// decide returns the route, after at most one look-up.
func (r *router) decide(ctx context.Context) (Route, error) {
	if route := r.known(); route != undecided {
		return route, nil
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return undecided, fmt.Errorf("tarry: look up the intake stream: %w", ctx.Err())
	}
	if route := r.known(); route != undecided { // whoever had the turn before has found it
		return route, nil
	}
	name, err := r.find(ctx, r.filter)
	switch {
	case err == nil && name == r.stream:
		return r.remember(ByStream), nil
	case err == nil:
		return undecided, fmt.Errorf("%w: the stream %q holds %q, and tarry's intake is called %q; set "+
			"tarry.WithNamespace and tarry.WithPrefix to its settings",
			ErrNoIntake, name, r.filter, r.stream)
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrJetStreamNotEnabled),
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		return r.remember(ByRequest), nil
	}
	if d := r.last.Load(); d != nil { // an old answer is better than none
		return d.route, nil
	}
	return undecided, fmt.Errorf("tarry: look up the intake stream (tarry.WithRoute(tarry.ByStream) saves it where "+
		"JetStream may not be asked): %w", err)
}

func (r *router) known() Route {
	d := r.last.Load()
	if d == nil || (r.find != nil && d.route == ByRequest && time.Since(d.at) > r.again) {
		return undecided
	}
	return d.route
}

func (r *router) remember(route Route) Route {
	r.last.Store(&decision{route: route, at: time.Now()})
	return route
}

// forget makes the next push look again.
func (r *router) forget() {
	if r.find != nil {
		r.last.Store(nil)
	}
}
