package ops

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// MaxGroups is how many groups an answer has, and maxReady how many topics are looked at for ready messages.
const (
	MaxGroups = 100
	maxReady  = 10_000
)

// HeldList is what holds messages back that are due, and pushes that are no messages yet, the most first.
type HeldList struct {
	Groups []scheduler.HeldGroup `json:"groups"`
	More   bool                  `json:"more"` // there are more groups, or topics that were not looked at
}

// parseHeld reads the word of a group.
func parseHeld(text string) (string, error) {
	words := []message.WhyWord{message.WhyPaused, message.WhyRate, message.WhyCatchUp, message.WhyNoListener,
		message.WhyStream, message.WhyUnpulled, message.WhyWebhook}
	if slices.Contains(words, message.WhyWord(text)) {
		return text, nil
	}
	return "", wire.Invalid(FieldHeld, fmt.Sprintf("%s is unknown; want one of %v", wire.Quote(text), words))
}

// viewsKeep is how long viewers of the same share a reading.
const viewsKeep = 2 * time.Second

// held lists what holds messages back that are due, and topics whose messages wait to be pulled.
func (o *Ops) held(ctx context.Context, _ *Caller, _ *Nothing) (*HeldList, error) {
	return o.groups.get(ctx, nil, viewsKeep, o.Timeout, o.readHeld)
}

func (o *Ops) readHeld(ctx context.Context) (*HeldList, error) {
	lanes, err := o.Service.HeldLanes(ctx)
	if err != nil {
		return nil, err
	}
	ready, whole, err := o.Service.ReadyTopics(ctx, maxReady)
	if err != nil {
		return nil, err
	}
	all := append(append([]scheduler.HeldGroup{}, lanes...), ready...)
	pushes := map[string]message.WhyWord{CondIntakeWaits: message.WhyInIntake, CondSetAside: message.WhySetAside}
	for _, c := range o.Overview(ctx).Conditions { // a push that is no message yet is stuck all the same
		if word := pushes[c.Word]; word != "" {
			all = append(all, scheduler.HeldGroup{Name: "intake", Count: c.Count,
				Why: message.Why{Word: word, Detail: c.Detail, Since: c.Since}})
		}
	}
	slices.SortStableFunc(all, func(x, y scheduler.HeldGroup) int { return y.Count - x.Count })
	return &HeldList{Groups: all[:min(len(all), MaxGroups)], More: !whole || len(all) > MaxGroups}, nil
}
