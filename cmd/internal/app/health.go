package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/election"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/store/journal"
)

// health answers two questions from memory that must not be confused: whether this instance could lead, which the
// election asks several times a second, and whether it could accept a push, which /readyz answers. A requirement of
// pushes alone, like a journal in sync mode, does not cost an instance its leadership: due messages still leave.
type health struct {
	a        *App
	began    time.Time
	prepared atomic.Bool

	mu      sync.Mutex
	store   holding
	journal holding
}

// holding is the state of the store or of the journal at the last look.
type holding struct {
	err error // why it does not answer at all
	// closed lists the buckets that accept no push, ascending, and why the first of them does not.
	closed []message.Bucket
	why    error
	// filling is how many of them wait for the leader to certify the server run, and to fill them from the journal.
	filling int
	// whole reports that all buckets have answered once; logged, that the current fault has been logged.
	whole, logged bool
}

const (
	healthPause = 500 * time.Millisecond
	// journalLook bounds one look at the journal: a busy database does not count as unreachable.
	journalLook = 2 * time.Second
	// startPatience is how long a start may take before missing requirements are logged.
	startPatience = 3 * time.Second
	// clockAlarm is the spread of the clocks above which they are logged as disagreeing.
	clockAlarm = time.Second
	// fewPatience is how long a clock may be missing before that is logged.
	fewPatience = 30 * time.Second
)

// errNotAsked is the state before the first look.
var errNotAsked = errors.New("not asked yet")

func newHealth(a *App) *health {
	return &health{a: a, began: time.Now(), store: holding{err: errNotAsked}, journal: holding{err: errNotAsked}}
}

// run looks at the store until ctx ends.
func (h *health) run(ctx context.Context) error {
	apart, few, since := false, false, time.Now()
	return h.every(ctx, h.a.callTimeout(), func(call context.Context) {
		h.note(ctx, h.a.holds(), &h.store, h.lookAtStore(call))
		h.a.watch()
		if spread := h.a.clock.Spread(); spread > clockAlarm && !apart {
			apart = true
			h.a.log.Error().Dur("spread", spread).Msg("clocks disagree; the median counts")
		} else if spread <= clockAlarm/2 && apart {
			apart = false
			h.a.log.Info().Msg("clocks agree again")
		}
		switch err := h.clocksErr(); {
		case err == nil:
			few, since = false, time.Now()
		case !few && time.Since(since) > fewPatience:
			few = true
			h.a.log.Warn().Err(err).Msg("no majority corrects a clock")
		}
	})
}

// runJournal looks at the journal until ctx ends. A database that hangs must not delay the look at the store, on which
// the leadership depends.
func (h *health) runJournal(ctx context.Context) error {
	if h.a.journal.mode == journal.Off {
		return nil
	}
	return h.every(ctx, journalLook, func(call context.Context) {
		h.note(ctx, "the journal", &h.journal, h.lookAtJournal(call))
	})
}

// every calls look at once and then every healthPause, each time for at most bound.
func (h *health) every(ctx context.Context, bound time.Duration, look func(context.Context)) error {
	ticker := time.Tick(healthPause)
	for {
		call, cancel := context.WithTimeout(ctx, bound)
		look(call)
		cancel()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker:
		}
	}
}

// note stores the result of a look and logs changes. The store of a starting instance has not been certified yet, so
// during startPatience nothing is logged.
func (h *health) note(ctx context.Context, what string, at *holding, seen holding) {
	h.mu.Lock()
	before := *at
	fine := seen.err == nil && len(seen.closed) == 0
	same := (seen.err == nil) == (before.err == nil) && (len(seen.closed) == 0) == (len(before.closed) == 0)
	seen.whole, seen.logged = before.whole || fine, before.logged && same
	write := !fine && !seen.logged && (before.whole || time.Since(h.began) > startPatience)
	seen.logged = seen.logged || write
	*at = seen
	h.mu.Unlock()
	kind := scheduler.EventStore
	if at == &h.journal {
		kind = scheduler.EventJournal
	}
	tell := func(detail string) string {
		h.a.events.Tell(scheduler.Event{Kind: kind, Detail: detail})
		return detail
	}
	switch {
	case ctx.Err() != nil:
	case write && seen.err != nil:
		h.a.log.Warn().Err(seen.err).Msg(tell(what + " does not answer"))
	case write:
		h.a.log.Warn().Err(seen.why).Any("buckets", seen.closed).Msg(tell("some buckets take no pushes"))
	case fine && before.logged && before.err != nil:
		h.a.log.Info().Msg(tell(what + " answers again"))
	case fine && before.logged:
		h.a.log.Info().Msg(tell("all buckets take pushes again"))
	}
}

// lookAtStore checks whether the store answers, and finds the buckets that do not answer or whose server the leader has
// not certified yet: they accept nothing before that.
func (h *health) lookAtStore(ctx context.Context) holding {
	standings, err := h.a.store.Standings(ctx)
	if err != nil {
		return holding{err: err}
	}
	var seen holding
	for i, s := range standings {
		bucket := message.Bucket(i)
		if s.Err != nil {
			seen.close(bucket, fmt.Errorf("bucket %d does not answer: %w", bucket, s.Err))
		} else if s.Number == 0 || s.Run != s.Now {
			seen.close(bucket, fmt.Errorf("bucket %d waits for the leader to certify the server run", bucket))
			seen.filling++
		}
	}
	return seen
}

