package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// serveLocal starts tarry serve without Redis and ZooKeeper.
func serveLocal(t *testing.T, name, data string, args ...string) *site.Dev {
	t.Helper()
	return site.StartLocal(t, name, append([]string{"serve", "--instance", name, "--store", "memory", "--data", data,
		"--journal.mode", "sync", "--journal.dsn", "sqlite:" + filepath.Join(data, "journal.db")}, args...)...)
}

// localLoad pushes by tag and by HTTP, and remembers what was acknowledged.
type localLoad struct {
	mu     sync.Mutex
	last   int
	pushed map[int]time.Time // when the push began; those acknowledged
	limit  int               // of pushed: a NATS of the user's own takes pushes while tarry is down
}

func (l *localLoad) begin() (int, time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pushed) >= l.limit {
		return 0, time.Time{}, false
	}
	l.last++
	return l.last, time.Now(), true
}

// run pushes until about n messages more are acknowledged, or ctx ends.
func (l *localLoad) run(ctx context.Context, n int, js jetstream.JetStream, d *site.Dev) {
	l.mu.Lock()
	l.limit = len(l.pushed) + n
	l.mu.Unlock()
	var group sync.WaitGroup
	group.Go(func() { l.byTag(ctx, js) })
	group.Go(func() { l.byHTTP(ctx, d) })
	group.Wait()
}

func (l *localLoad) acknowledged(i int, begun time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pushed[i] = begun
}

func (l *localLoad) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pushed)
}

func (l *localLoad) byTag(ctx context.Context, js jetstream.JetStream) {
	for ctx.Err() == nil {
		i, begun, ok := l.begin()
		if !ok {
			return
		}
		m := nats.NewMsg("delayed.one.tag")
		m.Header.Set("Tarry-Delay", "1500ms")
		m.Header.Set(site.SeqHeader, strconv.Itoa(i))
		m.Data = fmt.Appendf(nil, "body %d", i)
		call, stop := context.WithTimeout(ctx, time.Second)
		if _, err := js.PublishMsg(call, m, jetstream.WithMsgID(fmt.Sprint("push ", i))); err == nil {
			l.acknowledged(i, begun)
		}
		stop()
	}
}

func (l *localLoad) byHTTP(ctx context.Context, d *site.Dev) {
	for ctx.Err() == nil {
		i, begun, ok := l.begin()
		if !ok {
			return
		}
		a, err := d.Call(ctx, http.MethodPost, "/v1/messages",
			map[string]any{"topic": "one.http", "delay": "1500ms", "body": fmt.Sprintf("body %d", i),
				"id": fmt.Sprint("one ", i), "headers": map[string]string{site.SeqHeader: strconv.Itoa(i)}})
		if err == nil && a.Status == http.StatusCreated {
			l.acknowledged(i, begun)
		}
	}
}

func TestServeOnOneMachineLosesNothingWhenItIsKilled(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"with NATS embedded": false, "with a NATS of the user's own": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			url := ""
			if own {
				server := lab.NewNATS(t)
				url = server.URL()
				args = []string{"--nats.url", url}
			} else {
				args = []string{"--nats.token", "marker-of-the-embedded"}
			}
			d := serveLocal(t, "one", t.TempDir(), args...)
			if !own {
				url = "nats://marker-of-the-embedded@" + d.Nats
			}
			d.Ready(t)
			nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			js := site.OpenJetStream(t, nc)
			stream, err := js.CreateStream(t.Context(),
				jetstream.StreamConfig{Name: "ONE", Subjects: []string{"one.>"}})
			if err != nil {
				t.Fatal(err)
			}

			load := &localLoad{pushed: map[int]time.Time{}}
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { load.run(ctx, 1000, js, d) })
			// Twice: with the first messages waiting, and with some of them delivered.
			for _, n := range []int{50, 150} {
				lab.Eventually(t, site.Patience, func() error {
					if got := load.count(); got < n {
						return fmt.Errorf("%d of %d pushes are acknowledged", got, n)
					}
					return nil
				})
				d.Kill()
				d.Restart()
				d.Ready(t)
			}
			stop()
			running.Wait()
			load.run(t.Context(), 20, js, d)

			came := map[int]int{}
			var early atomic.Int64
			consumer, err := js.OrderedConsumer(t.Context(), "ONE", jetstream.OrderedConsumerConfig{})
			if err != nil {
				t.Fatal(err)
			}
			lab.Eventually(t, site.Patience, func() error {
				batch, err := consumer.Fetch(1000, jetstream.FetchMaxWait(200*time.Millisecond))
				if err != nil {
					return err
				}
				for m := range batch.Messages() {
					i, err := strconv.Atoi(m.Headers().Get(site.SeqHeader))
					if err != nil || string(m.Data()) != fmt.Sprintf("body %d", i) {
						t.Errorf("nobody pushed %q %v", m.Data(), m.Headers())
					}
					meta, err := m.Metadata()
					if err != nil {
						return err
					}
					if begun, ok := load.pushed[i]; ok && meta.Timestamp.Before(begun.Add(1500*time.Millisecond)) {
						early.Add(1)
					}
					came[i]++
				}
				for i := range load.pushed {
					if came[i] == 0 {
						return fmt.Errorf(
							"message %d was acknowledged and has not come, beside %d that have", i, len(came))
					}
				}
				return nil
			})
			for i, n := range came {
				if n > 1 {
					t.Errorf("message %d is %d times in the stream", i, n)
				}
			}
			if n := early.Load(); n > 0 {
				t.Errorf("%d messages came early", n)
			}
			if strings.Contains(d.Log(), "marker-of-the-embedded") {
				t.Error("the log shows the token of NATS")
			}
			info, err := stream.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d pushes acknowledged, %d messages in the stream", load.count(), info.State.Msgs)
		})
	}
}

func TestServeOnOneMachineRefusesASecondInstance(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	first := serveLocal(t, "one", data)
	first.Ready(t)
	for _, again := range [][]string{
		{"--data", data, "--journal.dsn", "sqlite:" + filepath.Join(t.TempDir(), "journal.db")},
		{"--data", t.TempDir(), "--journal.dsn", "sqlite:" + filepath.Join(data, "journal.db")},
	} {
		second := site.StartLocal(t, "two",
			append([]string{"serve", "--instance", "two", "--store", "memory", "--journal.mode", "sync"}, again...)...)
		if code := second.Wait(site.Patience); code != 1 {
			t.Errorf("%v: it ended with %d", again, code)
		}
		if log := second.Log(); !strings.Contains(log, "is locked by process "+strconv.Itoa(first.Pid())) {
			t.Errorf("%v: it does not say who has the lock: %s", again, log)
		}
	}
}
