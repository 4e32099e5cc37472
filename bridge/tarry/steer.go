package tarry

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// Ref names a message: by its uid, or by the id that its producer set, which belongs to a topic and a key. Without
// Topic or Key, Get returns the one live message with the id. A change by such a Ref is ErrAmbiguousID if messages of
// two topics or keys, live or ended, are known by that id.
type Ref struct {
	ID    string `json:"id"`
	Topic string `json:"topic,omitempty"` // the subject without the prefix
	Key   string `json:"key,omitempty"`
}

// State is the state of a message.
type State string

// The states of a message. It can be changed only while it waits; a waiting message that consumers may pull is ready.
// The last four are final.
const (
	StateWaiting   State = "waiting"
	StateReady     State = "ready"
	StateInFlight  State = "in_flight"
	StateDelivered State = "delivered"
	StateCanceled  State = "canceled"
	StateExpired   State = "expired"
	StateDead      State = "dead"
)

// Message is what tarry knows about a message.
type Message struct {
	ID, UID, Key string
	Topic        string
	State        State
	Version      uint64 // counts its changes
	Due          time.Time
	Priority     uint8
	TTL          time.Duration `json:"-"` // 0: no limit
	Attempt      int           // the number of the next try of one that waits, else of the last, 0 if there was none
	Retries      Schedule      `json:"retry"` // its own schedule of retries, empty for the topic's
	Refusals     uint32        // how often NATS refused it for good
	Uncertain    bool          // an attempt may have reached consumers
	Parked       string        // the lane in which the message is held back, or empty
	Why          Why           // why it is where it is
	LastTry      Try           `json:"last_try"` // zero if none ended in vain, or none is to come
	EndedAt      time.Time     `json:"ended_at"`
	Kind         string        // how it ended, if State does not say: merged, requeued and the like
	Other        string        // the uid of the message that it was merged into or continues as
	Reason       string
	Intake       string      // "unknown" if it has ended, and tarry's intake may hold a later push of its name
	Durable      string      // "redis" if the journal could not record it or its content
	Header       nats.Header `json:"headers"`
	Data         []byte      `json:"body_base64"`  // nil once tarry no longer keeps it, or where DataOmitted is set
	DataOmitted  bool        `json:"body_omitted"` // too large for an answer over NATS; HTTP has it whole
}

// Why says why a message is where it is. Word is for programs: not_due, retry, paused and the like, of the closed list
// in docs/why.md. Detail is for people. By is who or what holds the message.
type Why struct {
	Word, Detail, By string
	Since, Next      time.Time // zero if not known
}

// Try says how a try ended: when, whose it was if that is known, and what came of it, in words.
type Try struct {
	At          time.Time
	By, Outcome string
}

// Get looks a message up. It needs a running instance.
func (c *Client) Get(ctx context.Context, ref Ref) (Message, error) {
	var a struct {
		Message
		TTL  string
		Body *string
	}
	if err := c.steer(ctx, "get", ref, ref, &a, true); err != nil {
		return Message{}, err
	}
	m := a.Message
	if ttl, err := wire.ParseTTL(a.TTL); err == nil {
		m.TTL = ttl
	}
	if a.Body != nil {
		m.Data = []byte(*a.Body)
	}
	return m, nil
}

// Canceled describes a message that will not be delivered.
type Canceled struct {
	ID, UID string
	Topic   string
	Due     time.Time // when it would have been due
	At      time.Time // when it was canceled
	Version uint64
	Attempt int    // the number of its last try: consumers had it so often
	Intake  string // "unknown" if it was canceled before, and tarry's intake may hold a later push of its name
}

// Cancel cancels a waiting message. A nil error means that this delivery will not happen; earlier attempts of a message
// that a consumer sent back, or that was requeued, may have been delivered. A cancel of an unknown id is remembered if
// it names the topic: a push of that id that is in the intake stream by then is accepted as canceled. Every other
// outcome is a separate error: ErrAlreadyDelivered, ErrAlreadyExpired, ErrAlreadyDead, ErrInFlight, ErrMaybeDelivered,
// ErrUnknownID, ErrAmbiguousID. Repeating a cancel is safe, also after ErrOutcomeUnknown. It needs a running instance.
func (c *Client) Cancel(ctx context.Context, ref Ref) (Canceled, error) {
	var a Canceled
	if err := c.steer(ctx, "cancel", ref, ref, &a, true); err != nil {
		return Canceled{}, err
	}
	return a, nil
}

