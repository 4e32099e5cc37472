package journal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
)

// A restore of what is not overdue restores nothing that becomes overdue while the rate holds it back.
func TestRestore_LeavesOutWhatBecomesOverdueMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSides(t)
		s.recovered()
		for n := range 10 {
			m := schedulertest.Message(n + 1)
			m.Due = s.clock.Milli().Add(time.Duration(n+1) * time.Second / 2)
			s.write(record.Change{UID: m.UID, Version: 1, State: message.StateWaiting, Due: m.Due, Message: m})
		}
		r := &journal.Reconciler{Store: s.store, Timeline: s.tl, Buckets: 1, Clock: s.clock, Timeout: time.Minute,
			Log: zerolog.Nop()}
		report, err := r.Restore(t.Context(), record.RestoreRequest{Rate: 1}, nil)
		if err != nil || report.Added == 0 || report.Added == 10 {
			t.Fatalf("%+v, %v", report, err)
		}
		for _, e := range s.outbox { // a change that the restore made is that of an overdue message
			t.Errorf("it restored what was overdue: %+v", e.Changes)
		}
	})
}

// An audit that goes on after its store was replaced writes nothing of what that store says to the journal.
func TestVerify_OfAReplacedStoreWritesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSides(t)
		s.recovered()
		s.add(false, 1)
		standings, err := s.tl.Standings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.store.Fence(t.Context(), 0, standings[0].Number+1); err != nil {
			t.Fatal(err)
		}
		if r := s.verify(true); r.Found[record.MissingInJournal] != 1 || r.Repaired != 0 {
			t.Fatalf("%+v", r)
		}
		if found, err := s.store.Records(t.Context(), []message.UID{schedulertest.Message(1).UID}); err != nil ||
			len(found) != 0 {
			t.Errorf("the journal has %+v, %v", found, err)
		}
	})
}

// What a lost store held last is not in the journal: SQL refused it. What the user replaced by it does not come back.
func TestRestore_BringsNoContentBackThatARefusedOneReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSides(t)
		s.recovered()
		for n, refused := range []bool{false, true} {
			m := schedulertest.Message(n + 1)
			m.Due = s.clock.Milli().Add(time.Hour)
			s.write(record.Change{UID: m.UID, Version: 1, State: message.StateWaiting, Due: m.Due, Message: m})
			edit := record.Change{UID: m.UID, Version: 2, State: message.StateWaiting, Due: m.Due, Reason: "rescheduled: due"}
			if refused {
				edit.Reason = record.RefusedReason
			}
			s.write(edit)
			s.write(record.Change{UID: m.UID, Version: 3, State: message.StateWaiting, Due: m.Due, Reason: "run"})
		}
		r := &journal.Reconciler{Store: s.store, Timeline: s.tl, Buckets: 1, Clock: s.clock, Timeout: time.Minute,
			Log: zerolog.Nop()}
		report, err := r.Restore(t.Context(), record.RestoreRequest{}, nil)
		if err != nil || report != (record.RestoreReport{Read: 2, Added: 1, Newer: 1}) {
			t.Fatalf("%+v, %v", report, err)
		}
		found, err := s.tl.Find(t.Context(), scheduler.Ref{UID: schedulertest.Message(2).UID})
		if err != nil || len(found) != 0 {
			t.Errorf("an old content is back: %+v, %v", found, err)
		}
	})
}
