package schedulertest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// allCounts returns the counts of every topic, by name.
func (t *trial) allCounts() []scheduler.TopicCount {
	t.Helper()
	return t.countsAfter("", wide)
}

// countsAfter returns a page of the counts.
func (t *trial) countsAfter(after string, limit int) []scheduler.TopicCount {
	t.Helper()
	page, err := t.tl.Counts(t.Context(), after, limit)
	t.must("counts", err)
	for i, c := range page {
		if i >= limit || c.Topic <= after {
			t.Fatalf("after %q at most %d: %+v", after, limit, page)
		}
		after = c.Topic
	}
	return page
}

func sortCounts(all []scheduler.TopicCount) {
	slices.SortFunc(all, func(a, b scheduler.TopicCount) int { return cmp.Compare(a.Topic, b.Topic) })
}

// counts returns the counts of one topic, which must agree with the list of all topics.
func (t *trial) counts(topic string) (c scheduler.TopicCount) {
	t.Helper()
	c, err := t.tl.Count(t.Context(), topic)
	t.must("count", err)
	listed := scheduler.TopicCount{Topic: topic}
	for _, other := range t.allCounts() {
		if other.Topic == topic {
			listed = other
			if other == (scheduler.TopicCount{Topic: topic}) {
				t.Fatalf("%q is listed with nothing", topic)
			}
		}
	}
	if c != listed {
		t.Fatalf("counts of %q are %+v, the list says %+v", topic, c, listed)
	}
	return c
}

// wantCounts compares the counts of the topic "content".
func (t *trial) wantCounts(step string, waiting, inFlight, dead int) {
	t.Helper()
	if got, want := t.counts("content"),
		(scheduler.TopicCount{Topic: "content", Waiting: waiting, InFlight: inFlight, Dead: dead}); got != want {
		t.Fatalf("%s: %+v, want %+v", step, got, want)
	}
}

