package schedulertest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// ExerciseModel runs random calls against a timeline and the reference. Both must answer each call alike. Each
// repeatable call is sent a second time; the repeat must mean the same and change nothing. After every step everything
// observable must be equal. At the end all waiting messages are drained: none is lost, and none comes twice.
func ExerciseModel(t *testing.T, open, reference Open) {
	zeros := make([]byte, maxBlocks*block)
	rapid.Check(t, func(rt *rapid.T) {
		o := Options{Buckets: message.Bucket(rapid.IntRange(1, 3).Draw(rt, "buckets")), EndedKeep: time.Minute,
			TombstoneKeep: 90 * time.Second, TombstoneLimit: 3}
		m := &model{
			T: rt, ctx: t.Context(), o: o, now: Start,
			terms: make([]uint64, o.Buckets), claimed: map[message.UID]*message.Message{},
			was:      map[message.UID]message.State{},
			had:      map[message.UID]handout{},
			versions: map[message.UID]uint64{}, timers: map[place]message.Milli{},
			zeros: zeros,
		}
		o.Record = m.realLog.recording()
		m.real = open(t, o)
		o.Record = m.refLog.recording()
		m.ref = reference(t, o)
		for range stretches {
			rt.Repeat(m.actions())
		}
		m.T = rt
		m.drain()
	})
}

// stretches is how many of rapid's usual runs follow each other on one pair of timelines, so that early messages have
// time to be forgotten.
const stretches = 3

// actions returns the calls of a run. Calls with many effects are listed twice.
func (m *model) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"add": m.add, "add more": m.add,
		"add again": m.addAgain,
		"begin":     m.begin,
		"claim":     m.claim, "claim more": m.claim,
		"claim lane": m.claimLane, "claim more of a lane": m.claimLane,
		"finish": m.finish, "finish more": m.finish,
		"return": m.giveBack,
		"park":   m.park, "park more": m.park,
		"sweep":  m.sweep,
		"held":   m.held,
		"cancel": m.cancel, "cancel more": m.cancel,
		"bury":  m.bury,
		"find":  m.find,
		"amend": m.amend, "amend more": m.amend,
		"named": m.named, "named more": m.named,
		"requeue": m.requeue, "purge": m.purge,
		"browse": m.browse,
		"pause":  m.pause, "resume": m.resume,
		"lease": m.lease, "lease more": m.lease, "lease again": m.leaseAgain,
		"settle": m.settle, "settle more": m.settle,
		"leases": m.leases, "ready": m.ready,
		"trim": m.trim, "trim more": m.trim,
		"wait": m.wait,
	}
}

// model is one run: both timelines, and what the run has sent so far.
type model struct {
	*rapid.T
	ctx       context.Context
	real, ref scheduler.Timeline
	o         Options
	now       message.Milli
	terms     []uint64 // the highest of each bucket
	claims    uint64   // numbers them
	minted    []*message.Message
	// claimed holds messages as they were claimed last. Some have ended since.
	claimed  map[message.UID]*message.Message
	requests []scheduler.LeaseRequest // of leases
	had      map[message.UID]handout
	nonces   scheduler.Nonce
	// timers are those that the real timeline has its instances set.
	timers map[place]message.Milli
	was    map[message.UID]message.State // at the last look
	// The changes reported to the journal, and the resulting version of each message.
	realLog, refLog recordings
	versions        map[message.UID]uint64
	zeros           []byte // the big bodies are slices of it
}

// call is one call of a timeline. It returns its answer as text that can be compared.
type call func(scheduler.Timeline) string

// step sends a call to both. When it may be repeated, same reports whether the second answer means what the first did,
// and whether the call may have gone on where it had stopped; nil is for calls that must answer the same.
func (m *model) step(what string, do call, repeat bool,
	same func(first, second string) (goesOn bool, wrong string)) {
	m.Logf("at %d: %s", m.now-Start, what)
	first := m.both(what, do)
	m.recorded(what)
	before := m.look(m.real)
	m.compare(what, before)
	m.watch(what, before)
	m.timely(what)
	wrote := m.writes()
	if repeat {
		second := m.both(what+", sent again", do)
		changes := m.recorded(what + ", sent again")
		goesOn, wrong := false, ""
		if same != nil {
			goesOn, wrong = same(first, second)
		} else if first != second {
			wrong = "want the same answer"
		}
		if wrong != "" {
			m.Fatalf("%s, sent twice: %s\n  first: %s\n second: %s", what, wrong, first, second)
		}
		after := before
		if now := m.writes(); now < 0 || now != wrote { // else there is nothing new to see
			after = m.look(m.real)
		}
		if goesOn {
			m.compare(what+", sent again", after)
			m.watch(what, after)
		} else if changes > 0 {
			m.Fatalf("%s, sent again, reported %d changes to the journal", what, changes)
		} else if changed := m.differ(before, after); changed != "" {
			m.Fatalf("%s, sent again, changed something:\n%s", what, changed)
		}
	}
	m.now++ // no two steps at one time
}

