package bridge_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/store/memory"
)

// slot is a machine id that is always held.
type slot int

func (s slot) ID() (int, bool) { return int(s), true }

// newTimeline is an empty timeline in memory, which several instances may share.
func newTimeline(t testing.TB) *memory.Timeline {
	t.Helper()
	timeline, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return timeline
}

// scheduling starts a scheduler on the timeline that accepts pushes; it does not lead.
func scheduling(t testing.TB, nc *nats.Conn, timeline scheduler.Timeline) *scheduler.Scheduler {
	t.Helper()
	clock := scheduler.NewClock(scheduler.System())
	return schedulingBy(t, nc, timeline, clock, nil)
}

func schedulingBy(t testing.TB, nc *nats.Conn, timeline scheduler.Timeline, clock *scheduler.Clock,
	backlog *bridge.Intake) *scheduler.Scheduler {
	t.Helper()
	publisher, err := bridge.NewPublisher(bridge.PublisherConfig{Conn: nc})
	if err != nil {
		t.Fatal(err)
	}
	cfg := scheduler.Config{
		Timeline: timeline, Publisher: publisher, IDs: scheduler.NewIDs(slot(1), time.Now), Clock: clock,
		MaxDelay: 3653 * 24 * time.Hour, EndedKeep: 10 * time.Minute, ClaimBatch: 500, ClaimBytes: 8 << 20,
		Pending: 4096, Attempts: 3,
		CallTimeout: time.Second, StopTimeout: time.Second, Log: zerolog.Nop(),
	}
	if backlog != nil {
		cfg.Backlog = backlog.Backlog
	}
	s, err := scheduler.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runServe(t, s)
	return s
}

func runServe(t testing.TB, s *scheduler.Scheduler) {
	t.Helper()
	runUntilEnd(t, s.Serve)
}

var namespaces struct {
	sync.Mutex
	n int
}

// newNamespace is a name that no other test of this binary uses.
func newNamespace() string {
	namespaces.Lock()
	defer namespaces.Unlock()
	namespaces.n++
	return fmt.Sprintf("test%d", namespaces.n)
}

// intakeOn builds an intake with quick time-outs.
func intakeOn(t testing.TB, cfg bridge.IntakeConfig) *bridge.Intake {
	t.Helper()
	if cfg.Clock == nil {
		cfg.Clock = scheduler.NewClock(scheduler.System())
	}
	if cfg.Log.GetLevel() == zerolog.Level(0) && t.Name() != "" {
		cfg.Log = logger(t)
	}
	in, err := bridge.NewIntake(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// taking runs an intake until the test ends, and waits until it is open.
func taking(t testing.TB, cfg bridge.IntakeConfig) *bridge.Intake {
	t.Helper()
	in := intakeOn(t, cfg)
	runFor(t, in.Run)
	lab.Eventually(t, 15*time.Second, func() error {
		if !in.Enabled() {
			return errors.New("the intake is not open")
		}
		return nil
	})
	return in
}

// allInfos finds every waiting message of the uids.
func mustFind(t testing.TB, timeline scheduler.Timeline, ref scheduler.Ref) message.Info {
	t.Helper()
	var info message.Info
	lab.Eventually(t, 10*time.Second, func() error {
		found, err := timeline.Find(t.Context(), ref)
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("%+v names %d messages", ref, len(found))
		}
		if err != nil {
			return err
		}
		info = found[0]
		return nil
	})
	return info
}

// waiting counts the messages that wait in the timeline.
func waiting(t testing.TB, timeline scheduler.Timeline) int {
	t.Helper()
	heads, err := timeline.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, h := range heads {
		n += h.Waiting
	}
	return n
}
