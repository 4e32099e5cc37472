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
