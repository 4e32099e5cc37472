package tarry

import (
	"cmp"
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// Ref names a message: by the id its producer gave it or by its uid, and by its key where several messages have that id.
type Ref struct {
	ID  string `json:"id"`
	Key string `json:"key,omitempty"`
}

// Canceled is a message whose delivery never comes.
type Canceled struct {
	ID, UID string
	Topic   string
	Due     time.Time // when it would have been due
	At      time.Time // when it was canceled
	Version uint64
	Attempt int // of the delivery that never comes; above 1, earlier ones were delivered
}

// Cancel takes a message back. A nil error means that this delivery never comes: earlier attempts of what a consumer
// sent back, or of what was requeued, may have come. Any other end has an error of its own: ErrAlreadyDelivered,
// ErrAlreadyExpired, ErrAlreadyDead, ErrInFlight, ErrMaybeDelivered, ErrUnknownID, ErrAmbiguousID.
// Repeating it is safe. It needs a running instance.
func (c *Client) Cancel(ctx context.Context, ref Ref) (Canceled, error) {
	var a struct {
		ID, UID, Topic, Due, At string
		Version                 uint64
		Attempt                 int
	}
	if err := c.manage(ctx, "cancel", ref, ref, &a); err != nil {
		return Canceled{}, err
	}
	return Canceled{ID: a.ID, UID: a.UID, Topic: a.Topic, Due: moment(a.Due), At: moment(a.At), Version: a.Version, Attempt: a.Attempt}, nil
}

// Message is what tarry knows about a message.
type Message struct {
	ID, UID, Key string
	Topic        string
	State        string // waiting, in_flight, delivered, canceled, expired, dead
	Version      uint64 // counts its changes
	Due          time.Time
	Priority     uint8
	TTL          time.Duration // 0: no limit
	Attempt      int
	Retries      string // its own schedule of retries, empty for the topic's
	Uncertain    bool   // an attempt may have reached consumers
	Parked       string // why its topic is held, where it is
	EndedAt      time.Time
	Reason       string
	Header       nats.Header
	Data         []byte // nil once tarry no longer keeps it
}

// Get looks a message up. It needs a running instance.
func (c *Client) Get(ctx context.Context, ref Ref) (Message, error) {
	var a struct {
		ID, UID, Key, Topic, State string
		Version                    uint64
		Due                        string
		Priority                   uint8
		TTL                        string
		Attempt                    int
		Retry                      string
		Uncertain                  bool
		Parked                     string
		EndedAt                    string `json:"ended_at"`
		Reason                     string
		Headers                    nats.Header
		Body                       *string
		BodyBase64                 []byte `json:"body_base64"`
	}
	if err := c.manage(ctx, "get", ref, ref, &a); err != nil {
		return Message{}, err
	}
	m := Message{
		ID: a.ID, UID: a.UID, Key: a.Key, Topic: a.Topic, State: a.State, Version: a.Version, Due: moment(a.Due), Priority: a.Priority,
		Attempt: a.Attempt, Retries: a.Retry, Uncertain: a.Uncertain, Parked: a.Parked, EndedAt: moment(a.EndedAt), Reason: a.Reason, Header: a.Headers,
		Data: a.BodyBase64,
	}
	if ttl, err := wire.ParseTTL(a.TTL); err == nil {
		m.TTL = ttl
	}
	if a.Body != nil {
		m.Data = []byte(*a.Body)
	}
	return m, nil
}

// check refuses a name that no message has.
func (r Ref) check() error {
	if err := wire.CheckID(r.ID); err != nil {
		return refusal(err)
	}
	if r.Key != "" {
		if err := wire.CheckKey(r.Key); err != nil {
			return refusal(err)
		}
	}
	return nil
}

// manage asks about one message, which question names. These requests may be repeated, so a lost answer is asked for again.
func (c *Client) manage(ctx context.Context, verb string, ref Ref, question, answer any) error {
	if err := cmp.Or(ref.check(), ctx.Err()); err != nil {
		return err
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	for {
		err := c.request(ctx, verb, question, answer)
		switch {
		case isTimeout(err) && pause(ctx):
		case isNoResponders(err):
			return c.noInstance(err)
		default:
			return err
		}
	}
}
