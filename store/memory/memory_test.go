package memory_test

import (
	"testing"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/memory"
)

func open(t *testing.T, o schedulertest.Options) scheduler.Timeline {
	t.Helper()
	tl, err := memory.New(memory.Config{
		Buckets: o.Buckets, EndedKeep: o.EndedKeep, TombstoneKeep: o.TombstoneKeep, TombstoneLimit: o.TombstoneLimit,
		CallLimit: o.CallLimit,
		Record:    o.Record,
	})
	if err != nil {
		t.Fatal(err)
	}
	if o.Record != nil {
		schedulertest.Certify(t, tl)
	}
	return tl
}

func TestTimeline_KeepsEveryPromise(t *testing.T) {
	schedulertest.Exercise(t, open)
}

// The reference is of the same kind here. The test checks that calls sent twice change nothing, that the table of
// states holds, and that nothing is lost.
func TestTimeline_HoldsUnderRandomCalls(t *testing.T) {
	t.Parallel()
	schedulertest.ExerciseModel(t, open, open)
}
