package memory_test

import (
	"testing"

	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/memory"
)

func TestMemory_AnswersTrulyWhileEverythingRaces(t *testing.T) {
	tl, err := memory.New(memory.Config{Buckets: 2})
	if err != nil {
		t.Fatal(err)
	}
	schedulertest.Certify(t, tl)
	schedulertest.ExerciseRaces(t, tl, tl, 300)
}
