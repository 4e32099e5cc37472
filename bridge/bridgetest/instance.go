package bridgetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/steer"
	"github.com/tarry-mq/tarry/store/memory"
)

// Slot is a machine id that is always held.
type Slot int

func (s Slot) ID() (int, bool) { return int(s), true }

// NewTimeline is an empty timeline in memory, which several instances may share.
func NewTimeline(t testing.TB) *memory.Timeline {
	t.Helper()
	timeline, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return timeline
}

// Scheduling starts a scheduler on the timeline that accepts pushes; it does not lead.
func Scheduling(t testing.TB, nc *nats.Conn, timeline scheduler.Timeline) *steer.Scheduler {
	t.Helper()
	clock := scheduler.NewClock(scheduler.System())
	return SchedulingBy(t, nc, timeline, clock, nil)
}

func SchedulingBy(t testing.TB, nc *nats.Conn, timeline scheduler.Timeline, clock *scheduler.Clock,
	backlog *intake.Intake) *steer.Scheduler {
	t.Helper()
	cfg := scheduler.Config{
		Timeline: timeline, IDs: scheduler.NewIDs(Slot(1), time.Now), Clock: clock,
		MaxDelay: 3653 * 24 * time.Hour, EndedKeep: 10 * time.Minute,
		CallTimeout: time.Second, StopTimeout: time.Second, Log: zerolog.Nop(),
	}
	if backlog != nil {
		cfg.Backlog = backlog.Backlog
	}
	s, err := steer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	RunServe(t, s)
	return s
}

func RunServe(t testing.TB, s *steer.Scheduler) {
	t.Helper()
	runUntilEnd(t, s.Serve)
}

var namespaces struct {
	sync.Mutex
	n int
}

// NewNamespace is a name that no other test of this binary uses.
func NewNamespace() string {
	namespaces.Lock()
	defer namespaces.Unlock()
	namespaces.n++
	return fmt.Sprintf("test%d", namespaces.n)
}

// IntakeOn builds an intake with quick time-outs.
func IntakeOn(t testing.TB, cfg intake.Config) *intake.Intake {
	t.Helper()
	if cfg.Clock == nil {
		cfg.Clock = scheduler.NewClock(scheduler.System())
	}
	if cfg.Log.GetLevel() == zerolog.Level(0) && t.Name() != "" {
		cfg.Log = Logger(t)
	}
	in, err := intake.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// Taking runs an intake until the test ends, and waits until it is open.
func Taking(t testing.TB, cfg intake.Config) *intake.Intake {
	t.Helper()
	in := IntakeOn(t, cfg)
	RunFor(t, in.Run)
	lab.Eventually(t, 15*time.Second, func() error {
		if !in.Enabled() {
			return errors.New("the intake is not open")
		}
		return nil
	})
	return in
}

// allInfos finds every waiting message of the uids.
func MustFind(t testing.TB, timeline scheduler.Timeline, ref scheduler.Ref) message.Info {
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

// Waiting counts the messages that wait in the timeline.
func Waiting(t testing.TB, timeline scheduler.Timeline) int {
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

// Servers runs a test on both ends of the range of servers that tarry works with.
func Servers(t *testing.T, test func(t *testing.T, server *lab.NATS)) {
	t.Helper()
	t.Run("current", func(t *testing.T) {
		t.Parallel()
		test(t, lab.NewNATS(t))
	})
	t.Run("2.9", func(t *testing.T) {
		t.Parallel()
		test(t, lab.NewNATS(t, lab.NATS29()))
	})
}

// Publish stores a tagged message in the intake, acknowledged, and returns its sequence.
func Publish(t testing.TB, nc *nats.Conn, subject, body string, headers ...string) uint64 {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	msg := nats.NewMsg(subject)
	msg.Data = []byte(body)
	for i := 0; i < len(headers); i += 2 {
		msg.Header[headers[i]] = append(msg.Header[headers[i]], headers[i+1])
	}
	ack, err := js.PublishMsg(t.Context(), msg)
	if err != nil {
		t.Fatal(err)
	}
	return ack.Sequence
}

// Emptied waits until the intake stream holds nothing more.
func Emptied(t testing.TB, nc *nats.Conn, ns string) {
	t.Helper()
	lab.Eventually(t, 20*time.Second, func() error {
		if n := StreamState(t, nc, link.StreamName(ns)).Msgs; n > 0 {
			return fmt.Errorf("%d messages are in the intake", n)
		}
		return nil
	})
}

func StreamState(t testing.TB, nc *nats.Conn, name string) jetstream.StreamState {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State
}

// Taken keeps the pushes that it gets and answers each as a test sets it.
type Taken struct {
	Pushes chan *scheduler.Push
	Err    error
}

func (s *Taken) Accept(p *scheduler.Push, done func(scheduler.Accepted)) {
	s.Pushes <- p
	go done(scheduler.Accepted{UID: p.UID, ID: p.ID, State: message.StateWaiting, Merged: true, Err: s.Err})
}
