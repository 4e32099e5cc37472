package scheduler_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
)

// smallStore refuses some contents, as a database does that took over with a smaller max_allowed_packet.
type smallStore struct{ journal.Store }

func (s *smallStore) Write(ctx context.Context, fences map[message.Bucket]uint64, changes []record.Change) error {
	for _, c := range changes {
		if c.Message != nil && bytes.Contains(c.Message.Body, []byte("poison")) {
			return mysql.ErrPktTooLarge
		}
	}
	return s.Store.Write(ctx, fences, changes)
}

// synced is a journal in sync mode.
type synced struct {
	rig.KeptJournal
	*journal.Writer
}

func (j *synced) Ready() error { return j.Writer.Ready() }
func (j *synced) Await(ctx context.Context, changes []scheduler.Recorded, held func(int, bool)) error {
	return j.Writer.Await(ctx, changes, held)
}

// A content that the database refuses for good is accepted without it: its sender learns that only Redis has it, and
// nobody beside it waits.
func TestAccept_HoldsNobodyUpForAContentThatTheJournalRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(message.Epoch.AddDate(1, 10, 20)))
		var w *journal.Writer
		tl, err := memory.New(memory.Config{Buckets: 1, Record: &record.Recording{Instance: "a", Limit: 1 << 20,
			Wrote: func(e record.Entry) { w.Wrote(e) }}})
		if err != nil {
			t.Fatal(err)
		}
		schedulertest.Certify(t, tl)
		kept, err := memory.NewJournal(memory.JournalConfig{})
		if err != nil {
			t.Fatal(err)
		}
		store := &smallStore{kept}
		w = journal.NewWriter(journal.WriterConfig{Store: store, Mode: journal.Sync, Timeout: time.Second,
			Log: zerolog.Nop()})
		r := rig.New(t, 1, func(scheduler.Timeline) scheduler.Timeline { return tl })
		r.Journal = &synced{Writer: w}
		both := &journal.Reconciler{Store: store, Timeline: tl, Buckets: 1, Clock: r.Clock, Instance: "a",
			Timeout: time.Second, Log: zerolog.Nop()}
		d := journal.NewDrainer(journal.DrainerConfig{Reconciler: both, Duty: func(context.Context) bool { return true }})
		ctx, cancel := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer cancel()
		go func() { _ = w.Run(ctx, tl, nil) }()
		go func() { _ = d.Run(ctx) }()
		s := r.Scheduler()
		r.Serve(s)

		batch := make([]*scheduler.Push, 50)
		for i := range batch {
			batch[i] = &scheduler.Push{Topic: "a", Delay: time.Hour, Body: []byte("good")}
		}
		batch[20].Body = []byte("poison")
		begun := time.Now()
		accepted := s.AcceptAll(ctx, batch)
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("the batch took %s", took)
		}
		for i, a := range accepted {
			if a.Err != nil || a.Duplicate || a.Bare != (i == 20) {
				t.Errorf("push %d: bare %v, duplicate %v, %v", i, a.Bare, a.Duplicate, a.Err)
			}
		}
		edit := scheduler.Edit{Body: []byte("poison")}
		edited, err := s.Reschedule(ctx, scheduler.Ref{UID: accepted[1].UID}, edit)
		if err != nil || edited.Code != scheduler.AmendDone || !edited.Info.Bare {
			t.Errorf("edited to what is refused: %s, bare %v, %v", edited.Code, edited.Info.Bare, err)
		}
		batch[20].UID = accepted[20].UID // repeated, and changed
		if a := s.AcceptAll(ctx, batch[20:21])[0]; a.Err != nil || !a.Duplicate || !a.Bare {
			t.Errorf("repeated: %+v", a)
		}
		ref := scheduler.Ref{UID: accepted[20].UID}
		if moved, err := s.Reschedule(ctx, ref, scheduler.Edit{Delay: new(2 * time.Hour)}); err != nil ||
			moved.Code != scheduler.AmendDone {
			t.Errorf("moved: %s, %v", moved.Code, err)
		}
		if result, err := s.Cancel(ctx, ref); err != nil || result.Code != scheduler.CancelDone {
			t.Errorf("canceled: %s, %v", result.Code, err)
		}
		time.Sleep(5 * time.Second)
		told, _, err := tl.Quarantined(ctx, 0, "")
		if err != nil || len(told) != 2 || len(told[0].UIDs) != 1 || told[0].UIDs[0] != ref.UID || !told[0].Known {
			t.Errorf("the operator is told of %+v, %v", told, err)
		}
		if lags, err := tl.Lags(ctx); err != nil || lags[0].Entries != 0 {
			t.Errorf("the outbox holds %+v, %v", lags, err)
		}
	})
}
