package journal_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/timeline"
)

// instance is one process with its connection to one Redis.
type instance struct {
	tl     *timeline.Redis
	writer *journal.Writer
	client redis.UniversalClient
}

func newInstance(t *testing.T, name, addr string, store journal.Store, mode journal.Mode) *instance {
	t.Helper()
	return instanceOf(t, 1, name, addr, store, mode)
}

func instanceOf(t *testing.T, buckets message.Bucket, name, addr string, store journal.Store,
	mode journal.Mode) *instance {
	t.Helper()
	i := &instance{client: timeline.Dial(timeline.DialConfig{Addrs: []string{addr}, CallTimeout: 5 * time.Second})}
	t.Cleanup(func() { _ = i.client.Close() })
	r := &record.Recording{Instance: name, Address: "here:1", Limit: 1 << 30,
		Wrote: func(e record.Entry) {
			i.writer.Wrote(e)
		}}
	var err error
	i.tl, err = timeline.New(timeline.Config{Client: i.client, Namespace: "promote", Buckets: buckets,
		EndedKeep: time.Hour, TombstoneKeep: time.Hour, TombstoneLimit: 10, Record: r})
	if err != nil {
		t.Fatal(err)
	}
	i.writer = journal.NewWriter(journal.WriterConfig{Store: store, Mode: mode, Timeout: 2 * time.Second,
		Log: zerolog.New(zerolog.NewTestWriter(t))})
	done := make(chan error, 1)
	ctx := t.Context()
	go func() { done <- i.writer.Run(ctx, i.tl, nil) }()
	t.Cleanup(func() { <-done })
	return i
}

// pushed adds a message and waits for its commit.
func (i *instance) pushed(t *testing.T, m *message.Message) {
	t.Helper()
	if err := i.push(t, m); err != nil {
		t.Fatalf("push: %v", err)
	}
}

func (i *instance) push(t *testing.T, m *message.Message) error {
	results, _, err := i.tl.Add(t.Context(), 0, []*message.Message{m}, schedulertest.Start)
	if err != nil {
		return err
	}
	if results[0].Code != scheduler.Added {
		t.Fatalf("push: code %d", results[0].Code)
	}
	return i.writer.Await(t.Context(), []scheduler.Recorded{{UID: m.UID, Version: 1}}, heldOrNot)
}

// edit gives a message of that version another due and body, and waits for its commit.
func (i *instance) edit(ctx context.Context, t *testing.T, m *message.Message, version uint64,
	due time.Duration, body string) error {
	t.Helper()
	to := *m
	to.Due, to.Body = schedulertest.Start.Add(due), []byte(body)
	a := scheduler.Amend{UID: m.UID, Version: version, Due: to.Due, Message: &to, Reason: "edited"}
	got, err := i.tl.Amend(ctx, a, schedulertest.Start)
	if err != nil || got.Code != scheduler.AmendDone {
		t.Fatalf("edit of %s at version %d: code %d, %v", m.UID, version, got.Code, err)
	}
	made := scheduler.Recorded{UID: m.UID, Version: got.Info.Version, Number: got.Number}
	return i.writer.Await(ctx, []scheduler.Recorded{made}, heldOrNot)
}

// wantWaiting wants a message to wait so here and in the journal.
func (i *instance) wantWaiting(t *testing.T, store journal.Store, m *message.Message, version uint64,
	due time.Duration, body string) {
	t.Helper()
	found, err := i.tl.Find(t.Context(), scheduler.Ref{UID: m.UID})
	if err != nil {
		t.Fatal(err)
	}
	records, err := store.Records(t.Context(), []message.UID{m.UID})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		found = append(found, r.Info)
	}
	if len(found) != 2 {
		t.Fatalf("%s: found %d, want one in the timeline and one in the journal", m.UID, len(found))
	}
	at := schedulertest.Start.Add(due)
	for _, f := range found {
		if f.State != message.StateWaiting || f.Version != version || f.Due != at || string(f.Body) != body {
			t.Errorf("%s: %s at version %d, due %d, says %q; want it to wait at version %d, due %d, and say %q",
				m.UID, f.State, f.Version, f.Due, f.Body, version, at, body)
		}
	}
}

