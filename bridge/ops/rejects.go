package ops

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// RejectPage asks for rejects.
type RejectPage struct {
	Topic string  `json:"topic" as:"pattern"`
	ID    *string `json:"id"`               // as the push named it, which may be anything
	Word  *string `json:"reason" as:"word"` // of the problem
	Page
}

func (in *RejectPage) check() error {
	switch {
	case in.ID != nil && *in.ID == "":
		return wire.Invalid(wire.FieldID, "is empty")
	case in.Word != nil && *in.Word == "":
		return Refuse(http.StatusBadRequest, wire.WordReason, "reason is empty; it is a word such as %s", wire.WordDelay)
	}
	return nil
}

// rejects lists the rejects, oldest first. A token without the read right sees only the topics that it may push to.
func (o *Ops) rejects(ctx context.Context, by *Caller, in *RejectPage) (*RejectList, error) {
	q := RejectQuery{Limit: in.limit(), See: by.sight(), Topic: in.Topic}
	if in.ID != nil {
		q.ID = *in.ID
	}
	if in.Word != nil {
		q.Word = *in.Word
	}
	mark := fmt.Sprintf("%q %q %q", q.Topic, q.ID, q.Word)
	next, err := in.open(listRejects, mark)
	if err == nil && next != "" {
		if q.From, err = strconv.ParseUint(next, 10, 64); err != nil {
			err = badCursor(*in.Cursor)
		}
	}
	if err != nil {
		return nil, err
	}
	page, from, err := o.Rejects.List(ctx, q)
	a := &RejectList{Rejects: append([]Rejected{}, page...)}
	if from != 0 {
		a.Cursor = seal(listRejects, mark, strconv.FormatUint(from, 10))
	}
	return a, err
}

// RejectName names one reject.
type RejectName struct {
	Sequence uint64 `json:"sequence"`
}

// reject answers with one reject, including headers and body.
func (o *Ops) reject(ctx context.Context, by *Caller, in *RejectName) (*Rejected, error) {
	one, err := o.Rejects.Get(ctx, in.Sequence)
	if !by.MaySee() {
		one.Headers, one.Body, one.BodyBase64 = nil, nil, nil
	}
	return &one, err
}

// RejectOrder selects the rejects to push again, and says with what changes.
type RejectOrder struct {
	Sequence  uint64        `json:"sequence"`  // one, or
	Sequences []uint64      `json:"sequences"` // several
	Topic     string        `json:"topic"`     // replaces the topic that was sent; empty: unchanged
	Set       []wire.Header `json:"set"`       // replace the headers of the same name
	Drop      []string      `json:"drop"`      // removed headers
}

// maxChanges is the maximum number of headers that an order changes.
const maxChanges = 100

func (in *RejectOrder) check() error {
	switch {
	case in.Sequence == 0 && len(in.Sequences) == 0:
		return wire.Invalid(FieldSequence, "is missing; want a sequence, or sequences, as the list of rejects has them")
	case in.Sequence != 0 && in.Sequences != nil:
		return wire.Invalid(FieldSequences, "and sequence are both given; want one of them")
	}
	return nil
}

func parseSequence(name, text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return 0, wire.Invalid(name, wire.Quote(text)+" is not a whole number from 1")
	}
	return n, nil
}

// Change returns headers with the order's changes applied; names match without case.
func (in *RejectOrder) Change(headers map[string][]string) map[string][]string {
	out := make(map[string][]string, len(headers)+len(in.Set))
	for name, values := range headers {
		if !slices.ContainsFunc(in.Drop, func(d string) bool { return strings.EqualFold(d, name) }) &&
			!slices.ContainsFunc(in.Set, func(s wire.Header) bool { return strings.EqualFold(s.Name, name) }) {
			out[name] = values
		}
	}
	for _, s := range in.Set {
		out[s.Name] = []string{s.Value}
	}
	return out
}

// refusedReject is a reject that was refused again. It stays in the stream.
type refusedReject struct {
	Sequence uint64 `json:"sequence"`
	Problem
}

