package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
)

// viewing is what an instance last told of how all does, and since when it has seen what is amiss.
type viewing struct {
	mu   sync.Mutex
	when time.Time
	last ops.Overview

	dates sync.Mutex
	since map[string]spell // by word and name
}

// spell is the time for which a condition holds.
type spell struct {
	since message.Milli
	seen  time.Time
}

const (
	// spellOver is how long a condition must be gone before it begins anew, so that what flickers has one beginning.
	spellOver = 5 * time.Second
	// lateStop is how late a message may be that nothing holds back, and lateHeld how long what holds others back may do
	// so, before an overview says so.
	lateStop = 2 * time.Second
	lateHeld = 10 * time.Second
	// journalPatience is how far the journal may be behind.
	journalPatience = 30 * time.Second
	// maxHeld is how many lanes are told one by one.
	maxHeld = 20
)

// overview says how all does. Viewers of a second share one reading, which none of them cuts short.
func (a *App) overview(ctx context.Context) ops.Overview {
	v := &a.viewing
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Since(v.when) > figuresKeep {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*a.callTimeout())
		s := a.situation(call)
		cancel()
		v.last, v.when = s.counts(), time.Now()
		v.last.Conditions = v.dated(s.conditions(), s.at, v.when)
	}
	return v.last
}

// watch notes what is amiss as far as it is known without asking, so that it begins when it does, and not when somebody
// looks.
func (a *App) watch() { a.viewing.dated(a.known().conditions(), a.clock.Milli(), time.Now()) }

// dated says of conditions since when they hold, if they do not know it, the worst first.
func (v *viewing) dated(all []ops.Condition, at message.Milli, now time.Time) []ops.Condition {
	v.dates.Lock()
	defer v.dates.Unlock()
	if v.since == nil {
		v.since = map[string]spell{}
	}
	for key, s := range v.since {
		if now.Sub(s.seen) > spellOver {
			delete(v.since, key)
		}
	}
	for i := range all {
		key := all[i].Word + " " + all[i].Name
		s, known := v.since[key]
		if !known {
			s.since = at
		}
		s.seen = now
		v.since[key], all[i].Since = s, cmp.Or(all[i].Since, s.since)
	}
	return ops.WorstFirst(all)
}

// situation is what an overview is made of. What is not known is nil.
type situation struct {
	reading
	cfg                                  config.Serve
	store, db                            holding
	other                                bool
	journal                              journal.Mode
	lag                                  *record.Lag
	nats, machine, intake, election, few error // what is amiss with them; few: no majority of clocks votes
	cluster                              *ops.Cluster
	lanes                                []scheduler.HeldGroup
	pauses                               []scheduler.Pause
	webhooks                             []ops.Webhook
	spread                               time.Duration
	votes, parts                         int // clocks, and parts of the store
	outbox                               int64
	holds, elects                        string // the names of the store and of what elects
}

// known returns what is known without asking.
func (a *App) known() *situation {
	s := &situation{cfg: a.cfg, other: a.same.other.Load(), journal: a.journal.mode, nats: a.health.natsErr(),
		machine: a.health.machineErr(), election: a.health.electionErr(), spread: a.clock.Spread(), votes: a.clock.Votes(),
		few: a.health.clocksErr(), webhooks: a.webhooks.View(), parts: int(a.store.Buckets()),
		outbox: a.cfg.Journal.Outbox, holds: a.holds(), elects: a.elects()}
	s.store, s.db = a.health.seen()
	if s.election == nil {
		s.cluster = a.roster.last()
	}
	return s
}

func (a *App) situation(ctx context.Context) *situation {
	s := a.known()
	var wait ops.Together
	wait.Go(func() {
		if info, err := a.cluster.Cluster(ctx); err == nil {
			s.cluster, s.election = &info, nil
		} else {
			s.cluster, s.election = nil, cmp.Or(s.election, err)
		}
	})
	wait.Go(func() { s.intake = a.contents.Consuming(ctx) })
	wait.Go(func() { s.pauses, _ = a.scheduler.Pauses(ctx) })
	wait.Go(func() {
		if a.journalAPI == nil {
			return
		}
		if lag, err := a.journalAPI.Lag(ctx); err == nil {
			s.lag = &lag
		}
	})
	s.reading = a.figures.read(ctx)
	s.at = cmp.Or(s.at, a.clock.Milli())
	if s.sum != nil && s.sum.Waiting[message.HoldNone].Overdue < s.overdue() {
		if lanes, err := a.leader.HeldLanes(ctx); err == nil {
			s.lanes = lanes[:min(len(lanes), maxHeld)]
		}
	}
	wait.Wait()
	return s
}

// overdue returns how many messages are due and wait.
func (s *situation) overdue() (n int) {
	for _, w := range s.sum.Waiting {
		n += w.Overdue
	}
	return n
}

