package lead

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// holds decides which messages must wait although NATS would accept them: those of paused topics, and those of topics
// with a rate. They wait in lanes of their own, like messages that a destination refuses (lane.go), so that they do not
// block any others:
//
//	paused.<pattern>   until the pattern is resumed
//	rate.<pattern>     until the pattern's rate has room
//	late.<pattern>     until the catch-up rate has room, for messages that are late by more than Overdue
//
// A message passes the three in this order, and then its destination's lane. No stream lane or core lane has a name of
// this form, because stream names have no dot.
type holds struct {
	topics *scheduler.Topics

	reading  scheduler.Turn // held from reading the pauses to setting them, so that a later reading wins
	readFrom time.Time      // when the last reading began, under reading
	mu       sync.Mutex
	pauses   []scheduler.Pause
	paces    map[message.Lane]*pace // by lane
}

// pauseLook is how often the leader reads the pauses.
const pauseLook = time.Second

func newHolds(topics *scheduler.Topics) *holds {
	return &holds{topics: topics, reading: scheduler.NewTurn(), paces: map[message.Lane]*pace{}}
}

// set replaces the pauses; it reports whether one ended.
func (h *holds) set(pauses []scheduler.Pause) (resumed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, was := range h.pauses {
		resumed = resumed || !slices.ContainsFunc(pauses, func(p scheduler.Pause) bool { return p.Pattern == was.Pattern })
	}
	h.pauses = pauses
	return resumed
}

// paused returns the lane of a paused topic, or the empty lane for any other topic.
func (h *holds) paused(topic string) message.Lane {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := scheduler.PauseOf(h.pauses, topic); p != nil {
		return message.LanePaused.Lane(p.Pattern)
	}
	return ""
}

// paceOf returns the lane and the pace for a message whose topic has a rate, or nil if it has none.
func (h *holds) paceOf(t *scheduler.Topic, late bool) (message.Lane, *pace) {
	kind, rate := message.LaneRate, t.Rate
	if late && t.CatchUp > 0 {
		kind, rate = message.LaneLate, t.CatchUp
	}
	if rate <= 0 {
		return "", nil
	}
	name := kind.Lane(t.Pattern)
	return name, h.pace(name, rate)
}

// turn returns how many messages of a lane may be claimed now, or when to ask again. The caller must give back any
// unused grant.
func (h *holds) turn(lane message.Lane, now time.Time) (n int, wait time.Time) {
	if lane.Kind() == message.LanePaused {
		h.mu.Lock()
		defer h.mu.Unlock()
		if slices.ContainsFunc(h.pauses, func(p scheduler.Pause) bool { return p.Pattern == lane.Name() }) {
			return 0, now.Add(lastBackoff) // a resume opens it earlier
		}
		return laneBatch, time.Time{}
	}
	rate := h.standing(lane)
	if rate <= 0 { // the settings have no such rate any more, and dispatch judges by the settings
		return laneBatch, time.Time{}
	}
	return h.pace(lane, rate).take(laneBatch, now)
}

// standing returns the rate that the settings give a lane, or 0 if they give none.
func (h *holds) standing(lane message.Lane) float64 {
	for _, t := range h.topics.All() {
		switch lane {
		case message.LaneRate.Lane(t.Pattern):
			return t.Rate
		case message.LaneLate.Lane(t.Pattern):
			return t.CatchUp
		}
	}
	return 0
}

// pace returns the pace of a lane.
func (h *holds) pace(lane message.Lane, rate float64) *pace {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.paces[lane]
	if p == nil {
		p = newPace(rate)
		h.paces[lane] = p
	}
	p.set(rate) // settings may have been loaded again
	return p
}

// giveBack returns the unused part of a turn's grant.
func (h *holds) giveBack(lane message.Lane, n int) {
	h.mu.Lock()
	p := h.paces[lane]
	h.mu.Unlock()
	if p != nil && n > 0 {
		p.giveBack(n)
	}
}

// pace grants a number of messages per second. Unused grants accumulate for a tenth of a second, but always for at
// least one message. All scanners share it.
type pace struct {
	mu    sync.Mutex
	rate  float64
	room  float64
	since time.Time
}

func newPace(rate float64) *pace { return &pace{rate: rate, room: max(1, rate/10)} }

func (p *pace) set(rate float64) {
	p.mu.Lock()
	p.rate = rate
	p.mu.Unlock()
}

// take grants up to n, or returns when there will be one.
func (p *pace) take(n int, now time.Time) (granted int, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.since.IsZero() {
		p.room += now.Sub(p.since).Seconds() * p.rate
	}
	p.since = now
	p.room = min(p.room, max(1, p.rate/10))
	if granted = min(n, int(p.room)); granted > 0 {
		p.room -= float64(granted)
		return granted, time.Time{}
	}
	return 0, now.Add(time.Duration(math.Ceil((1 - p.room) / p.rate * float64(time.Second))))
}

// one grants one message and reports whether there was room.
func (p *pace) one(now time.Time) bool {
	n, _ := p.take(1, now)
	return n == 1
}

func (p *pace) giveBack(n int) {
	p.mu.Lock()
	p.room += float64(n)
	p.mu.Unlock()
}

// watchPauses reads the pauses. After a failure it waits for the next reading, unless the error ends the leadership.
func (l *leadership) watchPauses(ctx context.Context) error {
	err := l.readPauses(ctx)
	if l.over(err) {
		return err
	}
	if err != nil && !errors.Is(err, scheduler.ErrUncertified) && ctx.Err() == nil {
		l.log.Warn().Err(err).Uint64("term", l.term).Msg("what is paused cannot be read")
	}
	return nil
}

// readPauses reads the pauses.
func (l *leadership) readPauses(ctx context.Context) error {
	asked := time.Now()
	if err := l.holds.reading.Take(ctx); err != nil {
		return scheduler.Looked("read pauses", err)
	}
	defer l.holds.reading.Leave()
	if l.holds.readFrom.After(asked) {
		return nil // the reading that held the lock began after this call, so it suffices
	}
	began := time.Now()
	var pauses []scheduler.Pause
	err := l.call(ctx, func(ctx context.Context) (err error) {
		pauses, _, err = l.cfg.Timeline.Pauses(ctx)
		return err
	})
	if err != nil {
		return scheduler.Looked("read pauses", err)
	}
	l.holds.readFrom = began
	if l.holds.set(pauses) {
		l.openLanes()
	}
	return nil
}
