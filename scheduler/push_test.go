package scheduler_test

import (
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestPush_HeadersAndBodyAreDistinguished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		framed := func(s string) []byte {
			return append(binary.BigEndian.AppendUint64(nil, uint64(len(s))), s...)
		}
		with := scheduler.Push{Topic: "orders", ID: "a", Delay: time.Hour,
			Headers: []message.Header{{Name: "a", Value: "b"}}}
		without := scheduler.Push{Topic: "orders", ID: "a", Delay: time.Hour, Body: append(framed("a"), framed("b")...)}
		r.push(with)
		if again := r.push(with); !again.Duplicate {
			t.Errorf("the same push again: %+v", again)
		}
		other := r.s.AcceptAll(t.Context(), []*scheduler.Push{&without})[0]
		if !errors.Is(other.Err, scheduler.ErrDuplicateID) {
			t.Errorf("a push whose body holds the other's headers: %+v", other)
		}
	})
}

func TestDead_KeepsTheScheduleThatItWasPushedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recorded{}
		r := newRig(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		r.topics(&scheduler.Topic{Pattern: "poison", Retry: message.Retry{Delays: []time.Duration{0}}})
		r.nats.answer = refuse("poison")
		stop := r.lead(r.s, 1)
		a := r.push(scheduler.Push{Topic: "poison", Delay: time.Second})
		time.Sleep(time.Minute)
		_ = stop(errStop)
		if i := r.info(a.UID); i.State != message.StateDead || !i.Retry.Empty() ||
			len(store.ended[a.UID].Retry.Delays) > 0 {
			t.Errorf("it is %s, with the schedule %v, stored with %v; it brought none", i.State, i.Retry,
				store.ended[a.UID].Retry)
		}
	})
}