// counts returns the figures of an overview.
func (s *situation) counts() ops.Overview {
	o := ops.Overview{AsOf: s.at, Journal: ops.JournalState{Mode: s.journal.String(), Lag: s.lag},
		Clocks: ops.ClockState{Voters: s.votes, SpreadMS: s.spread.Milliseconds()}}
	if s.sum != nil {
		c := &ops.MessageCounts{InFlight: s.sum.InFlight, Leased: s.sum.Leased, Dead: s.sum.Dead,
			Ready: s.sum.Waiting[message.HoldPull].Overdue}
		for hold, w := range s.sum.Waiting {
			c.Waiting += w.Count
			if w.Overdue > 0 {
				o.Overdue = append(o.Overdue, ops.Overdue{Held: message.Hold(hold).String(), Count: w.Overdue, Oldest: w.Oldest})
			}
		}
		c.Waiting -= c.Ready
		o.Messages, o.Next = c, s.sum.Next
	}
	if h := s.held; h != nil {
		o.Intake = &ops.IntakeCounts{Backlog: int(h.Pushes), Aside: int(h.Aside), Rejects: int(h.Rejects)}
	}
	if s.cluster != nil {
		o.Leader, o.Term = s.cluster.Leader, s.cluster.Term
		for _, i := range s.cluster.Instances {
			if i.Role == ops.RoleGone {
				o.Gone++
			} else if o.Instances++; i.CanLead {
				o.Healthy++
			}
		}
	}
	return o
}

// stopsDelivery has the conditions because of which what is due may not leave. The others stop pushes, or nothing.
var stopsDelivery = []string{ops.CondStoreAway, ops.CondFilling, ops.CondBucketAway, ops.CondElectionUnknown,
	ops.CondNoLeader, ops.CondNATSAway}

