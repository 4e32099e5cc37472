package journal_test

import (
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
)

// What is dead waits for somebody to deal with it, however long ago it died: a Redis that was lost has it again, whole,
// and a comparison misses it.
func TestRecovery_BringsBackWhatDiedLongAgo(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := sqliteStore(t)
	i := newInstance(t, "one", lab.NewRedis(t).Addr, store, journal.Sync)
	if _, err := i.tl.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	recoverBy(t, i.tl, store, 1)
	const longAgo = message.Milli(1_600_000_000_000)
	m := schedulertest.Message(1, schedulertest.DueIn(-time.Hour), schedulertest.Named("order"),
		schedulertest.Content("charge"))
	var err error
	if m.UID, err = message.IntakeUID(1, time.Now(), m.ID, m.Key); err != nil { // accepted today
		t.Fatal(err)
	}
	i.pushed(t, m)
	claim := scheduler.Claim{
		Term:   1,
		Number: 1,
		Now:    schedulertest.Start,
		Limit:  10,
		Bytes:  1 << 20,
	}
	got, err := i.tl.Claim(ctx, 0, claim)
	if err != nil || len(got.Messages) != 1 {
		t.Fatalf("claim: %+v, %v", got, err)
	}
	if err := i.tl.Finish(ctx, 0, 1, []scheduler.End{
		{Message: got.Messages[0], State: message.StateDead, Reason: "refused"}}, longAgo); err != nil {
		t.Fatal(err)
	}
	if err := i.writer.Await(ctx, []scheduler.Recorded{{UID: m.UID, Version: 2}}, heldOrNot); err != nil {
		t.Fatal(err)
	}
	wantDead := func(step string) {
		t.Helper()
		dead, err := i.tl.Browse(ctx, 0, scheduler.Browse{Dead: true, Limit: 10})
		if err != nil || len(dead.Messages) != 1 || dead.Messages[0].UID != m.UID ||
			dead.Messages[0].Reason != "refused" || dead.Messages[0].EndedAt != longAgo {
			t.Fatalf("%s: %+v, %v", step, dead, err)
		}
		found, err := i.tl.Find(ctx, scheduler.Ref{UID: m.UID})
		if err != nil || len(found) != 1 || string(found[0].Body) != string(m.Body) {
			t.Fatalf("%s: %+v, %v", step, found, err)
		}
	}
	wantDead("before")
	if err := i.client.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := i.tl.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	recoverBy(t, i.tl, store, 2)
	wantDead("after the loss")

	// Lost alone, it is missing.
	for _, key := range []string{"msg", "dead"} {
		if err := i.client.Del(ctx, "{promote:0}:"+key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	v := &journal.Reconciler{Store: store, Timeline: i.tl, Buckets: 1, Clock: scheduler.NewClock(scheduler.System()),
		Timeout: 5 * time.Second}
	report, err := v.Verify(ctx, record.VerifyRequest{Repair: true}, nil)
	if err != nil || report.Found[record.MissingInStore] != 1 || report.Repaired != 1 {
		t.Fatalf("verify: %+v, %v", report, err)
	}
	wantDead("after the repair")
	if report, err = v.Verify(ctx, record.VerifyRequest{}, nil); err != nil || len(report.Differences) > 0 ||
		report.InStore != 1 || report.InJournal != 1 {
		t.Fatalf("verify again: %+v, %v", report, err)
	}
}