// Change describes a change of a waiting message. Fields that are nil leave the message's values. At most one of At,
// Delay and Shift may be set:
//
//	client.Reschedule(ctx, ref, tarry.Change{Delay: new(20 * time.Minute)})
type Change struct {
	At    *time.Time     `json:"at,omitempty"` // due then
	Delay *time.Duration `json:"-"`            // due that long from now
	Shift *time.Duration `json:"-"`            // due that much later than before, or earlier

	Priority *uint8      `json:"priority,omitempty"`
	Header   nats.Header `json:"headers,omitzero"`     // replaces the user's headers; an empty one leaves none
	Data     []byte      `json:"body_base64,omitzero"` // replaces the body

	// Version is the version that the message must have, as Get and every answer return it. If the message has another
	// version, the error is ErrVersionMismatch.
	Version *uint64 `json:"version,omitempty"`
}

// spans holds the durations of a Change in JSON.
type spans struct {
	Delay string `json:"delay,omitempty"`
	Shift string `json:"shift,omitempty"`
}

func (c *Change) spans() (s spans) {
	if c.Delay != nil {
		s.Delay = c.Delay.String()
	}
	if c.Shift != nil {
		s.Shift = c.Shift.String()
	}
	return s
}

// changeOf is a change of one message in JSON.
type changeOf struct {
	Ref
	spans
	Change
}

// Rescheduled describes a message as it waits after a change.
type Rescheduled struct {
	ID, UID  string
	Topic    string
	State    State
	Due      time.Time
	Priority uint8
	Version  uint64
}

// Reschedule changes a waiting message. A nil error means that it waits as requested. The following errors mean that
// nothing was changed: ErrInFlight, ErrMaybeDelivered, ErrVersionMismatch, ErrUnknownID, ErrAmbiguousID, and for a
// message that has ended ErrAlreadyDelivered and the like. It needs a running instance. If no answer arrived in time
// the error is ErrOutcomeUnknown; the same change may then be repeated, except a Shift without a Version, which would
// be applied twice.
func (c *Client) Reschedule(ctx context.Context, ref Ref, change Change) (Rescheduled, error) {
	return c.amend(ctx, "reschedule", ref, changeOf{ref, change.spans(), change},
		change.Shift == nil || change.Version != nil)
}

// Run makes a waiting message due now, with the answers of Reschedule.
func (c *Client) Run(ctx context.Context, ref Ref) (Rescheduled, error) {
	return c.amend(ctx, "run", ref, ref, true)
}

func (c *Client) amend(ctx context.Context, verb string, ref Ref, question any, again bool) (Rescheduled, error) {
	var a Rescheduled
	if err := c.steer(ctx, verb, ref, question, &a, again); err != nil {
		return Rescheduled{}, err
	}
	return a, nil
}

// Requeue gives a dead message another life: a new message waits under the same name with a new uid, and its attempts
// count from 1 again. Of the change it uses Delay, Header and Data. If the dead message may have been delivered, the
// new one is uncertain from the start, edited or not: Cancel, Reschedule and Run return ErrMaybeDelivered for it. The
// error is ErrNotDead for a message that is not dead, and ErrDuplicateID if another message has the name by now.
// Calling Requeue again is safe, also after ErrOutcomeUnknown: if the message was requeued before, the error is
// ErrNotDead. If an instance answered that the outcome is unknown, Error.UID is the uid of the new message: Get finds
// it if the message was requeued.
func (c *Client) Requeue(ctx context.Context, ref Ref, change Change) (Stored, error) {
	if change.At != nil || change.Shift != nil || change.Priority != nil || change.Version != nil {
		return Stored{}, refuseChange("of a dead message takes Delay, Header and Data alone")
	}
	var a pushAnswer
	o := a.outcome(c.steer(ctx, "dead_requeue", ref, changeOf{ref, change.spans(), change}, &a, false))
	return o.Stored, o.Err
}

// Selection selects waiting messages. A selection with neither a topic, a key nor a bound of due is refused unless All
// is set.
type Selection struct {
	Topic   string    `json:"topic,omitempty"` // a pattern with NATS's wildcards
	Key     string    `json:"key,omitempty"`   // exact
	DueFrom time.Time `json:"due_from,omitzero"`
	DueTo   time.Time `json:"due_to,omitzero"` // both inclusive; the zero time is no bound
	// AcceptedTo leaves out what was accepted later. With the time of a dry run, a call takes no more than that counted.
	AcceptedTo time.Time `json:"accepted_to,omitzero"`
	All        bool      `json:"all,omitempty"`
	DryRun     bool      `json:"dry_run,omitempty"` // only count
}