func (m *model) both(what string, do call) string {
	got, want := do(m.real), do(m.ref)
	if got != want {
		m.Fatalf("%s:\n got %s\nwant %s", what, got, want)
	}
	return got
}

func (m *model) compare(what string, got view) {
	if wrong := m.differ(m.look(m.ref), got); wrong != "" {
		m.Fatalf("after %s:\n%s", what, wrong)
	}
}

// view is everything observable about a timeline.
type view struct {
	lines []string // heads, lanes, claims, names, counts, totals and pauses
	heads []scheduler.Head
	lanes [][]scheduler.LaneCount
	infos [][]message.Info // of every message ever made
	// counts are those of the topics that have messages, by name. each is what Count returns, for every topic.
	counts []scheduler.TopicCount
	each   map[string]scheduler.TopicCount
	totals []scheduler.Total
}

func (m *model) look(tl scheduler.Timeline) (v view) {
	line := func(format string, args ...any) { v.lines = append(v.lines, fmt.Sprintf(format, args...)) }
	heads, err := tl.Heads(m.ctx)
	v.heads = slices.Clone(heads)
	for i := range heads {
		heads[i].Over = 0 // Redis may name an earlier time
	}
	line("heads %+v%s", heads, short(err))
	for bucket := range m.o.Buckets {
		lanes, err := tl.Lanes(m.ctx, bucket)
		line("lanes of %d: %+v%s", bucket, lanes, short(err))
		v.lanes = append(v.lanes, lanes)
		if m.terms[bucket] > 0 {
			held, err := tl.Held(m.ctx, bucket, m.terms[bucket], "", wide)
			line("held in %d: %v%s", bucket, held, short(err))
		}
	}
	for _, id := range ids {
		line("%s: %s", id, findUIDs(m.ctx, tl, scheduler.Ref{ID: id}))
	}
	v.counts, err = tl.Counts(m.ctx, "", wide)
	line("counts %+v%s", v.counts, short(err))
	v.each = map[string]scheduler.TopicCount{}
	for _, topic := range slices.Compact(slices.Clone(topics)) {
		count, err := tl.Count(m.ctx, topic)
		line("count of %s: %+v%s", topic, count, short(err))
		v.each[topic] = count
	}
	v.totals, err = tl.Totals(m.ctx, m.now)
	line("totals %+v%s", v.totals, short(err))
	falls, err := tl.Falls(m.ctx, []message.Milli{m.now + 1, m.now + 2, m.now.Add(time.Second), m.now.Add(time.Minute),
		m.now.Add(time.Hour)})
	line("falls %v%s", falls, short(err))
	samples, err := tl.Sample(m.ctx, m.now+1, m.now.Add(time.Hour), wide)
	for i := range samples {
		for n := range samples[i].Read {
			samples[i].Read[n].Topic = "" // Redis leaves out those of long ones
		}
		slices.SortFunc(samples[i].Read, func(x, y scheduler.Sampled) int { return cmp.Compare(x.Due, y.Due) })
	}
	line("samples %v%s", samples, short(err))
	pauses, _, err := tl.Pauses(m.ctx)
	line("pauses %+v%s", pauses, short(err))
	m.lookPulled(tl, line)
	v.infos = m.findAll(tl)
	return v
}

// manyFinder is a timeline that finds many messages at once, so that a look does not wait for each.
type manyFinder interface {
	FindAll(ctx context.Context, uids []message.UID) ([][]message.Info, error)
}

// writeCounter is a timeline that counts the writes of its store. Where there was none, nothing has changed.
type writeCounter interface {
	Writes(ctx context.Context) (int, error)
}

// writes returns how many writes the real timeline's store has made, or -1 if it does not tell.
func (m *model) writes() int {
	counts, is := m.real.(writeCounter)
	if !is {
		return -1
	}
	n, err := counts.Writes(m.ctx)
	if err != nil {
		m.Fatalf("writes: %v", err)
	}
	return n
}

