package journal_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
)

// strictStore refuses bodies that hold a word, for good.
type strictStore struct {
	journal.Store
	word string
}

func (s *strictStore) Write(ctx context.Context, fences map[message.Bucket]uint64, changes []record.Change) error {
	for _, c := range changes {
		if c.Message != nil && bytes.Contains(c.Message.Body, []byte(s.word)) ||
			c.Rejected != nil && bytes.Contains(c.Rejected.Body, []byte(s.word)) {
			return &mysql.MySQLError{Number: 1366, SQLState: [5]byte([]byte("22007")),
				Message: "incorrect value: " + s.word}
		}
	}
	return s.Store.Write(ctx, fences, changes)
}

// A rejected push whose body SQL refuses is recorded without it; and only so many are kept.
func TestDrain_KeepsRejectsWithoutWhatTheJournalRefuses(t *testing.T) {
	t.Parallel()
	tl, err := memory.New(memory.Config{Buckets: 1, Record: &record.Recording{Instance: "a", Limit: 1 << 20,
		Wrote: func(record.Entry) {}}})
	if err != nil {
		t.Fatal(err)
	}
	schedulertest.Certify(t, tl)
	limited := config(sqliteDSN(t))
	limited.Migrate, limited.MaxRejects = true, 2
	db, err := journal.Open(t.Context(), limited)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store := &strictStore{db, "poison"}
	for i := range 4 {
		r := scheduler.Rejected{UID: schedulertest.Message(i + 1).UID, ID: "order-1", Reason: "too_far: it is", Size: 6,
			Body: []byte("poison")}
		if _, err := tl.Reject(t.Context(), &r, schedulertest.Start+message.Milli(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := drain(t.Context(), store, tl, 0, 0, time.Minute, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	for pruned := range 4 {
		found, err := db.Rejects(t.Context(), scheduler.Ref{ID: "order-1"}, 10)
		if left := max(4-pruned, 2); err != nil || len(found) != left || found[0].Reason != "too_far: it is" ||
			found[0].Size != 6 || found[0].At != schedulertest.Start+3 {
			t.Fatalf("%+v, %v, want %d", found, err, left)
		}
		if _, err := db.Prune(t.Context(), 0, 1); err != nil {
			t.Fatal(err)
		}
	}
}

// What SQL refuses for good holds nothing else back: its states are recorded without what was refused, and ends are
// forgotten in their time.
func TestDrain_GoesOnPastWhatTheJournalRefuses(t *testing.T) {
	t.Parallel()
	tl, err := memory.New(memory.Config{Buckets: 1, EndedKeep: 10 * time.Minute,
		Record: &record.Recording{Instance: "a", Address: "", Limit: 1 << 20,
			Wrote: func(record.Entry) {}}})
	if err != nil {
		t.Fatal(err)
	}
	schedulertest.Certify(t, tl)
	store := &strictStore{memoryStore(t), "poison"}
	now := schedulertest.Start
	bad := schedulertest.Message(1, schedulertest.Body([]byte("poison")), schedulertest.DueIn(time.Hour))
	good := schedulertest.Message(2, schedulertest.DueIn(time.Hour))
	for _, m := range []*message.Message{bad, good} {
		if _, _, err := tl.Add(t.Context(), 0, []*message.Message{m}, now); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	drain := func(want int) {
		t.Helper()
		_, refused, err := drain(t.Context(), store, tl, 0, 0, time.Minute, zerolog.New(&log))
		if err != nil || refused != want {
			t.Fatalf("drain: %d refused, %v; want %d", refused, err, want)
		}
		if lags, err := tl.Lags(t.Context()); err != nil || lags[0].Entries != 0 {
			t.Fatalf("the outbox holds %+v, %v", lags, err)
		}
	}
	drain(1)
	if !bytes.Contains(log.Bytes(), []byte(bad.UID)) || bytes.Contains(log.Bytes(), []byte("poison")) {
		t.Errorf("the log does not name the message, or contains its body: %s", &log)
	}
	if have, err := store.Versions(t.Context(), []message.UID{bad.UID, good.UID}); err != nil || len(have) != 1 ||
		have[good.UID].Version != 1 {
		t.Fatalf("the journal knows %v, %v; want the good one: the content of the other is not there", have, err)
	}
	v := &journal.Reconciler{Store: store, Timeline: tl, Buckets: 1, Clock: scheduler.NewClock(scheduler.System()),
		Timeout: time.Minute}
	if report, err := v.Verify(t.Context(), record.VerifyRequest{Repair: true}, nil); err != nil ||
		report.Found[record.MissingInJournal] == 0 || report.Repaired != 0 {
		t.Errorf("verify: %+v, %v", report, err)
	}
	for _, m := range []*message.Message{bad, good} {
		if r, err := tl.Cancel(t.Context(), scheduler.Ref{UID: m.UID}, now); err != nil || r.Code != scheduler.CancelDone {
			t.Fatalf("cancel: %+v, %v", r, err)
		}
	}
	drain(0)
	history, err := store.History(t.Context(), bad.UID, record.MaxChanges)
	if err != nil || len(history) != 2 || history[0].State != message.StateWaiting || history[0].At != now ||
		history[1].State != message.StateCanceled {
		t.Errorf("its history is %+v, %v", history, err)
	}
	if n, err := tl.Trim(t.Context(), 0, 1, now.Add(11*time.Minute), 10); err != nil || n != 2 {
		t.Errorf("forgotten: %d, %v", n, err)
	}
	r := &journal.Reconciler{Store: store, Timeline: tl, Buckets: 1,
		Clock: scheduler.NewClock(scheduler.Local{Wall: now.Add(12 * time.Minute).Time,
			Mono: func() time.Duration { return 0 }}), Timeout: time.Minute, Log: zerolog.Nop()}
	if report, err := r.Restore(t.Context(), record.RestoreRequest{Overdue: true}, nil); err != nil ||
		report.Added != 0 {
		t.Errorf("a restore brought back %+v, %v", report, err)
	}
	if _, err := r.Restore(t.Context(), record.RestoreRequest{UID: bad.UID}, nil); !errors.Is(err,
		scheduler.ErrUnknownID) {
		t.Errorf("restore of the refused one: %v", err)
	}
}