// conditions returns what is not as it should be.
func (s *situation) conditions() (all []ops.Condition) {
	when := func(is bool, level ops.Level, word, detail string, args ...any) *ops.Condition {
		c := ops.Condition{Word: word, Level: level}
		if !is {
			return &c
		}
		c.Detail = fmt.Sprintf(detail, args...)
		all = append(all, c)
		return &all[len(all)-1]
	}
	away, asked := len(s.store.closed)-s.store.filling, !errors.Is(s.store.err, errNotAsked)
	when(s.store.err != nil && asked, ops.LevelStop, ops.CondStoreAway,
		"%s does not answer: nothing is accepted and nothing leaves; what waits is kept in it", s.holds)
	when(s.other, ops.LevelStop, ops.CondOtherStore, "%s of this instance is another than the leader's", s.holds)
	when(s.store.err == nil && s.store.filling > 0, ops.LevelStop, ops.CondFilling,
		"%s has begun anew: the leader has %d of "+
			"its %d parts to certify, and to fill from the journal where they lack messages; nothing leaves those before",
		s.holds, s.store.filling, s.parts)
	when(s.store.err == nil && away > 0, ops.LevelStop, ops.CondBucketAway,
		"%d of %d parts of %s do not answer; messages of the others come and go", away, s.parts, s.holds)
	when(s.election != nil, ops.LevelStop, ops.CondElectionUnknown,
		"%s does not answer this instance, which does not know who leads", s.elects)
	when(s.cluster != nil && s.cluster.Leader == nil, ops.LevelStop, ops.CondNoLeader,
		"nobody leads: nothing leaves; pushes are accepted")
	when(s.nats != nil, ops.LevelStop, ops.CondNATSAway,
		"NATS: %v; what is due waits, and pushes over HTTP are accepted", s.nats)
	when(s.machine != nil, ops.LevelStop, ops.CondNoMachineID, "%v", s.machine)

	gone := s.db.err != nil && !errors.Is(s.db.err, errNotAsked)
	when(gone && s.journal == journal.Sync, ops.LevelStop, ops.CondJournalAway,
		"the journal does not answer: pushes and changes are refused, and what is due leaves")
	when(gone && s.journal == journal.Async, ops.LevelWarn, ops.CondJournalAway,
		"the journal does not answer; pushes are accepted until the outbox is full")
	lag, late := cmp.Or(s.lag, &record.Lag{}), false
	if lag.Oldest > 0 {
		late = s.at.Time().Sub(lag.Oldest.Time()) > journalPatience
	}
	behind := when(late || s.outbox > 0 && lag.Bytes > s.outbox/10*8, ops.LevelWarn, ops.CondJournalBehind,
		"%d changes wait for the journal, %d of %d bytes of the outbox", lag.Changes, lag.Bytes, s.outbox)
	behind.Oldest, behind.Since = lag.Oldest, lag.Oldest
	when(lag.Quarantined > 0, ops.LevelWarn, ops.CondQuarantined,
		"the journal could not record %d entries; tarry verify lists them", lag.Quarantined)
	when(s.journal == journal.Off, ops.LevelNote, ops.CondJournalOff,
		"the journal is off: %s alone keeps the messages, and what ends is forgotten after %s", s.holds, s.cfg.Ended.Keep)

	if leader, spare, unlinked := s.standbys(); leader != "" {
		when(spare == 0, ops.LevelWarn, ops.CondNoStandby, "no other instance is well: if %s dies, nobody takes over", leader)
		when(len(unlinked) > 0, ops.LevelWarn, ops.CondUnlinked,
			"%s: no link to the leader; if %s dies, its session must expire before another takes over",
			strings.Join(unlinked, ", "), leader)
	}
	apart := s.spread > clockAlarm
	when(apart, ops.LevelWarn, ops.CondClocks, "the clocks are %s apart; what is due is so by the median",
		s.spread.Round(time.Millisecond))
	when(!apart && s.few != nil, ops.LevelWarn, ops.CondClocks, "%v", s.few)
	when(!apart && s.few == nil && s.disputed > 0, ops.LevelWarn, ops.CondClocks,
		"by one clock messages have been due for %.1f s, and by the others they are not", s.disputed)
	held := cmp.Or(s.held, &intake.Held{})
	unread := s.held == nil && s.nats == nil // its stream may be gone
	when(s.intake != nil && (unread || held.Pushes > held.Aside), ops.LevelWarn, ops.CondIntakeWaits,
		"pushes by tag are not accepted: %v", s.intake).Count = int(held.Pushes - held.Aside)
	when(held.Aside > 0, ops.LevelWarn, ops.CondSetAside,
		"pushes by tag are set aside: their part of %s does not answer, or "+
			"did not a moment ago", s.holds).Count = int(held.Aside)
	when(held.Rejects > 0, ops.LevelNote, ops.CondRejects,
		"pushes by tag were refused; tarry rejected list shows them").Count = int(held.Rejects)
	for _, w := range s.webhooks {
		since, err := time.Parse(time.RFC3339, w.FailingSince)
		c := when(err == nil, ops.LevelWarn, ops.CondWebhookFails, "%s does not take what is posted to it: %s", w.Target,
			w.Outcome)
		c.Name, c.Since = w.Pattern, message.Milli(since.UnixMilli())
	}

	sum := cmp.Or(s.sum, &scheduler.Total{})
	by := func(hold message.Hold, patience time.Duration) bool { // some have waited for longer
		w := sum.Waiting[hold]
		return w.Overdue > 0 && s.at.Time().Sub(w.Oldest.Time()) > patience
	}
	counted := func(c *ops.Condition, hold message.Hold) {
		w := sum.Waiting[hold]
		c.Count, c.Oldest, c.Since = w.Overdue, w.Oldest, w.Oldest
	}
	why := "messages are late, and nothing holds them back: see who leads, and what it waits for"
	if slices.ContainsFunc(all, func(c ops.Condition) bool { return slices.Contains(stopsDelivery, c.Word) }) {
		why = "messages are late for that reason"
	}
	counted(when(by(message.HoldNone, lateStop), ops.LevelStop, ops.CondOverdue, "%s", why), message.HoldNone)
	counted(when(by(message.HoldPull, lateHeld), ops.LevelHeld, string(message.WhyUnpulled),
		"consumers have not pulled what is ready"), message.HoldPull)
	for _, l := range s.lanes {
		c := when(s.at.Time().Sub(l.Oldest.Time()) > lateHeld, ops.LevelHeld, string(l.Word), "%s", l.Detail)
		if c.Name, c.Count, c.Oldest, c.Since = l.Name, l.Count, l.Oldest, l.Since; l.Word == message.WhyPaused {
			c.By = l.By
		}
	}
	for _, p := range s.pauses[:min(len(s.pauses), maxHeld)] {
		holds := func(c ops.Condition) bool { return c.Word == string(message.WhyPaused) && c.Name == p.Pattern }
		c := when(!slices.ContainsFunc(all, holds), ops.LevelNote, string(message.WhyPaused),
			"%s is paused: what falls due there waits", p.Pattern)
		c.Name, c.By, c.Since = p.Pattern, p.By, p.At
	}
	return all
}

// standbys returns who leads, how many could take over, and who would not see at once that it is dead. Where nobody
// leads, and on one machine, there is nothing to tell.
func (s *situation) standbys() (leader string, spare int, unlinked []string) {
	if s.cfg.InMemory() || s.cluster == nil || s.cluster.Leader == nil {
		return "", 0, nil
	}
	for _, i := range s.cluster.Instances {
		if i.Role == ops.RoleStandby && i.CanLead {
			spare++
		}
		if i.Role == ops.RoleStandby && !i.Linked && s.cfg.Peer.Listen != config.PeerOff {
			unlinked = append(unlinked, i.Instance)
		}
	}
	return s.cluster.Leader.Instance, spare, unlinked
}
