package ops

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Died selects dead messages.
type Died struct {
	Topic string `json:"topic" as:"pattern"`
	From  *When  `json:"from"` // bounds of the time of death; a duration counts back from now
	To    *When  `json:"to"`
}

func (in *Died) check() error { return checkDied(in.From, in.To) }

// DeadList asks for dead messages, in the order they died.
type DeadList struct {
	Died
	Cause string `json:"cause"`
	Page
}

// checkDied is checkRange for times of death: back from now, the longer duration is the earlier.
func checkDied(from, to *When) error {
	if from != nil && to != nil && from.Relative && to.Relative {
		from, to = to, from
	}
	return checkRange(from, to, FieldFrom, FieldTo)
}

// listing returns the request in the scheduler's form, with durations counted back from now.
func (in *DeadList) listing(now time.Time) (q scheduler.Listing, err error) {
	died, err := (&DeadOrder{From: in.From, To: in.To}).selection(now)
	return scheduler.Listing{Selection: scheduler.Selection{Topic: in.Topic, Cause: in.Cause},
		States: []message.State{message.StateDead}, DiedFrom: died.From, DiedTo: died.To}, err
}

// parseCause reads the name of a cause.
func parseCause(text string) (string, error) {
	if _, err := hex.DecodeString(text); err != nil || len(text) != message.CauseLen || text != strings.ToLower(text) {
		return "", wire.Invalid(FieldCause, fmt.Sprintf("%s is not the name of one, which are %d hexadecimal digits "+
			"of GET /v1/dead/groups", wire.Quote(text), message.CauseLen))
	}
	return text, nil
}

// MaxSpread bounds over how long the messages of one requeue are spread.
const MaxSpread = 24 * time.Hour

func parseSpread(text string) (time.Duration, error) {
	d, err := wire.ParseSpan(text, FieldSpread)
	if err == nil && d > MaxSpread {
		err = wire.Invalid(FieldSpread, fmt.Sprintf("is longer than %s", MaxSpread))
	}
	return d, err
}

// dead lists the dead messages of the topics that match a pattern, in the order of their death, without headers and
// bodies.
func (o *Ops) dead(ctx context.Context, _ *Caller, in *DeadList) (*MessageList, error) {
	mark := fmt.Sprintf("%q %q %q %q", in.Topic, in.Cause, in.From.text(), in.To.text())
	after, err := in.open(listDead, mark)
	if err != nil {
		return nil, err
	}
	q, err := in.listing(o.Now())
	if err != nil {
		return nil, err
	}
	page, err := o.listed(ctx, q, after, in.limit(), listMost)
	if errors.Is(err, scheduler.ErrBadCursor) { // forged, or made when the number of buckets was another
		err = badCursor(*in.Cursor)
	}
	a := &MessageList{Messages: []Info{}, Cursor: seal(listDead, mark, page.next)}
	for i := range page.found {
		page.found[i].Headers, page.found[i].Body = nil, nil
		a.Messages = append(a.Messages, InfoOf(&page.found[i]))
	}
	return a, err
}

// DeadOrder names dead messages, one or several, or selects them by topic and time of death, or all.
type DeadOrder struct {
	ID     *string        `json:"id"`
	Key    *string        `json:"key"`
	IDs    []string       `json:"ids"`
	Topic  string         `json:"topic" as:"pattern"` // of the one message, else a pattern
	From   *When          `json:"from"`               // bounds, both inclusive; a duration counts back from now
	To     *When          `json:"to"`
	Older  *time.Duration `json:"older"` // died at least that long ago
	Cause  string         `json:"cause"` // of one cause (message.Info.Cause)
	All    bool           `json:"all"`
	DryRun bool           `json:"dry_run"`
}

// selects reports whether the order selects messages by topic and time rather than naming them.
func (d *DeadOrder) selects() bool { return d.ID == nil && d.IDs == nil }

func (d *DeadOrder) check() error {
	bounded := d.ID == nil && d.Topic != "" || d.From != nil || d.To != nil || d.Older != nil || d.Cause != ""
	switch {
	case d.ID != nil && *d.ID == "":
		return wire.Invalid(wire.FieldID, "is empty")
	case d.IDs != nil && len(d.IDs) == 0:
		return wire.Invalid(FieldIDs, fmt.Sprintf("are empty; want 1 to %d", MaxIDs))
	case d.ID != nil && d.IDs != nil:
		return wire.Invalid(FieldIDs, "and id are both given; want one of them")
	case d.ID != nil && (bounded || d.All):
		return wire.Invalid(wire.FieldID, "and a topic, a time, a cause or all are both given; want one of them")
	case d.IDs != nil && (bounded || d.All):
		return wire.Invalid(FieldIDs, "and a topic, a time, a cause or all are both given; want one of them")
	case d.Key != nil && d.ID == nil:
		return &wire.Error{Word: wire.WordKey, Field: wire.FieldKey, Detail: "requires exactly one id"}
	case d.selects() && !bounded && !d.All:
		return &wire.Error{Word: WordSelection, Field: "order",
			Detail: `is empty; want an id, ids, a topic, a cause, from, to or older, or "all":true for every dead message`}
	case d.Older != nil && (d.From != nil || d.To != nil):
		return wire.Invalid(FieldOlder, "and from and to exclude each other")
	case !d.selects() && d.DryRun:
		return wire.Invalid(FieldDryRun, "requires a selection, which it counts; here every message is named")
	}
	if d.ID != nil && d.Topic != "" {
		if err := wire.CheckSubject(d.Topic); err != nil {
			return err
		}
	}
	return checkDied(d.From, d.To)
}

