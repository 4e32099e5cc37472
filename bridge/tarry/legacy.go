package tarry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// JetStreamContext is a nats.JetStreamContext, nats.go's older interface, whose publishing methods understand tags as
// those of [JetStream] do. The intake is found and synchronous pushes go through a context of the newer package
// ([WithJetStream]); of the options nats.Context and nats.AckWait bound them.
type JetStreamContext struct {
	nats.JetStreamContext
	*Client

	opts  optionReader[nats.PubOpt]
	calls *calls
}

// WrapJetStreamContext adds delays to a JetStream context of nats.go's older interface, that of the connection nc.
func WrapJetStreamContext(nc *nats.Conn, js nats.JetStreamContext, opts ...Option) (*JetStreamContext, error) {
	if js == nil {
		return nil, errors.New("tarry: the JetStream context is nil")
	}
	c, err := newClient(nc, nil, opts)
	if err != nil {
		return nil, err
	}
	return newJetStreamContext(js, c)
}

func newJetStreamContext(js nats.JetStreamContext, c *Client) (*JetStreamContext, error) {
	own, err := c.nc.JetStream() // to read options with, see JetStream
	if err != nil {
		return nil, fmt.Errorf("tarry: open JetStream: %w", err)
	}
	return &JetStreamContext{
		JetStreamContext: js, Client: c, opts: legacyOptions(own), calls: newCalls(nats.ErrTooManyStalledMsgs),
	}, nil
}

// PublishMsg publishes a message and waits for its PubAck.
func (j *JetStreamContext) PublishMsg(m *nats.Msg, opts ...nats.PubOpt) (*nats.PubAck, error) {
	if m == nil || !tagged(m.Header) {
		return j.JetStreamContext.PublishMsg(m, opts...)
	}
	ctx, wait, others := bounds(opts)
	if wait > 0 {
		if ctx != nil {
			return nil, nats.ErrContextAndTimeout
		}
		bounded, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		ctx = bounded
	}
	if ctx == nil {
		ctx = context.Background()
	}
	h, err := j.opts.sync(others)
	if err != nil {
		return nil, err
	}
	out, err := j.rewrite(m, h)
	if err != nil {
		return nil, err
	}
	r, err := j.push(ctx, j.js, out)
	if err != nil {
		return nil, err
	}
	if r.ack == nil {
		return &nats.PubAck{Duplicate: r.Duplicate}, nil
	}
	return &nats.PubAck{Stream: r.ack.Stream, Sequence: r.ack.Sequence, Duplicate: r.ack.Duplicate,
		Domain: r.ack.Domain}, nil
}

// PublishMsgAsync publishes a message and returns the future of its PubAck.
func (j *JetStreamContext) PublishMsgAsync(m *nats.Msg, opts ...nats.PubOpt) (nats.PubAckFuture, error) {
	if m == nil || !tagged(m.Header) {
		return j.JetStreamContext.PublishMsgAsync(m, opts...)
	}
	h, err := j.opts.async(opts)
	if err != nil {
		return nil, err
	}
	out, w, err := j.prepareAsync(m, h)
	if err != nil {
		return nil, err
	}
	if w == byStream {
		if len(opts) > 0 {
			opts = append(append(make([]nats.PubOpt, 0, len(opts)+1), opts...),
				nats.MsgId(out.msg.Header.Get(wire.HeaderMsgID)))
		}
		return j.JetStreamContext.PublishMsgAsync(out.msg, opts...)
	}
	f, err := start(j.calls, j.Client, out, func(r Receipt) *nats.PubAck {
		return &nats.PubAck{Duplicate: r.Duplicate}
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// PublishAsyncPending counts the publishes without an answer, those by request included.
func (j *JetStreamContext) PublishAsyncPending() int {
	return j.JetStreamContext.PublishAsyncPending() + j.calls.pending()
}

// PublishAsyncComplete is closed when every publish has its answer, those by request included.
func (j *JetStreamContext) PublishAsyncComplete() <-chan struct{} {
	return j.calls.with(j.JetStreamContext.PublishAsyncComplete())
}

// CleanupPublisher fails every publish that waits for its answer, those by request included.
func (j *JetStreamContext) CleanupPublisher() {
	j.JetStreamContext.CleanupPublisher()
	j.calls.cancelAll(nats.ErrJetStreamPublisherClosed)
}

// bounds takes out the options that say how long a publish may take.
func bounds(opts []nats.PubOpt) (ctx context.Context, wait time.Duration, others []nats.PubOpt) {
	for _, o := range opts {
		switch o := o.(type) {
		case nats.ContextOpt:
			ctx = o.Context
		case nats.AckWait:
			wait = time.Duration(o)
		default:
			others = append(others, o)
		}
	}
	return ctx, wait, others
}
