package memory

import (
	"cmp"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// entry is a message's stay in a bucket, from its acceptance until its end is forgotten.
type entry struct {
	uid     message.UID
	state   message.State
	version uint64
	place   int    // position in the order that holds the entry
	claim   uint64 // number of the claim, while in flight
	endedAt message.Milli
	// message has neither headers nor body once it has ended in any state but dead.
	message *message.Message
	kind    message.Kind
	other   message.UID // the message that kind refers to
	reason  string
	next    *entry   // an earlier attempt under the same name
	rival   *rival   // the later push that it meets when it returns; usually nil
	behind  *entry   // stands for the entry in its lane's behind; mostly nil
	pull    *pulling // nil unless consumers pull the message, and it lives
}

// lane holds the messages of a lane. A message that a probe put later in order than its own score is also in behind, by
// its own score, so that the oldest message of the lane is known.
type lane struct{ order, behind order }

// info returns the entry as the result of a look-up.
func (b *bucket) info(e *entry) message.Info {
	i := message.Info{Message: *e.message, State: e.state, Version: e.version, EndedAt: e.endedAt, Kind: e.kind,
		Other: e.other, Reason: e.reason}
	i.Mark.Uncertain = i.Mark.Uncertain || !e.state.Ended() && b.doubts(e.message)
	return i
}

// brief is info without headers and body.
func (b *bucket) brief(e *entry) message.Info {
	i := b.info(e)
	i.Headers, i.Body = nil, nil
	return i
}

// uncertain reports whether a consumer may have seen a message that has not ended.
func (b *bucket) uncertain(e *entry) bool { return e.message.Mark.Uncertain || b.doubts(e.message) }

// home returns the order for an entry in its state.
func (b *bucket) home(e *entry) *order {
	switch e.state {
	case message.StateWaiting:
		if e.message.Pull {
			switch {
			case e.pull.aside:
				return &b.aside
			case e.pull.behind:
				return &b.lineOf(e).behind
			}
			return b.stretch(e.message.Topic, e.message.Priority)
		}
		if name := e.message.Mark.Lane; name != "" {
			return &b.lane(name).order
		}
		return &b.due
	case message.StateInFlight:
		if e.leased() != nil {
			return &b.leases
		}
		return &b.claimed
	case message.StateDead:
		return &b.dead
	default:
		return &b.ended
	}
}

// lane returns the lane with a name.
func (b *bucket) lane(name message.Lane) *lane {
	l := b.lanes[name]
	if l == nil {
		l = new(lane)
		b.lanes[name] = l
	}
	return l
}

// enter adds an entry that is in no order to the order for its state.
func (b *bucket) enter(e *entry, rank int64) {
	if e.state == message.StateWaiting && e.message.Pull {
		b.expect(e)
		rank = e.message.Rank()
	}
	b.lineUp(e)
	switch {
	case e.state != message.StateWaiting || !e.message.Pull:
	case e.pull.behind:
		rank = e.message.Score()
		b.behind[e.message.Topic]++
	default:
		b.hasten(e)
	}
	b.home(e).push(e, rank)
	if own := e.message.Score(); e.state == message.StateWaiting && e.message.Mark.Lane != "" && rank > own {
		e.behind = &entry{uid: e.uid}
		b.lane(e.message.Mark.Lane).behind.push(e.behind, own)
	}
	b.count(e, 1)
}

// leave removes an entry from its order. Call it before changing the entry's state or lane.
func (b *bucket) leave(e *entry) {
	home := b.home(e)
	home.remove(e)
	if e.behind != nil {
		b.lane(e.message.Mark.Lane).behind.remove(e.behind)
		e.behind = nil
	}
	b.count(e, -1)
	if e.state == message.StateWaiting && e.message.Pull {
		if e.pull.behind {
			b.unhold(e.message.Topic)
		}
		b.unexpect(e)
	}
	b.stepOut(e)
	if e.state == message.StateWaiting && len(*home) == 0 && e.message.Mark.Lane != "" {
		delete(b.lanes, e.message.Mark.Lane)
	}
}

// wait adds an entry that is in no order to its bucket or lane.
func (b *bucket) wait(e *entry, score int64, mark message.Mark) {
	e.state, e.message.Mark, e.version = message.StateWaiting, mark, 1+uint64(mark.Changes)
	b.enter(e, score)
}

// end ends an entry that is in no order and drops the data that nobody will ask for.
func (b *bucket) end(e *entry, state message.State, uncertain bool, why cause, now message.Milli) {
	b.ends++
	e.version = e.message.Version() + 1
	e.state, e.endedAt, e.rival, e.pull = state, now, nil, nil
	if state.Kept() {
		b.enter(e, int64(now))
	} else {
		b.enter(e, b.ends)
		e.message.Headers, e.message.Body = nil, nil
		e.message.Origin, e.message.Retry, e.message.Lease = "", message.Retry{}, 0
	}
	e.message.Mark = message.Mark{Uncertain: uncertain, Refusals: e.message.Mark.Refusals, Changes: uint32(e.version - 1)}
	e.because(why, uncertain)
}

// cause is the reason for a change; see message.Kind.
type cause struct {
	kind   message.Kind
	other  message.UID
	reason string
}

// words returns the cause in words.
func (c *cause) words(uncertain bool) string {
	return cmp.Or(c.reason, c.kind.Words(c.other, uncertain))
}

// because records why an entry ended.
func (e *entry) because(why cause, uncertain bool) {
	e.kind, e.other, e.reason = why.kind, why.other, why.words(uncertain)
}
