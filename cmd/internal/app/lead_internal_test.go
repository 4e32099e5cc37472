package app

import (
	"context"
	"testing"
	"time"
)

// The publisher serves whatever leadership a context belongs to, and nothing leaves under none.
func TestLeaseLeft_IsTheLeadershipsOfTheContext(t *testing.T) {
	t.Parallel()
	if left := leaseLeft(t.Context()); left != 0 {
		t.Errorf("%v is left of no leadership", left)
	}
	for _, want := range []time.Duration{time.Second, 2 * time.Second} {
		ctx := context.WithValue(t.Context(), leaseKey{}, func() time.Duration { return want })
		if left := leaseLeft(context.WithoutCancel(ctx)); left != want {
			t.Errorf("%v is left, want %v", left, want)
		}
	}
}
