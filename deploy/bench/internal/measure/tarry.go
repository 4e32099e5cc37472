package measure

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

// Every message of every test ends on one subject.
const (
	dueSubject    = "bench.due"
	intakeSubject = "delayed." + dueSubject
	doorSubject   = "tarry.default.push." + dueSubject
	dueStream     = "BENCH"
)

// tarry starts a tarry with settings and the stream that messages are due on.
func (b bench) tarry(ctx context.Context, s *stage.Scope, settings ...string) (*stage.Tarry, *load.Client, error) {
	t := s.Tarry(b.program, settings...)
	c, err := dial(s, t.NATS.URL(), inFlight)
	if err != nil {
		return nil, nil, err
	}
	return t, c, b.makeDueStream(ctx, c)
}

func (b bench) makeDueStream(ctx context.Context, c *load.Client) error {
	_, err := c.JS.CreateStream(ctx,
		jetstream.StreamConfig{Name: dueStream, Subjects: []string{b.arrives}, Storage: jetstream.FileStorage})
	if err != nil {
		return fmt.Errorf("make the stream that messages are due on: %w", err)
	}
	return nil
}

// delayed is a push by tag with a delay.
func (b bench) delayed(n int) *nats.Msg {
	delay := strconv.FormatInt(farOff(n).Milliseconds(), 10) + "ms"
	return &nats.Msg{Subject: intakeSubject, Data: b.body(n), Header: nats.Header{"Tarry-Delay": {delay}}}
}

// libraryPush is a push with a delay as a caller of the Go library writes it.
func (b bench) libraryPush(n int) *nats.Msg {
	m := b.delayed(n)
	m.Subject = dueSubject
	return m
}

// doorPush is a push with a delay through the direct door, under a Nats-Msg-Id as the library makes them.
func (b bench) doorPush(n int) *nats.Msg {
	m := b.delayed(n)
	m.Subject = doorSubject
	m.Header[nats.MsgIdHdr] = []string{strconv.FormatInt(time.Now().UnixMilli()/64, 36) + "." + messageID(n)}
	return m
}

// tagged is a push by tag for a moment.
func (b bench) tagged(n int, due time.Time) *nats.Msg {
	return &nats.Msg{Subject: intakeSubject, Data: b.body(n),
		Header: nats.Header{"Tarry-At": {strconv.FormatInt(due.UnixMilli(), 10)}}}
}

// batches pushes over HTTP, each message for a moment of its own.
func (b bench) batches(t *stage.Tarry, due func(n int) time.Time) load.Batches {
	return load.Batches{URL: t.URL, Size: batchSize, Connections: connections, Item: func(to []byte, n int) []byte {
		return b.item(to, n, dueSubject, due(n), nil)
	}}
}

// item appends a push as HTTP takes it. options append fields of their own, each with a comma before it; nil for none.
func (b bench) item(to []byte, n int, topic string, due time.Time, options func(to []byte, n int) []byte) []byte {
	to = append(append(append(to, `{"topic":"`...), topic...), `","at":`...)
	to = strconv.AppendInt(to, due.UnixMilli(), 10)
	to = append(to, `,"body":"`...)
	to = append(b.bodies.Append(to, n), '"')
	if options != nil {
		to = options(to, n)
	}
	return append(to, '}')
}

func (b bench) body(n int) []byte { return b.bodies.Append(make([]byte, 0, load.BodySize), n) }
