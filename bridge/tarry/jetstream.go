package tarry

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// JetStream is a jetstream.JetStream whose publishing methods understand tags. A PubAck for a tagged message is that of
// the intake stream; where the push went by request it carries Duplicate alone.
//
// A future of the async methods works as in nats.go. When it fails without an answer, publish its Msg again: that keeps
// its Nats-Msg-Id, so the message is stored once.
type JetStream struct {
	jetstream.JetStream
	*Client

	opts  optionReader[jetstream.PublishOpt]
	kinds optionKinds
	calls *calls
}

// WrapJetStream adds delays to a JetStream context. It does not touch the network.
func WrapJetStream(js jetstream.JetStream, opts ...Option) (*JetStream, error) {
	if js == nil {
		return nil, errors.New("tarry: the JetStream context is nil")
	}
	c, err := newClient(js.Conn(), js, opts)
	if err != nil {
		return nil, err
	}
	// Options are read by a context of our own on the same connection: the wrapped one may be somebody's test double.
	own, err := jetstream.New(js.Conn())
	if err != nil {
		return nil, fmt.Errorf("tarry: open JetStream: %w", err)
	}
	j := &JetStream{JetStream: js, Client: c, opts: jetStreamOptions(own),
		calls: newCalls(jetstream.ErrTooManyStalledMsgs)}
	j.kinds.read = func(opts []jetstream.PublishOpt) (bool, error) {
		h, err := j.opts.async(opts)
		return tagged(h), err
	}
	return j, nil
}

// Publish publishes a message and waits for its PubAck. Options can tag it (jetstream.WithScheduleAt).
func (j *JetStream) Publish(ctx context.Context, subject string, data []byte,
	opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if j.kinds.schedule(opts) {
		return j.publish(ctx, &nats.Msg{Subject: subject, Data: data}, opts)
	}
	return j.JetStream.Publish(ctx, subject, data, opts...)
}

// PublishMsg publishes a message and waits for its PubAck; with a tag also past a PubAck that got lost.
func (j *JetStream) PublishMsg(ctx context.Context, m *nats.Msg,
	opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if m != nil && (tagged(m.Header) || j.kinds.schedule(opts)) {
		return j.publish(ctx, m, opts)
	}
	return j.JetStream.PublishMsg(ctx, m, opts...)
}

func (j *JetStream) publish(ctx context.Context, m *nats.Msg, opts []jetstream.PublishOpt) (*jetstream.PubAck, error) {
	h, err := j.opts.sync(opts)
	if err != nil {
		return nil, err
	}
	out, err := j.rewrite(m, h)
	if err != nil {
		return nil, err
	}
	r, err := j.push(ctx, j.JetStream, out, keep(opts, h, out)...)
	if err != nil {
		return nil, err
	}
	if r.ack == nil { // by request
		return &jetstream.PubAck{Duplicate: r.Duplicate}, nil
	}
	return r.ack, nil
}

// PublishAsync publishes a message and returns the future of its PubAck. Options can tag it.
func (j *JetStream) PublishAsync(subject string, data []byte,
	opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	if j.kinds.schedule(opts) {
		return j.publishAsync(&nats.Msg{Subject: subject, Data: data}, opts)
	}
	return j.JetStream.PublishAsync(subject, data, opts...)
}

// PublishMsgAsync publishes a message and returns the future of its PubAck.
func (j *JetStream) PublishMsgAsync(m *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	if m != nil && (tagged(m.Header) || j.kinds.schedule(opts)) {
		return j.publishAsync(m, opts)
	}
	return j.JetStream.PublishMsgAsync(m, opts...)
}

func (j *JetStream) publishAsync(m *nats.Msg, opts []jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	h, err := j.opts.async(opts)
	if err != nil {
		return nil, err
	}
	out, w, err := j.prepareAsync(m, h)
	if err != nil {
		return nil, err
	}
	if w == byStream {
		return j.JetStream.PublishMsgAsync(out.msg, keep(opts, h, out)...)
	}
	f, err := start(j.calls, j.Client, out, func(r Receipt) *jetstream.PubAck {
		return &jetstream.PubAck{Duplicate: r.Duplicate}
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// keep hands the caller's options on (retries, stall wait), with our Nats-Msg-Id after them since the last one wins.
// Those that schedule have been translated and would be refused at the intake.
func keep(opts []jetstream.PublishOpt, h nats.Header, out *outgoing) []jetstream.PublishOpt {
	if len(opts) == 0 || has(h, headerSchedule) || has(h, headerScheduleTarget) {
		return nil
	}
	id := jetstream.WithMsgID(out.msg.Header.Get(wire.HeaderMsgID))
	return append(append(make([]jetstream.PublishOpt, 0, len(opts)+1), opts...), id)
}

// PublishAsyncPending counts the publishes without an answer, those by request included.
func (j *JetStream) PublishAsyncPending() int {
	return j.JetStream.PublishAsyncPending() + j.calls.pending()
}

// PublishAsyncComplete is closed when every publish has its answer, those by request included.
func (j *JetStream) PublishAsyncComplete() <-chan struct{} {
	return j.calls.with(j.JetStream.PublishAsyncComplete())
}

// CleanupPublisher fails every publish that waits for its answer, those by request included.
func (j *JetStream) CleanupPublisher() {
	j.JetStream.CleanupPublisher()
	j.calls.cancelAll(jetstream.ErrJetStreamPublisherClosed)
}
