package lead

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// judge decides what a round of results means for each message: an end, or another wait. It is the only place that
// interprets NATS outcomes.
func (st *settler) judge(ctx context.Context, results []result) {
	s := st.l
	wall, mono := s.cfg.Clock.Now(), time.Now()
	st.ends = slices.Grow(st.ends, len(results))
	for i := range results {
		r := &results[i]
		m := r.message
		b := scheduler.Back{UID: m.UID, Claim: m.Claim, Score: m.Score(), Mark: m.Mark}
		b.Mark.Lane = ""
		switch {
		case r.ends != message.StateNone && st.copies.again(r, mono):
			b.Score = scoreAt(b.Score, wall.Add(lastBackoff))
			if r.refused {
				b.Mark.Changes++
				b.Message, b.Reason = m, bounded(scheduler.Refused.String()+": "+r.why)
			}
		case r.ends != message.StateNone:
			st.ends = append(st.ends, st.ended(r))
			continue
		case r.park != "":
			b.Mark.Lane = r.park
			if r.park == r.from.lane && r.park.Destination() {
				b.Score = scoreAt(b.Score, wall) // the next turn sorts the messages behind it
			}
		case r.outcome.Kind == scheduler.Delivered:
			s.metrics.delivered.Inc()
			late := max(wall.Add(-mono.Sub(r.at)).Sub(m.Due.Time()), 0)
			if s.metrics.lateness.Observe(late.Seconds()); late > scheduler.LateEvent {
				s.cfg.Events.Of(scheduler.EventLate, m, "late by "+late.Round(time.Millisecond).String())
			}
			st.succeeded(r)
			end := scheduler.End{
				Message:  m,
				State:    message.StateDelivered,
				Stream:   r.outcome.Stream,
				Sequence: r.outcome.Sequence,
			}
			if r.from.lane.Parks() {
				end.Reason = reasonUnparked
			}
			st.ends = append(st.ends, end)
			continue
		default:
			if !st.waits(ctx, r, &b, wall, mono) {
				continue
			}
		}
		st.back = append(st.back, b)
	}
}

// waits decides how a message waits again after an attempt that did not deliver it. It returns false if the message is
// dead instead; the message then comes back to the settler once its copy has been sent.
func (st *settler) waits(ctx context.Context, r *result, b *scheduler.Back, wall, mono time.Time) bool {
	m, s := r.message, st.l
	s.metrics.failures.WithLabelValues(r.outcome.Kind.String()).Inc()
	b.Mark.Uncertain = b.Mark.Uncertain || r.outcome.Unvouched || r.outcome.Kind == scheduler.Unknown
	switch r.outcome.Kind {
	case scheduler.NotSent:
		b.Mark.Lane = r.from.lane
		if r.from.probe {
			st.l.lanes.unprobe(r.from.lane, mono)
		}
	case scheduler.Refused:
		st.succeeded(r) // the destination answered: it refuses this message, not all of them
		b.Mark.Refusals++
		delay, over := st.afterRefusal(m, int(b.Mark.Refusals))
		if over {
			m.Mark = b.Mark
			st.copies.end(ctx, result{message: m, ends: message.StateDead, why: reason(r.outcome.Err), refused: true},
				s.cfg.Topics.Of(m.Topic))
			return false
		}
		st.log.Warn().Err(r.outcome.Err).Str("uid", string(m.UID)).Str("topic", m.Topic).Uint32(
			"refusals", b.Mark.Refusals).Msg("message was refused")
		b.Score = scoreAt(b.Score, wall.Add(delay))
	default: // Unanswered, NoListener, Unknown
		b.Mark.Lane = st.failed(r, mono)
	}
	lane := b.Mark.Lane
	switch {
	case lane == sharedLane:
		b.Score = scoreAt(b.Score, wall.Add(lastBackoff))
	case lane == message.LaneCore.Lane(m.Topic) && r.outcome.Kind == scheduler.NoListener:
		// It keeps its place: nobody listens on the only subject of this lane, and its messages leave in order once
		// somebody does.
	case lane != "" && lane == r.from.lane && r.outcome.Kind != scheduler.NotSent:
		// To the end of the lane, so that the next probe is another message: a stream may refuse one subject and take
		// all others.
		b.Score = scoreAt(b.Score, wall)
	}
	if kind, why, changed := returned(r, lane); changed {
		b.Mark.Changes++
		b.Message, b.Kind, b.Reason = m, kind, why
	}
	return true
}

