package api_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// BenchmarkBatch pushes batches of 1,000 messages of 256 bytes over loopback, several connections at once: alone is the
// door with nothing behind it, memory has a real scheduler and the timeline in memory.
func BenchmarkBatch(b *testing.B) {
	one := `{"topic":"orders.created","delay":"20m","body":"` + strings.Repeat("x", 256) + `"}`
	request := []byte(`{"messages":[` + strings.Repeat(one+",", 999) + one + `]}`)
	quiet := func(c *api.Config) { c.Log = zerolog.Nop() }
	alone := service{accept: func(_ context.Context, batch []*scheduler.Push) []scheduler.Accepted {
		results := make([]scheduler.Accepted, len(batch))
		for i := range results {
			results[i] = scheduler.Accepted{UID: "t-0123456789abcdef", ID: "t-0123456789abcdef", Due: later,
				State: message.StateWaiting, Version: 1}
		}
		return results
	}}
	for name, d := range map[string]*door{"alone": open(b, quiet, with(alone)), "memory": open(b, quiet)} {
		b.Run(name, func(b *testing.B) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- d.Run(ctx, listener) }()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r, err := http.Post("http://"+listener.Addr().String()+"/v1/messages/batch", "application/json",
						bytes.NewReader(request))
					if err != nil {
						b.Error(err)
						return
					}
					if n, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != 200 || n < 100_000 {
						b.Errorf("%s, %d bytes, %v", r.Status, n, err)
					}
					_ = r.Body.Close()
				}
			})
			b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "messages/s")
			b.StopTimer()
			cancel()
			if err := <-ended; err != nil {
				b.Error(err)
			}
		})
	}
}
