package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
)

// dying is an empty store, the one after another that was lost with the first pushes and their replies: the leader had
// delivered them, and the journal has their ends alone.
type dying struct {
	*memory.Timeline
	began   bool
	store   journal.Store
	recover func(ctx context.Context) error
}

func (d *dying) Add(ctx context.Context, bucket message.Bucket, batch []*message.Message,
	now message.Milli) ([]scheduler.AddResult, []scheduler.Earlier, error) {
	if d.began {
		return d.Timeline.Add(ctx, bucket, batch, now)
	}
	d.began = true
	ends := make([]record.Change, len(batch))
	for i, m := range batch {
		ends[i] = record.Change{UID: m.UID, Version: 2, State: message.StateDelivered, At: now, Due: m.Due, Term: 1}
	}
	if err := errors.Join(d.store.Write(ctx, nil, ends), d.recover(ctx)); err != nil {
		return nil, nil, err
	}
	return nil, nil, scheduler.ErrOutcomeUnknown
}

// A store is lost with the acceptance of a message that the leader has delivered: the journal has its end alone. The
// push comes again, and neither waits for what nobody writes any more, with every push behind it, nor is it stored once
// more.
func TestAccept_WaitsForNoAcceptanceThatWasLost(t *testing.T) {
	for name, push := range map[string]scheduler.Push{
		"with a uid of its own": {Topic: "a", Delay: time.Second},
		"by tag":                {Topic: "a", Delay: time.Second, UID: "t-0w472j1w8008axqg", Stored: 7},
		"with a name":           {Topic: "a", Delay: time.Second, ID: "order"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := memory.NewJournal(memory.JournalConfig{})
				if err != nil {
					t.Fatal(err)
				}
				tl, err := memory.New(memory.Config{Buckets: 1, EndedKeep: time.Hour,
					Record: &record.Recording{Instance: "a", Limit: 1 << 20, Wrote: func(record.Entry) {}}})
				if err != nil {
					t.Fatal(err)
				}
				r := rig.New(t, 1, func(scheduler.Timeline) scheduler.Timeline { return tl })
				recovery := journal.NewRecovery(journal.RecoveryConfig{Store: store, Timeline: tl, Mode: journal.Sync,
					Window: time.Hour, EndedKeep: time.Hour, Clock: r.Clock, Timeout: time.Minute, Log: zerolog.Nop()})
				r.Store = &dying{Timeline: tl, store: store, recover: func(ctx context.Context) error {
					_, err := recovery.Run(ctx, 2)
					return err
				}}
				w := journal.NewWriter(journal.WriterConfig{Store: store, Mode: journal.Sync, Timeout: time.Second,
					Log: zerolog.Nop()})
				r.Journal = &synced{Writer: w}
				s := r.Scheduler()
				r.Serve(s)
				a := s.AcceptAll(t.Context(), []*scheduler.Push{&push})[0]
				if a.Err != nil || a.State != message.StateDelivered {
					t.Errorf("%+v", a)
				}
				if n, err := tl.Count(t.Context(), "a"); err != nil || n.Waiting > 0 {
					t.Errorf("%d are stored once more: %v", n.Waiting, err)
				}
			})
		})
	}
}