// selection returns a selection of dead messages in the scheduler's form, with durations counted back from now.
func (d *DeadOrder) selection(now time.Time) (sel scheduler.Selection, err error) {
	sel = scheduler.Selection{Topic: d.Topic, Cause: d.Cause, DryRun: d.DryRun}
	var from, to *time.Time
	if d.From != nil {
		from = new(d.From.Ago(now))
	}
	if d.To != nil {
		to = new(d.To.Ago(now))
	}
	if d.Older != nil {
		to = new(now.Add(-*d.Older))
	}
	return sel, bounds(&sel, from, to, FieldFrom, FieldTo)
}

// Requeue pushes dead messages again.
type Requeue struct {
	DeadOrder
	scheduler.Requeue
}

func (in *Requeue) check() error {
	if err := in.DeadOrder.check(); err != nil {
		return err
	}
	switch {
	case in.ID == nil && in.Headers != nil:
		return &wire.Error{Word: wire.WordHeader, Field: wire.FieldHeaders, Detail: "require exactly one id"}
	case in.Spread > 0 && !in.selects():
		return wire.Invalid(FieldSpread, "requires a selection; here every message is named")
	case in.ID == nil && in.Body != nil:
		return &wire.Error{Word: WordBody, Field: wire.FieldBody, Detail: "requires exactly one id"}
	}
	return nil
}

// requeue pushes dead messages again.
func (o *Ops) requeue(ctx context.Context, by *Caller, in *Requeue) (any, error) {
	if err := by.mayEdit(in.Headers != nil, in.Body != nil); err != nil {
		return nil, err
	}
	how := in.Requeue
	how.Fit = o.Limits()
	return o.orderly(ctx, by, &in.DeadOrder, "requeue", o.requeueing,
		func(ctx context.Context, sel scheduler.Selection, progress func(scheduler.Report)) (scheduler.Report, error) {
			return o.Service.RequeueMany(ctx, sel, how, progress)
		}, func(ctx context.Context, ref scheduler.Ref) (DeadResult, error) {
			accepted, err := o.Service.RequeueOne(ctx, ref, how)
			accepted.Err = err
			result := Requeued(ref, accepted)
			if result.Problem != nil {
				return DeadResult{}, fmt.Errorf("%w: %w", err, &Refused{*result.Problem})
			}
			return DeadResult{UID: result.Answer.UID, Due: FormatTime(result.Answer.Due), State: result.Answer.State,
				Durable: o.Durable}, nil
		})
}

// purge removes dead messages for good.
func (o *Ops) purge(ctx context.Context, by *Caller, in *DeadOrder) (any, error) {
	return o.orderly(ctx, by, in, "purge", o.purging, o.Service.PurgeMany,
		func(ctx context.Context, ref scheduler.Ref) (DeadResult, error) {
			return DeadResult{Purged: true}, o.Service.PurgeOne(ctx, ref)
		})
}

// deadAtOnce is the number of messages of one request that are processed concurrently: each may wait for the journal.
const deadAtOnce = 16

// Results has an outcome or a problem for each of several, in order.
type Results struct {
	Results []any `json:"results"`
}

// orderly does what an order asks for: of a selection, which is long, or of each of the named dead messages. For a
// single message the status is its result. For several messages the answer has a result for each, in order, and a
// refusal does not affect the others.
func (o *Ops) orderly(ctx context.Context, by *Caller, in *DeadOrder, what string, kind exclusive,
	all func(context.Context, scheduler.Selection, func(scheduler.Report)) (scheduler.Report, error),
	one func(context.Context, scheduler.Ref) (DeadResult, error)) (any, error) {
	if in.selects() {
		selected, err := in.selection(o.Now())
		if err != nil {
			return nil, err
		}
		return o.many(ctx, by, kind, what, selected,
			func(ctx context.Context, progress func(scheduler.Report)) (scheduler.Report, error) {
				return all(ctx, selected, progress)
			})
	}
	ctx, stop := context.WithTimeout(ctx, o.Timeout)
	defer stop()
	if in.ID != nil {
		ref, err := Ref(Named{ID: *in.ID, Topic: in.Topic, Key: in.Key})
		if err != nil {
			return nil, err
		}
		o.Begin(ctx, by.Audit(what, false).Str("id", *in.ID))
		done, err := one(ctx, ref)
		done.ID = *in.ID
		return done, err
	}
	o.Begin(ctx, by.Audit(what, false).Int("ids", len(in.IDs)))
	results := make([]any, len(in.IDs))
	each := func(id string) any {
		ref, err := Ref(Named{ID: id})
		if err == nil && ctx.Err() != nil { // the messages before it used up the time
			err = fmt.Errorf("%w: not attempted within %s", scheduler.ErrUnavailable, o.Timeout)
		}
		var done DeadResult
		if err == nil {
			done, err = one(ctx, ref)
		}
		if done.ID = id; err != nil {
			p := o.Judge(by, err)
			p.ID = id
			return p
		}
		return done
	}
	var (
		work  Together
		slots = make(chan struct{}, deadAtOnce)
	)
	for i, id := range in.IDs {
		slots <- struct{}{}
		work.Go(func() { // ends with its call, which ctx bounds
			defer func() { <-slots }()
			results[i] = each(id)
		})
	}
	work.Wait()
	return Results{results}, nil
}
