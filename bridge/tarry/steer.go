package tarry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// Change is what to change of a waiting message; what is not given stays. At most one of At, Delay and Shift:
//
//	conn.Reschedule(ctx, ref, tarry.Change{Delay: new(20 * time.Minute)})
type Change struct {
	At    time.Time      // due then; the zero time is not asked for
	Delay *time.Duration // due that long from now
	Shift time.Duration  // due that much later, or earlier than before; 0 is not asked for

	Priority *uint8
	Header   nats.Header // replaces the user's headers; nil stays, an empty one leaves none
	Data     []byte      // replaces the body; nil stays

	// Version is the version that the message must have, as Get and every answer return it; 0 is any. If the message
	// was changed meanwhile the answer is ErrVersion.
	Version uint64
}

// Rescheduled is a message as it waits after a change.
type Rescheduled struct {
	ID, UID  string
	Topic    string
	State    string
	Due      time.Time
	Priority uint8
	Version  uint64
}

// change is Change in JSON.
type change struct {
	Ref
	At       string       `json:"at,omitempty"`
	Delay    string       `json:"delay,omitempty"`
	Shift    string       `json:"shift,omitempty"`
	Priority *uint8       `json:"priority,omitempty"`
	Headers  *nats.Header `json:"headers,omitempty"`
	Body     *[]byte      `json:"body_base64,omitempty"`
	Version  uint64       `json:"version,omitempty"`
}

func (c *Change) json(ref Ref) change {
	r := change{Ref: ref, Priority: c.Priority, Version: c.Version}
	r.At, r.Delay, r.Shift = c.when()
	if c.Header != nil {
		r.Headers = &c.Header
	}
	if c.Data != nil {
		r.Body = &c.Data
	}
	return r
}

func (c *Change) when() (at, delay, shift string) {
	if !c.At.IsZero() {
		at = c.At.UTC().Format(time.RFC3339Nano)
	}
	if c.Delay != nil {
		delay = c.Delay.String()
	}
	if c.Shift != 0 {
		shift = c.Shift.String()
	}
	return at, delay, shift
}

// Reschedule changes a waiting message. A nil error means that it waits as asked; any other case has an error of its
// own and changed nothing: ErrInFlight, ErrMaybeDelivered, ErrVersion, ErrUnknownID, ErrAmbiguousID, and
// ErrAlreadyDelivered and the like for what has ended. It needs a running instance. Where no answer came in time the
// error is ErrOutcomeUnknown; the same change may be asked for again, but for a Shift without a Version, which would
// count twice.
func (c *Client) Reschedule(ctx context.Context, ref Ref, change Change) (Rescheduled, error) {
	return c.amend(ctx, "reschedule", ref, change.json(ref), change.Shift == 0 || change.Version > 0)
}

// Run makes a waiting message due now, with the answers of Reschedule.
func (c *Client) Run(ctx context.Context, ref Ref) (Rescheduled, error) {
	return c.amend(ctx, "run", ref, ref, true)
}