var countPromises = []promise{
	{name: "totals count what every bucket holds, what is due and what holds it", check: func(t *trial) {
		totals := func(want ...scheduler.Total) {
			t.Helper()
			got, err := t.tl.Totals(t.Context(), t.now)
			t.must("totals", err)
			want = append(want, make([]scheduler.Total, int(t.o.Buckets)-len(want))...)
			if !slices.Equal(got, want) {
				t.Fatalf("got %+v\nwant %+v", got, want)
			}
		}
		totals()
		due := func(s int) message.Milli { return Start.Add(time.Duration(s) * time.Second) }
		add := func(n, s int) { t.one(Message(n, DueIn(time.Duration(s)*time.Second))) }
		for n := 1; n <= 6; n++ {
			add(n, 1)
		}
		t.one(Message(20, In(1), DueIn(time.Minute)))
		other := scheduler.Total{Next: due(60), Waiting: [message.Holds]scheduler.Waiting{{Count: 1, Oldest: due(60)}}}
		totals(scheduler.Total{Next: due(1), Waiting: [message.Holds]scheduler.Waiting{{Count: 6, Oldest: due(1)}}}, other)
		t.pass(time.Second)
		totals(
			scheduler.Total{Waiting: [message.Holds]scheduler.Waiting{{Count: 6, Overdue: 6, Oldest: due(1)}}}, other)
		for i, m := range t.claim() {
			switch i {
			case 0:
				t.finish(message.StateDead, m)
			case 1:
				t.finish(message.StateDelivered, m)
			case 2, 3, 4:
				lane := []message.Lane{"ORDERS", "paused.mail.>", "late.*"}[i-2]
				score := m.Score()
				if lane == "ORDERS" {
					score = message.ScoreNow(due(9))
				}
				t.giveBack(m, score, message.Mark{Lane: lane})
			}
		}
		add(7, 3)
		totals(scheduler.Total{InFlight: 1, Dead: 1, Next: due(3), Waiting: [message.Holds]scheduler.Waiting{
			message.HoldNone:   {Count: 1, Oldest: due(3)},
			message.HoldParked: {Count: 1, Overdue: 1, Oldest: due(1)}, // by its own due, wherever it stands
			message.HoldPaused: {Count: 1, Overdue: 1, Oldest: due(1)},
			message.HoldRate:   {Count: 1, Overdue: 1, Oldest: due(1)},
		}}, other)
	}},
	{name: "totals know when the next falls due, whoever gets it and whatever its priority", check: func(t *trial) {
		next := func(want int) {
			t.Helper()
			totals, err := t.tl.Totals(t.Context(), t.now)
			t.must("totals", err)
			var sum scheduler.Total
			for _, bucket := range totals {
				sum.Add(bucket)
			}
			due := message.Milli(0)
			if want > 0 {
				due = t.now.Add(time.Duration(want) * time.Millisecond)
			}
			if sum.Next != due {
				t.Fatalf("now %d: got %d, want %d", t.now, sum.Next, due)
			}
		}
		for n, ms := range []int{5000, 4000, 3000, 2000, 1000} {
			options := []With{DueIn(time.Duration(ms) * time.Millisecond), Priority(uint8(ms % 3 * 100))}
			if n%2 == 1 {
				options = append(options, ForPull())
			}
			t.one(Message(n, options...))
			next(ms)
		}
		t.one(Message(10, DueIn(2500*time.Millisecond), ForPull(), Keyed("key"), inLine))
		t.one(Message(11, DueIn(2600*time.Millisecond), ForPull(), Keyed("key"), inLine)) // waits behind the other
		for _, want := range []int{1000, 1000, 500, 100, 400, 1000, 1000} {
			next(want)
			t.pass(time.Duration(want) * time.Millisecond)
		}
		next(0)
	}},
	{name: "falls count what is due within spans, whoever gets it and whatever its priority", check: func(t *trial) {
		at := func(ms int) message.Milli { return Start.Add(time.Duration(ms) * time.Millisecond) }
		falls := func(times []message.Milli, want ...int) {
			t.Helper()
			for range 2 {
				got, err := t.tl.Falls(t.Context(), times)
				t.must("falls", err)
				if !slices.Equal(got, want) {
					t.Fatalf("%v: got %v, want %v", times, got, want)
				}
			}
		}
		falls(nil)
		falls([]message.Milli{at(0)})
		edges := []message.Milli{at(1000), at(2000), at(2001), at(9000)}
		falls(edges, 0, 0, 0)
		number := 0
		add := func(ms int, options ...With) {
			number++
			t.one(Message(number, append(options, DueIn(time.Duration(ms)*time.Millisecond))...))
		}
		for _, ms := range []int{999, 1000, 1999, 2000, 2001, 8999, 9000} { // at an edge, and on both sides of it
			for _, priority := range []uint8{0, 255} {
				add(ms, Priority(priority))
				add(ms, Priority(priority), ForPull())
			}
		}
		falls(edges, 8, 4, 8)
		add(1500, ForPull(), Keyed("key"), inLine)
		add(1600, ForPull(), Keyed("key"), inLine) // it waits behind the other
		falls(edges, 10, 4, 8)
		many := []message.Milli{at(0)} // more than one script counts
		for i := range 721 {
			many = append(many, at(100*(i+1)))
		}
		got, err := t.tl.Falls(t.Context(), many)
		sum := 0
		for _, n := range got {
			sum += n
		}
		if t.must("falls", err); len(got) != 721 || sum != number || got[9] != 4 || got[90] != 4 {
			t.Fatalf("of %d messages %d fall in %v", number, sum, got)
		}
	}},
	{name: "a sample reads all of few messages, and of many a share that stands for each topic", check: func(t *trial) {
		const topics, many = 10, 6000
		at := func(ms int) message.Milli { return Start.Add(time.Duration(ms) * time.Millisecond) }
		sample := func(from, until message.Milli, n int) (of int, read []scheduler.Sampled) {
			t.Helper()
			for again := range 2 {
				got, err := t.tl.Sample(t.Context(), from, until, n)
				t.must("sample", err)
				sum, all := 0, []scheduler.Sampled(nil)
				for _, s := range got {
					sum += s.Of
					all = append(all, s.Read...)
				}
				slices.SortFunc(all, func(x, y scheduler.Sampled) int {
					return cmp.Or(cmp.Compare(x.Due, y.Due), strings.Compare(x.Topic, y.Topic))
				})
				if again > 0 && (sum != of || len(all) != len(read)) {
					t.Fatalf("again: %d of %d, not %d of %d", len(all), sum, len(read), of)
				}
				of, read = sum, all
			}
			return of, read
		}
		if of, read := sample(at(0), at(1), 1000); of != 0 || read != nil {
			t.Fatalf("of nothing: %d %v", of, read)
		}
		want := []scheduler.Sampled{}
		for n, ms := range []int{999, 1000, 1000, 5000, 8999, 9000} {
			m := t.one(Message(n+1, DueIn(time.Duration(ms)*time.Millisecond), On(fmt.Sprint("few.", n)),
				In(message.Bucket(n%2)), pulled(n%3 == 2)))
			if ms >= 1000 && ms < 9000 {
				want = append(want, scheduler.Sampled{Topic: m.Topic, Due: m.Due})
			}
		}
		if of, read := sample(at(1000), at(9000), 1000); of != len(want) || !slices.Equal(read, want) {
			t.Fatalf("%d %v, want %v", of, read, want)
		}
		// Topic n has n of 55 parts, in bursts of up to a hundred that are due at once, and one of three is for pull.
		due, parts := 10_000, 0
		for n := 100; n < many; {
			topic := n / 7 % topics
			var batch []*message.Message
			for range 10 * (topic + 1) {
				batch = append(batch, Message(n, DueIn(time.Duration(due)*time.Millisecond), On(fmt.Sprint("many.", topic)),
					pulled(topic%3 == 0)))
				n++
			}
			parts += len(batch)
			t.add(batch...)
			due += 100
		}
		counts := map[string]int{}
		for topic := range topics {
			counts[fmt.Sprint("many.", topic)] = t.counts(fmt.Sprint("many.", topic)).Waiting
		}
		of, read := sample(at(10_000), at(due), int(t.o.Buckets)*2048)
		got := map[string]int{}
		for _, s := range read {
			got[s.Topic]++
		}
		if of != parts || len(read) > 2048 || len(read) < 2000 {
			t.Fatalf("%d of %d messages read of %d", len(read), of, parts)
		}
		for topic, count := range counts {
			share, true := float64(got[topic])/float64(len(read)), float64(count)/float64(parts)
			if math.Abs(share-true) > 0.03 {
				t.Errorf("%s: a share of %.3f, which is %.3f", topic, share, true)
			}
		}
	}},
	{name: "the oldest of a lane is known by its own due, however often it was probed", check: func(t *trial) {
		const lane = "core:orders.7"
		due := func(s int) message.Milli { return Start.Add(time.Duration(s) * time.Second) }
		var all []*message.Message
		for n := 1; n <= 6; n++ {
			all = append(all, Message(n, DueIn(time.Duration(n)*time.Second)))
		}
		t.added(all...)
		t.pass(time.Minute)
		for _, m := range t.claim() {
			t.giveBack(m, m.Score(), message.Mark{Lane: lane})
		}
		holds := func(step string, count, oldest int) {
			t.Helper()
			totals, err := t.tl.Totals(t.Context(), t.now)
			t.must("totals", err)
			want := scheduler.Waiting{Count: count, Overdue: count}
			if count > 0 {
				want.Oldest = due(oldest)
			}
			if got := totals[0].Waiting[message.HoldParked]; got != want {
				t.Fatalf("%s: %+v, want %+v", step, got, want)
			}
		}
		holds("parked", 6, 1)
		probe := func(wait time.Duration) {
			t.Helper()
			m := t.claimFrom(0, lane, 1, wide).Messages[0]
			t.giveBack(m, message.ScoreNow(t.now.Add(wait)), message.Mark{Lane: lane})
		}
		for range 3 { // the first three stand last now
			t.pass(time.Second)
			probe(0)
		}
		holds("three probed", 6, 1)
		probe(5 * time.Second)
		holds("one waits for its next probe", 6, 1)
		t.canceled(all[0].UID, scheduler.CancelDone)
		holds("the oldest canceled", 5, 2)
		t.amend(moved(all[1], 1, due(3600)), scheduler.AmendDone)
		holds("the next one moved", 4, 3)
		claimed := t.claimFrom(0, lane, 3, wide).Messages
		t.wantUIDs(claimed, []*message.Message{all[4], all[5], all[2]})
		holds("one left", 1, 4)
		t.giveBack(claimed[2], claimed[2].Score(), message.Mark{Lane: lane})
		holds("given back to its own place", 2, 3)
		t.pass(time.Minute)
		t.claimFrom(0, lane, wide, wide)
		holds("emptied", 0, 0)
	}},
	{name: "restored messages are counted as what they are", check: func(t *trial) {
		make := func(n int) *message.Message { return Message(n, Content("x"), DueIn(time.Hour)) }
		t.restored([]record.RestoreCode{added, added, added}, recordOf(make(1), message.StateWaiting, 1),
			recordOf(make(2), message.StateDead, 2), recordOf(make(3), message.StateDelivered, 2))
		t.wantCounts("restored", 1, 0, 1)
		other := make(1)
		other.Topic = "other"
		t.restored([]record.RestoreCode{raised}, recordOf(other, message.StateWaiting, 2))
		t.wantCounts("raised", 0, 0, 1)
		t.restored([]record.RestoreCode{raised}, recordOf(other, message.StateCanceled, 3))
		if c := t.counts("other"); c != (scheduler.TopicCount{Topic: "other"}) {
			t.Fatalf("ended: %+v", c)
		}
	}},
	{name: "topics are listed page by page, by name, each once and in full", check: func(t *trial) {
		for i := range 40 {
			topic := On(fmt.Sprintf("orders.%d", i))
			t.one(Message(i, In(message.Bucket(i)%t.o.Buckets), topic))
			t.one(Message(100+i, In(message.Bucket(i+1)%t.o.Buckets), topic))
		}
		for _, limit := range []int{1, 7, 39, 40, 100} {
			var met []scheduler.TopicCount
			for after := ""; ; after = met[len(met)-1].Topic {
				page := t.countsAfter(after, limit)
				if met = append(met, page...); len(page) < limit {
					break
				}
			}
			if len(met) != 40 {
				t.Fatalf("pages of %d list %d topics", limit, len(met))
			}
			for _, c := range met {
				if c.Waiting != 2 || c.InFlight+c.Dead != 0 {
					t.Fatalf("pages of %d: %+v", limit, c)
				}
			}
		}
		if page := t.countsAfter("orders.38x", 2); len(page) != 2 || page[0].Topic != "orders.39" ||
			page[1].Topic != "orders.4" {
			t.Fatalf("after what is no topic: %+v", page)
		}
	}},
}