// findAll finds every message ever made.
func (m *model) findAll(tl scheduler.Timeline) [][]message.Info {
	uids := make([]message.UID, len(m.minted))
	for i, minted := range m.minted {
		uids[i] = minted.UID
	}
	if many, is := tl.(manyFinder); is {
		found, err := many.FindAll(m.ctx, uids)
		if err != nil {
			m.Fatalf("find of all: %v", err)
		}
		return found
	}
	found := make([][]message.Info, len(uids))
	for i, uid := range uids {
		found[i] = m.byUID(tl, uid)
	}
	return found
}

func (m *model) byUID(tl scheduler.Timeline, uid message.UID) []message.Info {
	found, err := tl.Find(m.ctx, scheduler.Ref{UID: uid})
	if err != nil {
		m.Fatalf("find of %s: %v", uid, err)
	}
	return found
}

// differ returns the differences between two views, or the empty string if there are none.
func (m *model) differ(want, got view) string {
	var b strings.Builder
	for i := range want.lines {
		if want.lines[i] != got.lines[i] {
			fmt.Fprintf(&b, "want %s\n got %s\n", want.lines[i], got.lines[i])
		}
	}
	for i := range want.heads {
		if w, g := want.heads[i].Over, got.heads[i].Over; w > 0 && (g == 0 || g > w) {
			fmt.Fprintf(&b, "want a head of %d that may be over at %d\n got %d\n", i, w, g)
		}
	}
	for i := range want.infos {
		if !slices.EqualFunc(want.infos[i], got.infos[i], sameInfo) {
			fmt.Fprintf(&b, "want %s%s\n got %s%s\n", m.minted[i].UID, describeAll(want.infos[i]), m.minted[i].UID,
				describeAll(got.infos[i]))
		}
	}
	return b.String()
}

func sameInfo(a, b message.Info) bool {
	return a.UID == b.UID && a.ID == b.ID && a.Key == b.Key && a.Topic == b.Topic &&
		slices.Equal(a.Headers, b.Headers) && sameBody(a.Body, b.Body) &&
		a.Due == b.Due && a.Priority == b.Priority && a.TTL == b.TTL && a.Attempt == b.Attempt &&
		a.Digest == b.Digest && a.Stored == b.Stored &&
		a.Merge == b.Merge && a.MaxWait == b.MaxWait && a.Origin == b.Origin && a.Retry.Jitter == b.Retry.Jitter &&
		slices.Equal(a.Retry.Delays, b.Retry.Delays) &&
		a.Mark == b.Mark && a.State == b.State && a.Version == b.Version && a.EndedAt == b.EndedAt &&
		a.Reason == b.Reason && a.Pull == b.Pull && a.Serial == b.Serial && a.Lease == b.Lease &&
		a.Kind == b.Kind && a.Other == b.Other
}

// sameBody reports whether two bodies are equal. Bodies in the same place are, and need not be read.
func sameBody(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || bytes.Equal(a, b))
}

func describeAll(infos []message.Info) string {
	var b strings.Builder
	for _, i := range infos {
		b.WriteString(": " + describe(i))
	}
	return b.String()
}

