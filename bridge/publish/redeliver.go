package publish

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Broker serves redeliveries: it checks whether a stream still has a message that it once confirmed, and publishes the
// message again. It publishes independently of the leadership, on an operator's order; each message keeps its
// Nats-Msg-Id.
type Broker struct {
	// Topics are the settings of topics, as the Publisher has them. It may be nil.
	Topics *scheduler.Topics

	js    jetstream.JetStream
	space string
}

// NewBroker returns a Broker on a connection that may serve other parts as well.
func NewBroker(nc *nats.Conn, namespace string) (*Broker, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("use jetstream: %w", err)
	}
	return &Broker{js: js, space: msgIDSpace(namespace)}, nil
}

// Stored reports whether the stream has the message at the sequence of its confirmed delivery. The message is certainly
// gone if the stream has not reached that sequence, or has another message there. If the stream has reached that
// sequence and has no message there, Stored returns ErrUnjudged: the message may have been consumed, or dropped by the
// stream's limits.
func (b *Broker) Stored(ctx context.Context, stream string, sequence uint64, uid message.UID) (bool, error) {
	s, err := b.js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up the stream: %w", err)
	}
	msg, err := s.GetMsg(ctx, sequence)
	switch {
	case err == nil:
		return msg.Header.Get(wire.HeaderMsgID) == string(uid)+b.space, nil
	case !errors.Is(err, jetstream.ErrMsgNotFound):
		return false, fmt.Errorf("read message %d: %w", sequence, err)
	}
	// The stream's state is read after the message: a message consumed between the two reads must not count as lost.
	info, err := s.Info(ctx)
	switch {
	case err != nil:
		return false, fmt.Errorf("read the stream's state: %w", err)
	case sequence > info.State.LastSeq:
		return false, nil
	}
	return false, scheduler.ErrUnjudged
}

// Publish publishes a message on its topic and returns where it is stored.
func (b *Broker) Publish(ctx context.Context, m *message.Message) (string, uint64, error) {
	w := headerWriter{space: b.space}
	look := topicLook{all: b.Topics}
	subject, _ := look.of(m)
	out := &nats.Msg{Subject: subject, Header: w.write(m, subject, look.retry(m)), Data: m.Body}
	ack, err := b.js.PublishMsg(ctx, out)
	if err != nil {
		return "", 0, fmt.Errorf("publish on %s: %w", strings.ToValidUTF8(subject, "?"), err)
	}
	return ack.Stream, ack.Sequence, nil
}
