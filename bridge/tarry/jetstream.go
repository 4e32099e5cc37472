package tarry

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// JetStream is a jetstream.JetStream whose PublishMsg and PublishMsgAsync understand tags. The PubAck of a tagged
// message is that of the intake stream; for a push by request only its Duplicate is set.
//
// A future of PublishMsgAsync works as in nats.go. If it fails without an answer, publish its Msg again: that keeps its
// Nats-Msg-Id, so the message is stored once.
//
// Publish options together with a tag are refused with the word [WordOptions] before anything is sent: nats.go does not
// reveal what they contain. Use [As] instead of jetstream.WithMsgID. Publish and PublishAsync are those of nats.go:
// they take no header, and with jetstream.WithScheduleAt they request a schedule of NATS itself.
type JetStream struct {
	jetstream.JetStream
	client *Client
	calls  *calls
}

// WrapJetStream adds delays to a JetStream context. It does not touch the network.
func WrapJetStream(js jetstream.JetStream, opts ...Option) (*JetStream, error) {
	if js == nil {
		return nil, errors.New("tarry: the JetStream context is nil")
	}
	c, err := NewClient(js.Conn(), append(opts[:len(opts):len(opts)], WithJetStream(js))...)
	if err != nil {
		return nil, err
	}
	return &JetStream{JetStream: js, client: c, calls: newCalls(jetstream.ErrTooManyStalledMsgs)}, nil
}

// Tarry returns the client behind the context.
func (j *JetStream) Tarry() *Client { return j.client }

// PublishMsg publishes a message and waits for its PubAck. If the PubAck of a tagged message is lost, it publishes
// again.
func (j *JetStream) PublishMsg(ctx context.Context, m *nats.Msg,
	opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if m == nil || !tagged(m.Header) {
		return j.JetStream.PublishMsg(ctx, m, opts...)
	}
	if len(opts) > 0 {
		return nil, refuseOptions("jetstream.WithMsgID")
	}
	out, err := j.client.rewrite(m)
	if err != nil {
		return nil, err
	}
	s, err := j.client.pushForAck(ctx, out)
	if err != nil {
		return nil, err
	}
	return s.pubAck(), nil
}

// pubAck is the PubAck of a push; by request it has neither stream nor sequence.
func (s Stored) pubAck() *jetstream.PubAck {
	if s.ack != nil {
		return s.ack
	}
	return &jetstream.PubAck{Duplicate: s.Duplicate}
}

// PublishMsgAsync publishes a message and returns the future of its PubAck.
func (j *JetStream) PublishMsgAsync(m *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	if m == nil || !tagged(m.Header) {
		return j.JetStream.PublishMsgAsync(m, opts...)
	}
	if len(opts) > 0 {
		return nil, refuseOptions("jetstream.WithMsgID")
	}
	out, route, err := j.client.prepareAsync(m)
	if err != nil {
		return nil, err
	}
	if route == ByStream {
		return j.JetStream.PublishMsgAsync(out.msg)
	}
	f, err := start(j.calls, j.client, out, Stored.pubAck)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// PublishAsyncPending returns the number of publishes without an answer, including those by request.
func (j *JetStream) PublishAsyncPending() int {
	return j.JetStream.PublishAsyncPending() + j.calls.pending()
}

// PublishAsyncComplete returns a channel that is closed when every publish, including those by request, has its answer.
func (j *JetStream) PublishAsyncComplete() <-chan struct{} {
	return j.calls.with(j.JetStream.PublishAsyncComplete())
}

// CleanupPublisher fails every publish that waits for its answer, including those by request.
func (j *JetStream) CleanupPublisher() {
	j.JetStream.CleanupPublisher()
	j.calls.cancelAll(jetstream.ErrJetStreamPublisherClosed)
}

// refuseOptions refuses the options of a tagged publish. msgID is the option by which the package names a message.
func refuseOptions(msgID string) error {
	return &Error{Word: WordOptions, Field: "options",
		Detail: "of a publish cannot be combined with a tag: use tarry.As for " +
			msgID + " and tarry.At for a schedule; expectations, a TTL in the stream, retries and a stall wait have no tag"}
}
