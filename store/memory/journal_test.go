package memory_test

import (
	"testing"

	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/journal/journaltest"
	"github.com/tarry-mq/tarry/store/memory"
)

func openJournal(t *testing.T, cfg memory.JournalConfig) *memory.Journal {
	t.Helper()
	j, err := memory.NewJournal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestJournal_KeepsEveryPromise(t *testing.T) {
	t.Parallel()
	journaltest.Exercise(t, func(t *testing.T) journal.Store { return openJournal(t, memory.JournalConfig{}) })
}

func TestJournal_HoldsUnderRandomWrites(t *testing.T) {
	t.Parallel()
	journaltest.ExerciseModel(t, openJournal(t, memory.JournalConfig{}), nil)
}

func TestJournal_KeepsABoundedNumberOfEnds(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, cfg := range []memory.JournalConfig{{EndedLimit: 5}, {EndedBytes: 59}} {
		j := openJournal(t, cfg)
		var live, ended []message.UID
		for i := range 20 {
			m := schedulertest.Message(i, schedulertest.Body(make([]byte, 10)))
			c := record.Change{UID: m.UID, Version: 1, State: message.StateWaiting, At: 1, Due: m.Due, Message: m}
			end := c
			// the last ended first
			end.Version, end.State, end.At, end.Message = 2, message.StateDelivered, message.Milli(100-i), nil
			changes := []record.Change{c}
			if i%2 == 0 {
				changes, ended = append(changes, end), append(ended, m.UID)
			} else {
				live = append(live, m.UID)
			}
			if err := j.Write(ctx, nil, changes); err != nil {
				t.Fatal(err)
			}
		}
		if found, err := j.Versions(ctx, live); err != nil || len(found) != len(live) {
			t.Fatalf("%d of %d live messages are known, %v", len(found), len(live), err)
		}
		found, err := j.Records(ctx, ended)
		if err != nil || len(found) != 5 {
			t.Fatalf("%d ended messages are known, %v, want 5", len(found), err)
		}
		for i, r := range found {
			if r.UID != ended[i] {
				t.Fatalf("known are %v, want those that ended last", found)
			}
		}
		if gone, err := j.History(ctx, ended[5], record.MaxChanges); err != nil || len(gone) != 0 {
			t.Fatalf("what is gone has a history: %v, %v", gone, err)
		}
	}
	if _, err := memory.NewJournal(memory.JournalConfig{EndedLimit: -1}); err == nil {
		t.Fatal("a negative limit was taken")
	}
}
