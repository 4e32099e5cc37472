package memory

import "github.com/tarry-mq/tarry/scheduler"

// entry is a message's stay in a bucket, from its acceptance until its end is
// forgotten.
type entry struct {
	uid     scheduler.UID
	state   scheduler.State
	version uint64
	// uncertain is what remains of the mark after the end.
	uncertain bool
	place     int    // in the order that it stands in
	claim     uint64 // number of the claim, while in flight
	due       scheduler.Milli
	endedAt   scheduler.Milli
	// message is nil for an end without a client id.
	message *scheduler.Message
	reason  string
	next    *entry // an earlier attempt under the same name
	rival   *rival // the later push that it meets when it comes back, mostly none
}

// info is what a look-up tells.
func (b *bucket) info(e *entry) scheduler.Info {
	i := scheduler.Info{State: e.state, Version: e.version, EndedAt: e.endedAt, Reason: e.reason}
	if e.message != nil {
		i.Message = *e.message
	} else {
		i.UID, i.Due = e.uid, e.due
		i.Mark.Uncertain, i.Mark.Changes = e.uncertain, uint32(e.version-1)
	}
	i.Mark.Uncertain = i.Mark.Uncertain || !e.state.Ended() && b.doubts(e.message)
	return i
}

// brief is info without headers and body.
func (b *bucket) brief(e *entry) scheduler.Info {
	i := b.info(e)
	i.Headers, i.Body = nil, nil
	return i
}

// uncertain tells whether a consumer may have seen a message that lives.
func (b *bucket) uncertain(e *entry) bool { return e.message.Mark.Uncertain || b.doubts(e.message) }

// home is the order that an entry of its state stands in.
func (b *bucket) home(e *entry) *order {
	switch e.state {
	case scheduler.StateWaiting:
		name := e.message.Mark.Lane
		if name == "" {
			return &b.due
		}
		lane := b.lanes[name]
		if lane == nil {
			lane = new(order)
			b.lanes[name] = lane
		}
		return lane
	case scheduler.StateInFlight:
		return &b.claimed
	case scheduler.StateDead:
		return &b.dead
	default:
		return &b.ended
	}
}

// enter puts an entry that stands in no order into the one of its state.
func (b *bucket) enter(e *entry, rank int64) {
	b.home(e).push(e, rank)
	b.count(e, 1)
}

// leave takes an entry out of the order it stands in, before its state or lane
// changes.
func (b *bucket) leave(e *entry) {
	home := b.home(e)
	home.remove(e)
	b.count(e, -1)
	if e.state == scheduler.StateWaiting && len(*home) == 0 && e.message.Mark.Lane != "" {
		delete(b.lanes, e.message.Mark.Lane)
	}
}

// wait puts an entry that stands in no order into its bucket or lane.
func (b *bucket) wait(e *entry, score int64, mark scheduler.Mark) {
	e.state, e.message.Mark, e.version = scheduler.StateWaiting, mark, 1+uint64(mark.Changes)
	b.enter(e, score)
}

// end is where an entry that stands in no order ends, and forgets what nobody
// will ask for.
func (b *bucket) end(e *entry, state scheduler.State, uncertain bool, reason string, now scheduler.Milli) {
	b.ends++
	e.version = e.message.Version() + 1
	e.state, e.endedAt, e.rival = state, now, nil
	if state == scheduler.StateDead {
		b.enter(e, int64(now))
	} else {
		b.enter(e, b.ends)
		if e.message.ID == "" {
			e.message, e.uncertain = nil, uncertain
			if state == scheduler.StateCanceled { // by whom, or for what, is asked later
				e.reason = reason
			}
			return
		}
		e.message.Headers, e.message.Body = nil, nil
		e.message.Origin, e.message.Retry = "", scheduler.Retry{}
	}
	e.message.Mark = scheduler.Mark{Uncertain: uncertain, Changes: uint32(e.version - 1)}
	e.reason = reason
}