func newRecovery(t *testing.T, tl record.Recoverable, store journal.Store) *journal.Recovery {
	return journal.NewRecovery(
		journal.RecoveryConfig{Store: store, Timeline: tl, Mode: journal.Sync, EndedKeep: time.Hour,
			Window: 100 * 365 * 24 * time.Hour, // the test's clock is not the journal's
			Clock:  scheduler.NewClock(scheduler.System()), Timeout: 5 * time.Second,
			Log: zerolog.New(zerolog.NewTestWriter(t))})
}

func recoverBy(t *testing.T, tl record.Recoverable, store journal.Store, term uint64) journal.Result {
	t.Helper()
	result, err := newRecovery(t, tl, store).Run(t.Context(), term)
	if err != nil {
		t.Fatalf("recover: %v", err)
	}
	return result
}

// A replica is promoted that lacks the primary's last writes, and the primary goes on answering on connections that
// were open before.
func TestAPromotedReplicaLosesNothingThatWasAnswered(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	primary, replica := lab.NewRedis(t), lab.NewRedis(t)
	store := sqliteStore(t)
	old := newInstance(t, "old", primary.Addr, store, journal.Sync)
	if _, err := old.tl.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	recoverBy(t, old.tl, store, 1)
	far := schedulertest.DueIn(1000 * time.Hour)
	kept, lost, cancelLost := schedulertest.Message(1, far), schedulertest.Message(2, far),
		schedulertest.Message(3, far)
	edited, claimed := schedulertest.Message(7, far), schedulertest.Message(8)
	for _, m := range []*message.Message{kept, cancelLost, edited, claimed} {
		old.pushed(t, m)
	}
	claim := scheduler.Claim{
		Term:   1,
		Number: 1,
		Now:    schedulertest.Start,
		Limit:  10,
		Bytes:  1 << 20,
	}
	if got, err := old.tl.Claim(ctx, 0, claim); err != nil || len(got.Messages) != 1 {
		t.Fatalf("claim: %+v, %v; want one message", got, err)
	}

	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{replica.Addr}, CallTimeout: 5 * time.Second})
	defer rdb.Close()
	host, port, _ := net.SplitHostPort(primary.Addr)
	if err := rdb.Do(ctx, "replicaof", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, 20*time.Second, func() error {
		n, err := rdb.Exists(ctx, "{promote:0}:gen").Result()
		if err == nil && n == 0 {
			err = errors.New("the replica has no certification yet")
		}
		return err
	})
	lab.Eventually(t, 20*time.Second, func() error {
		if n, err := old.client.Do(ctx, "wait", 1, 100).Int(); err != nil || n < 1 {
			return fmt.Errorf("%d replicas are in step, %w", n, err)
		}
		return nil
	})

	// The link breaks, the last writes stay behind, and the replica is promoted.
	if err := rdb.Do(ctx, "replicaof", "no", "one").Err(); err != nil {
		t.Fatal(err)
	}
	old.pushed(t, lost)
	canceled, err := old.tl.Cancel(ctx, scheduler.Ref{UID: cancelLost.UID}, schedulertest.Start)
	if err != nil || canceled.Code != scheduler.CancelDone {
		t.Fatalf("cancel: %+v, %v", canceled, err)
	}
	if err := old.writer.Await(
		ctx, []scheduler.Recorded{{UID: cancelLost.UID, Version: canceled.Info.Version}}, heldOrNot); err != nil {
		t.Fatal(err)
	}
	// One is edited; another, which the replica holds as claimed, is given back as it was and then edited.
	back := []scheduler.Back{{UID: claimed.UID, Claim: 1, Keep: true}}
	if err := old.tl.Return(ctx, 0, 1, back, schedulertest.Start); err != nil {
		t.Fatal(err)
	}
	const sooner, later = 900 * time.Hour, 1100 * time.Hour
	for m, due := range map[*message.Message]time.Duration{edited: sooner, claimed: later} {
		if err := old.edit(ctx, t, m, 1, due, "edited"); err != nil {
			t.Fatal(err)
		}
	}

	now := newInstance(t, "new", replica.Addr, store, journal.Sync)
	if _, _, err := now.tl.Add(ctx, 0, []*message.Message{schedulertest.Message(9, far)},
		schedulertest.Start); !errors.Is(err, scheduler.ErrUncertified) {
		t.Fatalf("a push to a replica that nobody certified: %v", err)
	}
	if _, err := now.tl.Claim(ctx, 0, scheduler.Claim{Term: 2, Number: 1,
		Now: schedulertest.Start, Limit: 10, Bytes: 1 << 20}); !errors.Is(err, scheduler.ErrUncertified) {
		t.Fatalf("a claim from it: %v", err)
	}
	result := recoverBy(t, now.tl, store, 2)
	if result.Buckets != 1 || result.Restored.Added != 1 || result.Restored.Raised != 3 {
		t.Fatalf("recovery: %+v, want one message added, one canceled and two edited", result)
	}
	for uid, want := range map[message.UID]message.State{kept.UID: message.StateWaiting,
		lost.UID: message.StateWaiting, cancelLost.UID: message.StateCanceled} {
		found, err := now.tl.Find(ctx, scheduler.Ref{UID: uid})
		if err != nil || len(found) != 1 || found[0].State != want {
			t.Errorf("%s: %+v, %v; want it %s", uid, found, err, want)
		}
	}
	now.wantWaiting(t, store, edited, 2, sooner, "edited")
	now.wantWaiting(t, store, claimed, 2, later, "edited")
	if err := now.edit(ctx, t, edited, 2, later, "edited again"); err != nil {
		t.Fatal(err)
	}

	// The old primary still takes writes from whoever has not heard. None is answered.
	late := schedulertest.Message(4, far)
	if _, _, err := old.tl.Add(ctx, 0, []*message.Message{late}, schedulertest.Start); err != nil {
		t.Fatalf("the old primary no longer answers: %v: the test shows nothing", err)
	}
	short, stop := context.WithTimeout(ctx, 500*time.Millisecond)
	defer stop()
	if err := old.writer.Await(short, []scheduler.Recorded{{UID: late.UID, Version: 1}}, heldOrNot); err == nil {
		t.Fatal("a push to a primary that was replaced was answered as kept")
	}
	if have, err := store.Versions(ctx, []message.UID{late.UID}); err != nil || len(have) != 0 {
		t.Fatalf("the journal has it: %v, %v", have, err)
	}
	// That includes edits, also one that makes a version which the new primary has made otherwise.
	for m, version := range map[*message.Message]uint64{kept: 1, edited: 2, claimed: 2} {
		short, stop := context.WithTimeout(ctx, 500*time.Millisecond)
		if err := old.edit(short, t, m, version, sooner, "too late"); err == nil {
			t.Errorf("an edit of %s by a primary that was replaced was answered as kept", m.UID)
		}
		stop()
	}
	now.wantWaiting(t, store, kept, 1, 1000*time.Hour, string(kept.Body))
	now.wantWaiting(t, store, edited, 3, later, "edited again")
	now.wantWaiting(t, store, claimed, 2, later, "edited")

	// Who has heard of the new one is refused by the old, also on a connection that was open all the time.
	target := lab.NewProxy(t, replica.Addr)
	mover := newInstance(t, "mover", target.Addr, store, journal.Sync)
	mover.pushed(t, schedulertest.Message(5, far)) // learns the certification
	target.Retarget(primary.Addr)
	target.Cut()
	target.Heal()
	lab.Eventually(t, 10*time.Second, func() error {
		_, _, err := mover.tl.Add(ctx, 0, []*message.Message{schedulertest.Message(6, far)}, schedulertest.Start)
		if errors.Is(err, scheduler.ErrUncertified) {
			return nil
		}
		if err == nil {
			t.Fatal("the old primary takes a push of an instance that knows the new one")
		}
		return err
	})
}
