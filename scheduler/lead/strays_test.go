package lead_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// moving is a publisher of streams that a test moves topics between.
type moving struct {
	*rig.Rig
	stream map[string]string // by topic; a topic without one has a lane of core
	full   map[string]bool   // refuses for now, by stream or topic
	mute   map[string]bool   // never acknowledges, by stream
	sends  map[string]int    // by topic
}

const ackWait = 5 * time.Second // until a send that is not acknowledged is unknown

func newMoving(t *testing.T, wrap func(scheduler.Timeline) scheduler.Timeline) *moving {
	v := &moving{Rig: rig.New(t, 1, wrap)}
	v.moves(nil, nil, nil)
	v.Nats.LaneOf = v.lane
	v.Nats.Answer = func(m *message.Message, _ int) scheduler.Outcome {
		v.sends[m.Topic]++
		switch lane := string(v.lane(m)); {
		case v.full[lane] || v.full[m.Topic]:
			return scheduler.Outcome{Kind: scheduler.Unanswered,
				Err: errors.New("maximum messages exceeded (503, 10077)")}
		case v.mute[lane]:
			return scheduler.Outcome{Kind: scheduler.Unknown, Err: errors.New("no PubAck")}
		case v.stream[m.Topic] == "":
			return scheduler.Outcome{Kind: scheduler.NoListener, Err: errors.New("nobody")}
		}
		return scheduler.Outcome{}
	}
	v.Nats.Takes = func(m *message.Message) time.Duration {
		if v.mute[string(v.lane(m))] {
			return ackWait
		}
		return 0
	}
	return v
}

func (v *moving) lane(m *message.Message) message.Lane {
	if s := v.stream[m.Topic]; s != "" {
		return message.Lane(s)
	}
	return message.LaneCore.Lane(m.Topic)
}

// moves sets where topics leave, and what is wrong with their streams; what was sent is counted from here.
func (v *moving) moves(stream map[string]string, full, mute []string) {
	v.Nats.Mu.Lock()
	defer v.Nats.Mu.Unlock()
	set := func(names []string) map[string]bool {
		m := map[string]bool{}
		for _, name := range names {
			m[name] = true
		}
		return m
	}
	v.stream, v.full, v.mute, v.sends = stream, set(full), set(mute), map[string]int{}
}

// sent is how many messages of a topic were handed over.
func (v *moving) sent(topic string) int {
	v.Nats.Mu.Lock()
	defer v.Nats.Mu.Unlock()
	return v.sends[topic]
}

// got is how many messages of a topic arrived since, and how late the latest was.
func (v *moving) got(topic string, since time.Time) (n int, late time.Duration) {
	for _, a := range v.Nats.Arrived() {
		if a.M.Topic == topic && !a.At.Before(since) {
			n, late = n+1, max(late, a.At.Sub(a.M.Due.Time()))
		}
	}
	return n, late
}

// window is how many messages the rig has in flight at most.
const window = 4096

