package memory

import "github.com/tarry-mq/tarry/scheduler"

// entry is a message's stay in a bucket, from its acceptance until its end is
// forgotten.
type entry struct {
	uid     scheduler.UID
	state   scheduler.State
	version uint64
	place   int    // in the order that it stands in
	claim   uint64 // number of the claim, while in flight
	endedAt scheduler.Milli
	// message has neither headers nor body once it has ended otherwise than dead.
	message *scheduler.Message
	kind    scheduler.Kind
	other   scheduler.UID // that kind names
	reason  string
	next    *entry // an earlier attempt under the same name
	rival   *rival // the later push that it meets when it comes back, mostly none
	behind  *entry // stands for it in the order of that name of its lane
}

// lane is what waits aside together: by score, and what a probe put later than its
// own place by that place too, so that the oldest is known.
type lane struct{ order, behind order }

// info returns the answer of a look-up.
func (b *bucket) info(e *entry) scheduler.Info {
	i := scheduler.Info{Message: *e.message, State: e.state, Version: e.version, EndedAt: e.endedAt, Kind: e.kind,
		Other: e.other, Reason: e.reason}
	i.Mark.Uncertain = i.Mark.Uncertain || !e.state.Ended() && b.doubts(e.message)
	return i
}

// brief is info without headers and body.
func (b *bucket) brief(e *entry) scheduler.Info {
	i := b.info(e)
	i.Headers, i.Body = nil, nil
	return i
}

// uncertain reports whether a consumer may have seen a message that lives.
func (b *bucket) uncertain(e *entry) bool { return e.message.Mark.Uncertain || b.doubts(e.message) }

// home is the order that an entry of its state stands in.
func (b *bucket) home(e *entry) *order {
	switch e.state {
	case scheduler.StateWaiting:
		if name := e.message.Mark.Lane; name != "" {
			return &b.lane(name).order
		}
		return &b.due
	case scheduler.StateInFlight:
		return &b.claimed
	case scheduler.StateDead:
		return &b.dead
	default:
		return &b.ended
	}
}

// lane is the one of a name.
func (b *bucket) lane(name string) *lane {
	l := b.lanes[name]
	if l == nil {
		l = new(lane)
		b.lanes[name] = l
	}
	return l
}

// enter puts an entry that stands in no order into the one of its state.
func (b *bucket) enter(e *entry, rank int64) {
	b.home(e).push(e, rank)
	if own := e.message.Score(); e.state == scheduler.StateWaiting && e.message.Mark.Lane != "" && rank > own {
		e.behind = &entry{uid: e.uid}
		b.lane(e.message.Mark.Lane).behind.push(e.behind, own)
	}
	b.count(e, 1)
}

// leave takes an entry out of the order it stands in, before its state or lane
// changes.
func (b *bucket) leave(e *entry) {
	home := b.home(e)
	home.remove(e)
	if e.behind != nil {
		b.lane(e.message.Mark.Lane).behind.remove(e.behind)
		e.behind = nil
	}
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
func (b *bucket) end(e *entry, state scheduler.State, uncertain bool, why cause, now scheduler.Milli) {
	b.ends++
	e.version = e.message.Version() + 1
	e.state, e.endedAt, e.rival = state, now, nil
	if state == scheduler.StateDead {
		b.enter(e, int64(now))
	} else {
		b.enter(e, b.ends)
		e.message.Headers, e.message.Body = nil, nil
		e.message.Origin, e.message.Retry = "", scheduler.Retry{}
	}
	e.message.Mark = scheduler.Mark{Uncertain: uncertain, Changes: uint32(e.version - 1)}
	e.because(why, uncertain)
}

// cause is what made a change; see scheduler.Kind.
type cause struct {
	kind   scheduler.Kind
	other  scheduler.UID
	reason string
}

// words returns the cause in words.
func (c *cause) words(uncertain bool) string {
	if c.reason == "" {
		return c.kind.Words(c.other, uncertain)
	}
	return c.reason
}

// because notes why an entry ended.
func (e *entry) because(why cause, uncertain bool) {
	e.kind, e.other, e.reason = why.kind, why.other, why.words(uncertain)
}
