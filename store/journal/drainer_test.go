package journal_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
)

// ailing is a timeline whose outbox cannot be read for a reason of its own.
type ailing struct {
	record.Mending

	mu  sync.Mutex
	why func(bucket message.Bucket) error
}

func (a *ailing) Unwritten(_ context.Context, bucket message.Bucket, _ string, _ message.Milli, _,
	_ int) ([]record.Entry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return nil, a.why(bucket)
}

func (a *ailing) Lags(context.Context) ([]record.Lag, error) { return nil, nil }

func (a *ailing) becomes(why func(bucket message.Bucket) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why = why
}

func TestDrainer_SaysOnceWhyItDoesNotDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		line := &ailing{}
		// The words of a lost connection differ from one call to the next.
		port := 0
		away := func(message.Bucket) error {
			port++
			return fmt.Errorf("%w: read tcp 127.0.0.1:%d: connection refused", scheduler.ErrUnavailable, port)
		}
		well := func(message.Bucket) error { return nil }
		line.becomes(away)
		d := journal.NewDrainer(journal.DrainerConfig{
			Reconciler: &journal.Reconciler{Timeline: line, Store: memoryStore(t), Buckets: 16, Timeout: time.Second,
				Log: zerolog.New(&log)},
			Duty: func(context.Context) bool { return true }, Registerer: prometheus.NewRegistry()})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		says := func(step string, want int) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := strings.Count(log.String(), "outbox not drained"); got != want {
				t.Errorf("%s: %d lines, want %d:\n%s", step, got, want, log.String())
			}
			log.Reset()
		}
		says("away", 1)
		line.becomes(well)
		says("there again", 0)
		line.becomes(away)
		says("away again", 1)
		line.becomes(func(bucket message.Bucket) error {
			if bucket == 3 {
				return fmt.Errorf("the server says no")
			}
			return away(bucket)
		})
		says("another reason in one bucket", 1)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
