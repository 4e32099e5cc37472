package schedulertest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// oldest returns the oldest entry of bucket 0's outbox.
func (t *trial) oldest() record.Entry {
	t.Helper()
	entries, err := t.mending().Unwritten(t.Context(), 0, "", 0, 1, wide)
	t.must("read the outbox", err)
	if len(entries) != 1 {
		t.Fatalf("the outbox has %d entries", len(entries))
	}
	return entries[0]
}

func (t *trial) lag() record.Lag {
	t.Helper()
	lags, err := t.mending().Lags(t.Context())
	t.must("lags", err)
	return lags[0]
}

// quarantined lists the quarantined entries of bucket 0. It reads each page twice.
func (t *trial) quarantined() (list []record.Quarantined) {
	t.Helper()
	for after := ""; ; {
		page, next, err := t.mending().Quarantined(t.Context(), 0, after)
		again, next2, err2 := t.mending().Quarantined(t.Context(), 0, after)
		t.must("list what is quarantined", errors.Join(err, err2))
		if fmt.Sprint(page) != fmt.Sprint(again) || next != next2 || len(page) > record.QuarantinedPage {
			t.Fatalf("after %q come %d entries up to %q, then %d up to %q", after, len(page), next, len(again), next2)
		}
		if list = append(list, page...); len(page) == 0 {
			return list
		}
		after = next
	}
}

