package topology

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// consumer is an ordinary one: orders.> from core NATS, bills.> from a stream. It knows nothing of tarry but the header
// that names the due time.
type consumer struct {
	conn *nats.Conn
	js   jetstream.JetStream

	mu       sync.Mutex
	bodies   map[string]int    // how often each came
	ids      map[string]string // body to Nats-Msg-Id
	problems []string
}

func consume(t testing.TB, server *lab.NATS) *consumer {
	t.Helper()
	c := &consumer{bodies: map[string]int{}, ids: map[string]string{}}
	var err error
	if c.conn, err = nats.Connect(server.URL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.conn.Close)
	if c.js, err = jetstream.New(c.conn); err != nil {
		t.Fatal(err)
	}
	stream, err := c.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "BILLS", Subjects: []string{"bills.>"}})
	if err != nil {
		t.Fatal(err)
	}
	durable, err := stream.CreateConsumer(t.Context(),
		jetstream.ConsumerConfig{Durable: "clerk", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	pull, err := durable.Consume(func(m jetstream.Msg) {
		c.take(m.Headers(), m.Data())
		if err := m.Ack(); err != nil {
			c.complain("ack: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pull.Stop)
	if _, err := c.conn.Subscribe("orders.>", func(m *nats.Msg) { c.take(m.Header, m.Data) }); err != nil {
		t.Fatal(err)
	}
	if err := c.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *consumer) take(header nats.Header, body []byte) {
	now := time.Now()
	due, err := strconv.ParseInt(header.Get("Tarry-Due"), 10, 64)
	id := header.Get(nats.MsgIdHdr)
	switch {
	case err != nil || id == "":
		c.complain("%s: headers %v", body, header)
	case now.Before(time.UnixMilli(due)):
		c.complain("%s came %s early", body, time.UnixMilli(due).Sub(now))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies[string(body)]++
	if before := c.ids[string(body)]; before != "" && before != id {
		c.problems = append(c.problems, fmt.Sprintf("%s came as %s and as %s", body, before, id))
	}
	c.ids[string(body)] = id
}

func (c *consumer) complain(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// has returns an error unless each of the bodies has arrived. Whatever is wrong besides is one too.
func (c *consumer) has(bodies []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.problems) > 0 {
		return fmt.Errorf("%q", c.problems)
	}
	var missing []string
	for _, body := range bodies {
		if c.bodies[body] == 0 {
			missing = append(missing, body)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%d of %d are missing: %q", len(missing), len(bodies), missing)
	}
	return nil
}

// repeated are the bodies that came more than once, and those that nobody sent.
func (c *consumer) repeated(bodies []string) (twice, strange []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := map[string]bool{}
	for _, body := range bodies {
		sent[body] = true
	}
	for body, n := range c.bodies {
		if n > 1 {
			twice = append(twice, body)
		}
		if !sent[body] {
			strange = append(strange, body)
		}
	}
	return twice, strange
}
