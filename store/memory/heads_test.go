package memory_test

import (
	"errors"
	"testing"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/memory"
)

// A leader begins with a certified bucket while others are still being filled.
func TestHeads_OfABucketThatIsNotCertifiedHideNoOther(t *testing.T) {
	t.Parallel()
	tl, err := memory.New(memory.Config{Buckets: 2,
		Record: &record.Recording{Instance: "a", Address: "", Limit: 1 << 20,
			Wrote: func(record.Entry) {}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tl.Heads(t.Context()); !errors.Is(err, scheduler.ErrUncertified) {
		t.Errorf("no bucket is certified: %v", err)
	}
	stands, err := tl.Standings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	filled := tl.Recovering(stands, 0, 0)
	if _, err := filled.Reclaim(t.Context(), 1, 7, 1, 1000); err != nil { // leave the term there
		t.Fatal(err)
	}
	if err := filled.Certify(t.Context(), 1, 7, record.Certification{Number: 1, Run: stands[1].Now}); err != nil {
		t.Fatal(err)
	}
	heads, err := tl.Heads(t.Context())
	if err != nil || !errors.Is(heads[0].Err, scheduler.ErrUncertified) || heads[1].Err != nil || heads[1].Term != 7 {
		t.Errorf("got %+v, %v", heads, err)
	}
}
