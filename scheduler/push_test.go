package scheduler_test

import (
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

func TestPush_HeadersAndBodyAreDistinguished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		framed := func(s string) []byte {
			return append(binary.BigEndian.AppendUint64(nil, uint64(len(s))), s...)
		}
		with := scheduler.Push{Topic: "orders", ID: "a", Delay: time.Hour,
			Headers: []message.Header{{Name: "a", Value: "b"}}}
		without := scheduler.Push{Topic: "orders", ID: "a", Delay: time.Hour, Body: append(framed("a"), framed("b")...)}
		r.Push(with)
		if again := r.Push(with); !again.Duplicate {
			t.Errorf("the same push again: %+v", again)
		}
		other := r.S.AcceptAll(t.Context(), []*scheduler.Push{&without})[0]
		if !errors.Is(other.Err, scheduler.ErrDuplicateID) {
			t.Errorf("a push whose body holds the other's headers: %+v", other)
		}
	})
}

// A producer's repeat of a push belongs to another trace, and is the same push.
func TestPush_HeadersAboutItsSendingAreNotItsContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		push := func(name, value string) scheduler.Accepted {
			p := scheduler.Push{Topic: "orders", ID: "a", Delay: time.Hour, Headers: []message.Header{{Name: "X", Value: "1"}}}
			if name != "" {
				p.Headers = append(p.Headers, message.Header{Name: name, Value: value})
			}
			return r.S.AcceptAll(t.Context(), []*scheduler.Push{&p})[0]
		}
		push("traceparent", "00-1")
		for _, name := range []string{"", "traceparent", "Traceparent", "tracestate", "baggage", "b3", "X-B3-TraceId",
			"x-b3-sampled", "uber-trace-id", "X-Amzn-Trace-Id"} {
			if again := push(name, "00-2"); !again.Duplicate || again.Err != nil {
				t.Errorf("again with %q: %+v", name, again)
			}
		}
		for _, name := range []string{"x-b3", "trace", "Content-Type", "X", "b", "user"} {
			if other := push(name, "00-2"); !errors.Is(other.Err, scheduler.ErrDuplicateID) {
				t.Errorf("with %q: %+v", name, other)
			}
		}
	})
}

func TestDead_KeepsTheScheduleThatItWasPushedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rig.Recorded{}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		r.Topics(&scheduler.Topic{Pattern: "poison", Retry: message.Retry{Delays: []time.Duration{0}}})
		r.Nats.Answer = rig.Refuse("poison")
		stop := r.Lead(r.S, 1)
		a := r.Push(scheduler.Push{Topic: "poison", Delay: time.Second})
		time.Sleep(time.Minute)
		_ = stop(rig.ErrStop)
		if i := r.Info(a.UID); i.State != message.StateDead || !i.Retry.Empty() ||
			len(store.Ended[a.UID].Retry.Delays) > 0 {
			t.Errorf("it is %s, with the schedule %v, stored with %v; it brought none", i.State, i.Retry,
				store.Ended[a.UID].Retry)
		}
	})
}
