package tarry

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// JetStreamContext is a nats.JetStreamContext, nats.go's older interface, whose PublishMsg and PublishMsgAsync
// understand tags as those of [JetStream] do. The look-up of the intake and synchronous pushes use a context of the
// newer package ([WithJetStream]). Of the publish options, nats.Context and nats.AckWait bound a synchronous publish;
// all other options are refused for a tagged message.
type JetStreamContext struct {
	nats.JetStreamContext
	client *Client
	calls  *calls
}

// WrapJetStreamContext adds delays to a JetStream context of nats.go's older interface, that of the connection nc.
func WrapJetStreamContext(nc *nats.Conn, js nats.JetStreamContext, opts ...Option) (*JetStreamContext, error) {
	if js == nil {
		return nil, errors.New("tarry: the JetStream context is nil")
	}
	c, err := NewClient(nc, opts...)
	if err != nil {
		return nil, err
	}
	return newJetStreamContext(js, c), nil
}

func newJetStreamContext(js nats.JetStreamContext, c *Client) *JetStreamContext {
	return &JetStreamContext{JetStreamContext: js, client: c, calls: newCalls(nats.ErrTooManyStalledMsgs)}
}

// Tarry returns the client behind the context.
func (j *JetStreamContext) Tarry() *Client { return j.client }

// PublishMsg publishes a message and waits for its PubAck.
func (j *JetStreamContext) PublishMsg(m *nats.Msg, opts ...nats.PubOpt) (*nats.PubAck, error) {
	if m == nil || !tagged(m.Header) {
		return j.JetStreamContext.PublishMsg(m, opts...)
	}
	ctx, cancel, err := contextOf(opts)
	if err != nil {
		return nil, err
	}
	defer cancel()
	out, err := j.client.rewrite(m)
	if err != nil {
		return nil, err
	}
	s, err := j.client.pushForAck(ctx, out)
	if err != nil {
		return nil, err
	}
	return s.legacyAck(), nil
}

func (s Stored) legacyAck() *nats.PubAck {
	ack := s.pubAck()
	return &nats.PubAck{Stream: ack.Stream, Sequence: ack.Sequence, Duplicate: ack.Duplicate, Domain: ack.Domain}
}

// PublishMsgAsync publishes a message and returns the future of its PubAck.
func (j *JetStreamContext) PublishMsgAsync(m *nats.Msg, opts ...nats.PubOpt) (nats.PubAckFuture, error) {
	if m == nil || !tagged(m.Header) {
		return j.JetStreamContext.PublishMsgAsync(m, opts...)
	}
	if len(opts) > 0 {
		return nil, refuseOptions("nats.MsgId")
	}
	out, route, err := j.client.prepareAsync(m)
	if err != nil {
		return nil, err
	}
	if route == ByStream {
		return j.JetStreamContext.PublishMsgAsync(out.msg)
	}
	f, err := start(j.calls, j.client, out, Stored.legacyAck)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// PublishAsyncPending returns the number of publishes without an answer, including those by request.
func (j *JetStreamContext) PublishAsyncPending() int {
	return j.JetStreamContext.PublishAsyncPending() + j.calls.pending()
}

// PublishAsyncComplete returns a channel that is closed when every publish, including those by request, has its answer.
func (j *JetStreamContext) PublishAsyncComplete() <-chan struct{} {
	return j.calls.with(j.JetStreamContext.PublishAsyncComplete())
}

// CleanupPublisher fails every publish that waits for its answer, including those by request.
func (j *JetStreamContext) CleanupPublisher() {
	j.JetStreamContext.CleanupPublisher()
	j.calls.cancelAll(nats.ErrJetStreamPublisherClosed)
}

// contextOf returns the context that the options request. Those options have exported types; any other option is
// refused.
func contextOf(opts []nats.PubOpt) (context.Context, context.CancelFunc, error) {
	var ctx context.Context
	var wait time.Duration
	for _, o := range opts {
		switch o := o.(type) {
		case nats.ContextOpt:
			ctx = o.Context
		case nats.AckWait:
			wait = time.Duration(o)
		default:
			return nil, nil, refuseOptions("nats.MsgId")
		}
	}
	switch {
	case ctx != nil && wait > 0:
		return nil, nil, nats.ErrContextAndTimeout
	case ctx != nil:
		return ctx, func() {}, nil
	case wait > 0:
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		return ctx, cancel, nil
	}
	return context.Background(), func() {}, nil
}
