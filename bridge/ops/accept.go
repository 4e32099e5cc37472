package ops

import (
	"context"

	"github.com/tarry-mq/tarry/scheduler"
)

// Accept stores the messages of pushes and returns the outcome of each, in order. A refused push does not affect the
// others.
func (o *Ops) Accept(ctx context.Context, by *Caller, items ...PushItem) []Result {
	var (
		results = make([]Result, len(items))
		pushes  = make([]*scheduler.Push, 0, len(items))
		places  = make([]int, 0, len(items)) // of pushes among results
	)
	for i := range items {
		if err := o.MayAccept(by, &items[i]); err != nil {
			results[i].Problem = o.Judge(by, err)
			continue
		}
		pushes, places = append(pushes, Push(&items[i].Push, items[i].Body)), append(places, i)
	}
	if len(pushes) > 0 {
		for i, accepted := range o.Service.AcceptAll(ctx, pushes) {
			results[places[i]] = Accepted(accepted, o.Durable)
		}
	}
	return results
}

// MayAccept refuses a push that cannot be read, that the caller may not make or that is beyond the limits.
func (o *Ops) MayAccept(by *Caller, item *PushItem) error {
	if item.Err != nil {
		return item.Err
	}
	if err := by.MayPush(item.Push.Topic); err != nil {
		return err
	}
	return o.Limits().Check(&item.Push, len(item.Body))
}
