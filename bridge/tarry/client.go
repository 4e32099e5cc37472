package tarry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Client is what every wrapper adds to what it wraps: pushing with a full answer, canceling, looking up, changing, and
// sending back what a consumer could not handle. It is safe for
// concurrent use and holds no connection of its own.
type Client struct {
	config
	nc    *nats.Conn
	route *router
}

// Receipt says what became of a push. Through the intake stream, Stream and Sequence are its place; by request ID,
// UID and Due are tarry's own answer.
type Receipt struct {
	ID        string // the name given; by request else the uid
	UID       string
	Due       time.Time
	Stream    string
	Sequence  uint64
	Duplicate bool // the same push had been stored before
	Merged    bool // by request: it went into a message that waited, whose UID and Due these are
	// NameUnchecked, by request: the journal did not answer whether the name was used before.
	NameUnchecked bool

	ack *jetstream.PubAck
}

// resendWithin is how long after its first attempt a push is still repeated. Past the duplicate window of the intake
// stream (two minutes unless set otherwise) a repetition would be stored a second time.
const resendWithin = time.Minute

func newClient(nc *nats.Conn, js jetstream.JetStream, opts []Option) (*Client, error) {
	if nc == nil {
		return nil, nats.ErrInvalidConnection
	}
	conf, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if js != nil {
		conf.js = js
	}
	if conf.js == nil {
		if conf.js, err = jetstream.New(nc); err != nil {
			return nil, fmt.Errorf("tarry: open JetStream: %w", err)
		}
	}
	return &Client{config: conf, nc: nc, route: newRouter(conf, conf.js.StreamNameBySubject)}, nil
}

// Push stores a tagged message and returns its place. Without a deadline it takes at most [Timeout].
func (c *Client) Push(ctx context.Context, msg *nats.Msg) (Receipt, error) {
	if msg == nil {
		return Receipt{}, nats.ErrInvalidMsg
	}
	out, err := c.rewrite(msg, nil)
	if err != nil {
		return Receipt{}, err
	}
	return c.push(ctx, c.js, out)
}

// push sends the message to tarry by the client's route. opts are the caller's options of a JetStream publish.
func (c *Client) push(ctx context.Context, js jetstream.Publisher, out *outgoing,
	opts ...jetstream.PublishOpt) (Receipt, error) {
	if err := ctx.Err(); err != nil {
		return Receipt{}, err // nothing was sent
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	w, err := c.route.decide(ctx)
	if err != nil {
		return Receipt{}, err
	}
	if w == byRequest {
		return c.ask(ctx, out)
	}
	ack, err := c.store(ctx, js, out.msg, opts)
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{ID: out.push.ID, Stream: ack.Stream, Sequence: ack.Sequence, Duplicate: ack.Duplicate, ack: ack}, nil
}

func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

// store publishes to the intake stream until a PubAck comes. Every attempt carries the same Nats-Msg-Id, so one that
// was stored and whose answer was lost is not stored again.
func (c *Client) store(ctx context.Context, js jetstream.Publisher, m *nats.Msg,
	opts []jetstream.PublishOpt) (*jetstream.PubAck, error) {
	start, sent := time.Now(), false
	for {
		ack, err := c.attempt(ctx, js, m, opts)
		switch {
		case err == nil && ack.Stream != c.route.stream:
			c.route.forget()
			return nil, fmt.Errorf("%w: the stream %q has stored it, and tarry's intake is called %q; set "+
				"tarry.Namespace and tarry.Prefix to its settings",
				ErrNoIntake, ack.Stream, c.route.stream)
		case err == nil:
			return ack, nil
		case errors.Is(err, jetstream.ErrNoStreamResponse):
			c.route.forget()
			err = c.noIntake(err)
		case isTimeout(err):
			sent = true
			waited := errors.Is(err, context.DeadlineExceeded)
			if ctx.Err() == nil && time.Since(start) < resendWithin && (waited || pause(ctx)) {
				continue
			}
		}
		if sent {
			return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		return nil, err
	}
}

// attempt publishes once and waits for its answer, but not for ever.
func (c *Client) attempt(ctx context.Context, js jetstream.Publisher, m *nats.Msg,
	opts []jetstream.PublishOpt) (*jetstream.PubAck, error) {
	ctx, cancel := context.WithTimeout(ctx, c.ackWait)
	defer cancel()
	return js.PublishMsg(ctx, m, opts...)
}

// isTimeout reports whether a message may have been sent without an answer.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrDisconnected)
}

func (c *Client) noIntake(cause error) error {
	if c.fixed == byRequest {
		return c.noInstance(cause)
	}
	return fmt.Errorf("%w: no stream holds %q and no instance answers on %q; is tarry connected to this NATS "+
		"account, and are tarry.Prefix and tarry.Namespace its settings? (%w)",
		ErrNoIntake, c.prefix+".>", c.subject("push"), cause)
}

func isNoResponders(err error) bool { return errors.Is(err, nats.ErrNoResponders) }

func (c *Client) noInstance(cause error) error {
	return fmt.Errorf("%w: no instance answers on %q (%w)", ErrNoIntake, c.subject("*"), cause)
}

// subject is where instances answer requests.
func (c *Client) subject(verb string) string { return "tarry." + c.namespace + ".api." + verb }

// refuseRequest answers a request with a tag.
func refuseRequest() error {
	return &Error{Word: WordRequest, Field: "request",
		Detail: "cannot be delayed: the answer would come after the delay; publish it"}
}
