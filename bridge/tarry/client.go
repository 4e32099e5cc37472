package tarry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Client is a client of tarry. It pushes, looks up, changes and cancels messages, and sends back messages that a
// consumer could not handle. It is safe for concurrent use and uses the caller's connection.
type Client struct {
	config
	nc    *nats.Conn
	route *router
	door  door
	// pushes gather where they wait for the door.
	pushes gatherer[*nats.Msg, Stored]
}

// Stored is the place of a stored message. Route says how it was pushed. ByRequest, UID, Due and Durable are set from
// tarry's answer: it is stored, and no later error is possible. ByStream, Stream and Sequence are its place in the
// intake stream: it is kept there until an instance stores it, or moves it to the stream of rejects.
type Stored struct {
	ID        string // the name of the message; for a push by request without a name, the uid
	Route     Route
	UID       string
	Due       time.Time
	Durable   string // what holds the message: "redis", "journal", "memory" or "stream"
	Stream    string
	Sequence  uint64
	Duplicate bool // the same push had been stored before
	Merged    bool // by request: merged into a waiting message; UID and Due are those of that message
	// NameUnchecked is set for pushes by request only: the journal did not answer whether the name was used before.
	NameUnchecked bool

	ack *jetstream.PubAck
}

// resendWithin is how long after its first attempt a push is still repeated. A repetition after the duplicate window of
// the intake stream (two minutes by default) would be stored a second time.
const resendWithin = time.Minute

// NewClient returns a client that uses a connection. It does not touch the network; the first push looks up the intake.
func NewClient(nc *nats.Conn, opts ...Option) (*Client, error) {
	if nc == nil {
		return nil, nats.ErrInvalidConnection
	}
	conf, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if conf.js == nil {
		if conf.js, err = jetstream.New(nc); err != nil {
			return nil, fmt.Errorf("tarry: open JetStream: %w", err)
		}
	}
	inbox := nc.Opts.InboxPrefix + "."
	c := &Client{config: conf, nc: nc, route: newRouter(conf, conf.js.StreamNameBySubject),
		door: door{prefix: "tarry." + conf.namespace + ".push.",
			deaf: inbox != "." && !strings.HasPrefix(inbox, nats.InboxPrefix)}}
	c.pushes.fits, c.pushes.send = c.doorFits, c.throughDoor
	return c, nil
}

// Push stores a tagged message and returns its place. Without a deadline it takes at most the time of [WithTimeout].
func (c *Client) Push(ctx context.Context, msg *nats.Msg) (Stored, error) {
	if msg == nil {
		return Stored{}, nats.ErrInvalidMsg
	}
	out, err := c.rewrite(msg)
	if err != nil {
		return Stored{}, err
	}
	return c.push(ctx, out)
}

// push sends the message to tarry: through the door, and to the stream where certainly nothing was written through the
// door. Without a stream it tries the door again for a while.
func (c *Client) push(ctx context.Context, out *outgoing) (Stored, error) {
	if err := ctx.Err(); err != nil {
		return Stored{}, err // nothing was sent
	}
	ctx, cancel := bounded(ctx, c.timeout)
	defer cancel()
	byDoor := c.fixed == ByRequest || out.push.UID != "" // with a uid it is the repetition of a push by request
	if c.fixed == ByStream && !byDoor {
		return c.place(ctx, out)
	}
	if out.again && !byDoor { // the stream knows its Nats-Msg-Id, if anybody does
		if route, err := c.route.decide(ctx); err == nil && route == ByStream {
			return c.place(ctx, out)
		}
	}
	for tries := 0; ; tries++ {
		s, err := c.knock(ctx, out)
		if err == nil || !elsewhere(err) {
			return s, err
		}
		if !byDoor {
			route, failed := c.route.decide(ctx)
			if failed != nil {
				return Stored{}, failed
			}
			if route == ByStream {
				return c.place(ctx, out)
			}
		}
		if tries < 2 && passing(err) && pause(ctx) {
			continue
		}
		if isNoResponders(err) {
			c.route.forget()
			err = c.noIntake(err)
		}
		return Stored{}, err
	}
}

