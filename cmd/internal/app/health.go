package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/election"
)

// health knows, from memory, whether this instance could lead now and what is
// missing when it could not. The election asks it several times a second.
type health struct {
	a        *App
	prepared atomic.Bool

	mu    sync.Mutex
	store error // of the last ping
}

const (
	healthPause = 500 * time.Millisecond
	// clockAlarm is how far apart the clocks may be before it is told.
	clockAlarm = time.Second
)

// errNotAsked is the state before the first ping.
var errNotAsked = errors.New("not asked yet")

func newHealth(a *App) *health {
	return &health{a: a, store: errNotAsked}
}

// run looks at the store until ctx ends.
func (h *health) run(ctx context.Context) error {
	ticker := time.NewTicker(healthPause)
	defer ticker.Stop()
	apart := false
	for {
		call, cancel := context.WithTimeout(ctx, h.a.p.callTimeout)
		err := h.a.p.ping(call)
		cancel()
		h.mu.Lock()
		before := h.store
		h.store = err
		h.mu.Unlock()
		switch {
		case err != nil && before == nil && ctx.Err() == nil:
			h.a.log.Warn().Err(err).Msg(h.a.p.holds + " does not answer")
		case err == nil && before != nil && !errors.Is(before, errNotAsked):
			h.a.log.Info().Msg(h.a.p.holds + " answers again")
		}
		if spread := h.a.clock.Spread(); spread > clockAlarm && !apart {
			apart = true
			h.a.log.Error().Dur("spread", spread).Msg("clocks disagree; the median counts")
		} else if spread <= clockAlarm/2 && apart {
			apart = false
			h.a.log.Info().Msg("clocks agree again")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (h *health) storeErr() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.store
}

// fit tells whether this instance could lead.
func (h *health) fit() error {
	if !h.prepared.Load() {
		return errors.New(h.a.p.holds + " is not prepared")
	}
	if err := h.storeErr(); err != nil {
		return fmt.Errorf("%s: %w", h.a.p.holds, err)
	}
	if !h.a.publisher.Ready() {
		return errors.New("nats is not ready")
	}
	return nil
}

// checks is what /readyz shows: a healthy standby is ready too.
func (h *health) checks(context.Context) []api.Check {
	check := func(name string, err error) api.Check {
		c := api.Check{Name: name, OK: err == nil}
		if err != nil {
			c.Detail = err.Error()
		}
		return c
	}
	store := h.storeErr()
	if store == nil && !h.prepared.Load() {
		store = errors.New("not prepared yet")
	}
	return []api.Check{
		check(h.a.p.holds, store),
		check("nats", h.natsErr()),
		check(h.a.p.elects, h.electionErr()),
		check("machine_id", h.machineErr()),
	}
}

func (h *health) natsErr() error {
	switch {
	case h.a.p.conn.Status() != nats.CONNECTED:
		return errors.New("not connected")
	case !h.a.publisher.Ready():
		return errors.New("the streams are not known yet")
	}
	return nil
}

func (h *health) electionErr() error {
	state := h.a.elector.State()
	if state.Role != election.Disconnected {
		return nil
	}
	if state.Err != nil {
		return state.Err
	}
	return errors.New("no session yet")
}

func (h *health) machineErr() error {
	if _, held := h.a.p.machine.ID(); !held {
		return errors.New("no machine id is held, so no ids can be given out")
	}
	return nil
}