// amend asks for a change, again after a lost answer where twice is as good as once.
func (c *Client) amend(ctx context.Context, verb string, ref Ref, question any, again bool) (Rescheduled, error) {
	if err := cmp.Or(ref.check(), ctx.Err()); err != nil {
		return Rescheduled{}, err
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	for lost := false; ; {
		var a struct {
			ID, UID, Topic, State, Due string
			Priority                   uint8
			Version                    uint64
		}
		err := c.request(ctx, verb, question, &a)
		switch {
		case err == nil:
			return Rescheduled{ID: a.ID, UID: a.UID, Topic: a.Topic, State: a.State, Due: moment(a.Due),
				Priority: a.Priority, Version: a.Version}, nil
		case isNoResponders(err) && !lost:
			return Rescheduled{}, c.noInstance(err)
		case isTimeout(err) && again && pause(ctx):
			lost = true
			continue
		// the first may have changed it
		case isTimeout(err), isNoResponders(err), lost && errors.Is(err, ErrVersion), isUnknown(err):
			err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		return Rescheduled{}, err
	}
}

// isUnknown reports whether an instance itself does not know what came of a request.
func isUnknown(err error) bool {
	var refused *Error
	return errors.As(err, &refused) && refused.Word == "outcome_unknown"
}

// Selection picks waiting messages. Without a topic, a key and a bound of due it is refused, unless it says All.
type Selection struct {
	Topic          string    // a pattern with NATS's wildcards
	Key            string    // exact
	DueFrom, DueTo time.Time // both inclusive; the zero time is no bound
	All            bool
	DryRun         bool // only count
}

// Report is what an operation on many did, or in a dry run would do. Matches not counted elsewhere were not attempted
// because the operation stopped early.
type Report struct {
	Looked  int `json:"looked"`
	Matched int `json:"matched"`
	Done    int `json:"done"`
	// InFlight, MaybeDelivered and Ended were not changed as asked: they were being delivered, may have been delivered,
	// or had ended. Failed could not be asked; only beside ErrOutcomeUnknown may some of them have been changed.
	InFlight       int `json:"in_flight"`
	MaybeDelivered int `json:"maybe_delivered"`
	Ended          int `json:"ended"`
	Failed         int `json:"failed"`
}

// selection is Selection in JSON, with what reschedules it.
type selection struct {
	Topic   string `json:"topic,omitempty"`
	Key     string `json:"key,omitempty"`
	DueFrom string `json:"due_from,omitempty"`
	DueTo   string `json:"due_to,omitempty"`
	All     bool   `json:"all,omitempty"`
	DryRun  bool   `json:"dry_run,omitempty"`
	At      string `json:"at,omitempty"`
	Delay   string `json:"delay,omitempty"`
	Shift   string `json:"shift,omitempty"`
}

func (s *Selection) json() selection {
	r := selection{Topic: s.Topic, Key: s.Key, All: s.All, DryRun: s.DryRun}
	if !s.DueFrom.IsZero() {
		r.DueFrom = s.DueFrom.UTC().Format(time.RFC3339Nano)
	}
	if !s.DueTo.IsZero() {
		// down to the millisecond: it is the last one taken
		r.DueTo = s.DueTo.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	return r
}

// manyTimeout bounds an operation on many whose context has no deadline. An instance stops working on one then, too.
const manyTimeout = 10 * time.Minute

// CancelMany cancels the waiting messages that are selected. One instance works through all of them before it answers,
// in bounded steps, which takes some seconds for a million; [Timeout] does not bound it, but the context does, else ten
// minutes. Where an instance could not go on, Error.Report is what was done; asking again goes on with the rest.
func (c *Client) CancelMany(ctx context.Context, sel Selection) (Report, error) {
	return c.many(ctx, "cancel_many", sel.json())
}

// RescheduleMany moves the waiting messages that are selected by the At, Delay or Shift of the change, as CancelMany
// cancels them; a change of anything else is refused. With Shift, asking again moves what was moved once more.
func (c *Client) RescheduleMany(ctx context.Context, sel Selection, change Change) (Report, error) {
	if change.Priority != nil || change.Header != nil || change.Data != nil || change.Version > 0 {
		return Report{}, &Error{Word: wire.WordUnsupported, Field: "change",
			Detail: "of many takes one of At, Delay and Shift alone"}
	}
	question := sel.json()
	question.At, question.Delay, question.Shift = change.when()
	return c.many(ctx, "reschedule_many", question)
}

func (c *Client) many(ctx context.Context, verb string, question selection) (Report, error) {
	if _, ok := ctx.Deadline(); !ok {
		bounded, cancel := context.WithTimeout(ctx, manyTimeout)
		defer cancel()
		ctx = bounded
	}
	var r Report
	if err := c.once(ctx, verb, question, &r); err != nil {
		return Report{}, err
	}
	return r, nil
}

// once asks for what must not be asked for twice.
func (c *Client) once(ctx context.Context, verb string, question, answer any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := c.exchange(ctx, verb, question, answer)
	switch {
	case isNoResponders(err):
		return c.noInstance(err)
	case isTimeout(err), isUnknown(err):
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return err
}

// Requeue is how a dead message gets another life.
type Requeue struct {
	Delay  time.Duration
	Header nats.Header // replaces the user's headers; nil stays
	Data   []byte      // replaces the body; nil stays
}

// Requeue gives a dead message another life: it waits under the same name with a uid of its own, and its attempts count
// from 1 again. Where the dead one may have been delivered the new one is uncertain from the start, edited or not:
// Cancel, Reschedule and Run of it answer ErrMaybeDelivered. What is not dead is ErrNotDead; a message whose name
// another message has by now is ErrDuplicateID. Requeueing is idempotent, also after ErrOutcomeUnknown: the dead
// message is then gone, which is ErrNotDead. If the unknown outcome is an instance's answer, Error.UID is the new
// message's, for Get: it is there if it was requeued.
func (c *Client) Requeue(ctx context.Context, ref Ref, how Requeue) (Receipt, error) {
	if err := ref.check(); err != nil {
		return Receipt{}, err
	}
	question := (&Change{Header: how.Header, Data: how.Data}).json(ref)
	if how.Delay != 0 {
		question.Delay = how.Delay.String()
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var a pushAnswer
	if err := c.once(ctx, "dead_requeue", question, &a); err != nil {
		return Receipt{}, err
	}
	return a.receipt()
}
