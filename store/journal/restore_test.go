package journal_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
)

// accepted is the acceptance of a message by a clock that stood at that time.
func accepted(t testing.TB, n int, at time.Time, due time.Time) record.Change {
	t.Helper()
	m := &message.Message{Topic: "orders", Body: fmt.Appendf(nil, "body %d", n),
		Due: message.Milli(due.UnixMilli()), Attempt: 1}
	uid, err := message.IntakeUID(uint64(n)<<8, at, "", "")
	if err != nil {
		t.Fatal(err)
	}
	m.UID = uid
	return record.Change{UID: uid, Version: 1, State: message.StateWaiting, At: message.Milli(at.UnixMilli()),
		Due: m.Due, Message: m, Instance: "test"}
}

// busyStore is a journal to which something is written each time a page is read.
type busyStore struct {
	journal.Store
	onList func()
}

func (s *busyStore) List(ctx context.Context, q record.RecordQuery) ([]record.Record, error) {
	page, err := s.Store.List(ctx, q)
	s.onList()
	return page, err
}

func newRestorer(t *testing.T, store journal.Store, clock *scheduler.Clock) (*journal.Reconciler, *memory.Timeline) {
	t.Helper()
	tl, err := memory.New(memory.Config{Buckets: 4})
	if err != nil {
		t.Fatal(err)
	}
	schedulertest.Certify(t, tl)
	return &journal.Reconciler{
		Store: store, Timeline: tl, Buckets: 4, Clock: clock, Timeout: time.Minute, Log: zerolog.Nop()}, tl
}

func TestRestore_ReadsPastPagesThatAreYoungerThanItsBegin(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) journal.Store{"in memory": memoryStore, "SQLite": sqliteStore} {
		for young, ahead := range map[string]time.Duration{"by traffic": 0, "by a clock ahead": 90 * time.Second} {
			t.Run(name+" "+young, func(t *testing.T) {
				t.Parallel()
				store, clock := open(t), scheduler.NewClock(scheduler.System())
				now := clock.Now()
				// One fixed delay: all that is accepted now is due before the old one.
				old := accepted(t, 5000, now.Add(-time.Hour), now.Add(time.Hour))
				changes := []record.Change{old}
				for n := range 2100 {
					changes = append(changes, accepted(t, n, now.Add(ahead), now.Add(20*time.Minute)))
				}
				if err := store.Write(t.Context(), nil, changes); err != nil {
					t.Fatal(err)
				}
				for _, dry := range []bool{true, false} {
					r, tl := newRestorer(t, store, clock)
					report, err := r.Restore(t.Context(), record.RestoreRequest{Overdue: true, DryRun: dry}, nil)
					if err != nil || report.Read != len(changes) || report.Added != len(changes) {
						t.Fatalf("dry run %t: %+v, %v; want %d added", dry, report, err, len(changes))
					}
					if found, err := tl.Find(t.Context(), scheduler.Ref{UID: old.UID}); !dry &&
						(err != nil || len(found) != 1) {
						t.Fatalf("the old message: %+v, %v", found, err)
					}
				}
			})
		}
	}
}

func TestRestore_TakesTheTopicsThatMatchAPattern(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) journal.Store{"in memory": memoryStore, "SQLite": sqliteStore} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, clock := open(t), scheduler.NewClock(scheduler.System())
			var changes []record.Change
			for n := range 3000 { // several pages, and some that hold nothing of orders.eu.new
				c := accepted(t, n, clock.Now(), clock.Now().Add(time.Hour+time.Duration(n)*time.Millisecond))
				if c.Message.Topic = "mail.out"; n%2 == 0 && n < 2000 {
					c.Message.Topic = "orders.us.new"
				} else if n > 2990 {
					c.Message.Topic = "orders.eu.new"
				}
				changes = append(changes, c)
			}
			if err := store.Write(t.Context(), nil, changes); err != nil {
				t.Fatal(err)
			}
			for pattern, want := range map[string]int{
				"orders.>":      1009,
				"orders.*.new":  1009,
				"orders.eu.*":   9,
				"*.out":         1991,
				">":             3000,
				"orders.eu.new": 9,
				"orders.*":      0,
				"nobody.>":      0,
			} {
				r, _ := newRestorer(t, store, clock)
				dry := pattern == ">"
				report, err := r.Restore(t.Context(),
					record.RestoreRequest{Topic: pattern, Overdue: true, DryRun: dry}, nil)
				if err != nil || report.Read != want || report.Added != want {
					t.Errorf("%s, dry run %t: %+v, %v; want %d", pattern, dry, report, err, want)
				}
			}
		})
	}
}

func TestRestore_EndsThoughMessagesComeFasterThanItReads(t *testing.T) {
	t.Parallel()
	store, clock := memoryStore(t), scheduler.NewClock(scheduler.System())
	now, n := clock.Now(), 0
	push := func() {
		var changes []record.Change
		for range 1500 {
			n++
			changes = append(changes, accepted(t, n, now, now.Add(20*time.Minute+time.Duration(n)*time.Millisecond)))
		}
		if err := store.Write(t.Context(), nil, changes); err != nil {
			t.Error(err)
		}
	}
	push()
	r, _ := newRestorer(t, &busyStore{store, push}, clock)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	report, err := r.Restore(ctx, record.RestoreRequest{Overdue: true, Rate: 100_000}, nil)
	if err != nil || report.Added < 1500 {
		t.Fatalf("%+v, %v", report, err)
	}
	t.Logf("%d of %d read", report.Read, n)
}