// lookAtJournal checks whether the journal answers and, if changes wait for it, which buckets have no room for more.
func (h *health) lookAtJournal(ctx context.Context) holding {
	var (
		seen holding
		wait sync.WaitGroup
	)
	if h.a.journal.mode == journal.Async {
		wait.Go(func() { // beside the ping: a server that does not answer uses up the time of its own look alone
			lags, err := h.a.store.Lags(ctx) // the other look reports faults of the store
			for i := 0; err == nil && i < len(lags); i++ {
				bucket := message.Bucket(i)
				if lag := lags[bucket]; lag.Err == nil && lag.Bytes >= h.a.outboxLimit() {
					seen.close(bucket,
						fmt.Errorf("the outbox of bucket %d is full: %d changes wait for the journal", bucket, lag.Changes))
				}
			}
		})
	}
	seen.err = h.a.journal.store.Ping(ctx)
	silent := seen.err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
	if silent { // a lock may keep it from writing alone
		read, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalLook)
		_, err := h.a.journal.store.MaxTerm(read)
		silent = err != nil
		cancel()
	}
	h.a.silence.note(silent)
	if seen.err == nil {
		seen.err = cmp.Or(h.a.writer.Ready(), h.a.writer.Full())
	}
	wait.Wait()
	return seen
}

func (s *holding) close(bucket message.Bucket, why error) {
	if s.closed = append(s.closed, bucket); s.why == nil {
		s.why = why
	}
}

func (h *health) seen() (store, db holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.store, h.journal
}

// fit reports whether this instance could lead.
func (h *health) fit() error {
	if !h.prepared.Load() {
		return errors.New(h.a.holds() + " is not prepared")
	}
	if store, _ := h.seen(); store.err != nil {
		return fmt.Errorf("%s: %w", h.a.holds(), store.err)
	}
	if h.a.same.other.Load() {
		return errOtherStore
	}
	if !h.a.publisher.Ready() {
		return errors.New("nats is not ready")
	}
	return nil
}

// checks returns the checks for /readyz and for the cluster's page: a healthy standby is ready too. Without NATS or an
// election pushes are accepted and wait.
func (h *health) checks(context.Context) []api.Check {
	store, db := h.seen()
	all := []api.Check{
		h.storeCheck(store),
		{Name: "nats", Err: h.natsErr()},
		{Name: h.a.elects(), Err: h.electionErr()},
		{Name: "machine_id", Needed: true, Err: h.machineErr()},
	}
	switch h.a.journal.mode {
	case journal.Sync:
		all = append(all, api.Check{Name: "journal", Needed: true, Err: db.err})
	case journal.Async:
		all = append(all, h.inBuckets(api.Check{Name: "journal", Err: db.err}, db))
	}
	return append(all, h.a.roster.checks()...)
}

// clocksErr returns an error if a server that answers shows no time. On one machine all clocks are the same.
func (h *health) clocksErr() error {
	if h.a.cfg.InMemory() {
		return nil
	}
	store, _ := h.seen()
	if n := h.a.clock.Votes(); n < scheduler.Voters && store.err == nil && h.natsErr() == nil {
		return fmt.Errorf("%d of %d clocks vote (a nats-server before 2.10 shows no time): the slowest decides what is due",
			n, scheduler.Voters)
	}
	return nil
}

func (h *health) storeCheck(store holding) api.Check {
	c := api.Check{Name: h.a.holds(), Needed: true, Err: store.err}
	switch {
	case store.err != nil:
		return c
	case h.a.same.other.Load():
		c.Err = errOtherStore
		return c
	case h.a.gate.admit() != nil:
		c.Err = errors.New("not prepared yet")
		return c
	}
	return h.inBuckets(c, store)
}

// inBuckets adds the buckets that accept no push. A fault in some of them still lets pushes through; a fault in all of
// them does not.
func (h *health) inBuckets(c api.Check, seen holding) api.Check {
	if len(seen.closed) > 0 {
		c.Err, c.Buckets, c.Needed = seen.why, seen.closed, len(seen.closed) == int(h.a.store.Buckets())
	}
	return c
}

func (h *health) natsErr() error {
	switch {
	case h.a.conn.Status() != nats.CONNECTED:
		return errors.New("not connected")
	case !h.a.publisher.Ready():
		return errors.New("the streams are not known yet")
	}
	return nil
}

func (h *health) electionErr() error {
	state := h.a.race.State()
	if state.Role != election.Disconnected {
		return nil
	}
	if state.Err != nil {
		return state.Err
	}
	return errors.New("no session yet")
}

func (h *health) machineErr() error {
	if _, held := h.a.machine.ID(); !held {
		return errors.New("this instance holds no machine id, so it cannot assign ids")
	}
	return nil
}
