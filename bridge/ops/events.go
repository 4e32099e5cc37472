package ops

import (
	"context"
	"fmt"
	"slices"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
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
	Who   *string `json:"who"`  // whose token; nil for all
	What  *string `json:"what"` // the operation; nil for all
	Limit *int    `json:"limit"`
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

// ActionList is what operators did, the last first. Each instance keeps its last actions.
type ActionList struct {
	Actions []Action `json:"actions"`
	Missing []string `json:"missing"` // instances that did not answer
}

// Action is what an operator did, as the log has it.
type Action struct {
	At       message.Milli  `json:"at"`
	Who      string         `json:"who"`
	From     string         `json:"from"` // its address
	Instance string         `json:"instance"`
	What     string         `json:"what"`
	DryRun   bool           `json:"dry_run,omitempty"`
	On       map[string]any `json:"on"`                // on what, and how much of it was done
	Problem  string         `json:"problem,omitempty"` // the word of the refusal, empty if it was done
	TookMS   int64          `json:"took_ms"`
}

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
	all, err := o.actions.get(ctx, nil, viewsKeep, o.Timeout, func(ctx context.Context) (a ActionList, err error) {
		a.Actions, a.Missing, err = o.Actions(ctx)
		return a, err
	})
	return &ActionList{first(all.Actions, in.Limit, func(a *Action) bool {
		return (in.Who == nil || a.Who == *in.Who) && (in.What == nil || a.What == *in.What)
	}), append([]string{}, all.Missing...)}, err
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
