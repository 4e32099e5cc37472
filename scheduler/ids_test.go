package scheduler

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// slot is a machine id that a test grants and withdraws.
type slot struct {
	mu   sync.Mutex
	id   int
	held bool
}

func (s *slot) ID() (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.held
}

func (s *slot) set(id int, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.held = id, held
}

func TestIDs_NeverRepeatAcrossInstancesAndSlots(t *testing.T) {
	a, b := NewIDs(&slot{id: 1, held: true}, time.Now), NewIDs(&slot{id: 2, held: true}, time.Now)
	const each = 20_000
	out := make([][]message.UID, 4)
	var wg sync.WaitGroup
	for w := range out {
		g := []*IDs{a, b}[w%2]
		wg.Go(func() {
			for range each {
				u, err := g.Next(7)
				if err != nil {
					t.Error(err)
					return
				}
				out[w] = append(out[w], u)
			}
		})
	}
	wg.Wait()
	seen := map[message.UID]bool{}
	for _, us := range out {
		for i, u := range us {
			if seen[u] {
				t.Fatalf("%s was given out twice", u)
			}
			if i > 0 && u <= us[i-1] {
				t.Fatalf("%s does not sort after %s", u, us[i-1])
			}
			seen[u] = true
		}
	}
	if got := out[0][0].Hash(); got != 7 {
		t.Fatalf("hash %d, want 7", got)
	}
}

func TestIDs_RefuseWithoutASlot(t *testing.T) {
	s := &slot{}
	g := NewIDs(s, time.Now)
	if _, err := g.Next(0); !errors.Is(err, ErrNoMachineID) {
		t.Fatalf("got %v, want ErrNoMachineID", err)
	}
	s.set(3, true)
	if _, err := g.Next(0); err != nil {
		t.Fatal(err)
	}
}

func TestIDs_RefuseWhileTheClockIsBack(t *testing.T) {
	now := time.Now()
	g := NewIDs(&slot{id: 1, held: true}, func() time.Time { return now })
	first, err := g.Next(0)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(-time.Hour)
	if _, err := g.Next(0); !errors.Is(err, ErrClockBack) {
		t.Fatalf("an hour back: got %v, want ErrClockBack", err)
	}
	now = now.Add(time.Hour - 10*time.Millisecond)
	u, err := g.Next(0)
	if err != nil || u <= first {
		t.Fatalf("10 ms back: %s after %s, %v", u, first, err)
	}
}
