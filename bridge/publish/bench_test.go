package publish_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/publish"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// BenchmarkPublisher_Drain publishes batches as the leader does, up to four under way, into a real stream and onto core
// subjects. cpu-us/msg is this process alone: the goal for the whole daemon is 4.
func BenchmarkPublisher_Drain(b *testing.B) {
	server := lab.NewNATS(b)
	nc := bridgetest.Connect(b, server.URL())
	bridgetest.Stream(b, nc, "bench", "bench.js.>")
	sink := bridgetest.Connect(b, server.URL())
	sub, err := sink.SubscribeSync("bench.core.>")
	if err != nil {
		b.Fatal(err)
	}
	_ = sub.SetPendingLimits(1000, -1) // what is too much is dropped: nobody reads
	if err := sink.Flush(); err != nil {
		b.Fatal(err)
	}
	p := bridgetest.Running(b, publish.Config{Conn: nc})
	var uids atomic.Uint64
	for _, kind := range []string{"js", "core"} {
		for _, headers := range []int{0, 2} {
			b.Run(fmt.Sprintf("%s/headers=%d", kind, headers), func(b *testing.B) {
				const size, under = 500, 4
				body := make([]byte, 256)
				var hs []message.Header
				for i := range headers {
					hs = append(hs, message.Header{Name: fmt.Sprintf("X-Header-%d", i), Value: "some value"})
				}
				var failed atomic.Int64
				room := make(chan struct{}, under)
				var all sync.WaitGroup
				newMessage := func(i int) *message.Message {
					return &message.Message{UID: message.UID(fmt.Sprintf("t-%016d", uids.Add(1))),
						Topic:   "bench." + kind + ".a",
						Headers: hs, Body: body, Due: 1896076800000 + message.Milli(i), Attempt: 1}
				}
				send := func(batch []*message.Message) {
					var left atomic.Int64
					left.Store(int64(len(batch)))
					room <- struct{}{}
					all.Add(1)
					p.Send(b.Context(), batch, func(_ *message.Message, o scheduler.Outcome) {
						if o.Kind != scheduler.Delivered {
							failed.Add(1)
						}
						if left.Add(-1) == 0 {
							<-room
							all.Done()
						}
					})
				}
				send([]*message.Message{newMessage(0)})
				all.Wait()
				messages := make([]*message.Message, b.N)
				for i := range messages {
					messages[i] = newMessage(i)
				}
				b.ReportAllocs()
				b.ResetTimer()
				from := bridgetest.CPU()
				for batch := range slices.Chunk(messages, size) {
					send(batch)
				}
				all.Wait()
				b.ReportMetric(float64((bridgetest.CPU()-from).Nanoseconds())/1000/float64(b.N), "cpu-us/msg")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
				if failed.Load() > 0 {
					b.Fatalf("%d were not delivered", failed.Load())
				}
			})
		}
	}
}
