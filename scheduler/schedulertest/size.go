package schedulertest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

var sizePromises = []promise{
	{name: "100,000 distinct topics wait and leave like one", check: func(t *trial) {
		const each, batches = 500, 200
		for b := range batches {
			batch := make([]*message.Message, each)
			for i := range batch {
				n := b*each + i
				batch[i] = Message(n, In(message.Bucket(b)%t.o.Buckets))
				batch[i].Topic = fmt.Sprintf("orders.%d.remind", n)
			}
			t.added(batch...)
		}
		seen := map[string]bool{}
		for b := range t.o.Buckets {
			var last message.UID
			for {
				c := t.claimFrom(b, "", 1000, wide)
				if len(c.Messages) == 0 {
					break
				}
				for _, m := range c.Messages {
					if m.UID <= last {
						t.Fatalf("%s came after %s", m.UID, last)
					}
					last, seen[m.Topic] = m.UID, true
				}
				t.finish(message.StateDelivered, c.Messages...)
			}
			if h := t.heads()[b]; h != (scheduler.Head{Term: t.term}) {
				t.Fatalf("bucket %d: head is %+v after the drain", b, h)
			}
		}
		if len(seen) != each*batches {
			t.Fatalf("%d topics came, want %d", len(seen), each*batches)
		}
		left := 0
		t.pass(t.o.EndedKeep)
		for b := range t.o.Buckets {
			for n := 1000; n == 1000; left += n {
				n = t.trim(b, 1000)
			}
		}
		if left != each*batches {
			t.Fatalf("%d ends were forgotten, want %d", left, each*batches)
		}
	}},
	{name: "big bodies and headers are kept byte for byte", check: func(t *trial) {
		random := make([]byte, 8<<20)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range random {
			random[i] = byte(rng.Uint32())
		}
		big, headed := Message(1, Body(random)),
			Message(2, Body(random[:1<<20]), Headers("Long", strings.Repeat("x", 60_000), "", ""))
		t.added(big, headed)
		for i, m := range t.claim() {
			want := []*message.Message{big, headed}[i]
			if !bytes.Equal(m.Body, want.Body) || fmt.Sprint(m.Headers) != fmt.Sprint(want.Headers) {
				t.Fatalf("message %d came out changed", i+1)
			}
		}
		t.finish(message.StateDead, big)
		if dead := t.get(big.UID); !bytes.Equal(dead.Body, random) {
			t.Fatal("the dead message's body changed")
		}
	}},
	{name: "a batch of the largest flush is one add", check: func(t *trial) {
		batch := make([]*message.Message, 500)
		for i := range batch {
			batch[i] = Message(i, Keyed("customer-1"), Named(fmt.Sprintf("order-%d", i)), Stored(uint64(i+1)),
				Body(make([]byte, 8<<10)))
		}
		t.added(batch...)
		for i, r := range t.add(batch...) {
			if r.Code != scheduler.AddDuplicate || r.First.UID != batch[i].UID {
				t.Fatalf("message %d again: got %s of %s", i, addWord(r.Code), r.First.UID)
			}
		}
		t.wantUIDs(t.claimFrom(t.bucketOf(batch[0]), "", 1000, wide).Messages, batch)
	}},
}
