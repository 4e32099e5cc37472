package schedulertest

import (
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

var refusePromises = []promise{
	{name: "an end that the table of transitions does not know is refused for its message alone",
		check: func(t *trial) {
			n := 0
			three := func() {
				for range 3 {
					n++
					t.one(Message(n))
				}
			}
			three()
			for _, to := range []message.State{message.StateNone, message.StateWaiting, message.StateCanceled,
				message.StateInFlight} {
				all := t.claim()
				if len(all) != 3 {
					t.Fatalf("claimed %d", len(all))
				}
				ends := make([]scheduler.End, len(all))
				for i, m := range all {
					ends[i] = scheduler.End{Message: m, State: message.StateDelivered}
				}
				ends[1].State = to
				for range 2 {
					t.end(0, ends...)
				}
				if i := t.get(all[1].UID); i.State != message.StateInFlight || i.Version != all[1].Version() {
					t.Fatalf("asked to end as %s it is %s", to, describe(i))
				}
				for _, m := range []*message.Message{all[0], all[2]} {
					if i := t.get(m.UID); i.State != message.StateDelivered {
						t.Fatalf("another of the batch is %s", describe(i))
					}
				}
				refused, err := t.tl.Refused(t.Context(), 0)
				t.must("list what was refused", err)
				want := message.Transition{From: message.StateInFlight, To: to}
				listed := false
				for _, r := range refused {
					listed = listed || r.UID == all[1].UID && r.Transition == want && r.Bucket == 0 && r.At == t.now
				}
				if !listed {
					t.Fatalf("refused are %+v, want %s to %+v", refused, all[1].UID, want)
				}
				t.finish(message.StateDelivered, all[1])
				for range 2 {
					refused, err = t.tl.Refused(t.Context(), 0)
					t.must("list what was refused", err)
					if len(refused) > 0 {
						t.Fatalf("refused are %+v though all have ended well", refused)
					}
				}
				t.now = t.now.Add(time.Second)
				three()
			}
		}},
	{name: "a refusal is forgotten once its message has another state", check: func(t *trial) {
		t.one(Message(1))
		m := t.claim()[0]
		none := []scheduler.End{{Message: m, State: message.StateWaiting}}
		refused := func(want int) {
			t.Helper()
			for range 2 {
				got, err := t.tl.Refused(t.Context(), 0)
				t.must("list what was refused", err)
				if len(got) != want {
					t.Fatalf("refused are %+v, want %d", got, want)
				}
			}
		}
		t.end(0, none...)
		refused(1)
		_, err := t.tl.Sweep(t.Context(), 0, t.term+1, 0, 10, t.now)
		t.must("sweep", err)
		t.term++
		refused(0)
		m = t.claim()[0]
		none[0].Message = m
		t.end(0, none...)
		refused(1)
		t.finish(message.StateDelivered, m)
		refused(0)
	}},
}