var quarantinePromises = []promise{
	{name: "an entry that is quarantined leaves the outbox, and nothing stands behind it", recorded: true,
		check: func(t *trial) {
			m := t.ended(Message(1), message.StateDelivered)
			for t.lag().Entries > 1 { // the end alone is left
				t.must("written", t.mending().Written(t.Context(), 0, []record.Entry{t.oldest()}))
			}
			later := t.one(Message(2, DueIn(time.Hour)))
			t.pass(2 * t.o.EndedKeep)
			t.wantTrimmed(0, 10, 0)
			e := t.oldest()
			want := record.Quarantined{ID: e.ID, At: t.now, Reason: "refused",
				UIDs: []message.UID{m.UID}, Known: true}
			for range 2 {
				q := want
				q.Number = e.Number
				t.must("quarantine", t.mending().Quarantine(t.Context(), q))
				if got := t.quarantined(); len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(want) {
					t.Fatalf("quarantined are %+v, want %+v", got, want)
				}
				if l := t.lag(); l.Entries != 1 || l.Changes != 1 || l.Quarantined != 1 {
					t.Fatalf("lag %+v", l)
				}
				if e := t.oldest(); len(e.Changes) != 1 || e.Changes[0].UID != later.UID {
					t.Fatalf("the oldest entry is %+v", e)
				}
			}
			t.must("written", t.mending().Written(t.Context(), 0, []record.Entry{t.oldest()}))
			if l := t.lag(); l != (record.Lag{Quarantined: 1}) {
				t.Fatalf("lag %+v", l)
			}
			t.wantTrimmed(0, 10, 1)
			if lags, err := t.mending().Lags(t.Context()); err != nil || lags[1].Quarantined != 0 {
				t.Fatalf("lags %+v, %v", lags, err)
			}
		}},
	{name: "a push that is not accepted is noted for the journal, and is no message", recorded: true,
		tune: func(o *Options) { o.Buckets = 1 },
		check: func(t *trial) {
			m := Message(1, Named("order-1"))
			push := scheduler.Rejected{UID: m.UID, ID: m.ID, Topic: m.Topic, Reason: "invalid_delay: it is wrong", Size: 1000,
				Digest: [32]byte{1, 2, 3}, Body: []byte("body")}
			for range 2 {
				made, err := t.tl.Reject(t.Context(), &push, t.now)
				if t.must("reject", err); len(made.Changes) != 1 || made.Changes[0].UID != m.UID ||
					made.Changes[0].Version != 0 {
					t.Fatalf("the effect is %+v", made)
				}
				e := t.oldest()
				c := e.Changes[0]
				if len(e.Changes) != 1 || c.UID != m.UID || c.Version != 0 || c.State != message.StateNone || c.At != t.now ||
					c.Rejected == nil || !reflect.DeepEqual(*c.Rejected, push) {
					t.Fatalf("the outbox has %+v with %+v", e, c.Rejected)
				}
				if found, err := t.tl.Find(t.Context(), scheduler.Ref{ID: m.ID}); err != nil || len(found) > 0 {
					t.Fatalf("found %+v, %v", found, err)
				}
			}
			t.one(m) // its uid and its name are free
			t.o.Record.Limit = 1
			if _, err := t.tl.Reject(t.Context(), &push, t.now); !errors.Is(err, scheduler.ErrBehind) {
				t.Fatalf("got %v from a full outbox", err)
			}
		}},
	{name: "every change says on whose behalf it was made", recorded: true,
		tune: func(o *Options) { o.Buckets = 1 },
		check: func(t *trial) {
			a, b, c := Message(1, DueIn(time.Hour)), Message(2, DueIn(time.Hour)), Message(3, DueIn(time.Hour))
			said := func(want ...string) {
				t.Helper()
				var by []string
				for e := t.oldest(); ; {
					for _, change := range e.Changes {
						by = append(by, string(change.UID)+" "+change.By)
					}
					t.must("written", t.mending().Written(t.Context(), 0, []record.Entry{e}))
					if t.lag().Entries == 0 {
						break
					}
					e = t.oldest()
				}
				if !slices.Equal(by, want) {
					t.Fatalf("changes by %q, want %q", by, want)
				}
			}
			a.By, b.By = "shop", "nats"
			t.add(a, b, c)
			said(string(a.UID)+" shop", string(b.UID)+" nats", string(c.UID)+" ")
			again := Message(4, DueIn(time.Hour))
			again.By = "shop"
			t.add(again)
			said(string(again.UID) + " shop")
			_, err := t.tl.Cancel(scheduler.CalledBy(t.Context(), "on-call"), scheduler.Ref{UID: a.UID}, t.now)
			t.must("cancel", err)
			_, err = t.tl.Cancel(t.Context(), scheduler.Ref{UID: b.UID}, t.now)
			t.must("cancel", err)
			said(string(a.UID)+" on-call", string(b.UID)+" ")
		}},
	{name: "what is not in the outbox is not quarantined", recorded: true, check: func(t *trial) {
		t.one(Message(1))
		before := t.lag()
		t.must("quarantine", t.mending().Quarantine(t.Context(), record.Quarantined{ID: "1-1"}))
		if l := t.lag(); l != before || len(t.quarantined()) > 0 {
			t.Fatalf("lag %+v, it was %+v", l, before)
		}
	}},
	{name: "a bucket quarantines a bounded number of entries, and the others stay", recorded: true,
		check: func(t *trial) {
			for n := range record.MaxQuarantined + 1 {
				t.one(Message(n, DueIn(time.Hour)))
			}
			many := slices.Repeat([]message.UID{Message(1).UID}, record.MaxQuarantinedUIDs+1)
			for range record.MaxQuarantined {
				t.must("quarantine",
					t.mending().Quarantine(t.Context(), record.Quarantined{ID: t.oldest().ID, UIDs: many}))
			}
			last := record.Quarantined{ID: t.oldest().ID}
			for range 2 {
				if err := t.mending().Quarantine(t.Context(), last); !errors.Is(err, record.ErrQuarantineFull) {
					t.Fatalf("quarantine one more: %v", err)
				}
			}
			list, l := t.quarantined(), t.lag()
			if l.Entries != 1 || l.Changes != 1 || l.Quarantined != record.MaxQuarantined ||
				len(list) != l.Quarantined {
				t.Fatalf("lag %+v, %d are listed", l, len(list))
			}
			if n := len(list[0].UIDs); n != record.MaxQuarantinedUIDs {
				t.Fatalf("%d messages are named", n)
			}
		}},
}
