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
	whole error // whether the leader has certified what answers
}

const (
	healthPause = 500 * time.Millisecond
	// clockAlarm is how far apart the clocks may be before it is told.
	clockAlarm = time.Second
)

// errNotAsked is the state before the first ping.
var errNotAsked = errors.New("not asked yet")

func newHealth(a *App) *health {
	return &health{a: a, store: errNotAsked, whole: errNotAsked}
}

// run looks at the store until ctx ends.
func (h *health) run(ctx context.Context) error {
	ticker := time.NewTicker(healthPause)
	defer ticker.Stop()
	apart := false
	for {
		call, cancel := context.WithTimeout(ctx, h.a.p.callTimeout)
		err := h.a.p.ping(call)
		whole := err
		if err == nil {
			whole = h.certified(call)
		}
		cancel()
		h.mu.Lock()
		before := h.store
		h.store, h.whole = err, whole
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

// certified tells whether the leader has certified the store's servers as they
// are now. Nothing is accepted before; to lead it is not needed.
func (h *health) certified(ctx context.Context) error {
	standings, err := h.a.p.store.Standings(ctx)
	if err != nil {
		return err
	}
	for bucket, s := range standings {
		if s.Number == 0 || s.Run != s.Now {
			return fmt.Errorf("bucket %d waits for the leader to certify the server run", bucket)
		}
	}
	return nil
}

func (h *health) wholeErr() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.whole
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
	if store == nil {
		store = h.wholeErr()
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