// afterRefusal returns how long a message waits after NATS has permanently refused it for the n-th time: by its own
// schedule or its topic's, or a few short times without one. over reports that the message is dead.
func (st *settler) afterRefusal(m *message.Message, n int) (delay time.Duration, over bool) {
	schedule := &m.Retry
	if t := st.l.cfg.Topics.Of(m.Topic); schedule.Empty() && t != nil {
		schedule = &t.Retry
	}
	if !schedule.Empty() {
		return schedule.After(n)
	}
	return firstBackoff << min(n, 5), n >= st.l.cfg.Attempts
}

// ended returns the end of a message that was not delivered.
func (st *settler) ended(r *result) scheduler.End {
	m := r.message
	why := r.why
	if r.ends == message.StateExpired {
		st.l.metrics.expired.Inc()
		st.l.cfg.Events.Of(scheduler.EventExpired, m, why)
	} else {
		st.l.metrics.dead.Inc()
		st.l.cfg.Events.Of(scheduler.EventDead, m, why)
		event := st.log.Error().Str("why", why).Str("uid", string(m.UID))
		if m.ID != "" {
			event.Str("id", m.ID)
		}
		event.Str("topic", m.Topic).Uint32("refusals", m.Mark.Refusals).Msg("message is dead")
	}
	if r.copied && r.outcome.Kind != scheduler.Delivered {
		st.log.Warn().Err(r.outcome.Err).Str("uid", string(m.UID)).Str("topic", m.Topic).Str(
			"state", r.ends.String()).Msg("the copy of what ended is lost")
		why = bounded(why + "; its copy was not taken: " + r.outcome.Kind.String())
	}
	return scheduler.End{Message: m, State: r.ends, Uncertain: m.Mark.Uncertain, Reason: why}
}

// scoreAt returns the score that moves a message to a later place in the order, that of the given time.
func scoreAt(score int64, at time.Time) int64 { return int64(message.CeilMilli(at))<<8 | score&255 }

// own returns the lane of the message's destination. A probe that came from another lane and went to that destination
// says nothing about the lane it came from, which still has to be probed.
func (st *settler) own(r *result) message.Lane {
	name := st.l.cfg.Publisher.Lane(r.message)
	if r.from.probe && r.from.lane != name {
		st.l.lanes.skip(r.from.lane)
	}
	return name
}

// succeeded opens the lane of the message's destination.
func (st *settler) succeeded(r *result) {
	if st.l.lanes.empty() {
		return
	}
	name := st.own(r)
	if st.l.lanes.succeeded(name) {
		st.log.Info().Str("lane", string(name)).Msg("lane opened")
		st.l.cfg.Events.Tell(scheduler.Event{Kind: scheduler.EventOpened, Topic: r.message.Topic,
			Detail: "what was held back leaves: " + destination(name)})
		st.l.openLanes()
	}
}

// failed counts a failure against the lane of the message's destination and returns where the message waits next.
func (st *settler) failed(r *result, now time.Time) message.Lane {
	name := st.own(r)
	to, parkedNow := st.l.lanes.failed(name, r.outcome.Kind == scheduler.NoListener, reason(r.outcome.Err), now)
	if parkedNow {
		why := "nobody listens on " + cmp.Or(name.Name(), r.message.Topic)
		if r.outcome.Kind != scheduler.NoListener {
			why = destination(name) + " takes nothing: " + reason(r.outcome.Err)
		}
		st.log.Warn().Err(r.outcome.Err).Str("lane", string(name)).Str("topic", r.message.Topic).Msg("lane parked")
		st.l.cfg.Events.Tell(scheduler.Event{Kind: scheduler.EventParked, Topic: r.message.Topic, Detail: why})
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

// reasonUnparked is the reason of a delivery out of the lane in which the message was parked.
const reasonUnparked = "unparked"

// returned reports whether an attempt changed its message, which now waits in the given lane, and why the message waits
// again. If NATS did not accept the message for now and nobody can have seen it, or its mark says already that somebody
// may have, the message changes only if it moves into a parked lane. Neither probes nor other vain attempts therefore
// raise the version of a waiting message.
func returned(r *result, lane message.Lane) (kind message.Kind, why string, changed bool) {
	switch r.outcome.Kind {
	case scheduler.NotSent:
		return message.KindPlain, "", false
	case scheduler.Unanswered, scheduler.NoListener:
		doubtful := r.outcome.Unvouched && !r.message.Mark.Uncertain
		if !doubtful && (!lane.Parks() || r.from.lane.Parks()) {
			return message.KindPlain, "", false
		}
		if !lane.Parks() {
			return message.KindPlain, bounded(attempted(&r.outcome)), true
		}
		return message.KindParked, bounded("parked: " + attempted(&r.outcome)), true
	}
	return message.KindPlain, bounded(attempted(&r.outcome)), true
}

// attempted describes how an attempt went.
func attempted(o *scheduler.Outcome) string {
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
