package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// refused are three rejects; of the pushes again each ends as the scripted scheduler answers its id.
type refused struct{}

func (refused) all() []ops.Rejected {
	text := "order 7131\nsecond line"
	at := someDue
	return []ops.Rejected{
		{Sequence: 3, At: at, Topic: "orders.remind", ID: "order-7131", Word: "invalid_delay",
			Detail: `Tarry-Delay "tomorrow" is no duration`, Size: len(text),
			Headers: map[string][]string{"Tarry-Delay": {"tomorrow"}, "Tarry-Id": {"order-7131"},
				"X-Shop": {"7", "8"}}, Body: &text},
		{Sequence: 5, At: at, Topic: "orders.remind", ID: "again", Word: "unknown_header", Detail: "Tarry-\x1bDealy",
			Size: 1, BodyBase64: []byte{0xff}},
		{Sequence: 8, At: at, Topic: "mail.in", Word: "too_large", Detail: "body", Incomplete: true},
	}
}

func (r refused) List(_ context.Context, q ops.RejectQuery) (page []ops.Rejected, next uint64, err error) {
	if q.Topic == "down" {
		return nil, 0, scheduler.ErrUnavailable
	}
	for _, one := range r.all() {
		if one.Headers, one.Body, one.BodyBase64 = nil, nil, nil; one.Sequence >= q.From && q.Selects(&one) {
			if len(page) == q.Limit {
				return page, one.Sequence, nil
			}
			page = append(page, one)
		}
	}
	return page, 0, nil
}

func (r refused) Get(_ context.Context, sequence uint64) (ops.Rejected, error) {
	all := r.all()
	if i := slices.IndexFunc(all, func(one ops.Rejected) bool { return one.Sequence == sequence }); i >= 0 {
		return all[i], nil
	}
	return ops.Rejected{}, ops.ErrUnknownReject
}

func (r refused) Push(ctx context.Context, sequence uint64, o *ops.RejectOrder) (*scheduler.Push, error) {
	one, err := r.Get(ctx, sequence)
	switch {
	case err != nil:
		return nil, err
	case one.Incomplete:
		return nil, ops.ErrIncompleteReject
	}
	p, err := wire.Decode("delayed."+one.Topic, "delayed", o.Change(one.Headers), one.Size)
	if err != nil {
		return nil, err
	}
	if p.ID == "" {
		p.ID = one.ID
	}
	return &scheduler.Push{Topic: one.Topic, ID: p.ID, Delay: time.Hour}, nil
}

func (refused) Drop(_ context.Context, sequence uint64) error {
	if sequence == 5 {
		return scheduler.ErrUnavailable
	}
	return nil
}

func TestRejected_ExitsByWhatBecameOfThem(t *testing.T) {
	t.Parallel()
	environ := serve(t, api.Config{Config: ops.Config{Service: scripted{}, Rejects: refused{}}})
	tarry(t, "", environ, "rejected", "requeue", "3", "--delay", "20m").want(t, exitDone,
		"3 is accepted as order-7131, due 2030-01-31T08:00:00.000Z")
	tarry(t, "", environ, "rejected", "requeue", "99").want(t, exitNotFound, "no rejected push has this sequence")
	tarry(t, "", environ, "rejected", "requeue", "3").want(t, exitUsage, "invalid_delay")
	tarry(t, "", environ, "rejected", "requeue", "8", "--delay", "1s").want(t, exitState, "incomplete_reject")
	tarry(t, "", environ, "rejected", "requeue", "3", "--at", "1896076800000", "--set", "Tarry-Id=down").want(t,
		exitFailed, "unavailable")
	tarry(t, "", environ, "rejected", "list", "--all", "--limit", "1").want(t, exitDone, "mail.in")
}
