package schedulertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// ForPull makes consumers pull the message.
func ForPull() With { return func(d *draft) { d.message.Pull = true } }

// pulled sets who gets the message.
func pulled(is bool) With { return func(d *draft) { d.message.Pull = is } }

// Leased sets how long a consumer may hold a message.
func Leased(d time.Duration) With { return func(m *draft) { m.message.Lease = d } }

// poll is a request for the messages of a topic in bucket 0, which are leased for a minute.
func (t *trial) poll(topic string, limit int, nonce scheduler.Nonce) scheduler.LeaseRequest {
	return scheduler.LeaseRequest{Topic: topic, Limit: limit, Bytes: wide, Over: true, Nonce: nonce,
		Keep: 30 * time.Second, Now: t.now, From: t.now, Length: time.Minute, Consumer: "worker"}
}

// lease sends a request twice: the second finds the same messages.
func (t *trial) lease(r scheduler.LeaseRequest) scheduler.Leased {
	t.Helper()
	one := t.tl.Lease(t.Context(), []scheduler.LeaseRequest{r})[0]
	t.must("lease", one.Err)
	two := t.tl.Lease(t.Context(), []scheduler.LeaseRequest{r})[0]
	t.must("lease again", two.Err)
	if got, want := held(two), held(one); !slices.Equal(got, want) || r.Limit > 0 && !two.Known {
		t.Fatalf("sent twice: first %v, then %v, known %t", want, got, two.Known)
	}
	return one
}

// held formats what a lease took, by uid.
func held(l scheduler.Leased) (all []string) {
	for _, m := range l.Messages {
		all = append(all, fmt.Sprintf("%s until %d, %+v", m.UID, m.Until, m.Mark))
	}
	slices.Sort(all)
	return all
}

// pull leases a message that must be the only one ready on its topic.
func (t *trial) pull(m *message.Message, nonce scheduler.Nonce) scheduler.LeasedMessage {
	t.Helper()
	r := t.poll(m.Topic, 10, nonce)
	r.Bucket = t.bucketOf(m)
	l := t.lease(r)
	if len(l.Messages) != 1 || l.Messages[0].UID != m.UID {
		t.Fatalf("pull of %s: got %v", m.UID, held(l))
	}
	return l.Messages[0]
}

// wantNothing checks that nothing is ready on the topic work.
func (t *trial) wantNothing(nonce scheduler.Nonce) scheduler.Leased {
	t.Helper()
	l := t.lease(t.poll(work, 10, nonce))
	if len(l.Messages) > 0 {
		t.Fatalf("got %v, want nothing", held(l))
	}
	return l
}

func of(m *message.Message, verb scheduler.Verb, nonce scheduler.Nonce) scheduler.Settle {
	return scheduler.Settle{Verb: verb, UID: m.UID, Topic: m.Topic, Nonce: nonce}
}

// settle settles a lease, which must come to code and leave the message in a state. Whatever was done is done again.
func (t *trial) settle(s scheduler.Settle, code scheduler.SettleCode, state message.State) scheduler.Settled {
	t.Helper()
	one := t.settleOnce(s)
	if one.Code != code || one.Info.State != state {
		t.Fatalf("verb %d of %s: code %d and %s, want %d and %s", s.Verb, s.UID, one.Code, one.Info.State, code, state)
	}
	repeatable := s.Nonce != 0 && s.Verb != scheduler.Extend && s.Verb != scheduler.Expire &&
		s.Verb != scheduler.Discard && s.Verb != scheduler.Until
	if two := t.settleOnce(s); one.Code == scheduler.SettleDone && repeatable &&
		(two.Code != scheduler.SettleAgain || two.Info.Version != one.Info.Version || two.Info.Due != one.Info.Due) {
		t.Fatalf("verb %d of %s, sent twice: %+v\nthen %+v", s.Verb, s.UID, one, two)
	}
	return one
}

func (t *trial) settleOnce(s scheduler.Settle) scheduler.Settled {
	t.Helper()
	settled, _, err := t.tl.Settle(t.Context(), s.UID.Bucket(t.o.Buckets), 0, []scheduler.Settle{s}, t.now)
	t.must("settle", err)
	if len(settled) != 1 {
		t.Fatalf("settle of one: %d results", len(settled))
	}
	return settled[0]
}

func (t *trial) leases(q scheduler.LeaseQuery) scheduler.LeasePage {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	bucket := message.Bucket(0)
	if len(q.UIDs) > 0 {
		bucket = q.UIDs[0].Bucket(t.o.Buckets)
	}
	page, err := t.tl.Leases(t.Context(), bucket, q, t.now)
	t.must("leases", err)
	return page
}

// wantPulled compares what is leased and due on the topic work.
func (t *trial) wantPulled(leased, due int) {
	t.Helper()
	got, err := t.tl.Pulled(t.Context(), []string{"nothing.here", work}, []message.Milli{t.now})
	t.must("pulled", err)
	if len(got) != 2 || got[1].Leased != leased || got[1].Due[0] != due || got[0].Leased+got[0].Due[0] > 0 {
		t.Fatalf("pulled: %+v, want %d leased and %d due", got, leased, due)
	}
}

// ready asks bucket 0 what is ready on the topic work.
func (t *trial) ready(count int) scheduler.TopicReady {
	t.Helper()
	found := t.tl.Ready(t.Context(), []scheduler.Want{{Topics: []scheduler.TopicWant{{Topic: work,
		Count: count}}}}, t.now)[0]
	t.must("ready", found.Err)
	if len(found.Topics) != 1 {
		t.Fatalf("ready: %+v", found)
	}
	return found.Topics[0]
}

const work = "work"

