package lead

import (
	"context"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// origin is where a batch was claimed.
type origin struct {
	lane  message.Lane // empty for the bucket
	probe bool         // to learn whether the lane's destination takes messages again
}

// dispatch hands a claimed batch to the publisher, except for messages that have ended by now and those that must wait
// in a lane. It returns how many it handed over, and how many had strayed into the lane that they were claimed from.
func (sc *scanner) dispatch(ctx context.Context, batch []*message.Message, from origin) (sent, strays int) {
	if len(batch) == 0 {
		return 0, 0
	}
	sc.handing <- struct{}{}
	defer func() { <-sc.handing }()
	now, mono := sc.l.cfg.Clock.Milli(), time.Now()
	out := batch[:0:len(batch)]
	for _, m := range batch {
		t := sc.l.cfg.Topics.Of(m.Topic)
		if state, why := sc.over(m, t, now); state != message.StateNone {
			sc.settler.copies.end(ctx, result{message: m, ends: state, why: why}, t)
			continue
		}
		lane, stray := sc.aside(m, t, from, now, mono)
		if stray {
			strays++
		}
		if lane != "" {
			sc.joining[lane]++
			sc.settler.put(result{message: m, from: from, park: lane})
			continue
		}
		out = append(out, m)
	}
	if len(out) > 0 {
		sc.l.cfg.Publisher.Send(ctx, out, func(m *message.Message, o scheduler.Outcome) {
			sc.settler.put(result{message: m, outcome: o, from: from, at: time.Now()})
		})
	}
	return len(out), strays
}

// handedOver waits until a batch that was judged before this call is handed over.
func (sc *scanner) handedOver(ctx context.Context) error {
	select {
	case sc.handing <- struct{}{}:
		<-sc.handing
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// over returns how a message that is due ends without an attempt, if it does: its time to live is over, consumers have
// sent it back too often, or NATS has refused it too often and its copy was not taken yet.
func (sc *scanner) over(m *message.Message, t *scheduler.Topic, now message.Milli) (message.State, string) {
	ttl := m.TTL
	if ttl == 0 && t != nil {
		ttl = t.TTL
	}
	if ttl > 0 && now > m.Due.Add(ttl) {
		return message.StateExpired, "its time to live was over"
	}
	if m.Attempt > 1 {
		schedule := sc.l.cfg.Topics.Schedule(&m.Retry, m.Topic)
		if n := len(schedule.Delays); int(m.Attempt)-1 > n {
			return message.StateDead, sentBack(m, n)
		}
	}
	if n := int(m.Mark.Refusals); n > 0 {
		if _, over := sc.settler.afterRefusal(m, n); over {
			return message.StateDead, refusedTooOften
		}
	}
	return message.StateNone, ""
}

// refusedTooOften is the reason of a message that NATS refused for the last time before, if the reason of that refusal
// is not known here.
const refusedTooOften = "refused too often"

// sentBack is the reason of a message that is dead because its consumers sent it back too often.
func sentBack(m *message.Message, retries int) string {
	why := "sent back" + scheduler.After(retries)
	if said, ok := headerOf(m, scheduler.ReasonHeader); ok {
		why += ": " + said
	}
	return bounded(why)
}

// aside returns the lane that a message must wait in, or the empty lane if it may go out. No rate holds a message that
// was claimed from the lane of a rate: its turn has come. stray reports that the message came from another
// destination's lane. What is known of that lane does not apply to it, so it is treated as if it came from the bucket.
func (sc *scanner) aside(m *message.Message, t *scheduler.Topic, from origin, now message.Milli,
	mono time.Time) (lane message.Lane, stray bool) {
	var own, parked message.Lane
	if !sc.l.lanes.empty() {
		own = sc.l.cfg.Publisher.Lane(m)
		parked = sc.l.lanes.parked(own)
		stray = from.lane.Destination() && from.lane != own
	}
	if lane := sc.l.holds.paused(m.Topic); lane != "" {
		return lane, stray
	}
	if parked != "" && from.lane == own { // it is not paced
		if from.probe {
			return "", false
		}
		return parked, false
	}
	if t != nil {
		lane, pace := sc.l.holds.paceOf(t, now > m.Due.Add(scheduler.Overdue))
		if pace != nil && !((from.lane.Kind().Hold() == message.HoldRate) && sc.l.holds.standing(from.lane) > 0) &&
			(sc.waitsIn(lane) || !pace.one(mono)) {
			return lane, stray
		}
	}
	return parked, stray
}

// waitsIn reports whether messages of this bucket wait in a lane or are on their way into it. Later messages must not
// overtake them.
func (sc *scanner) waitsIn(lane message.Lane) bool {
	_, stands := sc.lanes[lane]
	_, joins := sc.joining[lane]
	return stands || joins
}

func headerOf(m *message.Message, name string) (string, bool) {
	for _, h := range m.Headers {
		if h.Name == name {
			return h.Value, true
		}
	}
	return "", false
}
