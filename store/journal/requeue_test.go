package journal_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
)

// A message that may have been delivered before it died, and was requeued: the journal records this, and restores it so
// after everything else is lost.
func TestRequeued_ComesBackAsUncertainAsItWas(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]struct {
		line  func(*testing.T, *record.Recording) server
		store func(*testing.T) journal.Store
	}{"in memory": {memoryLine, memoryStore}, "on Redis and SQLite": {redisLine, sqliteStore}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &record.Recording{Instance: "a", Address: "a:1", Limit: 1 << 20,
				Wrote: func(record.Entry) {}}
			on := open.line(t, r)
			tl := on.line
			store := open.store(t)
			must := func(step string, errs ...error) {
				t.Helper()
				if err := errors.Join(errs...); err != nil {
					t.Fatalf("%s: %v", step, err)
				}
			}
			schedulertest.Certify(t, tl)
			old := schedulertest.Message(1, schedulertest.Named("order-1"))
			again := schedulertest.Message(2, schedulertest.Named("order-1"), schedulertest.DueIn(time.Hour))
			bucket, now := old.UID.Bucket(crashBuckets), schedulertest.Start
			_, _, err := tl.Add(t.Context(), bucket, []*message.Message{old}, now)
			must("add", err)
			claimed := func(number uint64) *message.Message {
				t.Helper()
				c, err := tl.Claim(t.Context(), bucket,
					scheduler.Claim{Term: 1, Number: number, Now: now, Limit: 1, Bytes: 1})
				must("claim", err)
				if len(c.Messages) != 1 {
					t.Fatalf("claimed %d", len(c.Messages))
				}
				return c.Messages[0]
			}
			m := claimed(1)
			mark := message.Mark{Uncertain: true, Changes: m.Mark.Changes + 1}
			err = tl.Return(t.Context(), bucket, 1, []scheduler.Back{
				{UID: m.UID, Claim: 1, Score: m.Score(), Mark: mark, Message: m, Reason: "unknown"}}, now)
			must("return", err)
			m = claimed(2)
			err = tl.Finish(t.Context(), bucket, 1,
				[]scheduler.End{{Message: m, State: message.StateDead, Uncertain: m.Mark.Uncertain}}, now)
			must("finish", err)
			if got, err := tl.Requeue(t.Context(), old.UID, 0, again, now); err != nil ||
				got.Code != scheduler.RequeueDone {
				t.Fatalf("requeue: %+v, %v", got, err)
			}

			entries, err := tl.(record.Outbox).Unwritten(t.Context(), bucket, "", 0, 100, 1<<20)
			must("read the outbox", err)
			for _, e := range entries {
				must("write", store.Write(t.Context(), nil, e.Changes),
					tl.(record.Outbox).Written(t.Context(), bucket, []record.Entry{e}))
			}
			history, err := store.History(t.Context(), again.UID, record.MaxChanges)
			must("history", err)
			if len(history) != 1 || !history[0].Uncertain || history[0].Version != 1 ||
				history[0].Reason != message.KindRequeue.Words(old.UID, true) {
				t.Fatalf("its history is %+v", history)
			}

			clock := scheduler.NewClock(scheduler.System())
			verify := func() {
				t.Helper()
				v := &journal.Reconciler{Store: store, Timeline: tl, Buckets: crashBuckets, Clock: clock, Instance: "a",
					Address: r.Address, Timeout: time.Minute, Log: zerolog.Nop()}
				report, err := v.Verify(t.Context(), record.VerifyRequest{}, nil)
				must("verify", err)
				if len(report.Found) > 0 || report.InJournal != 1 {
					t.Fatalf("the two differ: %+v", report)
				}
			}
			verify()
			tl = on.empty()
			schedulertest.Certify(t, tl)
			restorer := &journal.Reconciler{Store: store, Timeline: tl, Buckets: crashBuckets, Clock: clock,
				Timeout: time.Minute, Log: zerolog.Nop()}
			report, err := restorer.Restore(t.Context(), record.RestoreRequest{UID: again.UID}, nil)
			if err != nil || report.Added != 1 {
				t.Fatalf("restore: %+v, %v", report, err)
			}
			verify()
			found, err := tl.Find(t.Context(), scheduler.Ref{ID: "order-1"})
			must("find", err)
			if len(found) != 1 || found[0].UID != again.UID || !found[0].Mark.Uncertain || found[0].Version != 1 {
				t.Fatalf("restored: %+v", found)
			}
			if got, err := tl.Cancel(t.Context(), scheduler.Ref{UID: again.UID}, now); err != nil ||
				got.Code != scheduler.CancelMaybe {
				t.Fatalf("cancel: %s, %v", got.Code, err)
			}
		})
	}
}
