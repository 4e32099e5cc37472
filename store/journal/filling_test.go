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
	"github.com/tarry-mq/tarry/store/memory"
)

// An empty store accepts messages while it is filled, in sync mode if the journal judges their names. It knows the
// recent ends by then, so that a repeated push is recognized, and nothing leaves it before it is whole.
func TestRecovery_AcceptsWhileItFills(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode            journal.Mode
		judged, accepts bool
	}{
		"async": {journal.Async, false, true}, "sync": {journal.Sync, true, true},
		"sync, names not judged": {journal.Sync, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, now := memoryStore(t), message.Milli(time.Now().UnixMilli())
			waits, ended := schedulertest.Message(1), schedulertest.Message(2)
			waits.Due, ended.Due = now.Add(time.Hour), now.Add(time.Hour)
			if err := store.Write(t.Context(), nil, []record.Change{
				{UID: waits.UID, Version: 1, State: message.StateWaiting, At: now, Due: waits.Due, Message: waits},
				{UID: ended.UID, Version: 1, State: message.StateWaiting, At: now, Due: ended.Due, Message: ended},
				{UID: ended.UID, Version: 2, State: message.StateCanceled, At: now, Due: ended.Due},
			}); err != nil {
				t.Fatal(err)
			}
			tl, err := memory.New(memory.Config{Buckets: 1, Record: &record.Recording{Instance: "a", Limit: 1 << 20,
				Sync: c.mode == journal.Sync, Wrote: func(record.Entry) {}}})
			if err != nil {
				t.Fatal(err)
			}
			filling := 0
			r := journal.NewRecovery(journal.RecoveryConfig{Store: store, Timeline: tl, Mode: c.mode, Judged: c.judged,
				Window: 10 * time.Minute, EndedKeep: 10 * time.Minute, Clock: scheduler.NewClock(scheduler.System()),
				Timeout: time.Minute, Log: zerolog.Nop(), At: func(point string) {
					if point != journal.MidRestore {
						return
					}
					filling++
					m := schedulertest.Message(3)
					m.Due = now
					results, _, err := tl.Add(t.Context(), 0, []*message.Message{m, ended}, now)
					if !c.accepts {
						if !errors.Is(err, scheduler.ErrUncertified) {
							t.Errorf("a push: %v", err)
						}
						return
					}
					if err != nil || results[0].Code != scheduler.Added || results[1].Code != scheduler.AddDuplicate ||
						results[1].First.State != message.StateCanceled {
						t.Errorf("a push, and one that repeats what has ended: %+v, %v", results, err)
					}
					if _, err := tl.Claim(t.Context(), 0, scheduler.Claim{Term: 2, Number: 1, Now: now, Limit: 9,
						Bytes: 1 << 20}); !errors.Is(err, scheduler.ErrUncertified) {
						t.Errorf("a claim: %v", err)
					}
				}})
			if _, err := r.Run(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			claimed, err := tl.Claim(t.Context(), 0, scheduler.Claim{Term: 2, Number: 2, Now: now.Add(2 * time.Hour),
				Limit: 9, Bytes: 1 << 20})
			want := map[bool]int{true: 2, false: 1}[c.accepts]
			if err != nil || len(claimed.Messages) != want || filling == 0 {
				t.Errorf("claimed %d, want %d: %v", len(claimed.Messages), want, err)
			}
		})
	}
}
