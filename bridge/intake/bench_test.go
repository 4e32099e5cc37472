package intake_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// taker accepts at once and answers from another goroutine, in batches as a flush of the store does: what is left is
// the cost of the intake itself.
type taker struct {
	mu    sync.Mutex
	queue []func(scheduler.Accepted)
	wake  chan struct{}
	left  int
	all   chan struct{}
}

func (k *taker) Accept(_ *scheduler.Push, done func(scheduler.Accepted)) {
	k.mu.Lock()
	k.queue = append(k.queue, done)
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *taker) run(stop <-chan struct{}) {
	for {
		select {
		case <-k.wake:
		case <-stop:
			return
		}
		k.mu.Lock()
		batch := k.queue
		k.queue = nil
		k.mu.Unlock()
		for _, done := range batch {
			done(scheduler.Accepted{State: message.StateWaiting})
		}
		if k.left -= len(batch); k.left <= 0 {
			close(k.all)
			return
		}
	}
}

// BenchmarkIntake_Drain takes in a stream that is full. cpu-us/msg is this process alone, msg/s includes the server on
// the same machine.
func BenchmarkIntake_Drain(b *testing.B) {
	for _, id := range []bool{false, true} {
		b.Run(fmt.Sprintf("id=%v", id), func(b *testing.B) {
			server := lab.NewNATS(b)
			nc := bridgetest.Connect(b, server.URL())
			k := &taker{wake: make(chan struct{}, 1), left: b.N, all: make(chan struct{})}
			in := bridgetest.IntakeOn(b, intake.Config{Conn: nc, Namespace: "ns", Prefix: "delayed", Accept: k})
			bridgetest.StreamOf(b, nc, jetstream.StreamConfig{Name: link.StreamName("ns"), Subjects: []string{"delayed.>"},
				Retention: jetstream.WorkQueuePolicy})
			js, err := jetstream.New(nc)
			if err != nil {
				b.Fatal(err)
			}
			body := make([]byte, 256)
			for i := range b.N {
				msg := nats.NewMsg("delayed.orders.created")
				msg.Header["Tarry-Delay"] = []string{"20m"}
				if id {
					msg.Header["Tarry-Id"] = []string{fmt.Sprintf("order-%d", i)}
				}
				msg.Data = body
				// the machine may be busy
				if _, err := js.PublishMsgAsync(msg, jetstream.WithStallWait(10*time.Second)); err != nil {
					b.Fatal(err)
				}
			}
			<-js.PublishAsyncComplete()
			b.ReportAllocs()
			b.ResetTimer()
			from := bridgetest.CPU()
			bridgetest.RunFor(b, in.Run)
			k.run(nil)
			b.StopTimer()
			b.ReportMetric(float64((bridgetest.CPU()-from).Nanoseconds())/1000/float64(b.N), "cpu-us/msg")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
