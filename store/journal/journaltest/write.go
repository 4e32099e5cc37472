package journaltest

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

var writePromises = []promise{
	{"an accepted message is found as it was sent", func(t *trial) {
		m := newMessage(1, id("order-1"), key("customer-7"))
		m.Headers = []message.Header{{Name: "A", Value: "1"}, {Name: "A", Value: "2"}, {Name: "b", Value: ""}}
		m.Pull, m.Lease = true, 30*time.Second
		m.Priority, m.TTL, m.Attempt, m.Digest = 255, 90*time.Second, 3, message.Digest{0, 1, 0xff, 15: 0x20}
		m.Origin, m.Retry = "t-0123456789abcdef", message.Retry{Delays: []time.Duration{0, time.Minute}, Jitter: 20}
		c := accept(m)
		t.write(c)
		t.wantRecords(t.records(m.UID), recorded(c))
		t.wantChanges(t.history(m.UID), c)
	}},
	{"a message without anything is one too", func(t *trial) {
		m := newMessage(1, body(nil))
		m.Headers = nil
		t.write(accept(m))
		t.wantRecords(t.records(m.UID), recorded(accept(m)))
	}},
	{"what is not kept does not come back", func(t *trial) {
		m := newMessage(1)
		m.TTL, m.Stored, m.Claim, m.Mark = time.Second+1, 17, 18, message.Mark{Lane: "stream", Refusals: 3}
		t.write(accept(m))
		want := recorded(accept(newMessage(1)))
		want.TTL = time.Second + time.Millisecond
		got := t.records(m.UID)
		if len(got) == 1 && got[0].TTL == m.TTL {
			want.TTL = m.TTL
		}
		t.wantRecords(got, want)
	}},
	{"an end changes the state and leaves the content", func(t *trial) {
		m := newMessage(1, id("order-1"))
		end := became(m, 2, message.StateDelivered, start+5)
		end.Stream, end.Sequence, end.Reason, end.Uncertain, end.Refusals = "ORDERS", math.MaxInt64, "why not", true,
			math.MaxUint32
		t.write(accept(m))
		t.write(end)
		t.wantRecords(t.records(m.UID), recorded(accept(m), end))
		t.wantChanges(t.history(m.UID), accept(m), end)
	}},
	{"a reschedule changes the due time, and what it brings", func(t *trial) {
		m, other := newMessage(1), newMessage(1, topic("orders.changed"), body([]byte("other")), due(time.Hour))
		later := became(m, 2, message.StateWaiting, start)
		later.Due = start + 9
		replaced := became(other, 3, message.StateWaiting, start+1)
		replaced.Due, replaced.Message = other.Due, other
		t.write(accept(m), later)
		t.wantRecords(t.records(m.UID), recorded(accept(m), later))
		t.write(replaced)
		t.wantRecords(t.records(m.UID), recorded(replaced))
		t.write(later, accept(m))
		t.wantRecords(t.records(m.UID), recorded(replaced))
		t.wantChanges(t.history(m.UID), accept(m), later, replaced)
	}},
	{"an end may come before its acceptance: the content is not known until then", func(t *trial) {
		m := newMessage(1, id("order-1"), key("k"))
		end := became(m, 2, message.StateCanceled, start)
		t.write(end)
		t.wantRecords(t.records(m.UID), recorded(end))
		t.wantRecords(t.whole(t.list(record.RecordQuery{Limit: 9})), recorded(end))
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-1"}))
		t.wantUIDs(t.list(record.RecordQuery{Limit: 9, Topic: m.Topic}))
		t.write(accept(m))
		t.wantRecords(t.records(m.UID), recorded(accept(m), end))
		t.wantUIDs(t.find(scheduler.Ref{ID: "order-1"}), m)
		t.wantUIDs(t.list(record.RecordQuery{Limit: 9, Topic: m.Topic}), m)
		t.wantChanges(t.history(m.UID), accept(m), end)
	}},
	{"one batch may hold several changes of a message, in any order", func(t *trial) {
		m := newMessage(1)
		back, end := became(m, 2, message.StateWaiting, start), became(m, 3, message.StateExpired, start+1)
		back.Uncertain, back.Refusals, back.Due = true, 4, start+500
		t.write(end, accept(m), back)
		t.wantRecords(t.records(m.UID), recorded(accept(m), back, end))
		t.wantChanges(t.history(m.UID), accept(m), back, end)
	}},
	{"a batch may come again, whole or in part, and an older one changes nothing", func(t *trial) {
		m, n := newMessage(1), newMessage(2)
		end := became(m, 2, message.StateDead, start)
		for range 3 {
			t.write(accept(m), accept(n))
			t.write(end, accept(n))
			t.write(accept(n), accept(n), end)
		}
		t.write(accept(m))
		t.wantRecords(t.records(m.UID, n.UID), recorded(accept(m), end), recorded(accept(n)))
		t.wantChanges(t.history(m.UID), accept(m), end)
		t.wantChanges(t.history(n.UID), accept(n))
	}},
	{"nothing is written of an empty batch", func(t *trial) {
		t.write()
		t.wantUIDs(t.list(record.RecordQuery{Limit: 9}))
	}},
	{"versions are returned for messages whose content is known", func(t *trial) {
		m, n, gone, bare := newMessage(1), newMessage(2), newMessage(3), newMessage(4)
		t.write(accept(m), accept(n), became(n, 7, message.StateDelivered, start),
			became(bare, 2, message.StateDelivered, start))
		got, err := t.j.Versions(t.Context(), []message.UID{n.UID, gone.UID, m.UID, bare.UID, n.UID, "", "t-", "'"})
		t.must("versions", err)
		if len(got) != 2 || got[m.UID] != (record.Stand{State: message.StateWaiting, Version: 1, At: accept(m).At}) ||
			got[n.UID] != (record.Stand{State: message.StateDelivered, Version: 7, At: start}) {
			t.Fatalf("got %v", got)
		}
		if got, err = t.j.Versions(t.Context(), nil); err != nil || len(got) != 0 {
			t.Fatalf("of nothing: %v, %v", got, err)
		}
	}},
	{"the states of a message whose content will not come are told from those whose content may", func(t *trial) {
		whole, coming, refused, ended := newMessage(1), newMessage(2), newMessage(3), newMessage(4)
		bare := accept(refused)
		bare.Message = nil
		edited := became(whole, 2, message.StateWaiting, start)
		edited.Reason = record.RefusedReason
		t.write(accept(whole), edited, became(coming, 2, message.StateWaiting, start), bare,
			became(refused, 2, message.StateWaiting, start), became(ended, 2, message.StateCanceled, start))
		got, err := t.j.Bare(t.Context(),
			[]message.UID{whole.UID, coming.UID, refused.UID, ended.UID, newMessage(5).UID, "'"})
		t.must("bare", err)
		slices.Sort(got[refused.UID])
		if len(got) != 3 || !slices.Equal(got[refused.UID], []uint64{1, 2}) ||
			!slices.Equal(got[ended.UID], []uint64{2}) || !slices.Equal(got[whole.UID], []uint64{2}) {
			t.Fatalf("got %v", got)
		}
		if got, err = t.j.Bare(t.Context(), nil); err != nil || len(got) != 0 {
			t.Fatalf("of nothing: %v, %v", got, err)
		}
	}},
	{"records come whole, once, and in the order of their uids", func(t *trial) {
		m, n, gone := newMessage(1), newMessage(2), newMessage(3)
		t.write(accept(n), accept(m))
		t.wantRecords(t.records(n.UID, m.UID, gone.UID, n.UID, "", "t-", "'"), recorded(accept(m)), recorded(accept(n)))
		t.wantRecords(t.records())
	}},
	{"the highest term is remembered, also past the message's own", func(t *trial) {
		want := func(want uint64) {
			t.Helper()
			if got, err := t.j.MaxTerm(t.Context()); err != nil || got != want {
				t.Fatalf("max term: got %d, %v, want %d", got, err, want)
			}
		}
		want(0)
		m := newMessage(1)
		t.write(accept(m))
		want(0)
		for _, step := range []struct{ term, want uint64 }{{9, 9}, {10, 10}, {9, 10}, {0, 10}, {1 << 53, 1 << 53}} {
			c := became(m, 2, message.StateWaiting, start)
			c.Term = step.term
			t.write(c)
			want(step.want)
		}
	}},
	{"a journal that is there answers a ping", func(t *trial) {
		t.must("ping", t.j.Ping(t.Context()))
	}},
	{"a context that has ended is an error, and the write may be repeated", func(t *trial) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		m := newMessage(1)
		if err := t.j.Write(ctx, nil, accepted(m)); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want canceled", err)
		}
		if err := t.j.Ping(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want canceled", err)
		}
		if _, err := t.j.List(ctx, record.RecordQuery{Limit: 1}); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want canceled", err)
		}
		t.write(accept(m))
		t.wantRecords(t.records(m.UID), recorded(accept(m)))
	}},
}
