package scheduler

import (
	"context"
	"fmt"
	"time"
)

// dispatch hands a claimed batch to the publisher, less what has ended by now
// and what belongs aside in a lane. from is the lane it was claimed from. It
// returns how many it handed over.
func (sc *scanner) dispatch(ctx context.Context, batch []*Message, from string) int {
	if len(batch) == 0 {
		return 0
	}
	now, mono := sc.l.s.cfg.Clock.Milli(), time.Now()
	out := batch[:0:len(batch)]
	for _, m := range batch {
		t := sc.l.s.cfg.Topics.Of(m.Topic)
		if state, why := sc.over(m, t, now); state != StateNone {
			sc.end(ctx, result{message: m, ends: state, why: why}, t)
			continue
		}
		if lane := sc.aside(m, t, from, now, mono); lane != "" {
			sc.joining[lane]++
			sc.settling.put(result{message: m, park: lane})
			continue
		}
		if t != nil && m.Retry.Empty() {
			m.Retry = t.Retry // its consumer is told
		}
		out = append(out, m)
	}
	if len(out) > 0 {
		sc.l.s.cfg.Publisher.Send(ctx, out, func(m *Message, o Outcome) {
			sc.settling.put(result{message: m, outcome: o, from: from, at: time.Now()})
		})
	}
	return len(out)
}

// over tells how a message that is due ends without an attempt, if it does: its
// time to live is over, or consumers have sent it back too often.
func (sc *scanner) over(m *Message, t *Topic, now Milli) (State, string) {
	ttl := m.TTL
	if ttl == 0 && t != nil {
		ttl = t.TTL
	}
	if ttl > 0 && now > m.Due.Add(ttl) {
		return StateExpired, "its time to live was over"
	}
	if m.Attempt > 1 {
		schedule := sc.l.s.schedule(&m.Retry, m.Topic)
		if n := len(schedule.Delays); int(m.Attempt)-1 > n {
			return StateDead, sentBack(m, n)
		}
	}
	return StateNone, ""
}

// sentBack is why a message is dead whose consumers gave it up.
func sentBack(m *Message, retries int) string {
	why := fmt.Sprintf("sent back after %d retries", retries)
	if said, told := headerOf(m, reasonHeader); told {
		why += ": " + said
	}
	return bounded(why)
}

// reasonHeader is the header in which a consumer that sends a message back says
// why.
const reasonHeader = "Tarry-Reason"

// aside is the lane that a message must wait in, empty where it may go out. What
// was held once is not held by the same again: its lane's turn let it go.
func (sc *scanner) aside(m *Message, t *Topic, from string, now Milli, mono time.Time) string {
	if lane := sc.l.holds.paused(m.Topic); lane != "" {
		return lane
	}
	if from != "" && !isHold(from) && sc.l.lanes.parked(from) != "" {
		return "" // a probe of its destination is not paced
	}
	if t != nil {
		lane, pace := sc.l.holds.paceOf(t, now > m.Due.Add(Overdue))
		if pace != nil && !(isPaced(from) && sc.l.holds.standing(from) > 0) && (sc.waitsIn(lane) || !pace.one(mono)) {
			return lane
		}
	}
	if (from == "" || isHold(from)) && !sc.l.lanes.empty() {
		return sc.l.lanes.parked(sc.l.s.cfg.Publisher.Lane(m))
	}
	return ""
}

// waitsIn tells whether messages of this bucket stand in a lane, or are on their
// way into it: what comes later must not overtake them.
func (sc *scanner) waitsIn(lane string) bool {
	_, stands := sc.lanes[lane]
	_, joins := sc.joining[lane]
	return stands || joins
}

// end settles a message that ends without a delivery, once a copy of it has gone
// to the subject that is set for such ends.
func (sc *scanner) end(ctx context.Context, r result, t *Topic) {
	to := ""
	switch {
	case t == nil:
	case r.ends == StateExpired:
		to = t.Expired
	case r.ends == StateDead:
		to = t.Dead
	}
	if to == "" {
		sc.settling.put(r)
		return
	}
	m := r.message
	copied := *m
	// An occurrence of its own: it must not be taken for a repeat of the delivery.
	copied.UID = m.UID + UID("."+r.ends.String())
	if m.ID == "" {
		copied.ID = string(m.UID)
	}
	copied.Topic = to
	copied.Headers = append(m.Headers[:len(m.Headers):len(m.Headers)],
		Header{"Tarry-Subject", m.Topic})
	if _, told := headerOf(m, reasonHeader); !told {
		copied.Headers = append(copied.Headers, Header{reasonHeader, r.why})
	}
	sc.l.s.cfg.Publisher.Send(ctx, []*Message{&copied}, func(_ *Message, o Outcome) {
		sc.l.s.metrics.copies.WithLabelValues(o.Kind.String()).Inc()
		r.copied, r.outcome, r.at = true, o, time.Now()
		sc.settling.put(r)
	})
}

func headerOf(m *Message, name string) (string, bool) {
	for _, h := range m.Headers {
		if h.Name == name {
			return h.Value, true
		}
	}
	return "", false
}
