package tarry

import (
	"cmp"
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// Ref names a message: by its uid, or by the id its producer gave it, which belongs to a topic and a key. Without Topic
// or Key, Get returns the one live message with the id. A change by such a Ref is ErrAmbiguousID as soon as an instance
// knows messages of two topics or keys by that id, live or ended.
type Ref struct {
	ID    string `json:"id"`
	Topic string `json:"topic,omitempty"` // the subject without the prefix
	Key   string `json:"key,omitempty"`
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
// sent back, or of what was requeued, may have come. A cancel of an id that nothing has is remembered if it names the
// topic: a push of it that stands in the intake by then is accepted as canceled. Any other end has an error of its own:
// ErrAlreadyDelivered, ErrAlreadyExpired, ErrAlreadyDead, ErrInFlight, ErrMaybeDelivered, ErrUnknownID, ErrAmbiguousID.
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
	return Canceled{ID: a.ID, UID: a.UID, Topic: a.Topic, Due: moment(a.Due), At: moment(a.At), Version: a.Version,
		Attempt: a.Attempt}, nil
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
	Refusals     uint32 // how often NATS refused it for good
	Uncertain    bool   // an attempt may have reached consumers
	Parked       string // why its topic is held, where it is
	EndedAt      time.Time
	Kind         string // how it ended, where State does not say it: merged, requeued and their like
	Other        string // the uid of the message that it went into, or goes on as
	Reason       string
	Header       nats.Header
	Data         []byte // nil once tarry no longer keeps it, or where DataOmitted says so
	DataOmitted  bool   // tarry has it, but it is too large for an answer over NATS; HTTP has it whole
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
		Refusals                   uint32
		Uncertain                  bool
		Parked                     string
		ParkedWhy                  string `json:"parked_why"`
		EndedAt                    string `json:"ended_at"`
		Kind, Other                string
		Reason                     string
		Headers                    nats.Header
		Body                       *string
		BodyBase64                 []byte `json:"body_base64"`
		Omitted                    bool   `json:"body_omitted"`
	}
	if err := c.manage(ctx, "get", ref, ref, &a); err != nil {
		return Message{}, err
	}
	m := Message{
		ID: a.ID, UID: a.UID, Key: a.Key, Topic: a.Topic, State: a.State, Version: a.Version, Due: moment(a.Due),
		Priority: a.Priority,
		Attempt:  a.Attempt, Retries: a.Retry, Refusals: a.Refusals, Uncertain: a.Uncertain,
		Parked:  cmp.Or(a.ParkedWhy, a.Parked),
		EndedAt: moment(a.EndedAt), Kind: a.Kind, Other: a.Other, Reason: a.Reason, Header: a.Headers,
		Data: a.BodyBase64, DataOmitted: a.Omitted,
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
	if r.Topic != "" {
		if err := wire.CheckSubject(r.Topic); err != nil {
			return refusal(err)
		}
	}
	if r.Key != "" {
		if err := wire.CheckKey(r.Key); err != nil {
			return refusal(err)
		}
	}
	return nil
}

// manage asks about one message, which question names. These requests may be repeated, so a lost answer is asked for
// again.
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
