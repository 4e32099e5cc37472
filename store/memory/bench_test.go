package memory

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// million returns a million messages, due in random order.
func million() []*message.Message {
	all := make([]*message.Message, 1_000_000)
	due := rand.New(rand.NewPCG(1, 2))
	body := make([]byte, 256)
	for i := range all {
		all[i] = &message.Message{UID: message.UID(fmt.Sprintf("t-%016d", i)), Topic: "orders", Body: body,
			Due: message.Milli(1 + due.IntN(1e9)), Attempt: 1}
	}
	return all
}

// fill adds messages to one bucket of a new timeline.
func fill(b *testing.B, all []*message.Message) *Timeline {
	b.Helper()
	tl, err := New(Config{Buckets: 1})
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i < len(all); i += 500 {
		if _, _, err := tl.Add(b.Context(), 0, all[i:i+500], 1); err != nil {
			b.Fatal(err)
		}
	}
	return tl
}

func BenchmarkTimeline_AddsAMillion(b *testing.B) {
	all := million()
	b.ReportAllocs()
	for b.Loop() {
		fill(b, all)
	}
}

func BenchmarkTimeline_DrainsAMillion(b *testing.B) {
	all := million()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		tl := fill(b, all)
		b.StartTimer()
		for n := 1; n > 0; {
			c, err := tl.Claim(b.Context(), 0,
				scheduler.Claim{Term: 1, Now: 2e9, Limit: 1000, Bytes: 1 << 30})
			if err != nil {
				b.Fatal(err)
			}
			ends := make([]scheduler.End, len(c.Messages))
			for i, m := range c.Messages {
				ends[i] = scheduler.End{Message: m, State: message.StateDelivered}
			}
			if err := tl.Finish(b.Context(), 0, 1, ends, 2e9); err != nil {
				b.Fatal(err)
			}
			n = len(c.Messages)
		}
	}
}