// requeueRejects pushes rejects again, with the order's changes applied. An accepted push is removed from the rejects.
func (o *Ops) requeueRejects(ctx context.Context, by *Caller, in *RejectOrder) (any, error) {
	if in.Topic != "" {
		if err := wire.CheckTarget(in.Topic, o.Prefix); err != nil {
			return nil, err
		}
	}
	all := in.Sequences
	line := by.Audit("requeue rejects", false)
	if all == nil {
		all = []uint64{in.Sequence}
		line.Str("sequence", strconv.FormatUint(in.Sequence, 10))
	} else {
		all = once(all)
		line.Int("sequences", len(all))
	}
	o.Begin(ctx, line)
	hold := func(bytes int64) error {
		if o.Hold == nil {
			return nil
		}
		return o.Hold(by.Holder, bytes)
	}
	var (
		results = make([]any, len(all))
		failed  error // of the last
		away    error // set once the stream of rejects fails: each further call would wait as long
		done    int
		held    int64 // of bodies, in bytes
	)
	release := func() {
		_ = hold(-held) // giving back cannot fail
		held = 0
	}
	defer release()
	refuse := func(i int, err error) {
		results[i], failed = refusedReject{all[i], *o.Judge(by, err)}, err
	}
	for next := 0; next < len(all); {
		var (
			pushes []*scheduler.Push
			places []int // of pushes among results
		)
		// As many as a request may hold, so that a thousand of the largest are not in memory at once.
		for ; next < len(all) && held < o.HoldLimit; next++ {
			if away != nil {
				refuse(next, away)
				continue
			}
			p, err := o.again(ctx, by, all[next], in)
			if errors.Is(err, scheduler.ErrUnavailable) {
				away = err
			}
			if err == nil {
				err = hold(int64(len(p.Body)))
			}
			if err != nil {
				refuse(next, err)
				continue
			}
			held += int64(len(p.Body))
			pushes, places = append(pushes, p), append(places, next)
		}
		accepted := []scheduler.Accepted{}
		if len(pushes) > 0 {
			accepted = o.Service.AcceptAll(ctx, pushes)
		}
		release()
		for n, a := range accepted {
			i := places[n]
			result := Accepted(a, o.Durable)
			if result.Problem != nil {
				refuse(i, &Refused{*result.Problem})
				continue
			}
			done++
			kept := away
			if away == nil {
				if kept = o.Rejects.Drop(ctx, all[i]); kept != nil {
					o.Log.Warn().Err(kept).Uint64("sequence", all[i]).Msg(
						"a reject that was pushed again could not be removed")
				}
				if errors.Is(kept, scheduler.ErrUnavailable) {
					away = kept
				}
			}
			results[i] = RequeuedReject{
				Sequence: all[i], ID: result.Answer.ID, UID: result.Answer.UID,
				Due: FormatTime(result.Answer.Due), State: result.Answer.State,
				Durable: result.Answer.Durable, Duplicate: result.Answer.Duplicate, Merged: result.Answer.Merged,
				Kept: kept != nil,
			}
		}
	}
	line.Int("done", done)
	if in.Sequences != nil {
		return Results{results}, nil
	}
	return results[0], failed
}

// once returns the numbers in their order, each once.
func once(all []uint64) []uint64 {
	seen := make(map[uint64]bool, len(all))
	return slices.DeleteFunc(slices.Clone(all), func(n uint64) bool {
		again := seen[n]
		seen[n] = true
		return again
	})
}

// again returns a reject as a push that the caller may make. Rejects of topics to which the caller may not push appear
// not to exist.
func (o *Ops) again(ctx context.Context, by *Caller, sequence uint64, in *RejectOrder) (*scheduler.Push, error) {
	if by.limited() {
		one, err := o.Rejects.Get(ctx, sequence)
		if err == nil && !by.Token.pushes(one.Topic) {
			err = ErrUnknownReject
		}
		if err != nil {
			return nil, err
		}
	}
	push, err := o.Rejects.Push(ctx, sequence, in)
	if err != nil {
		return nil, err
	}
	if in.Topic != "" {
		return push, by.MayPush(push.Topic)
	}
	return push, by.mayChange(push.Topic)
}
