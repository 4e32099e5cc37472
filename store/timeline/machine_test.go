package timeline_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/store/timeline"
)

// lease runs a machine id lease until stop.
func lease(t *testing.T, srv *lab.Redis, namespace, instance string,
	local scheduler.Local) (m *timeline.Machine, stop func()) {
	t.Helper()
	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{srv.Addr}, CallTimeout: time.Second})
	m, err := timeline.NewMachine(
		timeline.MachineConfig{Client: rdb, Namespace: namespace, Instance: instance, Local: local})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			_ = rdb.Close()
		})
	}
	t.Cleanup(stop)
	return m, stop
}

// slotOf waits until the lease is held.
func slotOf(t *testing.T, m *timeline.Machine) int {
	t.Helper()
	slot := -1
	lab.Eventually(t, 15*time.Second, func() error {
		var held bool
		if slot, held = m.ID(); !held {
			return fmt.Errorf("slot %d is not held", slot)
		}
		return nil
	})
	return slot
}

func TestMachine_InstancesOnOneHostNeverShareASlot(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	seen := map[int]bool{}
	for i := range 8 {
		m, _ := lease(t, srv, "machines", fmt.Sprintf("i%d", i%2), scheduler.System()) // names may even repeat
		slot := slotOf(t, m)
		if seen[slot] {
			t.Fatalf("slot %d is held twice", slot)
		}
		seen[slot] = true
	}
}

func TestMachine_ComesBackToItsSlotBehindItsHighWater(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	first, stop := lease(t, srv, "machineback", "a", scheduler.System())
	slot := slotOf(t, first)
	ids := scheduler.NewIDs(first, time.Now)
	last, err := ids.Next(0)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if _, held := first.ID(); held {
		t.Fatal("the slot is held after its lease was given back")
	}
	second, _ := lease(t, srv, "machineback", "a", scheduler.System())
	if got := slotOf(t, second); got != slot {
		t.Fatalf("slot %d, want its old one, %d", got, slot)
	}
	if next, err := scheduler.NewIDs(second, time.Now).Next(0); err != nil || next <= last {
		t.Fatalf("%s after %s, %v", next, last, err)
	}
}

func TestMachine_WaitsOutAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	first, stop := lease(t, srv, "machineclock", "a", scheduler.System())
	slotOf(t, first)
	stop()
	behind := scheduler.System()
	wall := behind.Wall
	behind.Wall = func() time.Time { return wall().Add(-time.Hour) }
	second, _ := lease(t, srv, "machineclock", "a", behind)
	lab.Eventually(t, 10*time.Second, func() error {
		if slot, _ := second.ID(); slot < 0 {
			return fmt.Errorf("no slot yet")
		}
		return nil
	})
	if _, held := second.ID(); held {
		t.Fatal("an instance whose clock is an hour behind gives out ids of the past")
	}
}

func TestMachine_StopsTrustingALeaseItCannotRenew(t *testing.T) {
	t.Parallel()
	srv := lab.NewRedis(t)
	m, _ := lease(t, srv, "machinelost", "a", scheduler.System())
	slotOf(t, m)
	srv.Pause()
	lab.Eventually(t, 15*time.Second, func() error {
		if _, held := m.ID(); held {
			return fmt.Errorf("still held")
		}
		return nil
	})
	srv.Resume()
	slotOf(t, m)
}
