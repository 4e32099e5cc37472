package lead_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// refusing is a store that has refused a transition.
type refusing struct {
	scheduler.Timeline
	refused []scheduler.Refusal
}

func (s *refusing) Refused(context.Context, message.Bucket) ([]scheduler.Refusal, error) {
	return s.refused, nil
}

// pages is a log.
type pages struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *pages) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *pages) lines(with string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(p.b.String()) {
		if strings.Contains(line, with) {
			n++
		}
	}
	return n
}

func TestRun_LogsARefusedTransitionOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const uid, spoiled = message.UID("t-0123456789abcdef"), message.UID("t-0123456789abcdeg")
		store := &refusing{refused: []scheduler.Refusal{{UID: uid, At: 1,
			Transition: message.Transition{From: message.StateDelivered, To: message.StateWaiting,
				Kind: message.KindSwept}},
			{UID: spoiled, At: 2, Transition: message.Transition{To: message.StateInFlight}, Unreadable: true}}}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		log := &pages{}
		r.Log = zerolog.New(log)
		s := r.Scheduler()
		stop := r.Lead(s, 1)
		a := r.Push(scheduler.Push{Delay: time.Second})
		time.Sleep(time.Minute)
		_ = stop(rig.ErrStop)
		if n := log.lines(string(uid)); n != 1 {
			t.Errorf("it is logged %d times", n)
		}
		if n := log.lines(`"from":"delivered","to":"waiting","kind":"swept"`); n != 1 {
			t.Errorf("the log does not say which: %s", log.b.String())
		}
		if n := log.lines(string(spoiled)); n != 1 || log.lines("cannot be read") != n {
			t.Errorf("what cannot be read is logged %d times: %s", n, log.b.String())
		}
		if i := r.Info(a.UID); i.State != message.StateDelivered {
			t.Errorf("another message is %s", i.State)
		}
	})
}

func TestTransitions_AreEachListedOnce(t *testing.T) {
	t.Parallel()
	seen := map[message.Transition]bool{}
	for _, one := range message.Transitions() {
		if seen[one] || !one.Kind.Valid() || one.To == message.StateNone ||
			one.From == one.To && one.From != message.StateWaiting {
			t.Errorf("%+v", one)
		}
		if one.From.Ended() && one.From != message.StateDead {
			t.Errorf("an end is left: %+v", one)
		}
		if seen[one] = true; !one.From.Allows(one.To, one.Kind) {
			t.Errorf("%+v is listed and not allowed", one)
		}
	}
	if message.StateInFlight.Allows(message.StateDelivered, message.KindPurged) ||
		message.StateDelivered.Allows(message.StateWaiting, message.KindPlain) {
		t.Error("what is not listed is allowed")
	}
}

// A message that cannot end as asked stays in flight, once: it is not returned as an unknown claim, and not sent again.
func TestRun_LeavesWhatCannotEndInFlight(t *testing.T) {
	for _, state := range []message.State{message.StateWaiting, message.StateInFlight,
		message.StateCanceled, 99} {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t, 1, nil)
			log := &pages{}
			r.Log = zerolog.New(log)
			s := r.Scheduler()
			r.Nats.Takes = func(m *message.Message) time.Duration {
				if m.Topic == "endless" {
					return 24 * time.Hour
				}
				return 0
			}
			stop := r.Lead(s, 1)
			bad := r.Push(scheduler.Push{Topic: "endless", Delay: time.Second})
			time.Sleep(2 * time.Second)
			s.EndAs(r.Nats.Arrived()[0].M, state)
			good := r.Push(scheduler.Push{Topic: "orders", Delay: time.Second})
			time.Sleep(10 * time.Minute)
			if i := r.Info(bad.UID); i.State != message.StateInFlight || r.Nats.Tries[bad.UID] != 1 {
				t.Errorf("asked to end as %s, it is %s and was sent %d times", state, i.State, r.Nats.Tries[bad.UID])
			}
			if i := r.Info(good.UID); i.State != message.StateDelivered {
				t.Errorf("another message is %s", i.State)
			}
			refused, err := r.Store.Refused(t.Context(), 0)
			if err != nil || len(refused) != 1 || refused[0].UID != bad.UID || refused[0].To != state {
				t.Errorf("refused are %+v, %v", refused, err)
			}
			if n := log.lines("a message cannot end so"); n != 1 {
				t.Errorf("it is logged %d times", n)
			}
			_ = stop(rig.ErrStop)
		})
	}
}
