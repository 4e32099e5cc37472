package scheduler

import "time"

// judge decides what a round of results means for each message: an end, or
// another wait. It is the only place that knows what an outcome of NATS means.
func (sc *scanner) judge(results []result) (ends []End, back []aside) {
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
		case r.expired:
			s.metrics.expired.Inc()
			ends = append(ends, End{Message: m, State: StateExpired, Uncertain: mark.Uncertain, Reason: "its time to live was over"})
			continue
		case r.park != "":
			mark.Lane = r.park
			back = append(back, aside{Back{UID: m.UID, Claim: m.Claim, Score: m.Score(), Mark: mark}, m})
			continue
		}
		if r.outcome.Kind == Delivered {
			s.metrics.delivered.Inc()
			s.metrics.lateness.Observe(max(wall.Add(-mono.Sub(r.at)).Sub(m.Due.Time()), 0).Seconds())
			sc.succeeded(r)
			ends = append(ends, End{Message: m, State: StateDelivered, Stream: r.outcome.Stream, Sequence: r.outcome.Sequence})
			continue
		}
		s.metrics.failures.WithLabelValues(r.outcome.Kind.String()).Inc()
		score := m.Score()
		switch r.outcome.Kind {
		case NotSent:
			if r.from != "" {
				sc.l.lanes.unprobe(r.from, mono)
				mark.Lane = r.from
			}
		case Refused:
			sc.succeeded(r) // the destination answered; it is the message it does not take
			if mark.Refusals++; int(mark.Refusals) >= s.cfg.Attempts {
				s.metrics.dead.Inc()
				sc.log.Error().Err(r.outcome.Err).Str("uid", string(m.UID)).Str("topic", m.Topic).Uint32("refusals", mark.Refusals).Msg("message is dead")
				ends = append(ends, End{Message: m, State: StateDead, Uncertain: mark.Uncertain, Reason: reason(r.outcome.Err)})
				continue
			}
			sc.log.Warn().Err(r.outcome.Err).Str("uid", string(m.UID)).Str("topic", m.Topic).Uint32("refusals", mark.Refusals).Msg("message was refused")
			again := CeilMilli(wall.Add(firstBackoff << min(mark.Refusals, 5)))
			score = int64(again)<<8 | score&255
		case Unknown:
			mark.Uncertain = true
			mark.Lane = sc.failed(r, mono)
		default: // Unanswered, NoListener
			mark.Lane = sc.failed(r, mono)
		}
		switch {
		case mark.Lane == sharedLane:
			score = int64(CeilMilli(wall.Add(lastBackoff)))<<8 | score&255
		case mark.Lane != "" && mark.Lane == r.from && r.outcome.Kind != NotSent:
			// To the end of the lane, so that the next probe is another message: a
			// stream may refuse one subject and take all others.
			score = int64(CeilMilli(wall))<<8 | score&255
		}
		b := Back{UID: m.UID, Claim: m.Claim, Score: score, Mark: mark}
		if r.outcome.Kind != NotSent { // it was tried: a change that the journal tells
			b.Mark.Changes++
			b.Message, b.Reason = m, attempted(&r.outcome)
		}
		back = append(back, aside{b, m})
	}
	return ends, back
}

// succeeded opens the lane that a message went through.
func (sc *scanner) succeeded(r *result) {
	name := r.from
	if name == "" {
		if sc.l.lanes.empty() {
			return
		}
		name = sc.l.s.cfg.Publisher.Lane(r.message.Topic)
	}
	if sc.l.lanes.succeeded(name) {
		sc.log.Info().Str("lane", name).Msg("lane opened")
		for _, other := range sc.l.scanners {
			other.openLane()
		}
	}
}

// failed counts against the lane and tells where the message goes.
func (sc *scanner) failed(r *result, now time.Time) string {
	name := r.from
	if name == "" {
		name = sc.l.s.cfg.Publisher.Lane(r.message.Topic)
	}
	to, parkedNow := sc.l.lanes.failed(name, r.outcome.Kind == NoListener, now)
	if parkedNow {
		sc.log.Warn().Err(r.outcome.Err).Str("lane", name).Str("topic", r.message.Topic).Msg("lane parked")
	}
	if to == "" {
		to = r.from // it came from a lane that is open: there it waits
	}
	return to
}

// openLane ends the scanner's wait for a lane's turn.
func (sc *scanner) openLane() {
	sc.mu.Lock()
	sc.laneOpen = true
	sc.mu.Unlock()
	sc.rouse()
}

// attempted says why a message that was tried waits again.
func attempted(o *Outcome) string {
	if why := reason(o.Err); why != "" {
		return o.Kind.String() + ": " + why
	}
	return o.Kind.String()
}

// reason is an error's text, bounded for the store.
func reason(err error) string {
	if err == nil {
		return ""
	}
	s := err.Error()
	return s[:min(len(s), 200)]
}

var outcomeWords = [...]string{"delivered", "not_sent", "unanswered", "no_listener", "refused", "unknown"}

// String is the kind's word in metrics.
func (k OutcomeKind) String() string {
	if int(k) < len(outcomeWords) {
		return outcomeWords[k]
	}
	return "invalid"
}