func TestRun_StraysOfADestinationThatNeverAnswersAreSentNoMoreThanAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newMoving(t, nil)
		v.moves(map[string]string{"sick": "js:WELL", "well": "js:WELL"}, []string{"js:WELL"}, nil)
		stop := v.Lead(v.S, 1)
		var sick []message.UID
		for range 4 * window {
			sick = append(sick, v.Push(scheduler.Push{Topic: "sick", Delay: 30 * time.Second}).UID)
		}
		time.Sleep(time.Minute)
		_ = stop(rig.ErrStop)
		if lane := v.Info(sick[len(sick)-1]).Mark.Lane; lane != "js:WELL" {
			t.Fatalf("parked in %q", lane)
		}

		v.moves(map[string]string{"sick": "js:SICK", "well": "js:WELL"}, nil, []string{"js:SICK"})
		stop = v.Lead(v.S, 2)
		started := time.Now()
		healthy := func(step string, since time.Time, bound time.Duration) {
			for range 30 {
				v.Push(scheduler.Push{Topic: "well", Delay: time.Millisecond})
				time.Sleep(ackWait / 20)
			}
			if n, late := v.got("well", since); n != 30 || late > bound {
				t.Errorf("%s 30 of the healthy stream: %d arrived, the latest %s late", step, n, late)
			}
		}
		healthy("while nothing is known,", started, ackWait+10*time.Millisecond)
		healthy("once it is known,", time.Now(), 10*time.Millisecond)
		probes := int(time.Since(started)/ackWait) + 1
		if n := v.sent("sick"); n > window+probes {
			t.Errorf("%d sends to a stream that never answers, a window has %d", n, window)
		}
		uncertain, elsewhere := 0, 0
		for _, uid := range sick {
			info := v.Info(uid)
			if info.Mark.Uncertain {
				uncertain++
			}
			if info.State == message.StateWaiting && info.Mark.Lane != "js:SICK" {
				elsewhere++
			}
		}
		if elsewhere > 0 {
			t.Errorf("%d messages wait in the lane of another stream", elsewhere)
		}
		if uncertain > window+probes {
			t.Errorf("%d of %d messages are uncertain", uncertain, len(sick))
		}
		v.moves(map[string]string{"sick": "js:SICK"}, nil, nil)
		time.Sleep(time.Minute)
		_ = stop(rig.ErrStop)
		for _, uid := range sick {
			if got := v.Info(uid).State; got != message.StateDelivered {
				t.Fatalf("after the stream answered again %s is %s", uid, got)
			}
		}
	})
}

func TestRun_StraysInTheSharedLaneAreSentNoMoreThanAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newMoving(t, nil)
		stop := v.Lead(v.S, 1)
		pushed, moved := map[string]message.UID{}, map[string]string{}
		for i := range 4 * window {
			topic := fmt.Sprint("sick.", i)
			pushed[topic] = v.Push(scheduler.Push{Topic: topic, Delay: 30 * time.Second}).UID
		}
		time.Sleep(time.Minute)
		_ = stop(rig.ErrStop)
		for topic, uid := range pushed {
			if v.Info(uid).Mark.Lane == "core:*" {
				moved[topic] = "js:SICK"
			}
		}
		if len(moved) < 3*window {
			t.Fatalf("%d messages share a lane", len(moved))
		}

		v.moves(moved, nil, []string{"js:SICK"})
		stop = v.Lead(v.S, 2)
		time.Sleep(time.Minute)
		sent := 0
		for topic := range moved {
			sent += v.sent(topic)
		}
		if probes := int(time.Minute/ackWait) + 1; sent > window+probes {
			t.Errorf("%d sends to a stream that never answers, a window has %d", sent, window)
		}
		v.moves(moved, nil, nil)
		started := time.Now()
		time.Sleep(time.Minute)
		_ = stop(rig.ErrStop)
		n := 0
		for _, a := range v.Nats.Arrived() {
			if !a.At.Before(started) {
				n++
			}
		}
		if n != len(moved) {
			t.Errorf("%d of %d messages arrived when the stream answered again", n, len(moved))
		}
	})
}

func TestRun_TheSuccessOfAStrayDoesNotOpenTheLaneThatItWaitedIn(t *testing.T) {
	for _, n := range []int{1000, 5000} { // a window has room for all that waits, and for less than half of it
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newMoving(t, nil)
				v.moves(map[string]string{"sick": "js:SICK", "moved": "js:SICK"}, []string{"js:SICK"}, nil)
				stop := v.Lead(v.S, 1)
				for range n {
					v.Push(scheduler.Push{Topic: "sick", Delay: 20 * time.Second})
					v.Push(scheduler.Push{Topic: "moved", Delay: 20 * time.Second})
				}
				time.Sleep(time.Minute)

				v.moves(map[string]string{"sick": "js:SICK", "moved": "js:NEW"}, []string{"js:SICK"}, nil)
				moved := time.Now()
				time.Sleep(30 * time.Second)
				if got, _ := v.got("moved", moved); got != n {
					t.Errorf("%d of %d messages on other lanes arrived", got, n)
				}
				if sends := v.sent("sick"); sends < 3 || sends > 10 {
					t.Errorf("%d sends to the stream that refuses still, one is due in 5 s", sends)
				}
				v.moves(map[string]string{"sick": "js:SICK"}, nil, nil)
				healed := time.Now()
				time.Sleep(30 * time.Second)
				_ = stop(rig.ErrStop)
				if got, _ := v.got("sick", healed); got != n {
					t.Errorf("%d of %d messages arrived when their stream took them again", got, n)
				}
				if lanes, err := v.Store.Lanes(t.Context(), 0); err != nil || len(lanes) != 0 {
					t.Errorf("lanes left: %v, %v", lanes, err)
				}
			})
		})
	}
}

