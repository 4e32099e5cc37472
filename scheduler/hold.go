package scheduler

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// holds decide what may not go out yet although NATS would take it: topics that
// are paused, and topics with a rate. Such messages wait in a lane of their own, like
// messages that a destination refuses (lane.go), so that they do not block any
// others:
//
//	paused.<pattern>   until the pattern is resumed
//	rate.<pattern>     until the pattern's rate has room
//	late.<pattern>     the same for what is overdue (Overdue), by the catch-up rate
//
// A message passes the three in this order, and then its destination's lane. No
// stream and no core lane has such a name: streams have no dot in theirs.
type holds struct {
	topics *Topics

	reading  sync.Mutex // over reading the pauses and setting them: a later reading wins
	readFrom time.Time  // when the last reading began, under reading
	mu       sync.Mutex
	pauses   []Pause
	paces    map[string]*pace // by lane
}

const (
	pausedLane = "paused."
	rateLane   = "rate."
	lateLane   = "late."
	// pauseLook is how often the leader asks what is paused.
	pauseLook = time.Second
)

func newHolds(topics *Topics) *holds { return &holds{topics: topics, paces: map[string]*pace{}} }

// isHold reports whether a lane is one of these and no destination's.
func isHold(lane string) bool {
	return strings.HasPrefix(lane, pausedLane) || strings.HasPrefix(lane, rateLane) || strings.HasPrefix(lane, lateLane)
}

// isDestination reports whether a lane is that of one destination. The shared lane
// belongs to no destination: nothing strays into it, and each of its messages is
// judged by its own.
func isDestination(lane string) bool { return lane != "" && lane != sharedLane && !isHold(lane) }

// isParking reports whether what waits in a lane waits there because its destination
// does not take it.
func isParking(lane string) bool { return lane == sharedLane || isDestination(lane) }

// isPaced reports whether a lane is let go by a rate.
func isPaced(lane string) bool {
	return strings.HasPrefix(lane, rateLane) || strings.HasPrefix(lane, lateLane)
}

// set replaces the pauses; it reports whether one ended.
func (h *holds) set(pauses []Pause) (resumed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, was := range h.pauses {
		resumed = resumed || !slices.ContainsFunc(pauses, func(p Pause) bool { return p.Pattern == was.Pattern })
	}
	h.pauses = pauses
	return resumed
}

// paused is the lane of a topic that is paused, empty for all others.
func (h *holds) paused(topic string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.pauses {
		if Matches(h.pauses[i].Pattern, topic) {
			return pausedLane + h.pauses[i].Pattern
		}
	}
	return ""
}

// paceOf is the lane and the pace of a message whose topic has a rate; nil where
// it has none.
func (h *holds) paceOf(t *Topic, late bool) (string, *pace) {
	prefix, rate := rateLane, t.Rate
	if late && t.CatchUp > 0 {
		prefix, rate = lateLane, t.CatchUp
	}
	if rate <= 0 {
		return "", nil
	}
	name := prefix + t.Pattern
	return name, h.pace(name, rate)
}

// turn says how many messages of a lane may be claimed now, or when to ask
// again. What was granted and not used must be given back.
func (h *holds) turn(lane string, now time.Time) (n int, wait time.Time) {
	if pattern, is := strings.CutPrefix(lane, pausedLane); is {
		h.mu.Lock()
		defer h.mu.Unlock()
		if slices.ContainsFunc(h.pauses, func(p Pause) bool { return p.Pattern == pattern }) {
			return 0, now.Add(lastBackoff) // a resume opens it before
		}
		return laneBatch, time.Time{}
	}
	rate := h.standing(lane)
	if rate <= 0 { // the rate is gone: what comes out is judged by the settings as they are
		return laneBatch, time.Time{}
	}
	return h.pace(lane, rate).take(laneBatch, now)
}

// standing is the rate of a lane as the settings have it, 0 where they have none.
func (h *holds) standing(lane string) float64 {
	for _, t := range h.topics.all() {
		switch lane {
		case rateLane + t.Pattern:
			return t.Rate
		case lateLane + t.Pattern:
			return t.CatchUp
		}
	}
	return 0
}

// pace is that of a lane.
func (h *holds) pace(lane string, rate float64) *pace {
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

// giveBack returns what a turn granted and did not use.
func (h *holds) giveBack(lane string, n int) {
	h.mu.Lock()
	p := h.paces[lane]
	h.mu.Unlock()
	if p != nil && n > 0 {
		p.giveBack(n)
	}
}

// pace grants so many a second; what is not used gathers for a tenth of a
// second, but for one message always. All scanners share it.
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

// one takes room for one message, if there is.
func (p *pace) one(now time.Time) bool {
	n, _ := p.take(1, now)
	return n == 1
}

func (p *pace) giveBack(n int) {
	p.mu.Lock()
	p.room += float64(n)
	p.mu.Unlock()
}

// watchPauses reads what is paused once a second until ctx ends.
func (l *leadership) watchPauses(ctx context.Context) error {
	tick := time.NewTicker(pauseLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := l.readPauses(ctx); l.over(err) {
			return err
		} else if err != nil && !errors.Is(err, ErrUncertified) && ctx.Err() == nil {
			l.s.log.Warn().Err(err).Uint64("term", l.term).Msg("what is paused cannot be read")
		}
	}
}

// readPauses asks what is paused.
func (l *leadership) readPauses(ctx context.Context) error {
	asked := time.Now()
	l.holds.reading.Lock()
	defer l.holds.reading.Unlock()
	if l.holds.readFrom.After(asked) {
		return nil // who was waited for has read what stood after this was asked for
	}
	began := time.Now()
	var pauses []Pause
	err := l.call(ctx, func(ctx context.Context) (err error) {
		pauses, err = l.s.cfg.Timeline.Pauses(ctx)
		return err
	})
	if err != nil {
		return looked("read pauses", err)
	}
	l.holds.readFrom = began
	if l.holds.set(pauses) {
		l.each(func(sc *scanner) { sc.openLane() })
	}
	return nil
}