// watch checks a view, which is the same on both timelines by now. Messages must follow the table of states, and heads,
// lanes, counts and totals must agree with the messages.
func (m *model) watch(what string, seen view) {
	heads := seen.heads
	waiting, inFlight := make([]int, len(heads)), make([]int, len(heads))
	lanes := make([][]message.Lane, len(heads))
	counts := map[string]scheduler.TopicCount{}
	parked := make([]scheduler.Waiting, len(heads))
	for i, minted := range m.minted {
		state, version, merged := message.StateNone, uint64(0), false
		if found := seen.infos[i]; len(found) == 1 {
			state, version = found[0].State, found[0].Version
			merged = isMerged(&found[0])
			c := counts[found[0].Topic]
			c.Topic = found[0].Topic
			switch state {
			case message.StateWaiting:
				c.Waiting++
			case message.StateInFlight:
				c.InFlight++
			case message.StateDead:
				c.Dead++
			}
			counts[c.Topic] = c
			b := minted.UID.Bucket(m.o.Buckets)
			lane := found[0].Mark.Lane
			if state == message.StateWaiting && lane != "" {
				parked[b].Add(scheduler.Waiting{Count: 1, Overdue: 1, Oldest: found[0].Due})
			}
			switch {
			case found[0].Pull: // not the leader's
			case state == message.StateInFlight:
				inFlight[b]++
			case state == message.StateWaiting && lane == "":
				waiting[b]++
			case state == message.StateWaiting && !slices.Contains(lanes[b], lane):
				lanes[b] = append(lanes[b], lane)
			}
		}
		was := m.was[minted.UID]
		forgotten := was.Ended() && was != message.StateDead && state == message.StateNone &&
			strings.HasPrefix(what, "trim")
		goes := func(t message.Transition) bool { return t.From == was && t.To == state }
		if state != was && !slices.ContainsFunc(message.Transitions(), goes) && !forgotten {
			m.Fatalf("%s took %s from %s to %s", what, minted.UID, was, state)
		}
		if merged && m.versions[minted.UID] != 0 {
			m.Fatalf("after %s: the journal records %s, which went into another", what, minted.UID)
		}
		if state != message.StateNone && !merged && version != m.versions[minted.UID] {
			m.Fatalf("after %s: the %s message %s has version %d, the journal records %d", what, state, minted.UID,
				version, m.versions[minted.UID])
		}
		if forgotten {
			delete(m.versions, minted.UID) // it may come again as if it were new
			delete(m.had, minted.UID)
		}
		m.was[minted.UID] = state
	}
	var recount []scheduler.TopicCount
	for topic, c := range counts {
		if c != (scheduler.TopicCount{Topic: topic}) {
			recount = append(recount, c)
		}
	}
	sortCounts(recount)
	if !slices.Equal(recount, seen.counts) {
		m.Fatalf("after %s: the counts are %+v\nthe messages say %+v", what, seen.counts, recount)
	}
	for topic, got := range seen.each {
		if want := cmp.Or(counts[topic], scheduler.TopicCount{Topic: topic}); got != want {
			m.Fatalf("after %s: the count of %s is %+v\nthe messages say %+v", what, topic, got, want)
		}
	}
	for b, h := range heads {
		if got := seen.totals[b].Waiting[message.HoldParked]; got != parked[b] {
			m.Fatalf("after %s: in the lanes of bucket %d wait %+v; the messages say %+v", what, b, got, parked[b])
		}
		names := namesOf(seen.lanes[b])
		slices.Sort(lanes[b])
		if h.Waiting != waiting[b] || h.Claimed != inFlight[b] || (h.Due == 0) != (waiting[b] == 0) ||
			h.Term != m.terms[b] || !slices.Equal(names, lanes[b]) {
			m.Fatalf("after %s: bucket %d is %+v with lanes %q; its messages say %d waiting, %d in flight, lanes "+
				"%q, term %d",
				what, b, h, names, waiting[b], inFlight[b], lanes[b], m.terms[b])
		}
	}
}

// namesOf returns the names of lanes.
func namesOf(lanes []scheduler.LaneCount) (names []message.Lane) {
	for _, l := range lanes {
		names = append(names, l.Lane)
	}
	return names
}

// isMerged reports whether a push was merged into another message.
func isMerged(i *message.Info) bool {
	return i.State == message.StateCanceled && i.Kind == message.KindMerged
}

// drain brings every waiting message to an end. Each message must come once.
func (m *model) drain() {
	m.now = m.now.Add(time.Hour)
	left := 0
	for b := range m.o.Buckets {
		m.terms[b]++
		term := m.terms[b]
		m.step(fmt.Sprintf("sweep of bucket %d at last", b), func(tl scheduler.Timeline) string {
			n, err := tl.Sweep(m.ctx, b, term, 0, wide, m.now)
			m.looked(tl, b)
			return fmt.Sprint(n, short(err))
		}, false, nil)
		names := namesOf(m.look(m.ref).lanes[b])
		m.drainPulled(b)
		for _, lane := range append(names, "") {
			m.take(b, scheduler.Claim{Term: term, Now: m.now, Limit: 1000, Bytes: wide, Lane: lane})
		}
		var ends []scheduler.End
		for _, minted := range m.minted {
			if minted.UID.Bucket(m.o.Buckets) == b && m.was[minted.UID] == message.StateInFlight {
				ends = append(ends, scheduler.End{Message: m.claimed[minted.UID], State: message.StateDelivered})
			}
		}
		m.end(b, term, ends)
	}
	for _, minted := range m.minted {
		if s := m.was[minted.UID]; s == message.StateWaiting || s == message.StateInFlight {
			m.Errorf("%s is %s after the drain", minted.UID, s)
			left++
		}
	}
	if left > 0 {
		m.FailNow()
	}
	m.drainOutboxes()
}

// short formats an error as both timelines return it.
func short(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, scheduler.ErrStaleTerm):
		return " stale"
	}
	return " error: " + err.Error()
}

func findUIDs(ctx context.Context, tl scheduler.Timeline, ref scheduler.Ref) string {
	found, err := tl.Find(ctx, ref)
	sortInfos(found)
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%s of %q on %s, ", f.UID, f.Key, f.Topic)
	}
	return b.String() + short(err)
}