var pullPromises = []promise{
	{name: "a message for pull is ready by the clock alone, and never claimed", check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work), DueIn(time.Second)))
		if next := t.wantNothing(1).Next; next == 0 || next > m.Due {
			t.Fatalf("the next is due at %d, want %d", next, m.Due)
		}
		if r := t.ready(5); len(r.Ranks) != 0 || r.Next == 0 || r.Next > m.Due {
			t.Fatalf("ready: %+v", r)
		}
		t.pass(time.Second)
		if r := t.ready(5); !slices.Equal(r.Ranks, []int64{m.Rank()}) {
			t.Fatalf("ready: %+v, want %d", r, m.Rank())
		}
		t.wantPulled(0, 1)
		t.wantHead(0, scheduler.Head{})
		t.wantUIDs(t.claim(), nil)
		got := t.pull(m, 2)
		if got.Until != t.now.Add(time.Minute) || string(got.Body) != string(m.Body) {
			t.Fatalf("leased until %d with %q", got.Until, got.Body)
		}
		t.wantState(m.UID, message.StateInFlight)
		t.wantPulled(1, 0)
		t.wantNothing(3)
		if n := t.sweep(0, 100); n != 0 {
			t.Fatalf("a sweep took %d leases", n)
		}
	}},
	{name: "who pulls gets the highest priority, then the earliest due, then the first accepted", check: func(t *trial) {
		late := Message(1, ForPull(), On(work), DueIn(-time.Second), Priority(3))
		same := Message(2, ForPull(), On(work), DueIn(-2*time.Second), Priority(3))
		next := Message(3, ForPull(), On(work), DueIn(-2*time.Second), Priority(3))
		low := Message(4, ForPull(), On(work), DueIn(-time.Hour))
		high := Message(5, ForPull(), On(work), DueIn(time.Hour), Priority(200))
		t.added(late, low, next, high, same)
		want := []*message.Message{same, next, late, low}
		if r := t.ready(3); !slices.Equal(r.Ranks, []int64{same.Rank(), next.Rank(), late.Rank()}) {
			t.Fatalf("ready: %v", r.Ranks)
		}
		first := t.lease(t.poll(work, 2, 7))
		rest := t.lease(t.poll(work, 10, 8))
		var got []*message.Message
		for _, m := range append(first.Messages, rest.Messages...) {
			got = append(got, m.Message)
		}
		t.wantUIDs(got, want)
		if rest.Next == 0 || rest.Next > high.Due {
			t.Fatalf("the next is due at %d, want %d", rest.Next, high.Due)
		}
	}},
	{name: "a lease is bounded in bytes, and the first message may weigh more", check: func(t *trial) {
		big := make([]byte, 4000)
		t.added(Message(1, ForPull(), On(work), Body(big)), Message(2, ForPull(), On(work), Body(big)))
		r := t.poll(work, 10, 1)
		r.Bytes, r.Over = 100, false
		if l := t.lease(r); len(l.Messages) != 0 {
			t.Fatalf("more than allowed: %v", held(l))
		}
		r.Over, r.Nonce = true, 2
		if l := t.lease(r); len(l.Messages) != 1 {
			t.Fatalf("want one: %v", held(l))
		}
	}},
	{name: "a message's own lease applies unless the poll fixes it", check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work), Leased(5*time.Minute)))
		if got := t.pull(m, 1); got.Until != t.now.Add(5*time.Minute) {
			t.Fatalf("until %d", got.Until)
		}
		t.settle(of(m, scheduler.Release, 1), scheduler.SettleDone, message.StateWaiting)
		r := t.poll(work, 1, 2)
		r.Fixed = true
		if got := t.lease(r); got.Messages[0].Until != t.now.Add(time.Minute) {
			t.Fatalf("until %d", got.Messages[0].Until)
		}
	}},
	{name: "an acknowledgement delivers, whoever repeats it", recorded: true, check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work)))
		t.pull(m, 1)
		t.pass(time.Second)
		t.settle(of(m, scheduler.Ack, 1), scheduler.SettleDone, message.StateDelivered)
		if got := t.get(m.UID); got.Reason != "consumer worker" || got.EndedAt != t.now || got.Mark.Uncertain || !got.Pull {
			t.Fatalf("delivered: %s", describe(got))
		}
		t.settle(of(m, scheduler.Ack, 99), scheduler.SettleAgain, message.StateDelivered)
		t.settle(of(m, scheduler.Nack, 1), scheduler.SettleLost, message.StateDelivered)
		t.wantNothing(2)
		t.wantPulled(0, 0)
		last := t.log.of(m.UID)
		if c := last[len(last)-1]; len(last) != 2 || c.Version != 2 || c.State != message.StateDelivered ||
			c.Claimed != Start || c.Attempt != 1 || c.Reason != "consumer worker" {
			t.Fatalf("the journal gets %+v", last)
		}
	}},
	{name: "an answer stays within its page, and the next request has the rest", check: func(t *trial) {
		var all []*message.Message
		for n := range 6 {
			all = append(all, Message(n, ForPull(), On(work), Body(make([]byte, block))))
		}
		t.added(all...)
		ask := func(limit, skip, page, want, next int, known bool) {
			t.Helper()
			r := t.poll(work, limit, 1)
			r.Skip, r.Page, r.Over = skip, page, skip == 0
			l := t.tl.Lease(t.Context(), []scheduler.LeaseRequest{r})[0]
			t.must("lease", l.Err)
			if len(l.Messages) != want || l.Skip != next || l.Known != known {
				t.Fatalf("beyond %d: %d messages, next %d, known %t; want %d, %d, %t", skip, len(l.Messages), l.Skip, l.Known,
					want, next, known)
			}
		}
		two := 2*block + block/2
		ask(5, 0, two, 2, 2, false)
		ask(5, 0, two, 2, 0, true)
		ask(3, 2, two, 2, 4, false)
		ask(3, 2, two, 2, 0, true) // its answer was lost
		ask(5, 0, two, 2, 2, true)
		ask(1, 4, 1, 1, 0, false) // the first may weigh more
		t.wantPulled(5, 1)
		t.settle(of(all[1], scheduler.Ack, 1), scheduler.SettleDone, message.StateDelivered)
		ask(0, 0, two, 2, 3, true) // a later sending reads what was granted
		ask(0, 3, two, 2, 0, true)
		ask(1, 5, two, 0, 0, true) // and from then on it takes nothing
		t.wantPulled(4, 1)
		r := t.poll(work, 1, 2)
		t.lease(r)
		t.settleOnce(scheduler.Settle{Verb: scheduler.Undo, Nonce: 2, UID: all[5].UID})
		r.Skip = 1
		if l := t.tl.Lease(t.Context(), []scheduler.LeaseRequest{r})[0]; l.Err != nil || len(l.Messages) > 0 || !l.Known {
			t.Fatalf("undone: %+v", l)
		}
	}},
	{name: "a lease is settled by its own nonce and topic alone", check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work)))
		t.pull(m, 1)
		for _, verb := range []scheduler.Verb{scheduler.Ack, scheduler.Nack, scheduler.Bury, scheduler.Release,
			scheduler.Extend} {
			t.settle(of(m, verb, 2), scheduler.SettleLost, message.StateInFlight)
			other := of(m, verb, 1)
			other.Topic = "other"
			t.settle(other, scheduler.SettleLost, message.StateNone)
		}
		t.settle(of(Message(7, ForPull(), On(work)), scheduler.Ack, 1), scheduler.SettleLost, message.StateNone)
		t.settle(of(m, scheduler.Ack, 1), scheduler.SettleDone, message.StateDelivered)
	}},
	{name: "what a consumer sends back is due at the retry's time, one try later", recorded: true, check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work)))
		t.pull(m, 1)
		back := of(m, scheduler.Nack, 1)
		back.Number, back.Reason = t.now.Add(time.Minute), "sent back"
		got := t.settle(back, scheduler.SettleDone, message.StateWaiting)
		if got.Info.Due != back.Number || got.Info.Version != 2 || got.Info.Mark.Refusals != 1 {
			t.Fatalf("sent back: %s", describe(got.Info))
		}
		try := message.Try{At: t.now, Consumer: "worker", How: "sent back"}
		if now := t.get(m.UID); now.Mark.Try != try {
			t.Fatalf("its last try: %+v", now.Mark.Try)
		}
		t.wantNothing(2)
		t.pass(time.Minute)
		again := t.pull(m, 3)
		if now := t.get(m.UID); now.Mark.Try != try { // also while another consumer has it
			t.Fatalf("its last try: %+v", now.Mark.Try)
		}
		if again.Mark.Refusals != 1 || again.Due != back.Number {
			t.Fatalf("again: %+v", again.Message)
		}
		// The first consumer's late repeat finds itself, and disturbs nothing.
		t.settle(back, scheduler.SettleAgain, message.StateInFlight)
		t.settle(of(m, scheduler.Ack, 3), scheduler.SettleDone, message.StateDelivered)
		if all := t.log.of(m.UID); len(all) != 3 || all[1].Due != back.Number || all[1].Refusals != 1 ||
			all[1].Reason != "consumer worker: sent back" || all[2].Attempt != 2 {
			t.Fatalf("the journal gets %+v", all)
		}
	}},
	{name: "an end counts how often consumers had the message", recorded: true, check: func(t *trial) {
		for i, c := range []struct {
			how   string
			end   func(m *message.Message, nonce scheduler.Nonce)
			tries uint32
		}{
			{"acknowledged", func(m *message.Message, nonce scheduler.Nonce) {
				t.pull(m, nonce)
				t.settle(of(m, scheduler.Ack, nonce), scheduler.SettleDone, message.StateDelivered)
			}, 2},
			{"acknowledged once its lease was over", func(m *message.Message, _ scheduler.Nonce) {
				t.settle(of(m, scheduler.Ack, 0), scheduler.SettleDone, message.StateDelivered)
			}, 1},
			{"dead", func(m *message.Message, nonce scheduler.Nonce) {
				t.pull(m, nonce)
				t.settle(of(m, scheduler.Bury, nonce), scheduler.SettleDone, message.StateDead)
			}, 2},
			{"canceled", func(m *message.Message, _ scheduler.Nonce) { t.canceled(m.UID, scheduler.CancelDone) }, 1},
			{"discarded", func(m *message.Message, nonce scheduler.Nonce) {
				t.pull(m, nonce)
				t.settle(of(m, scheduler.Discard, nonce), scheduler.SettleDone, message.StateInFlight)
				t.settle(of(m, scheduler.Release, nonce), scheduler.SettleDone, message.StateCanceled)
			}, 1},
			{"expired", func(m *message.Message, nonce scheduler.Nonce) {
				t.pull(m, nonce)
				t.pass(2 * time.Minute)
				t.settle(of(m, scheduler.Nack, nonce), scheduler.SettleDone, message.StateExpired)
			}, 2},
		} {
			m, nonce := t.one(Message(i+1, ForPull(), On(work), TTL(time.Minute))), scheduler.Nonce(10*(i+1))
			t.pull(m, nonce)
			t.settle(of(m, scheduler.Nack, nonce), scheduler.SettleDone, message.StateWaiting)
			c.end(m, nonce+1)
			all, got := t.log.of(m.UID), t.get(m.UID)
			row := message.Info{State: got.State, Message: message.Message{Attempt: 1, Pull: true}}
			last := all[len(all)-1]
			if row.Mark.Refusals = last.Refusals; got.Tries() != c.tries || row.Tries() != c.tries ||
				last.Attempt != c.tries && c.how != "discarded" { // that row is about the lease that was given back
				t.Errorf("%s: %d tries, %d in the journal, want %d", c.how, got.Tries(), row.Tries(), c.tries)
			}
			if got.State == message.StateDead {
				t.purge(t.bucketOf(m), []message.UID{m.UID}, []message.UID{m.UID})
				if got := t.get(m.UID); got.Tries() != c.tries {
					t.Errorf("purged: %s", describe(got))
				}
			}
		}
	}},
	{name: "what is sent back gives way to a later push, and its row says who had it", recorded: true,
		check: func(t *trial) {
			m := t.one(push(1, message.MergeReject, ForPull(), On(work), Content("a")))
			t.pull(m, 1)
			t.settle(of(m, scheduler.Nack, 1), scheduler.SettleDone, message.StateWaiting)
			t.pull(m, 2)
			later := t.one(push(2, message.MergeReplace, ForPull(), On(work), Content("b")))
			t.settle(of(m, scheduler.Nack, 2), scheduler.SettleDone, message.StateCanceled)
			all := t.log.of(m.UID)
			if c := all[len(all)-1]; len(all) != 3 || c.State != message.StateCanceled || c.Kind != message.KindGaveWay ||
				c.Claimed != Start || c.Attempt != 2 || c.Refusals != 2 || c.Reason != "consumer worker: replaced" {
				t.Fatalf("the journal gets %+v", all)
			}
			if got := t.get(m.UID); got.Reason != "consumer worker: replaced" || got.Tries() != 2 {
				t.Fatalf("gave way: %s", describe(got))
			}
			t.pull(later, 3)
		}},
	{name: "what consumers have tried gives way to a push that replaces it", recorded: true, check: func(t *trial) {
		for i, how := range replacing {
			key, nonce := Keyed(fmt.Sprint(i)), scheduler.Nonce(10*i+1)
			m := t.one(push(10*i+1, message.MergeReject, key, ForPull(), Direct(), Content("a"), On(work)))
			t.pull(m, nonce)
			t.settle(of(m, scheduler.Nack, nonce), scheduler.SettleDone, message.StateWaiting)
			m.Due = 0
			late := push(10*i+2, how, key, ForPull(), On(work), Stored(1), Comparing(0, t.now.Add(-1000*time.Hour)))
			t.merged(late, live(m, message.StateWaiting, message.Mark{Refusals: 1, Changes: 2,
				Try: message.Try{At: t.now, Consumer: "worker"}})) // older: it changes nothing
			later := t.one(push(10*i+3, how, key, ForPull(), Direct(), Content("b"), On(work)))
			if got := t.get(m.UID); got.State != message.StateCanceled || got.Kind != message.KindGaveWay ||
				got.Version != 4 || len(got.Body) > 0 {
				t.Fatalf("replaced: %s", describe(got))
			}
			t.refused(later, scheduler.AddDuplicate, later, message.StateWaiting)
			t.wantFound(scheduler.Ref{ID: m.ID, Key: m.Key, Keyed: true}, later.UID)
			all := t.log.of(m.UID)
			if c := all[len(all)-1]; c.State != message.StateCanceled || c.Kind != message.KindGaveWay ||
				c.Reason != "replaced" {
				t.Fatalf("the journal gets %+v", c)
			}
			if got := t.pull(later, nonce+1); got.Mark.Refusals != 0 || string(got.Body) != "b" {
				t.Fatalf("its successor: %+v", got.Message)
			}
		}
	}},
	{name: "what a consumer released gets other content under another uid, what was undone under its own", recorded: true,
		check: func(t *trial) {
			a, b := t.one(Message(1, ForPull(), On(work))), t.one(Message(2, ForPull(), On(work)))
			t.lease(t.poll(work, 2, 1))
			t.settle(of(a, scheduler.Release, 1), scheduler.SettleDone, message.StateWaiting)
			t.settleOnce(scheduler.Settle{Verb: scheduler.Undo, UID: b.UID, Nonce: 1})
			t.amend(edited(b, 1, "other"), scheduler.AmendDone)
			t.amend(edited(a, 1, "other"), scheduler.AmendTried)
			sooner := edited(a, 1, string(a.Body), a.Headers...)
			sooner.Priority = 9
			t.amend(sooner, scheduler.AmendDone)
			t.amend(edited(a, 2, "other"), scheduler.AmendTried)
		}},
	{name: "an acknowledgement without a nonce ends what consumers had, and nothing else", recorded: true,
		check: func(t *trial) {
			tried, behind := t.one(Message(1, InLine("a"), On(work))), t.one(Message(2, InLine("a"), On(work)))
			t.pull(tried, 1)
			back := of(tried, scheduler.Nack, 1)
			back.Number = t.now.Add(time.Hour)
			t.settle(back, scheduler.SettleDone, message.StateWaiting)
			released := t.one(Message(3, ForPull(), On(work)))
			t.pull(released, 2)
			t.settle(of(released, scheduler.Release, 2), scheduler.SettleDone, message.StateWaiting)
			fresh := t.one(Message(4, ForPull(), On(work)))
			for m, want := range map[*message.Message]scheduler.SettleCode{tried: scheduler.SettleDone,
				released: scheduler.SettleDone, fresh: scheduler.SettleLost, behind: scheduler.SettleLost} {
				state := message.StateDelivered
				if want == scheduler.SettleLost {
					state = message.StateWaiting
				}
				t.settle(of(m, scheduler.Ack, 3), scheduler.SettleLost, message.StateWaiting)
				t.settle(of(m, scheduler.Ack, 0), want, state)
			}
			t.wantPull(4, behind, fresh)
		}},
	{name: "keep leaves what consumers have tried as it is", check: func(t *trial) {
		m := t.one(push(20, message.MergeReject, ForPull(), On(work), Stored(20)))
		t.pull(m, 1)
		t.settle(of(m, scheduler.Nack, 1), scheduler.SettleDone, message.StateWaiting)
		m.Due = 0
		older := push(10, message.MergeKeep, ForPull(), Stored(10), Content("old"), On(work))
		t.merged(older, live(m, message.StateWaiting, message.Mark{Refusals: 1, Changes: 2,
			Try: message.Try{At: t.now, Consumer: "worker"}}))
	}},
	{name: "what consumers have tried gets other content under another uid alone", recorded: true, check: func(t *trial) {
		m := t.one(Message(1, Named("order-1"), ForPull(), On(work), TTL(time.Minute), inLine))
		behind := t.one(Message(2, ForPull(), On(work), DueIn(time.Millisecond), inLine))
		t.pass(time.Second)
		t.pull(m, 1)
		t.settle(of(m, scheduler.Nack, 1), scheduler.SettleDone, message.StateWaiting)
		stands := live(m, message.StateWaiting, message.Mark{Refusals: 1, Changes: 1,
			Try: message.Try{At: t.now, Consumer: "worker"}})
		stands.Due, stands.Expires = 0, m.Due.Add(time.Minute) // the retry's time, and that of the push
		if got := t.get(m.UID); describe(got) != describe(stands) {
			t.Fatalf("sent back: %s", describe(got))
		}
		m.Due = 0
		t.amend(edited(m, 2, "other"), scheduler.AmendTried)
		sooner := edited(m, 2, string(m.Body), m.Headers...) // as with another priority
		sooner.Priority = 9
		t.amend(sooner, scheduler.AmendDone)
		m.Priority, stands.Priority = 9, 9
		stands.Version, stands.Mark.Changes = 3, 2
		t.wantInfo(stands)
		t.amend(edited(m, 3, "other"), scheduler.AmendTried)

		now := *m
		now.UID, now.Body, now.Mark = Message(3, Named("order-1")).UID, []byte("other"), message.Mark{}
		t.renew(m.UID, 2, &now, scheduler.RequeueNotDead)
		t.renew(m.UID, 0, &now, scheduler.RequeueNotDead)
		t.forgetRecorded()
		if r := t.renew(m.UID, 3, &now, scheduler.RequeueDone); r.Old != 4 {
			t.Fatalf("the old one has version %d", r.Old)
		}
		renewed := live(&now, message.StateWaiting, message.Mark{})
		renewed.Expires = stands.Expires
		t.wantInfo(renewed)
		if got := t.get(m.UID); got.State != message.StateCanceled || got.Kind != message.KindRequeued ||
			got.Other != now.UID || got.Version != 4 {
			t.Fatalf("renewed: %s", describe(got))
		}
		if c := t.log.new; len(c) != 2 || c[0].Kind != message.KindRequeued || c[1].Kind != message.KindRequeue ||
			string(c[1].Message.Body) != "other" {
			t.Fatalf("the journal gets %+v", c)
		}
		t.wantFound(scheduler.Ref{ID: m.ID}, now.UID)
		page, err := t.tl.Leases(t.Context(), t.bucketOf(m), scheduler.LeaseQuery{Over: true, Limit: 10}, t.now)
		t.must("leases", err)
		if page.Due != Start.Add(time.Minute) {
			t.Fatalf("it lives until %d", page.Due-Start)
		}
		t.pull(&now, 2)
		t.settle(of(&now, scheduler.Ack, 2), scheduler.SettleDone, message.StateDelivered)
		t.pull(behind, 3)
	}},
	{name: "a time to live counts from the due time that was asked for last", check: func(t *trial) {
		for i, c := range []struct {
			due  time.Duration // of the edit
			body string
			ends time.Duration
		}{
			{50 * time.Second, "other", time.Minute}, // a retry and another body move nothing
			{20 * time.Second, "", 80 * time.Second},
			{20 * time.Second, "other", 80 * time.Second},
		} {
			m := t.one(Message(10+i, ForPull(), On(work), TTL(time.Minute)))
			t.pull(m, scheduler.Nonce(1+i))
			back := of(m, scheduler.Nack, scheduler.Nonce(1+i))
			back.Number = t.now.Add(50 * time.Second)
			a := scheduler.Amend{UID: m.UID, Due: t.now.Add(c.due),
				Version: t.settle(back, scheduler.SettleDone, message.StateWaiting).Info.Version}
			if c.body != "" {
				edited := *m
				edited.UID, edited.Body, edited.Due = Message(20+i, In(t.bucketOf(m))).UID, []byte(c.body), a.Due
				t.renew(m.UID, a.Version, &edited, scheduler.RequeueDone)
				m = &edited
			} else {
				t.amend(a, scheduler.AmendDone)
			}
			page, err := t.tl.Leases(t.Context(), t.bucketOf(m), scheduler.LeaseQuery{Over: true, Limit: 10}, t.now)
			t.must("leases", err)
			if page.Due != t.now.Add(c.ends) {
				t.Fatalf("%+v: it lives for %s", c, page.Due.Time().Sub(t.now.Time()))
			}
			t.canceled(m.UID, scheduler.CancelDone)
		}
	}},
	{name: "a release puts a message back to its place and counts nothing", recorded: true, check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work)))
		t.pull(m, 1)
		got := t.settle(of(m, scheduler.Release, 1), scheduler.SettleDone, message.StateWaiting)
		if got.Info.Version != 1 || got.Info.Mark.Refusals != 0 || got.Info.Due != m.Due {
			t.Fatalf("released: %s", describe(got.Info))
		}
		t.pull(m, 2)
		t.settle(of(m, scheduler.Release, 1), scheduler.SettleAgain, message.StateInFlight)
		if all := t.log.of(m.UID); len(all) != 1 {
			t.Fatalf("the journal gets %+v", all)
		}
		by := of(m, scheduler.Release, 0) // an operator's, which is a change
		by.Kind, by.Reason = message.KindReleased, "stuck"
		got = t.settle(by, scheduler.SettleDone, message.StateWaiting)
		if got.Info.Version != 2 {
			t.Fatalf("released by an operator: %s", describe(got.Info))
		}
		if all := t.log.of(m.UID); len(all) != 2 || all[1].Kind != message.KindReleased ||
			all[1].Reason != "consumer worker: stuck" {
			t.Fatalf("the journal gets %+v", all)
		}
	}},
	{name: "a consumer can say that a message is dead", check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work), Leased(time.Hour), Body([]byte("x"))))
		t.pull(m, 1)
		bury := of(m, scheduler.Bury, 1)
		bury.Reason = "not for me"
		t.settle(bury, scheduler.SettleDone, message.StateDead)
		t.settle(of(m, scheduler.Nack, 1), scheduler.SettleAgain, message.StateDead) // as a nack after the last retry
		got := t.get(m.UID)
		if got.Reason != "consumer worker: not for me" || string(got.Body) != "x" || !got.Pull || got.Lease != time.Hour {
			t.Fatalf("dead: %s", describe(got))
		}
		r, err := t.tl.Requeue(t.Context(), m.UID, 0, Message(2, ForPull(), On(work), Direct()), t.now)
		t.must("requeue", err)
		if r.Code != scheduler.RequeueDone || !slices.Equal(r.Earlier, []scheduler.Earlier{{Topic: work, Due: Start}}) {
			t.Fatalf("requeue: %+v", r)
		}
		t.wantPulled(0, 1)
	}},
	{name: "of a reason as much is kept as a record has room for", recorded: true, check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work)))
		t.pull(m, 1)
		bury := of(m, scheduler.Bury, 1)
		bury.Reason = strings.Repeat("x", 1000)
		t.settle(bury, scheduler.SettleDone, message.StateDead)
		want := ("consumer worker: " + bury.Reason)[:249]
		if got, all := t.get(m.UID).Reason, t.log.of(m.UID); got != want || all[len(all)-1].Reason != want {
			t.Fatalf("%d bytes are kept, %d in the journal", len(got), len(all[len(all)-1].Reason))
		}
	}},
	{name: "what was discarded is handed out no more, and a consumer may still acknowledge it", recorded: true,
		check: func(t *trial) {
			for i, end := range []scheduler.Settle{{Verb: scheduler.Nack}, {Verb: scheduler.Nack, Kind: message.KindLapsed},
				{Verb: scheduler.Release}, {Verb: scheduler.Bury}, {Verb: scheduler.Ack}} {
				m, nonce := t.one(Message(i+1, ForPull(), On(work), Named(fmt.Sprint("d", i)))), scheduler.Nonce(i+1)
				t.settle(of(m, scheduler.Discard, nonce), scheduler.SettleLost, message.StateWaiting)
				t.pull(m, nonce)
				t.settle(of(m, scheduler.Discard, nonce), scheduler.SettleDone, message.StateInFlight)
				if all := t.leases(scheduler.LeaseQuery{UIDs: []message.UID{m.UID}}).Leases; len(all) != 1 || !all[0].Discarded {
					t.Fatalf("leases: %+v", all)
				}
				// Nor does it come back in place of a later push of its name.
				later := t.one(Message(i+101, ForPull(), On(work), Named(fmt.Sprint("d", i)), Merging(message.MergeKeep)))
				end.UID, end.Topic, end.Nonce, end.Number = m.UID, m.Topic, nonce, t.now
				state, reason := message.StateCanceled, "consumer worker: deleted while a consumer had it"
				if end.Verb == scheduler.Ack {
					state, reason = message.StateDelivered, "consumer worker"
				}
				t.settle(end, scheduler.SettleDone, state)
				if got, all := t.get(m.UID), t.log.of(m.UID); got.Reason != reason || got.Kind != message.KindPlain ||
					all[len(all)-1].State != state || all[len(all)-1].Reason != reason {
					t.Fatalf("it ended: %s, and in the journal %+v", describe(got), all)
				}
				t.pull(later, nonce+100)
				t.settle(of(later, scheduler.Ack, nonce+100), scheduler.SettleDone, message.StateDelivered)
			}
			t.wantNothing(99)
		}},
	{name: "an extended lease ends later, never earlier", check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work)))
		t.pull(m, 1)
		longer := of(m, scheduler.Extend, 1)
		longer.Number = t.now.Add(time.Hour)
		if got := t.settle(longer, scheduler.SettleDone, message.StateInFlight); got.Until != longer.Number {
			t.Fatalf("until %d", got.Until)
		}
		longer.Number = t.now.Add(time.Second)
		if got := t.settle(longer, scheduler.SettleDone, message.StateInFlight); got.Until != t.now.Add(time.Hour) {
			t.Fatalf("until %d", got.Until)
		}
		if all := t.leases(scheduler.LeaseQuery{UIDs: []message.UID{m.UID}}).Leases; len(all) != 1 ||
			all[0].Until != t.now.Add(time.Hour) || all[0].Since != t.now || all[0].Consumer != "worker" ||
			all[0].Nonce != 1 {
			t.Fatalf("leases: %+v", all)
		}
	}},
	{name: "the end of a lease can be moved to a time, sooner or later", check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work)))
		t.pull(m, 1)
		for _, until := range []time.Duration{time.Hour, time.Second} {
			end := of(m, scheduler.Until, 1)
			end.Number = t.now.Add(until)
			if got := t.settle(end, scheduler.SettleDone, message.StateInFlight); got.Until != end.Number {
				t.Fatalf("until %d, want %d", got.Until, end.Number)
			}
		}
		t.pass(time.Second)
		if over := t.leases(scheduler.LeaseQuery{Over: true}).Leases; len(over) != 1 || over[0].Discarded {
			t.Fatalf("over: %+v", over)
		}
	}},
	{name: "only a lease that is over lapses, and nobody is told that its consumer settled it", check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work)))
		t.pull(m, 1)
		lapse := of(m, scheduler.Nack, 1)
		lapse.Over, lapse.Kind = true, message.KindLapsed
		t.settle(lapse, scheduler.SettleLost, message.StateInFlight)
		if page := t.leases(scheduler.LeaseQuery{Over: true}); len(page.Leases) != 0 ||
			page.Due == 0 || page.Due > t.now.Add(time.Minute) {
			t.Fatalf("over: %+v", page)
		}
		t.pass(time.Minute)
		over := t.leases(scheduler.LeaseQuery{Over: true}).Leases
		if len(over) != 1 || over[0].Message.UID != m.UID || over[0].Nonce != 1 || over[0].Message.Body != nil {
			t.Fatalf("over: %+v", over)
		}
		longer := of(m, scheduler.Extend, 1) // before the leader comes
		longer.Number = t.now.Add(time.Minute)
		t.settle(longer, scheduler.SettleDone, message.StateInFlight)
		t.settle(lapse, scheduler.SettleLost, message.StateInFlight)
		t.pass(time.Minute)
		lapse.Number = t.now
		got := t.settle(lapse, scheduler.SettleDone, message.StateWaiting)
		if got.Info.Mark.Refusals != 1 || got.Info.Version != 2 {
			t.Fatalf("lapsed: %s", describe(got.Info))
		}
		for _, verb := range []scheduler.Verb{scheduler.Ack, scheduler.Nack, scheduler.Bury, scheduler.Release} {
			t.settle(of(m, verb, 1), scheduler.SettleLost, message.StateWaiting)
		}
		t.pull(m, 2)
		free := of(m, scheduler.Release, 2)
		free.Kind = message.KindReleased
		t.settle(free, scheduler.SettleDone, message.StateWaiting)
		for _, verb := range []scheduler.Verb{scheduler.Nack, scheduler.Bury, scheduler.Release} {
			t.settle(of(m, verb, 2), scheduler.SettleLost, message.StateWaiting)
		}
		t.pull(m, 3)
		t.pass(time.Minute)
		last := of(m, scheduler.Bury, 3) // after the last retry
		last.Over = true
		t.settle(last, scheduler.SettleDone, message.StateDead)
		for _, verb := range []scheduler.Verb{scheduler.Nack, scheduler.Bury, scheduler.Release} {
			t.settle(of(m, verb, 3), scheduler.SettleLost, message.StateDead)
		}
	}},
	{name: "a settle of the leader's is refused under a lower term", check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work)))
		t.pull(m, 1)
		t.must("begin", t.tl.Begin(t.Context(), 0, 5))
		_, _, err := t.tl.Settle(t.Context(), 0, 4, []scheduler.Settle{of(m, scheduler.Nack, 1)}, t.now)
		t.stale("settle", err)
		t.wantState(m.UID, message.StateInFlight)
		t.settle(of(m, scheduler.Ack, 1), scheduler.SettleDone, message.StateDelivered)
	}},
	{name: "past its time to live a message is not handed out, and expires", check: func(t *trial) {
		dead := t.one(Message(1, ForPull(), On(work), TTL(time.Second)))
		good := t.one(Message(2, ForPull(), On(work)))
		t.pass(time.Second)
		l := t.lease(t.poll(work, 10, 1))
		if len(l.Messages) != 1 || l.Messages[0].UID != good.UID || l.Aside != 1 {
			t.Fatalf("got %v, %d aside", held(l), l.Aside)
		}
		t.wantState(dead.UID, message.StateWaiting)
		over := t.leases(scheduler.LeaseQuery{Over: true}).Leases
		if len(over) != 1 || over[0].Message.UID != dead.UID || over[0].Nonce != 0 {
			t.Fatalf("over: %+v", over)
		}
		t.settle(of(dead, scheduler.Expire, 0), scheduler.SettleDone, message.StateExpired)
		if got := t.get(dead.UID); got.Kind != message.KindPlain || got.EndedAt != t.now {
			t.Fatalf("expired: %s", describe(got))
		}
		if page := t.leases(scheduler.LeaseQuery{Over: true}); len(page.Leases) != 0 {
			t.Fatalf("over: %+v", page)
		}
	}},
	{name: "a leased message expires when its lease comes back, and not before", check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work), TTL(time.Second)))
		t.pull(m, 1)
		t.pass(2 * time.Second)
		t.settle(of(m, scheduler.Expire, 0), scheduler.SettleLost, message.StateInFlight)
		back := of(m, scheduler.Nack, 1)
		back.Number = t.now
		t.settle(back, scheduler.SettleDone, message.StateExpired)
		if got := t.get(m.UID); got.Kind != message.KindTried {
			t.Fatalf("expired: %s", describe(got))
		}
	}},
	{name: "a retry does not lengthen the time to live", check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work), TTL(time.Minute)))
		t.pull(m, 1)
		back := of(m, scheduler.Nack, 1)
		back.Number = t.now.Add(50 * time.Second)
		t.settle(back, scheduler.SettleDone, message.StateWaiting)
		t.pass(time.Minute)
		t.wantNothing(2)
		t.settle(of(m, scheduler.Expire, 0), scheduler.SettleDone, message.StateExpired)
	}},
	{name: "an undone call gives back what it holds, and takes nothing later", check: func(t *trial) {
		a, b := t.one(Message(1, ForPull(), On(work))), t.one(Message(2, ForPull(), On(work)))
		t.lease(t.poll(work, 10, 1))
		t.settle(of(a, scheduler.Ack, 1), scheduler.SettleDone, message.StateDelivered)
		for range 2 {
			if r := t.settleOnce(scheduler.Settle{Verb: scheduler.Undo, UID: b.UID, Nonce: 1}); r.Code != scheduler.SettleDone {
				t.Fatalf("undo: %+v", r)
			}
		}
		t.wantState(b.UID, message.StateWaiting)
		if r := t.settleOnce(scheduler.Settle{Verb: scheduler.Undo, UID: b.UID, Nonce: 2}); r.Code != scheduler.SettleDone {
			t.Fatalf("undo of what never was: %+v", r)
		}
		for _, nonce := range []scheduler.Nonce{1, 2} {
			if l := t.wantNothing(nonce); !l.Known {
				t.Fatalf("%d is not known", nonce)
			}
		}
		t.pull(b, 3)
	}},
	{name: "an undone call leaves what a later one has read", check: func(t *trial) {
		a := t.one(Message(1, ForPull(), On(work)))
		t.pull(a, 1)
		if l := t.lease(t.poll(work, 0, 1)); len(l.Messages) != 1 {
			t.Fatalf("read %+v", l)
		}
		t.settleOnce(scheduler.Settle{Verb: scheduler.Undo, UID: a.UID, Nonce: 1})
		t.settle(of(a, scheduler.Ack, 1), scheduler.SettleDone, message.StateDelivered)
	}},
	{name: "a pause that the caller does not know stops a lease", check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work)))
		since := t.pause(scheduler.Pause{Pattern: "other", At: Start})
		r := t.poll(work, 10, 1)
		for _, b := range []message.Bucket{0, 1} {
			r.Bucket = b
			if l := t.tl.Lease(t.Context(), []scheduler.LeaseRequest{r})[0]; !errors.Is(l.Err,
				scheduler.ErrPausesChanged) || !errors.Is(l.Err, scheduler.ErrUnavailable) {
				t.Fatalf("bucket %d: %+v", b, l)
			}
		}
		if _, changed, err := t.tl.Pauses(t.Context()); err != nil || changed != since {
			t.Fatalf("the pauses changed at %d, want %d: %v", changed, since, err)
		}
		r.Bucket, r.Pauses = 0, since
		for range 2 {
			if l := t.lease(r); len(l.Messages) != 1 || l.Messages[0].UID != m.UID {
				t.Fatalf("got %v", held(l))
			}
			t.pause(scheduler.Pause{Pattern: "later", At: Start}) // what was leased before is found again
		}
	}},
	{name: "a waiting message for pull can be canceled and changed, a leased one cannot", check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work), DueIn(time.Hour), TTL(time.Minute)))
		r := t.amend(moved(m, 1, Start), scheduler.AmendDone)
		if !slices.Equal(r.Earlier, []scheduler.Earlier{{Topic: work, Due: Start}}) {
			t.Fatalf("earlier: %+v", r.Earlier)
		}
		t.pass(time.Second)
		t.pull(m, 1) // its time to live counts from the new due time
		t.amend(moved(m, 2, Start), scheduler.AmendInFlight)
		t.canceled(m.UID, scheduler.CancelInFlight)
		t.settle(of(m, scheduler.Release, 1), scheduler.SettleDone, message.StateWaiting)
		t.canceled(m.UID, scheduler.CancelDone)
		t.wantNothing(2)
	}},
	{name: "a push that meets a leased message is the next one under the name", check: func(t *trial) {
		for i, c := range []struct {
			mode  message.Merge
			first message.State // after it came back
			later message.State
		}{{message.MergeKeep, message.StateWaiting, message.StateCanceled},
			{message.MergeReplace, message.StateCanceled, message.StateWaiting}} {
			name := fmt.Sprintf("a%d", i)
			m := t.one(Message(10*i+1, ForPull(), On(work), Named(name)))
			nonce := scheduler.Nonce(i + 1)
			r := t.poll(work, 1, nonce)
			r.Bucket = t.bucketOf(m)
			if l := t.lease(r); len(l.Messages) != 1 || l.Messages[0].UID != m.UID {
				t.Fatalf("got %v", held(l))
			}
			later := t.one(Message(10*i+2, ForPull(), On(work), Named(name), Merging(c.mode)))
			back := of(m, scheduler.Nack, nonce)
			back.Number = t.now.Add(time.Hour)
			t.settle(back, scheduler.SettleDone, c.first)
			t.wantState(later.UID, c.later)
		}
	}},
	{name: "a push that replaces may move a message between NATS and pull", check: func(t *trial) {
		m := t.one(Message(1, Named("a"), On(work)))
		by := Message(2, Named("a"), On(work), ForPull(), Merging(message.MergeReplace), DueIn(time.Millisecond))
		t.wantAdded([]*message.Message{by}, m, scheduler.AddMerged)
		t.wantHead(t.bucketOf(m), scheduler.Head{})
		t.pass(time.Millisecond)
		t.wantPulled(0, 1)
		by = Message(3, Named("a"), On(work), Merging(message.MergeReplace), DueIn(time.Millisecond))
		t.wantAdded([]*message.Message{by}, m, scheduler.AddMerged)
		t.wantPulled(0, 0)
		t.wantHead(t.bucketOf(m), scheduler.Head{Due: by.Due, Waiting: 1})
	}},
	{name: "a message for pull has its place, and a restore finds nothing to do", check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work)))
		later := t.one(Message(2, ForPull(), On(work), DueIn(time.Hour)))
		for _, uid := range []message.UID{m.UID, later.UID} {
			if got := t.stands(uid)[uid]; got.Version != 1 {
				t.Fatalf("%s stands as %+v", uid, got)
			}
		}
		t.restored([]record.RestoreCode{same}, recordOf(m, message.StateWaiting, 1))
		t.pull(m, 1)
		if got := t.claim(); len(got) > 0 {
			t.Fatalf("claimed %v", got)
		}
	}},
	{name: "what was in doubt stays so through a lease", tune: oneBucket, check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work)))
		t.pass(time.Minute)
		t.certify(record.Certification{DoubtUntil: t.now})
		for tries := range uint32(2) {
			if got := t.pull(m, scheduler.Nonce(1+tries)); !got.Mark.Uncertain || got.Mark.Refusals != tries {
				t.Fatalf("leased with %+v after %d tries", got.Mark, tries)
			}
			back := of(m, scheduler.Nack, scheduler.Nonce(1+tries))
			back.Number = t.now.Add(time.Hour) // beyond the doubt
			t.settle(back, scheduler.SettleDone, message.StateWaiting)
			t.pass(time.Hour)
		}
		t.canceled(m.UID, scheduler.CancelMaybe)
	}},
	{name: "a restore leaves a lease alone, a recovery takes it away", tune: oneBucket, check: func(t *trial) {
		m := t.one(Message(1, ForPull(), On(work)))
		t.pull(m, 1)
		ended := recordOf(m, message.StateDelivered, 2)
		t.restored([]record.RestoreCode{busy}, ended)
		t.wantState(m.UID, message.StateInFlight)
		t.term++
		rec := t.recovering()
		t.must("begin", rec.Begin(t.Context(), 0, t.term))
		got, err := rec.Restore(t.Context(), 0, []record.Record{ended}, t.now, t.now)
		if t.must("restore", err); !slices.Equal(got, []record.RestoreCode{raised}) {
			t.Fatalf("restored %v", got)
		}
		t.wantState(m.UID, message.StateDelivered)
		t.wantPulled(0, 0)
		if all := t.leases(scheduler.LeaseQuery{Topic: work}).Leases; len(all) > 0 {
			t.Fatalf("leased are %+v", all)
		}
	}},
	{name: "once the first was taken, a topic tells when its next is due", check: func(t *trial) {
		t.pull(t.one(Message(1, ForPull(), On(work))), 1)
		next := t.one(Message(2, ForPull(), On(work), DueIn(time.Hour)))
		t.pass(time.Second)
		m := t.one(Message(3, ForPull(), On(work)))
		t.lease(t.poll(work, 1, 2))
		for range 2 {
			if got := t.ready(1); len(got.Ranks) > 0 || got.Next != next.Due {
				t.Fatalf("with %s taken: %+v, want the next at %d", m.UID, got, next.Due)
			}
		}
	}},
	{name: "an earlier message hastens its topic, a later one does not", check: func(t *trial) {
		for i, step := range []struct {
			due  time.Duration
			want []scheduler.Earlier
		}{{time.Hour, []scheduler.Earlier{{Topic: work, Due: Start.Add(time.Hour)}}},
			{2 * time.Hour, nil}, {time.Minute, []scheduler.Earlier{{Topic: work, Due: Start.Add(time.Minute)}}}} {
			m := Message(i+1, ForPull(), On(work), DueIn(step.due), Priority(uint8(i)))
			_, earlier, err := t.tl.Add(t.Context(), 0, []*message.Message{m}, t.now)
			t.must("add", err)
			if !slices.Equal(earlier, step.want) {
				t.Fatalf("step %d: %+v, want %+v", i, earlier, step.want)
			}
		}
		m := t.one(Message(9, ForPull(), On("back")))
		t.pull(m, 1)
		_, made, err := t.tl.Settle(t.Context(), 0, 0, []scheduler.Settle{of(m, scheduler.Release, 1)}, t.now)
		t.must("settle", err)
		if !slices.Equal(made.Earlier, []scheduler.Earlier{{Topic: "back", Due: Start}}) {
			t.Fatalf("a release hastens %+v", made.Earlier)
		}
	}},
	{name: "messages for pull are counted, listed and walked", check: func(t *trial) {
		due, far := t.one(Message(1, ForPull(), On(work))), t.one(Message(2, ForPull(), On(work), DueIn(time.Hour)))
		nats := t.one(Message(3, On(work), DueIn(time.Minute)))
		t.wantUIDsOf("waiting", t.waiting(), nats, due, far)
		count, err := t.tl.Count(t.Context(), work)
		t.must("count", err)
		if count.Waiting != 3 || count.InFlight != 0 {
			t.Fatalf("count: %+v", count)
		}
		totals, err := t.tl.Totals(t.Context(), t.now)
		t.must("totals", err)
		if w := totals[0].Waiting[message.HoldPull]; w != (scheduler.Waiting{Count: 2, Overdue: 1, Oldest: due.Due}) ||
			totals[0].Waiting[message.HoldNone].Count != 1 {
			t.Fatalf("totals: %+v", totals[0])
		}
		t.pull(due, 1)
		t.wantUIDsOf("waiting", t.waiting(), nats, far)
		if totals, err = t.tl.Totals(t.Context(), t.now); err != nil || totals[0].Leased != 1 || totals[0].InFlight != 1 {
			t.Fatalf("totals: %+v, %v", totals[0], err)
		}
		if count, err = t.tl.Count(t.Context(), work); err != nil || count.Waiting != 2 || count.InFlight != 1 {
			t.Fatalf("count: %+v, %v", count, err)
		}
		if claims, err := t.tl.Claims(t.Context(), 0, "", 10); err != nil || len(claims) > 0 {
			t.Fatalf("claims: %v, %v", claims, err)
		}
		rec := t.recovering()
		if leased, next, err := rec.Leased(t.Context(), 0, "", 10); err != nil || next != "" || !slices.Equal(leased,
			[]message.UID{due.UID}) {
			t.Fatalf("leased: %v, %v", leased, err)
		}
	}},
	{name: "the topics are listed of which something is ready in time", check: func(t *trial) {
		t.one(Message(1, ForPull(), On(work), DueIn(time.Minute)))
		t.one(Message(2, ForPull(), On("other"), DueIn(time.Hour)))
		t.one(Message(3, On("mq")))
		want := func(within time.Duration, want ...string) {
			t.Helper()
			var got []string
			for bucket := range t.o.Buckets {
				some, err := t.tl.Upcoming(t.Context(), bucket, t.now.Add(within))
				t.must("upcoming", err)
				got = append(got, some...)
			}
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, want) {
				t.Fatalf("within %s: %q, want %q", within, got, want)
			}
		}
		want(time.Second)
		want(time.Minute, work)
		want(time.Hour, "other", work)
		t.pass(time.Minute)
		t.pull(t.one(Message(4, ForPull(), On("third"), DueIn(0))), 1)
		want(time.Second, work) // what is leased is not to be pulled
	}},
	{name: "thousands of topics are listed, each once, however many are due at one time", check: func(t *trial) {
		var batch []*message.Message
		want := map[string]bool{}
		for i := range 3500 {
			topic := fmt.Sprint("many.", i)
			want[topic] = true
			batch = append(batch, Message(i, ForPull(), On(topic), DueIn(time.Duration(max(0, i-2300))*time.Millisecond)))
		}
		t.added(batch...)
		for bucket := range t.o.Buckets {
			got, err := t.tl.Upcoming(t.Context(), bucket, t.now.Add(time.Hour))
			t.must("upcoming", err)
			for _, topic := range got {
				if !want[topic] {
					t.Fatalf("%s is listed twice, or is none", topic)
				}
				delete(want, topic)
			}
		}
		if len(want) > 0 {
			t.Fatalf("%d topics are not listed", len(want))
		}
	}},
	{name: "a nonce that a look closed takes nothing, whatever is paused", check: func(t *trial) {
		t.one(Message(1, ForPull(), On(work)))
		open, closed := t.poll(work, 0, 7), t.poll(work, 0, 8)
		open.Again = true
		t.pause(scheduler.Pause{Pattern: "other", At: t.now, By: "ann"})
		t.lease(open)
		t.lease(closed)
		open.Limit, closed.Limit, open.Pauses = 1, 1, t.now
		if l := t.lease(closed); len(l.Messages) > 0 || !l.Known {
			t.Fatalf("a closed nonce took %v, known %t", held(l), l.Known)
		}
		if l := t.lease(open); len(l.Messages) != 1 {
			t.Fatalf("an open nonce took %v", held(l))
		}
	}},
	{name: "a target fails since its first failure after a success", check: func(t *trial) {
		for _, c := range []struct{ at, want message.Milli }{{0, 0}, {7, 7}, {9, 7}, {0, 0}, {11, 11}, {21, 11},
			{32, 32}} { // the last one comes too late after the one before
			for range 2 {
				if since, err := t.tl.Failing(t.Context(), "x", c.at, 10*time.Millisecond); err != nil || since != c.want {
					t.Fatalf("at %d: %d, %v, want %d", c.at, since, err, c.want)
				}
			}
		}
		if since, err := t.tl.Failing(t.Context(), "y", 20, time.Hour); err != nil || since != 20 {
			t.Fatalf("another target: %d, %v", since, err)
		}
	}},
	{name: "the leases of a topic are listed by their end", check: func(t *trial) {
		var want []message.UID
		for i := range 5 {
			m := t.one(Message(i+1, ForPull(), On(work)))
			r := t.poll(work, 1, scheduler.Nonce(i+1))
			r.Length = time.Duration(10-i) * time.Minute
			t.lease(r)
			want = append([]message.UID{m.UID}, want...)
		}
		t.pull(t.one(Message(9, ForPull(), On("other"))), 9)
		var got []message.UID
		for q := (scheduler.LeaseQuery{Topic: work, Limit: 2}); ; {
			page := t.leases(q)
			for _, l := range page.Leases {
				got = append(got, l.Message.UID)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v\nwant %v", got, want)
		}
	}},
}

// waiting browses bucket 0.
func (t *trial) waiting() (uids []message.UID) {
	t.Helper()
	for q := (scheduler.Browse{Limit: 2}); ; {
		page, err := t.tl.Browse(t.Context(), 0, q)
		t.must("browse", err)
		for _, m := range page.Messages {
			uids = append(uids, m.UID)
		}
		if q.After = page.Next; q.After == "" {
			return uids
		}
	}
}

func (t *trial) wantUIDsOf(what string, got []message.UID, want ...*message.Message) {
	t.Helper()
	if !slices.Equal(got, uids(want)) {
		t.Fatalf("%s: %v\nwant %v", what, got, uids(want))
	}
}