// Report is what an operation on many did, or in a dry run would do. Matches not counted here were not attempted
// because the operation stopped early.
type Report struct {
	Looked  int `json:"looked"`
	Matched int `json:"matched"`
	Done    int `json:"done"`
	// InFlight, MaybeDelivered and Ended were not changed as requested: they were being delivered, may have been
	// delivered, or had ended. For Failed the operation failed; some of them may have been changed only if the error is
	// ErrOutcomeUnknown.
	InFlight       int `json:"in_flight"`
	MaybeDelivered int `json:"maybe_delivered"`
	Ended          int `json:"ended"`
	Failed         int `json:"failed"`
	// Intake is "unknown" if tarry's intake may hold pushes from before the call, which were not looked at.
	Intake string `json:"intake"`
}

// CancelMany cancels the selected waiting messages. One instance works through all of them, in bounded steps, before it
// answers, which takes some seconds for a million. [WithTimeout] does not bound it; the context does, or ten minutes if
// it has no deadline. If the instance could not continue, Error.Report is what it had done; another call continues with
// the rest.
func (c *Client) CancelMany(ctx context.Context, sel Selection) (Report, error) {
	return c.many(ctx, "cancel_many", sel, Change{})
}

// RescheduleMany moves the selected waiting messages by the At, Delay or Shift of the change, in the same way as
// CancelMany. A change of anything else is refused. With Shift, another call moves the messages once more.
func (c *Client) RescheduleMany(ctx context.Context, sel Selection, change Change) (Report, error) {
	if change.Priority != nil || change.Header != nil || change.Data != nil || change.Version != nil {
		return Report{}, refuseChange("of many takes one of At, Delay and Shift alone")
	}
	return c.many(ctx, "reschedule_many", sel, change)
}

// manyTimeout bounds an operation on many whose context has no deadline. An instance stops working on one after that
// time, too.
const manyTimeout = 10 * time.Minute

func (c *Client) many(ctx context.Context, verb string, sel Selection, change Change) (Report, error) {
	sel.DueFrom = sel.DueFrom.UTC()
	sel.DueTo = sel.DueTo.UTC().Truncate(time.Millisecond) // the last millisecond that is selected
	sel.AcceptedTo = sel.AcceptedTo.UTC().Truncate(time.Millisecond)
	ctx, cancel := bounded(ctx, manyTimeout)
	defer cancel()
	question := struct {
		Selection
		spans
		Change
	}{sel, change.spans(), change}
	var r Report
	if err := c.call(ctx, verb, question, &r, false); err != nil {
		return Report{}, err
	}
	return r, nil
}

func refuseChange(detail string) error {
	return &Error{Word: wire.WordUnsupported, Field: "change", Detail: detail}
}

// check refuses a name that no message can have.
func (r Ref) check() error {
	err := wire.CheckID(r.ID)
	if err == nil && r.Topic != "" {
		err = wire.CheckSubject(r.Topic)
	}
	if err == nil && r.Key != "" {
		err = wire.CheckKey(r.Key)
	}
	if err != nil {
		return refusal(err)
	}
	return nil
}

// steer sends a request that concerns one message.
func (c *Client) steer(ctx context.Context, verb string, ref Ref, question, answer any, again bool) error {
	if err := ref.check(); err != nil {
		return err
	}
	ctx, cancel := bounded(ctx, c.timeout)
	defer cancel()
	return c.call(ctx, verb, question, answer, again)
}

// call sends a request to an instance, and repeats it after a lost answer if a repetition is harmless.
func (c *Client) call(ctx context.Context, verb string, question, answer any, again bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !again {
		return c.explain(c.exchange(ctx, verb, question, answer), false)
	}
	for lost := false; ; lost = true {
		err := c.request(ctx, verb, question, answer)
		if !isTimeout(err) || !pause(ctx) {
			return c.explain(err, lost)
		}
	}
}

// explain returns what the last error of a call means. An earlier request, whose answer was lost, may have taken
// effect.
func (c *Client) explain(err error, lost bool) error {
	var refused *Error
	switch {
	case isNoResponders(err) && !lost:
		return c.noInstance(err)
	case isTimeout(err), isNoResponders(err), lost && errors.Is(err, ErrVersionMismatch),
		errors.As(err, &refused) && refused.Word == "outcome_unknown":
		return unknown(err)
	}
	return err
}
