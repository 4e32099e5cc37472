package scheduler_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// A push waits behind a store that stands still, and its repeat may have been stored by another instance and forgotten:
// it is not stored any more. The repeats of a call that are in time are one message.
func TestAccept_StoresNoCallThatWaitedTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rig.Shaky{Hold: make(chan struct{})}
		r := rig.NewShaky(t, 1, store)
		got := make(chan scheduler.Accepted, 3)
		push := func(call string) {
			r.S.Accept(&scheduler.Push{Topic: "a", Delay: time.Hour, Call: call}, func(a scheduler.Accepted) { got <- a })
		}
		push("00 first")
		synctest.Wait() // it is on the wire
		push("00 waits")
		time.Sleep(scheduler.CallKeep / 2) // of the bubble
		close(store.Hold)
		if first, late := <-got, <-got; first.Err != nil || !errors.Is(late.Err, scheduler.ErrUnavailable) {
			t.Errorf("the first: %v; the one that waited: %v", first.Err, late.Err)
		}
		push("00 waits")
		push("00 waits")
		if a, b := <-got, <-got; a.Err != nil || b.Err != nil || a.UID != b.UID || a.Duplicate || !b.Duplicate {
			t.Errorf("a call and its repeat: %+v, %+v", a, b)
		}
	})
}