// pausedStore is a journal whose reader is stopped once, after it has read a page and before it uses it.
type pausedStore struct {
	journal.Store
	once    sync.Once
	stopped chan struct{}
	goOn    chan struct{}
}

func (s *pausedStore) Load(ctx context.Context, uids []message.UID, bytes int) ([]record.Record, error) {
	page, err := s.Store.Load(ctx, uids, bytes)
	if len(page) > 0 {
		s.once.Do(func() {
			close(s.stopped)
			<-s.goOn
		})
	}
	return page, err
}

// Whoever restores is suspended in the middle, for longer than ends are remembered; what was canceled meanwhile stays
// so when it wakes.
func TestRestore_RevivesNothingAfterItWasSuspended(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		leader bool
		want   error
	}{"a leader that recovers": {true, scheduler.ErrStaleTerm},
		"a restore by command": {false, scheduler.ErrOutdated}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := schedulertest.Start
			var mu sync.Mutex
			at := func() message.Milli { mu.Lock(); defer mu.Unlock(); return now }
			pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
			clock := scheduler.NewClock(
				scheduler.Local{Wall: func() time.Time { return at().Time() }, Mono: func() time.Duration {
					return at().Time().Sub(schedulertest.Start.Time())
				}})
			tl, err := memory.New(memory.Config{Buckets: 1, EndedKeep: 10 * time.Minute, Record: &record.Recording{
				Instance: "a", Address: "", Limit: 1 << 20, Wrote: func(record.Entry) {}}})
			if err != nil {
				t.Fatal(err)
			}
			store := memoryStore(t)
			m := schedulertest.Message(1, schedulertest.DueIn(time.Hour))
			if err := store.Write(t.Context(), nil, []record.Change{
				{UID: m.UID, Version: 1, State: message.StateWaiting, At: now, Due: m.Due, Message: m}}); err != nil {
				t.Fatal(err)
			}
			recovering := func(store journal.Store, term uint64) error {
				r := journal.NewRecovery(journal.RecoveryConfig{Store: store, Timeline: tl, Mode: journal.Async,
					Window: time.Hour, EndedKeep: 10 * time.Minute,
					Clock: clock, Timeout: time.Minute, Log: zerolog.Nop()})
				_, err := r.Run(t.Context(), term)
				return err
			}
			slow := &pausedStore{Store: store, stopped: make(chan struct{}), goOn: make(chan struct{})}
			done := make(chan error, 1)
			if c.leader {
				go func() { done <- recovering(slow, 1) }()
			} else {
				if err := recovering(store, 1); err != nil {
					t.Fatal(err)
				}
				r := &journal.Reconciler{Store: slow, Timeline: tl, Buckets: 1, Clock: clock, Timeout: time.Minute,
					Log: zerolog.Nop()}
				go func() {
					_, err := r.Restore(t.Context(), record.RestoreRequest{Overdue: true}, nil)
					done <- err
				}()
			}
			<-slow.stopped
			pass(time.Second)
			if err := recovering(store, 2); err != nil {
				t.Fatal(err)
			}
			if err := tl.Begin(t.Context(), 0, 2); err != nil {
				t.Fatal(err)
			}
			if r, err := tl.Cancel(t.Context(), scheduler.Ref{UID: m.UID}, at()); err != nil || r.Code != scheduler.CancelDone {
				t.Fatalf("cancel: %+v, %v", r, err)
			}
			if _, _, err := drain(t.Context(), store, tl, 0, 0, time.Minute, zerolog.Nop()); err != nil {
				t.Fatal(err)
			}
			pass(11 * time.Minute)
			if n, err := tl.Trim(t.Context(), 0, 2, at(), 10); err != nil || n != 1 {
				t.Fatalf("trim: %d, %v", n, err)
			}
			close(slow.goOn)
			if err := <-done; !errors.Is(err, c.want) {
				t.Errorf("it ended with %v, want %v", err, c.want)
			}
			if found, err := tl.Find(t.Context(), scheduler.Ref{UID: m.UID}); err != nil || len(found) != 0 {
				t.Errorf("what was canceled is back: %+v, %v", found, err)
			}
		})
	}
}

// A dry run says what a restore does, also where both sides have one version.
func TestRestore_ADryRunSaysWhatOneVersionComesTo(t *testing.T) {
	t.Parallel()
	store, clock := memoryStore(t), scheduler.NewClock(scheduler.System())
	r, tl := newRestorer(t, store, clock)
	now := clock.Milli()
	m := schedulertest.Message(1)
	m.Due = now.Add(time.Hour)
	if _, _, err := tl.Add(t.Context(), 0, []*message.Message{m}, now); err != nil {
		t.Fatal(err)
	}
	if _, err := tl.Amend(t.Context(), scheduler.Amend{UID: m.UID, Version: 1, Due: m.Due.Add(time.Hour)},
		now); err != nil {
		t.Fatal(err)
	}
	dead := record.Change{UID: m.UID, Version: 2, State: message.StateDead, At: now, Due: m.Due, Message: m}
	if err := store.Write(t.Context(), nil, []record.Change{dead}); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		report, err := r.Restore(t.Context(), record.RestoreRequest{Overdue: true, DryRun: dry}, nil)
		if err != nil || report.Read != 1 || report.Raised != 1 {
			t.Errorf("dry run %t: %+v, %v; want one raised", dry, report, err)
		}
	}
}