func TestRun_ALaneIsProbedAgainWhenItsProbeLeftElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newMoving(t, nil)
		v.moves(map[string]string{"moved": "js:SICK"}, nil, []string{"js:SICK"})
		stop := v.Lead(v.S, 1)
		const n = 10
		for range n {
			v.Push(scheduler.Push{Topic: "moved", Delay: time.Second})
		}
		time.Sleep(10 * ackWait)
		for seen := v.sent("moved"); v.sent("moved") == seen; {
			time.Sleep(100 * time.Millisecond)
		}
		// Its stream loses the subject to another while a probe is not answered yet.
		v.moves(map[string]string{"moved": "js:NEW"}, nil, nil)
		moved := time.Now()
		time.Sleep(4 * ackWait)
		_ = stop(rig.ErrStop)
		if got, _ := v.got("moved", moved); got != n {
			t.Errorf("%d of %d messages arrived by the other stream", got, n)
		}
		if lanes, err := v.Store.Lanes(t.Context(), 0); err != nil || len(lanes) != 0 {
			t.Errorf("lanes left: %v, %v", lanes, err)
		}
	})
}

func TestRun_AStrayThatFailsWaitsInItsOwnLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newMoving(t, nil)
		v.moves(map[string]string{"sick": "js:SICK", "moved": "js:SICK"}, []string{"js:SICK"}, nil)
		stop := v.Lead(v.S, 1)
		defer stop(rig.ErrStop)
		for range 10 {
			v.Push(scheduler.Push{Topic: "sick", Delay: time.Second})
		}
		v.Push(scheduler.Push{Topic: "moved", Delay: time.Second})
		time.Sleep(time.Minute)
		v.moves(map[string]string{"sick": "js:SICK", "moved": "js:NEW"}, []string{"js:SICK", "moved"}, nil)
		moved := time.Now()
		for v.sent("moved") == 0 {
			time.Sleep(time.Millisecond)
		}
		v.moves(map[string]string{"sick": "js:SICK", "moved": "js:NEW"}, []string{"js:SICK"}, nil)
		time.Sleep(time.Second)
		if got, _ := v.got("moved", moved); got != 1 {
			t.Error("it waits for the probes of the stream that it left")
		}
	})
}

func TestRun_AProbeIsNotPacedAndAStrayIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newMoving(t, nil)
		v.moves(map[string]string{"sick": "js:SICK", "moved": "js:SICK"}, []string{"js:SICK"}, nil)
		stop := v.Lead(v.S, 1)
		defer stop(rig.ErrStop)
		const n, rate, seconds = 1000, 10, 30
		for range n {
			v.Push(scheduler.Push{Topic: "sick", Delay: time.Second})
			v.Push(scheduler.Push{Topic: "moved", Delay: time.Second})
		}
		time.Sleep(time.Minute)
		v.Topics(&scheduler.Topic{Pattern: "sick", Rate: 0.001}, &scheduler.Topic{Pattern: "moved", Rate: rate})
		v.Push(scheduler.Push{Topic: "sick"}) // uses up what the rate allows
		v.moves(map[string]string{"sick": "js:SICK", "moved": "js:NEW"}, []string{"js:SICK"}, nil)
		moved := time.Now()
		time.Sleep(seconds * time.Second)
		if got, _ := v.got("moved", moved); got < rate*(seconds-10) || got > rate*(seconds+1) {
			t.Errorf("%d strays left in %d s, at %d a second", got, seconds, rate)
		}
		if sends := v.sent("sick"); sends < 3 || sends > 10 {
			t.Errorf("%d probes in %d s, one is due in 5 s", sends, seconds)
		}
	})
}
