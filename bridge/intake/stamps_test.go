package intake_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
)

// stamping is a server whose clock is off by so much; silent, it does not report the time, as 2.9 does not.
type stamping struct {
	off      time.Duration
	silent   bool
	leader   string
	sequence uint64
}

// stampServer answers for the intake stream.
type stampServer struct {
	mu sync.Mutex
	stamping
	asked int
}

func (s *stampServer) answer(msg *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	ts := ""
	if !s.silent {
		ts = fmt.Sprintf(`,"ts":%q`, time.Now().Add(s.off).UTC().Format(time.RFC3339Nano))
	}
	_ = msg.Respond(fmt.Appendf(nil, `{"config":{"name":"X"},"state":{"last_seq":%d},"cluster":{"leader":%q}%s}`,
		s.sequence, s.leader, ts))
}

// set changes what it answers and waits until the sampler has heard it.
func (s *stampServer) set(t *testing.T, change func(*stampServer)) {
	t.Helper()
	s.mu.Lock()
	change(s)
	from := s.asked
	s.mu.Unlock()
	lab.Eventually(t, 20*time.Second, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.asked < from+2 { // the one before was answered in full
			return errors.New("the sampler did not ask")
		}
		return nil
	})
}

// What was stored before the clock of NATS was set is not called older than it is: with the intake's stamp an hour
// behind the time of now, a delay of an hour would be over.
func TestIntake_TrustsNoStampFromBeforeAClockWasSet(t *testing.T) {
	t.Parallel()
	nc := bridgetest.Connect(t, lab.SharedNATS(t).URL())
	for name, c := range map[string]struct {
		before, after stamping
		old           bool // the stamp is believed
	}{
		"set forward":                   {stamping{}, stamping{off: time.Hour}, false},
		"set back":                      {stamping{off: time.Hour}, stamping{}, false},
		"another server, an hour ahead": {stamping{leader: "a"}, stamping{leader: "b", off: time.Hour}, false},
		"another server, of equal clock": {stamping{leader: "a", off: time.Hour},
			stamping{leader: "b", off: time.Hour}, true},
		"as it was": {stamping{off: time.Hour}, stamping{off: time.Hour}, true},
		"another server, without a time": {stamping{leader: "a", silent: true},
			stamping{leader: "b", silent: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clocks := bridgetest.Connect(t, lab.NewNATS(t, lab.NoJetStream()).URL())
			ns := bridgetest.NewNamespace()
			local := scheduler.System()
			if c.before.silent { // then the machine's own clock is asked, which an hour is too far for
				wall := local.Wall
				local.Wall = func() time.Time { return wall().Add(time.Hour) }
			}
			clock := scheduler.NewClock(local)
			says := &stampServer{stamping: c.before}
			if _, err := clocks.Subscribe("$JS.API.STREAM.INFO."+link.StreamName(ns), says.answer); err != nil {
				t.Fatal(err)
			}
			_ = clocks.Flush()
			stamps := intake.NewClockSampler(
				intake.ClockConfig{Conn: clocks, Namespace: ns, Clock: clock, Log: bridgetest.Logger(t)})
			bridgetest.RunFor(t, stamps.Run)
			says.set(t, func(*stampServer) {})
			to := &bridgetest.Taken{Pushes: make(chan *scheduler.Push, 10)}
			publishTo := func(seq uint64, body string) {
				if got := bridgetest.Publish(t, nc, "later."+ns+".a", body, "Tarry-Delay", "1h"); got != seq {
					t.Fatalf("sequence %d, want %d", got, seq)
				}
			}
			in := bridgetest.IntakeOn(t, intake.Config{Conn: nc, Namespace: ns, Prefix: "later." + ns, Accept: to,
				Clock: clock, Stamps: stamps})
			bridgetest.StreamOf(t, nc, jetstream.StreamConfig{Name: link.StreamName(ns),
				Subjects: []string{"later." + ns + ".>"}, Retention: jetstream.WorkQueuePolicy})
			publishTo(1, "before")
			says.set(t, func(s *stampServer) {
				s.stamping, s.sequence = c.after, 1
			})
			bridgetest.RunFor(t, in.Run)
			p := <-to.Pushes
			if old := p.Age > 59*time.Minute; old != c.old || !c.old && p.Age > 0 {
				t.Errorf("stored a moment ago, its age is %s", p.Age)
			}
			publishTo(2, "after") // it cannot be older than the last sample
			if p := <-to.Pushes; p.Age > 10*time.Second {
				t.Errorf("stored after a sample, its age is %s", p.Age)
			}
			if clock.Doubted(time.Minute) == c.old {
				t.Errorf("doubted: %v", !c.old)
			}
		})
	}
}
