package tarry

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
)

// Conn is a *nats.Conn whose PublishMsg understands tags. Methods that take no header (Publish, PublishRequest,
// Request, RequestWithContext) cannot carry tags and are unchanged. JetStream returns a wrapped context too; for the
// newer package use [WrapJetStream].
type Conn struct {
	*nats.Conn
	client *Client
}

// Wrap adds delays to a connection. It does not touch the network; the first tagged message looks up the intake.
// Closing either of the two closes the connection.
func Wrap(nc *nats.Conn, opts ...Option) (*Conn, error) {
	c, err := NewClient(nc, opts...)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: nc, client: c}, nil
}

// Connect is nats.Connect and [Wrap] with default settings.
func Connect(url string, opts ...nats.Option) (*Conn, error) {
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return nil, err
	}
	return Wrap(nc)
}

// Tarry returns the client behind the connection.
func (c *Conn) Tarry() *Client { return c.client }

// PublishMsg publishes a message. For a tagged message, nil means that it is stored (see the package comment), and the
// call takes a round trip, limited by [WithTimeout]. [Client.Push] takes a context and returns the place of the
// message.
func (c *Conn) PublishMsg(m *nats.Msg) error {
	if m == nil || !tagged(m.Header) {
		return c.Conn.PublishMsg(m)
	}
	_, err := c.client.Push(context.Background(), m)
	return err
}

// RequestMsg refuses a tag: the answer would arrive after the delay.
func (c *Conn) RequestMsg(m *nats.Msg, timeout time.Duration) (*nats.Msg, error) {
	if m == nil || !tagged(m.Header) {
		return c.Conn.RequestMsg(m, timeout)
	}
	return nil, refuseRequest()
}

// RequestMsgWithContext refuses a tag: the answer would arrive after the delay.
func (c *Conn) RequestMsgWithContext(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	if m == nil || !tagged(m.Header) {
		return c.Conn.RequestMsgWithContext(ctx, m)
	}
	return nil, refuseRequest()
}

func refuseRequest() error {
	return &Error{Word: WordRequest, Field: "request",
		Detail: "cannot be delayed: the answer would come after the delay; publish it"}
}

// JetStream returns nats.go's older JetStream context, wrapped.
func (c *Conn) JetStream(opts ...nats.JSOpt) (nats.JetStreamContext, error) {
	js, err := c.Conn.JetStream(opts...)
	if err != nil {
		return nil, err
	}
	return newJetStreamContext(js, c.client), nil
}
