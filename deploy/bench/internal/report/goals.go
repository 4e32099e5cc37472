package report

import (
	"fmt"
	"slices"
)

// goal is one line of the table: a figure of tarry, beside one of somebody else or alone, and what it should be.
type goal struct {
	work   string
	own    figureOf
	peer   figureOf // its zero value: no figure to compare with
	beside string   // what the peer's figure is called; empty: as its system
	least  float64  // the figure, or the ratio to the peer's, is at least this
	most   float64  // or at most this
	unit   unit
	inside bool // a ratio that is shown as a fraction, 1/80
}

// figureOf names a figure of a system.
type figureOf struct{ test, system, name string }

func (f figureOf) given() bool { return f.test != "" }

// goals are those of the design that this benchmark can hold itself against.
func goals(rates []int) []goal {
	all := []goal{
		{work: "push by tag, one producer waiting for each", own: figureOf{PushOne, Tarry, Kept},
			peer: figureOf{PushOne, JetStream, Rate}, least: 0.9, unit: perSecond},
		{work: "push by tag, one producer waiting for each", own: figureOf{PushOne, Tarry, Kept},
			peer: figureOf{PushOne, Schedules, Rate}, unit: perSecond},
		{work: "push by tag, 32 producers, acknowledged and accepted", own: figureOf{Push32, Tarry, Kept},
			peer: figureOf{Push32, Schedules, Rate}, least: 1.2, unit: perSecond},
		{work: "push over HTTP, batches of 1,000", own: figureOf{PushMany, Tarry, Kept},
			peer: figureOf{PushMany, Schedules, Rate}, least: 2, unit: perSecond},
		{work: "push over HTTP, batches of 1,000", own: figureOf{PushMany, Tarry, Kept},
			peer: figureOf{PushMany, Redis, Rate}, least: 0.75, unit: perSecond},
		{work: "push by tag, 256 in flight, acknowledged and accepted", own: figureOf{PushMany, TarryTag, Kept},
			peer: figureOf{PushMany, Schedules, Rate}, least: 2, unit: perSecond},
		{work: "push by tag, 256 in flight, acknowledged and accepted", own: figureOf{PushMany, TarryTag, Kept},
			peer: figureOf{PushMany, Redis, Rate}, least: 0.75, unit: perSecond},
		door("one producer waiting for each", PushOne, JetStream, 0.8),
		door("one producer waiting for each", PushOne, Answered, 0),
		door("32 producers", Push32, Schedules, 1.2),
		door("32 producers", Push32, Answered, 0),
		door("256 producers", Push256, Schedules, 1.2),
		door("256 producers", Push256, Answered, 0),
		door("256 in flight", PushMany, Schedules, 1.5),
		door("256 in flight", PushMany, Answered, 0),
		call("look up", OneGet), call("reschedule", OneReschedule), call("cancel", OneCancel),
		{work: "drain, all due at one instant", own: figureOf{Drain, Tarry, Rate},
			peer: figureOf{Drain, Schedules, Rate}, least: 2, unit: perSecond},
		{work: "drain, all due at one instant", own: figureOf{Drain, Tarry, Rate},
			peer: figureOf{Drain, JetStream, Rate}, least: 0.8, unit: perSecond},
		{work: "processor time per drained message, tarry", own: figureOf{Drain, Tarry, CPUMicros("tarry")}, most: 4,
			unit: microseconds},
		{work: "processor time per drained message, Redis", own: figureOf{Drain, Tarry, CPUMicros("redis")}, most: 3.5,
			unit: microseconds},
	}
	for i, rate := range rates {
		work := fmt.Sprintf("lateness p99 at %s/s", Thousands(rate))
		all = append(all, goal{work: work, own: figureOf{Late(rate), Tarry, P99}, most: []float64{1.5, 3}[min(i, 1)],
			unit: milliseconds},
			goal{work: work, own: figureOf{Late(rate), Tarry, P99}, peer: figureOf{Late(rate), Schedules, P99},
				most: 1.0 / 80, unit: milliseconds, inside: true},
			goal{work: work, own: figureOf{Late(rate), Tarry, P99}, peer: figureOf{Late(rate), JetStream, P99},
				most: []float64{1.8, 2.5}[min(i, 1)], unit: milliseconds},
			goal{work: work + ", ten viewers of the console", own: figureOf{Late(rate), Viewed, P99},
				peer: figureOf{Late(rate), Tarry, P99}, most: 1.05, unit: milliseconds})
	}
	all = append(all,
		goal{work: "Redis memory per pending message, beyond the body", own: figureOf{Pending, Tarry, Beyond},
			most: 250, unit: octets},
		goal{work: "RAM per pending message, of the server that keeps it", own: figureOf{Pending, Tarry, RSS},
			peer: figureOf{Pending, Schedules, RSS}, unit: octets},
		goal{work: "tarry's share of one core, all pending and nothing due",
			own: figureOf{Pending, Tarry, CPUPercent("tarry")}, most: 0.5, unit: percent},
	)
	return slices.Concat(all, journalGoals(), pullGoals(), plainGoals())
}

// door is a goal of the direct door. Answered is the bound: nothing that answers once Redis has a message is faster.
func door(how, test, peer string, least float64) goal {
	return goal{work: "push by the direct door, " + how, own: figureOf{test, TarryDoor, Rate},
		peer: figureOf{test, peer, Rate}, least: least, unit: perSecond}
}

// call is the goal of a call by id.
func call(what, kind string) goal {
	return goal{work: what + " by id and topic over NATS, 32 callers",
		own: figureOf{FeaturesCalls, TarryNATS, Of(kind, Rate)}, least: 10_000, unit: perSecond}
}

// verdict is a goal as it came out.
type verdict struct {
	own, peer, ratio spread
	hasPeer, hasGoal bool
	met              bool
}

// judge says how a goal came out; false: it was not measured.
func (b *Book) judge(g goal) (v verdict, ok bool) {
	own := b.series(g.own.test, g.own.system, g.own.name)
	if v.own, ok = own.spread(); !ok {
		return v, false
	}
	held := v.own.median
	if v.hasPeer = g.peer.given(); v.hasPeer {
		peer := b.series(g.peer.test, g.peer.system, g.peer.name)
		if v.peer, ok = peer.spread(); !ok {
			return v, false
		}
		if v.ratio, ok = own.over(peer).spread(); !ok {
			return v, false
		}
		held = v.ratio.median
	}
	v.hasGoal = g.least > 0 || g.most > 0
	v.met = held >= g.least && (g.most == 0 || held <= g.most)
	return v, true
}
