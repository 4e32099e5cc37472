package schedulertest

import (
	"fmt"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

var callPromises = []promise{
	{name: "the pushes of one call are one push, in every state of that", check: func(t *trial) {
		for i, s := range everyState {
			for j, with := range [][]With{{}, {Named(fmt.Sprintf("order-%d", i)), Keyed("k")}} {
				with = append(with, In(1), On("mail.x"), Called(fmt.Sprintf("call-%d-%d", i, j)))
				first := Message(20*i+2*j, with...)
				t.brought(first, s)
				stands := t.get(first.UID)
				// Neither its name nor its content is judged again.
				again := Message(20*i+2*j+1, append(with, Content("other"), On("mail.x"), Body([]byte("other")))...)
				t.refused(again, scheduler.AddDuplicate, first, s)
				t.wantInfo(stands)
				t.wantFound(scheduler.Ref{UID: again.UID})
				if s == message.StateWaiting {
					t.canceled(first.UID, scheduler.CancelDone)
				}
			}
		}
		elsewhere := Message(200, In(2), Called("call-0-0"))
		t.one(elsewhere) // a call belongs to its bucket
	}},
	{name: "a call that is sent twice in one batch stores one message", check: func(t *trial) {
		a, b := Message(1, In(1), On("mail.x"), Called("c")), Message(2, In(1), On("mail.x"), Called("c"))
		results := t.add(a, b)
		if results[0].Code != scheduler.Added || results[1].Code != scheduler.AddDuplicate ||
			results[1].First.UID != a.UID {
			t.Errorf("%+v", results)
		}
	}},
	{name: "the repeat of a call that was merged belongs to what it was merged into, and merges no more",
		check: func(t *trial) {
			for i, how := range mergeModes {
				key, call := Keyed(fmt.Sprint(i)), Called(fmt.Sprint(i))
				into := t.one(push(10*i, how, key, On("mail.x")))
				merged := push(10*i+1, how, key, call, Content("b"), On("mail.x"))
				results := t.add(merged)
				stands := t.get(into.UID)
				if again := push(10*i+2, how, key, call, Content("c"), On("mail.x")); results[0].Code == scheduler.AddMerged {
					if r := t.add(again)[0]; r.Code != scheduler.AddMerged || r.First.UID != into.UID {
						t.Errorf("the repeat: %+v", r)
					}
				} else {
					t.Errorf("%+v", results)
				}
				t.wantInfo(stands)
			}
		}},
	{name: "the call of another topic's push is a conflict", check: func(t *trial) {
		first := Message(1, In(1), On("orders.x"), Called("c"))
		t.one(first)
		t.refused(Message(2, In(1), On("payments.x"), Called("c")), scheduler.AddConflict, first, message.StateWaiting)
	}},
	{name: "a push that was refused leaves its call to the next", check: func(t *trial) {
		first := push(1, message.MergeReject)
		t.one(first)
		t.refused(push(2, message.MergeReject, Content("b"), Called("c")), scheduler.AddConflict, first,
			message.StateWaiting)
		t.canceled(first.UID, scheduler.CancelDone)
		t.one(push(3, message.MergeReject, Called("c"), Named(sameBucket("order-1", t.o.Buckets))))
	}},
	{name: "what the limit leaves no room for is refused alone", tune: func(o *Options) { o.CallLimit = 3 },
		check: func(t *trial) {
			var batch []*message.Message
			for i := range 5 {
				batch = append(batch, Message(i, In(1), On("mail.x"), Called(fmt.Sprint("c", i))))
			}
			batch = append(batch, Message(6, In(1)), Message(7, In(1), On("mail.x"), Called("c0")))
			for i, r := range t.add(batch...) {
				want := map[int]scheduler.AddCode{3: scheduler.AddCalls, 4: scheduler.AddCalls, 6: scheduler.AddDuplicate}
				if r.Code != want[i] {
					t.Errorf("push %d: code %d, want %d", i, r.Code, want[i])
				}
			}
			t.wantFound(scheduler.Ref{UID: batch[3].UID})
			t.one(Message(8, In(2), Called("c3")))
		}},
}
