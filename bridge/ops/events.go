package ops

import (
	"context"
	"fmt"
	"slices"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// EventsAsked asks what happened.
type EventsAsked struct {
	Kind  scheduler.EventKind `json:"kind"` // empty for all
	Limit *int                `json:"limit"`
}

func parseKind(text string) (scheduler.EventKind, error) {
	kinds := scheduler.EventKinds()
	if slices.Contains(kinds, scheduler.EventKind(text)) {
		return scheduler.EventKind(text), nil
	}
	return "", wire.Invalid(FieldKind, fmt.Sprintf("%s is unknown; want one of %v", wire.Quote(text), kinds))
}

// EventList is what happened, the last first. Each instance keeps its last events.
type EventList struct {
	Events  []scheduler.Event `json:"events"`
	Missing []string          `json:"missing"` // instances that did not answer
}

// ActionsAsked asks what operators did.
type ActionsAsked struct {
	Page
	Who  *string `json:"who"`  // whose token; nil for all
	What *string `json:"what"` // the operation; nil for all
}

func (in *ActionsAsked) check() error {
	switch {
	case in.Who != nil && *in.Who == "":
		return wire.Invalid(FieldWho, "is empty; it is the name of a token")
	case in.What != nil && *in.What == "":
		return wire.Invalid(FieldWhat, "is empty; it is an operation such as pause")
	}
	return nil
}

// ActionList is what operators did, the last first: what the journal has, and each instance's last actions. Cursor asks
// for the next page; the last page has none.
type ActionList struct {
	Actions []record.Action `json:"actions"`
	Missing []string        `json:"missing"` // instances that did not answer, or the journal
	Cursor  string          `json:"cursor,omitempty"`
}

// missingJournal stands for the journal among what did not answer.
const missingJournal = "the journal"

// eventsOf returns the events of all instances that are asked for.
func (o *Ops) eventsOf(ctx context.Context, _ *Caller, in *EventsAsked) (*EventList, error) {
	all, err := o.events.get(ctx, nil, viewsKeep, o.Timeout, func(ctx context.Context) (a EventList, err error) {
		a.Events, a.Missing, err = o.Events(ctx)
		return a, err
	})
	return &EventList{first(all.Events, in.Limit, func(e *scheduler.Event) bool {
		return in.Kind == "" || e.Kind == in.Kind
	}), append([]string{}, all.Missing...)}, err
}

func (o *Ops) actionsOf(ctx context.Context, _ *Caller, in *ActionsAsked) (*ActionList, error) {
	q := record.ActionQuery{Limit: in.limit() + 1} // one more shows that there is a next page
	if in.Who != nil {
		q.Who = *in.Who
	}
	if in.What != nil {
		q.What = *in.What
	}
	mark := q.Who + "\x00" + q.What
	after, err := in.open(listActions, mark)
	if err != nil {
		return nil, err
	}
	if after != "" {
		if _, err := fmt.Sscanf(after, "%d %s", &q.Before, &q.BeforeID); err != nil {
			return nil, badCursor(*in.Cursor)
		}
	}
	told, err := o.actions.get(ctx, nil, viewsKeep, o.Timeout, func(ctx context.Context) (a ActionList, err error) {
		a.Actions, a.Missing, err = o.Actions(ctx)
		return a, err
	})
	if err != nil {
		return nil, err
	}
	a := &ActionList{Actions: []record.Action{}, Missing: append([]string{}, told.Missing...)}
	for i := range told.Actions {
		if q.Takes(&told.Actions[i]) {
			a.Actions = append(a.Actions, told.Actions[i])
		}
	}
	if o.Journal != nil {
		written, err := o.Journal.Actions(ctx, q)
		if a.Actions = append(a.Actions, written...); err != nil {
			a.Missing = append(a.Missing, missingJournal)
		}
	}
	slices.SortFunc(a.Actions, func(x, y record.Action) int { return x.Compare(&y) })
	a.Actions = slices.CompactFunc(a.Actions, func(x, y record.Action) bool { return x.ID == y.ID })
	if len(a.Actions) >= q.Limit {
		last := &a.Actions[q.Limit-2]
		a.Actions, a.Cursor = a.Actions[:q.Limit-1], seal(listActions, mark, fmt.Sprintf("%d %s", last.At, last.ID))
	}
	return a, nil
}

// first returns the first of those that are wanted.
func first[T any](all []T, limit *int, wanted func(*T) bool) []T {
	some := []T{}
	for i := range all {
		if len(some) < (&Page{Limit: limit}).limit() && wanted(&all[i]) {
			some = append(some, all[i])
		}
	}
	return some
}
