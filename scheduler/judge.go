package scheduler

import (
	"context"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// judge decides what a round of results means for each message: an end, or another wait. It is the only place that
// interprets NATS outcomes.
func (sc *scanner) judge(ctx context.Context, results []result) (ends []End, back []aside) {
	if len(results) == 0 {
		return nil, nil
	}
	s := sc.l.s
	wall, mono := s.cfg.Clock.Now(), time.Now()
	ends = make([]End, 0, len(results))
	for i := range results {
		r := &results[i]
		m := r.message
		mark := m.Mark
		mark.Lane = ""
		switch {
		case r.ends != message.StateNone && sc.copies.again(r):
			score := int64(message.CeilMilli(wall.Add(lastBackoff)))<<8 | m.Score()&255
			back = append(back, aside{Back{UID: m.UID, Claim: m.Claim, Score: score, Mark: mark}, m})
			continue
		case r.ends != message.StateNone:
			ends = append(ends, sc.ended(r))
			continue
		case r.park != "":
			mark.Lane = r.park
			score := m.Score()
			if r.park == r.from.lane && r.park.Destination() {
				score = lastIn(score, wall) // the next turn sorts the messages behind it
			}
			back = append(back, aside{Back{UID: m.UID, Claim: m.Claim, Score: score, Mark: mark}, m})
			continue
		}
		if r.outcome.Kind == Delivered {
			s.metrics.delivered.Inc()
			s.metrics.lateness.Observe(max(wall.Add(-mono.Sub(r.at)).Sub(m.Due.Time()), 0).Seconds())
			sc.succeeded(r)
			end := End{
				Message:  m,
				State:    message.StateDelivered,
				Stream:   r.outcome.Stream,
				Sequence: r.outcome.Sequence,
			}
			if r.from.lane.Parks() {
				end.Reason = reasonUnparked
			}
			ends = append(ends, end)
			continue
		}
		s.metrics.failures.WithLabelValues(r.outcome.Kind.String()).Inc()
		score := m.Score()
		switch r.outcome.Kind {
		case NotSent:
			mark.Lane = r.from.lane
			if r.from.probe {
				sc.l.lanes.unprobe(r.from.lane, mono)
			}
		case Refused:
			sc.succeeded(r) // the destination answered; it is the message it does not take
			mark.Refusals++
			delay, over := sc.afterRefusal(m, int(mark.Refusals))
			if over {
				m.Mark = mark
				// It comes back here once its copy is out.
				sc.copies.end(ctx, result{message: m, ends: message.StateDead, why: reason(r.outcome.Err)},
					s.cfg.Topics.Of(m.Topic))
				continue
			}
			sc.log.Warn().Err(r.outcome.Err).Str("uid", string(m.UID)).Str("topic", m.Topic).Uint32(
				"refusals", mark.Refusals).Msg("message was refused")
			score = int64(message.CeilMilli(wall.Add(delay)))<<8 | score&255
		case Unknown:
			mark.Uncertain = true
			mark.Lane = sc.failed(r, mono)
		default: // Unanswered, NoListener
			mark.Lane = sc.failed(r, mono)
		}
		switch {
		case mark.Lane == sharedLane:
			score = int64(message.CeilMilli(wall.Add(lastBackoff)))<<8 | score&255
		case mark.Lane == message.LaneCore.Lane(m.Topic) && r.outcome.Kind == NoListener:
			// It keeps its place: nobody listens on the only subject of this lane, and its messages leave in order once
			// somebody does.
		case mark.Lane != "" && mark.Lane == r.from.lane && r.outcome.Kind != NotSent:
			// To the end of the lane, so that the next probe is another message: a stream may refuse one subject and
			// take all others.
			score = lastIn(score, wall)
		}
		b := Back{UID: m.UID, Claim: m.Claim, Score: score, Mark: mark}
		if kind, why, changed := returned(r, mark.Lane); changed {
			b.Mark.Changes++
			b.Message, b.Kind, b.Reason = m, kind, why
		}
		back = append(back, aside{b, m})
	}
	return ends, back
}

// afterRefusal returns how long a message waits after NATS has permanently refused it for the n-th time: by its own
// schedule or its topic's, or a few short times without one. over reports that the message is dead.
func (sc *scanner) afterRefusal(m *message.Message, n int) (delay time.Duration, over bool) {
	schedule := &m.Retry
	if t := sc.l.s.cfg.Topics.Of(m.Topic); schedule.Empty() && t != nil {
		schedule = &t.Retry
	}
	if !schedule.Empty() {
		return schedule.After(n)
	}
	return firstBackoff << min(n, 5), n >= sc.l.s.cfg.Attempts
}

// ended returns the end of a message that was not delivered.
func (sc *scanner) ended(r *result) End {
	m := r.message
	why := r.why
	if r.ends == message.StateExpired {
		sc.l.s.metrics.expired.Inc()
	} else {
		sc.l.s.metrics.dead.Inc()
		event := sc.log.Error().Str("why", why).Str("uid", string(m.UID))
		if m.ID != "" {
			event.Str("id", m.ID)
		}
		event.Str("topic", m.Topic).Uint32("refusals", m.Mark.Refusals).Msg("message is dead")
	}
	if r.copied && r.outcome.Kind != Delivered {
		sc.log.Warn().Err(r.outcome.Err).Str("uid", string(m.UID)).Str("topic", m.Topic).Str(
			"state", r.ends.String()).Msg("the copy of what ended is lost")
		why = bounded(why + "; its copy was not taken: " + r.outcome.Kind.String())
	}
	return End{Message: m, State: r.ends, Uncertain: m.Mark.Uncertain, Reason: why}
}

// lastIn returns the score that moves a message to the end of its lane.
func lastIn(score int64, wall time.Time) int64 { return int64(message.CeilMilli(wall))<<8 | score&255 }

// own returns the lane of the message's destination. A probe that came from another lane and went to that destination
// says nothing about the lane it came from, which still has to be probed.
func (sc *scanner) own(r *result) message.Lane {
	name := sc.l.s.cfg.Publisher.Lane(r.message)
	if r.from.probe && r.from.lane != name {
		sc.l.lanes.skip(r.from.lane)
	}
	return name
}

// succeeded opens the lane of the message's destination.
func (sc *scanner) succeeded(r *result) {
	if sc.l.lanes.empty() {
		return
	}
	name := sc.own(r)
	if sc.l.lanes.succeeded(name) {
		sc.log.Info().Str("lane", string(name)).Msg("lane opened")
		sc.l.each(func(other *scanner) { other.openLane() })
	}
}

// failed counts against the lane of the message's destination and returns where the message goes.
func (sc *scanner) failed(r *result, now time.Time) message.Lane {
	name := sc.own(r)
	to, parkedNow := sc.l.lanes.failed(name, r.outcome.Kind == NoListener, reason(r.outcome.Err), now)
	if parkedNow {
		sc.log.Warn().Err(r.outcome.Err).Str("lane", string(name)).Str("topic", r.message.Topic).Msg("lane parked")
	}
	switch {
	case to != "":
		return to
	case r.from.lane.Destination():
		return name // it waits in its own lane, which is open, not behind another's probes
	default:
		return r.from.lane
	}
}

// openLane ends the scanner's wait for a lane's turn.
func (sc *scanner) openLane() {
	sc.mu.Lock()
	sc.laneOpen = true
	sc.mu.Unlock()
	sc.rouse()
}

// reasonUnparked is the reason of a delivery out of the lane in which the message was parked.
const reasonUnparked = "unparked"

// returned reports whether an attempt changed its message, which now waits in the given lane, and why the message waits
// again. If NATS did not accept the message for now and nobody can have seen it, the message is unchanged, except that
// being parked is a change, once. Neither probes nor other vain attempts therefore raise the version of a waiting
// message.
func returned(r *result, lane message.Lane) (kind message.Kind, why string, changed bool) {
	switch r.outcome.Kind {
	case NotSent:
		return message.KindPlain, "", false
	case Unanswered, NoListener:
		if !lane.Parks() || r.from.lane.Parks() {
			return message.KindPlain, "", false
		}
		return message.KindParked, bounded("parked: " + attempted(&r.outcome)), true
	}
	return message.KindPlain, bounded(attempted(&r.outcome)), true
}

// attempted describes how an attempt went.
func attempted(o *Outcome) string {
	if why := reason(o.Err); why != "" {
		return o.Kind.String() + ": " + why
	}
	return o.Kind.String()
}

// reason returns the text of an error, cut to what the store takes.
func reason(err error) string {
	if err == nil {
		return ""
	}
	return bounded(err.Error())
}

// bounded cuts a reason to what the store takes.
func bounded(s string) string { return s[:min(len(s), 200)] }

var outcomeWords = [...]string{"delivered", "not_sent", "unanswered", "no_listener", "refused", "unknown"}

// String is the kind's word in metrics.
func (k OutcomeKind) String() string {
	if int(k) < len(outcomeWords) {
		return outcomeWords[k]
	}
	return "invalid"
}