// pushForAck sends the message to the stream, whose PubAck has a sequence, unless the option or a missing stream says
// otherwise.
func (c *Client) pushForAck(ctx context.Context, out *outgoing) (Stored, error) {
	if err := ctx.Err(); err != nil {
		return Stored{}, err
	}
	ctx, cancel := bounded(ctx, c.timeout)
	defer cancel()
	route, err := c.route.decide(ctx)
	switch {
	case err != nil:
		return Stored{}, err
	case route == ByStream && out.push.UID == "":
		return c.place(ctx, out)
	}
	return c.push(ctx, out)
}

// place stores the message in the intake stream. If that has the id of a message already which is sent for the first
// time, somebody else has taken it: a stream judges ids over all subjects.
func (c *Client) place(ctx context.Context, out *outgoing) (Stored, error) {
	ack, once, err := c.store(ctx, out.msg)
	if err == nil && ack.Duplicate && once && out.fresh {
		out.msg.Header[nats.MsgIdHdr] = []string{newMsgID()}
		ack, _, err = c.store(ctx, out.msg)
	}
	if err != nil {
		return Stored{}, err
	}
	return Stored{ID: out.push.ID, Route: ByStream, Durable: "stream", Stream: ack.Stream, Sequence: ack.Sequence,
		Duplicate: ack.Duplicate, ack: ack}, nil
}

// bounded adds a deadline to a context that has none.
func bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

// store publishes to the intake stream until a PubAck arrives. Every attempt carries the same Nats-Msg-Id, so a message
// whose PubAck was lost is not stored again. once reports whether the message was sent once.
func (c *Client) store(ctx context.Context, m *nats.Msg) (ack *jetstream.PubAck, once bool, err error) {
	start, sent := time.Now(), false
	for {
		ack, err := c.attempt(ctx, m)
		switch {
		case err == nil && ack.Stream != c.route.stream:
			c.route.forget()
			return nil, false, fmt.Errorf("%w: the stream %q has stored it, and tarry's intake is called %q; set "+
				"tarry.WithNamespace and tarry.WithPrefix to its settings",
				ErrNoIntake, ack.Stream, c.route.stream)
		case err == nil:
			return ack, !sent, nil
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
			err = unknown(err)
		}
		return nil, false, err
	}
}

// attempt publishes once and waits for the answer for a limited time.
func (c *Client) attempt(ctx context.Context, m *nats.Msg) (*jetstream.PubAck, error) {
	ctx, cancel := context.WithTimeout(ctx, c.ackWait)
	defer cancel()
	return c.js.PublishMsg(ctx, m)
}

// isTimeout reports whether a message may have been sent without an answer.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrDisconnected)
}

func isNoResponders(err error) bool { return errors.Is(err, nats.ErrNoResponders) }

// unknown marks an error after which the operation may have taken effect nevertheless.
func unknown(err error) error {
	if errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}

func (c *Client) noIntake(cause error) error {
	if c.fixed == ByRequest {
		return c.noInstance(cause)
	}
	return fmt.Errorf("%w: no stream holds %q and no instance answers on %q; is tarry connected to this NATS "+
		"account, and are tarry.WithPrefix and tarry.WithNamespace its settings? (%w)",
		ErrNoIntake, c.prefix+".>", c.door.prefix+">", cause)
}

func (c *Client) noInstance(cause error) error {
	return fmt.Errorf("%w on %q: nothing was done (%w)", ErrNoInstance, c.subject("*"), cause)
}

// subject returns the subject on which instances answer requests.
func (c *Client) subject(verb string) string { return "tarry." + c.namespace + ".api." + verb }

// pause waits before a repetition, as long as JetStream does. It reports whether there is time left.
func pause(ctx context.Context) bool {
	select {
	case <-time.After(250 * time.Millisecond):
		return true
	case <-ctx.Done():
		return false
	}
}
