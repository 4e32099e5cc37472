package journal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/timeline"
)

// steppedLine is a timeline on a Redis whose clock a test steps; it remembers ends for ten minutes.
func steppedLine(t *testing.T) (*lab.SteppedRedis, *timeline.Redis) {
	t.Helper()
	srv := lab.NewSteppedRedis(t, "--appendfsync", "always")
	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{srv.Addr}, CallTimeout: 10 * time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	tl, err := timeline.New(timeline.Config{Client: rdb, Namespace: "clock", Buckets: 1, EndedKeep: 10 * time.Minute,
		TombstoneKeep: time.Minute, TombstoneLimit: 9,
		Record: &record.Recording{Instance: "a", Address: "", Limit: 1 << 20,
			Wrote: func(record.Entry) {}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tl.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	schedulertest.Certify(t, tl)
	return srv, tl
}

// canceledAt pushes a message and cancels it, by an instance's clock.
func canceledAt(t *testing.T, tl *timeline.Redis, n int, now message.Milli) *message.Message {
	t.Helper()
	m := schedulertest.Message(n)
	m.Due = now.Add(time.Hour)
	if _, _, err := tl.Add(t.Context(), 0, []*message.Message{m}, now); err != nil {
		t.Fatal(err)
	}
	if r, err := tl.Cancel(t.Context(), scheduler.Ref{UID: m.UID}, now); err != nil || r.Code != scheduler.CancelDone {
		t.Fatalf("cancel: %+v, %v", r, err)
	}
	return m
}

// The ids of a stream never go back: after a step of the server's clock they lie in its future for as long as the step
// was. What was left to the drainer is written all the same, and the lag shows how old it is.
func TestDrain_GoesOnAfterRedissClockWentBack(t *testing.T) {
	t.Parallel()
	srv, tl := steppedLine(t)
	store := memoryStore(t)
	now := message.Milli(time.Now().UnixMilli())
	before := canceledAt(t, tl, 1, now)
	srv.Step(t, -time.Hour)
	after := canceledAt(t, tl, 2, now.Add(-time.Minute))
	lags, err := tl.Lags(t.Context())
	if err != nil || lags[0].Oldest != now || lags[0].Changes != 4 {
		t.Errorf("lag: %+v, %v; want the oldest of 4 at %d", lags, err, now)
	}
	lab.Eventually(t, 20*time.Second, func() error {
		_, _, err := drain(t.Context(), store, tl, 0, 1000, time.Minute, zerolog.Nop())
		if err != nil {
			return err
		}
		have, err := store.Versions(t.Context(), []message.UID{before.UID, after.UID})
		if err == nil && len(have) < 2 {
			err = fmt.Errorf("the journal has %d of 2", len(have))
		}
		return err
	})
}

// An end is not forgotten before the journal has it, whatever the server's clock said when it was written.
func TestTrim_WaitsForTheJournalWhateverRedissClockSays(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			srv, tl := steppedLine(t)
			srv.Step(t, step)
			now := message.Milli(time.Now().UnixMilli())
			m := canceledAt(t, tl, 1, now)
			srv.Step(t, 0)
			trim := func(after time.Duration) int {
				n, err := tl.Trim(t.Context(), 0, 1, now.Add(after), 10)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			if n := trim(time.Hour); n != 0 {
				t.Error("an end was forgotten that only this bucket knew")
			}
			if _, _, err := drain(
				t.Context(), memoryStore(t), tl, 0, 0, time.Minute, zerolog.Nop()); err != nil {
				t.Fatal(err)
			}
			if n := trim(9 * time.Minute); n != 0 {
				t.Error("an end was forgotten too early")
			}
			if n := trim(11 * time.Minute); n != 1 {
				t.Errorf("forgotten: %d of %s", n, m.UID)
			}
		})
	}
}

// A Redis whose clock was ahead by an hour comes back without the last forty minutes: they are compared, since the
// clock of the changes is not that one.
func TestRecovery_LooksBackByTheClockOfTheChanges(t *testing.T) {
	t.Parallel()
	srv, tl := steppedLine(t)
	srv.Step(t, time.Hour)
	store := memoryStore(t)
	old := message.Milli(time.Now().UnixMilli())
	canceledAt(t, tl, 1, old) // the last that the store knows of
	lost := schedulertest.Message(2)
	at := old.Add(10 * time.Minute)
	lost.Due = at.Add(time.Hour)
	err := store.Write(t.Context(), nil, []record.Change{
		{UID: lost.UID, Version: 1, State: message.StateWaiting, At: at, Due: lost.Due, Message: lost}})
	if err != nil {
		t.Fatal(err)
	}
	now := old.Add(40 * time.Minute)
	srv.Step(t, 100*time.Minute) // as time goes by
	srv.Kill()
	srv.Restart()
	lab.Eventually(t, 10*time.Second, func() error { _, err := tl.Standings(t.Context()); return err })
	clock := scheduler.NewClock(scheduler.Local{Wall: now.Time, Mono: func() time.Duration { return 0 }})
	r := journal.NewRecovery(journal.RecoveryConfig{Store: store, Timeline: tl, Mode: journal.Sync,
		Window: 10 * time.Minute, EndedKeep: 10 * time.Minute,
		Clock: clock, Timeout: time.Minute, Log: zerolog.Nop()})
	if _, err := r.Run(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if found, err := tl.Find(t.Context(), scheduler.Ref{UID: lost.UID}); err != nil || len(found) != 1 {
		t.Errorf("what was accepted ten minutes after the store's last change: %+v, %v", found, err)
	}
}
