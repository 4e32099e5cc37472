package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// seenOnce counts how often each of n subjects came.
type seenOnce struct {
	mu     sync.Mutex
	due    time.Time
	times  []int
	left   int
	early  int
	others int
	last   time.Time
}

func (c *seenOnce) came(subject string) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := strconv.Atoi(subject[strings.LastIndexByte(subject, '.')+1:])
	if err != nil || n < 0 || n >= len(c.times) {
		c.others++
		return
	}
	if c.times[n]++; c.times[n] == 1 {
		c.left--
	}
	if now.Before(c.due) {
		c.early++
	}
	c.last = now
}

func (c *seenOnce) missing() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left > 0 {
		return fmt.Errorf("%d of %d subjects have not come", c.left, len(c.times))
	}
	return nil
}

func TestAHundredThousandSubjectsAreDueAtOneInstant(t *testing.T) {
	const count, batch = 100_000, 1000
	s := site.New(t, site.Options{Plain: true})
	a, b := s.Start("a"), s.Start("b")
	leader, _ := s.Leader(0, a, b)
	rdb := s.Client()
	// The machine says first how long it takes, by one batch of a hundred.
	begun := time.Now()
	pushMany(s, t, a, count, batch, begun.Add(time.Hour))
	took := time.Since(begun)
	if c := s.Must(a, http.MethodPost, "/v1/messages/cancel", map[string]any{"topic": "many.>"}); !strings.Contains(
		c.Raw, `"done":1000`) {
		t.Fatal(c.Raw)
	}
	due := time.Now().Add(max(20*time.Second, count/batch*took)).Truncate(time.Millisecond)
	got := &seenOnce{due: due, times: make([]int, count), left: count}
	// Odd ones are on core, even ones in a stream.
	nc := s.Connect("wildcard consumer")
	sub, err := nc.Subscribe("many.core.>", func(m *nats.Msg) { got.came(m.Subject) })
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	s.Stream("MANY", "many.stream.>")
	js := site.OpenJetStream(t, s.Connect("stream consumer"))
	consumer, err := js.OrderedConsumer(t.Context(), "MANY", jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	running, err := consumer.Consume(func(m jetstream.Msg) { got.came(m.Subject()) })
	if err != nil {
		t.Fatal(err)
	}
	defer running.Stop()

	calm := readGauges(s, leader)
	var push sync.WaitGroup
	for w := range 2 {
		push.Go(func() {
			for from := w * batch; from < count; from += 2 * batch {
				pushMany(s, t, s.Instances[w], from, batch, due)
			}
		})
	}
	push.Wait()
	t.Logf("pushed %s before they are due", time.Until(due).Round(time.Millisecond))
	keys := rdb.DBSize(t.Context()).Val()
	waiting, _, _, err := s.Held(t.Context(), rdb, due, site.AnyTerm)
	if err != nil || waiting != count || time.Now().After(due) {
		t.Fatalf("%d messages wait, %v; due %s, pushed by %s", waiting, err, site.Stamp(due), site.Stamp(time.Now()))
	}
	full := readGauges(s, leader)

	lab.Eventually(t, site.Patience, got.missing)
	lab.Eventually(t, site.Patience, func() error { return s.Drained(rdb) })
	after := readGauges(s, leader)
	t.Logf("all %d came within %s of their due time; resident %d MiB, then %d MiB with all waiting, then %d MiB; "+
		"goroutines %d, %d, %d; keys in redis %d",
		count, got.last.Sub(due).Round(time.Millisecond), calm.memory>>20, full.memory>>20, after.memory>>20,
		calm.goroutines, full.goroutines, after.goroutines, keys)
	if got.early > 0 || got.others > 0 {
		t.Errorf("%d came early, %d nobody pushed", got.early, got.others)
	}
	for n, times := range got.times {
		if times != 1 {
			t.Errorf("subject %d came %d times", n, times)
			break
		}
	}
	// Nothing grows with the number of subjects: no key, no goroutine, no metric.
	if keys > 100 {
		t.Errorf("redis has %d keys", keys)
	}
	if most := calm.goroutines + 100; full.goroutines > most || after.goroutines > most {
		t.Errorf("goroutines %d, %d, %d", calm.goroutines, full.goroutines, after.goroutines)
	}
	if after.series > calm.series+200 {
		t.Errorf("metrics had %d lines, then %d", calm.series, after.series)
	}
	if after.memory > 300<<20 {
		t.Errorf("the leader takes %d MiB", after.memory>>20)
	}
}

func pushMany(s *site.Site, t *testing.T, i *site.Instance, from, n int, due time.Time) {
	var text strings.Builder
	text.WriteString(`{"messages":[`)
	for seq := from; seq < from+n; seq++ {
		if seq > from {
			text.WriteByte(',')
		}
		kind := [...]string{"stream", "core"}[seq%2]
		fmt.Fprintf(&text, `{"topic":"many.%s.%d","at":%d,"body":"%d"}`, kind, seq, due.UnixMilli(), seq)
	}
	text.WriteString(`]}`)
	a, err := i.Call(t.Context(), http.MethodPost, "/v1/messages/batch", text.String())
	if err == nil && (a.Status != http.StatusOK || len(a.Results) != n) {
		err = errors.New(a.Raw)
	}
	if err != nil {
		t.Errorf("push %d from %d: %v", n, from, err)
		return
	}
	for _, r := range a.Results {
		if r.Error != "" || r.UID == "" {
			t.Errorf("push %d from %d: %+v", n, from, r)
			return
		}
	}
}

// gauges are metrics of an instance about itself.
type gauges struct {
	goroutines int
	memory     int64 // resident bytes
	series     int   // lines of /metrics
}

func readGauges(s *site.Site, i *site.Instance) gauges {
	s.T.Helper()
	a := s.Must(i, http.MethodGet, "/metrics", nil)
	var g gauges
	for line := range strings.Lines(a.Raw) {
		g.series++
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch name {
		case "go_goroutines":
			g.goroutines = int(n)
		case "process_resident_memory_bytes":
			g.memory = int64(n)
		}
	}
	if g.goroutines == 0 || g.memory == 0 {
		s.T.Fatalf("%s has %+v: %d %.300s", i.Name, g, a.Status, a.Raw)
	}
	return g
}
