package load

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func ledgerOf(want int, due time.Time) (*Ledger, *Bodies) {
	b := NewBodies()
	return NewLedger(b, want, func(int) time.Time { return due }), b
}

func TestALedgerWithEveryMessageOnceHasNoFaults(t *testing.T) {
	t.Parallel()
	due := time.UnixMilli(1_000_000)
	l, b := ledgerOf(130, due)
	for n := range 130 {
		l.Receive(b.Append(nil, 129-n), due.Add(time.Duration(n)*time.Millisecond))
	}
	select {
	case <-l.All():
	default:
		t.Fatal("all have come, and All is not closed")
	}
	if faults := l.Faults(); len(faults) > 0 {
		t.Fatalf("faults: %q", faults)
	}
	if first, last := l.Span(); !first.Equal(due) || !last.Equal(due.Add(129*time.Millisecond)) {
		t.Fatalf("first %s, last %s", first, last)
	}
	if got := l.Lateness().At(1); got != 129*time.Millisecond {
		t.Fatalf("the latest came %s late", got)
	}
}

func TestALedgerNamesWhatMustNotHappen(t *testing.T) {
	t.Parallel()
	due := time.UnixMilli(1_000_000)
	for name, c := range map[string]struct {
		receive func(l *Ledger, b *Bodies)
		want    []string
	}{
		"lost": {func(l *Ledger, b *Bodies) { l.Receive(b.Append(nil, 1), due) }, []string{"1 of 2 messages lost"}},
		"repeated": {func(l *Ledger, b *Bodies) { l.Receive(b.Append(nil, 1), due); l.Receive(b.Append(nil, 1), due) },
			[]string{"1 of 2 messages lost", "1 of 2 messages repeated"}},
		"changed": {func(l *Ledger, b *Bodies) {
			l.Receive(b.Append(nil, 0), due)
			body := b.Append(nil, 1)
			body[200] = '!'
			l.Receive(body, due)
		}, []string{"1 of 2 messages lost", "1 of 2 bodies changed"}},
		"unknown": {func(l *Ledger, b *Bodies) {
			l.Receive(b.Append(nil, 0), due)
			l.Receive(b.Append(nil, 1), due)
			l.Receive(b.Append(nil, 2), due)
		}, []string{"1 of 2 bodies changed"}},
		"early": {func(l *Ledger, b *Bodies) {
			l.Receive(b.Append(nil, 0), due)
			l.Receive(b.Append(nil, 1), due.Add(-time.Microsecond))
		}, []string{"1 of 2 messages early, by up to 1µs"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, b := ledgerOf(2, due)
			c.receive(l, b)
			if got := l.Faults(); !slices.Equal(got, c.want) {
				t.Fatalf("faults are %q, want %q", got, c.want)
			}
		})
	}
}

func TestWaitEndsAfterTheLastMessageAndWhenNothingComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := ledgerOf(2, time.Now())
		began := time.Now()
		l.Receive(b.Append(nil, 0), time.Now())
		if err := l.Wait(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < stall || waited > stall+time.Second {
			t.Fatalf("the wait for a lost message ended after %s, want %s", waited, stall)
		}
		l.Receive(b.Append(nil, 1), time.Now())
		began = time.Now()
		if err := l.Wait(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != settle {
			t.Fatalf("waited %s for repeats, want %s", waited, settle)
		}
	})
}

func TestLatenessIsByNearestRank(t *testing.T) {
	t.Parallel()
	var unsorted []time.Duration
	for i := range 1000 {
		unsorted = append(unsorted, time.Duration((i*7)%1000+1))
	}
	l := newLateness(unsorted)
	for share, want := range map[float64]time.Duration{0: 1, 0.5: 500, 0.99: 990, 0.999: 999, 1: 1000} {
		if got := l.At(share); got != want {
			t.Errorf("At(%v) is %d, want %d", share, got, want)
		}
	}
	if got := newLateness(nil).At(0.5); got != 0 {
		t.Errorf("without messages it is %d", got)
	}
}
