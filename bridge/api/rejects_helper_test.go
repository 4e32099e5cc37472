package api_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
)

// rejects are some, on orders.x and on bills.
type rejects struct {
	list    []ops.Rejected
	err     error
	keeps   error // of a drop
	asked   []ops.RejectQuery
	dropped []uint64
	// read counts the rejects that were read; from the one on that silent is, if any, NATS does not answer.
	read, silent int
}

func newRejects() *rejects {
	text := "hello"
	return &rejects{list: []ops.Rejected{
		{Sequence: 1, At: 1896076800000, Topic: "orders.x", ID: "a", Key: "k", Word: "invalid_delay",
			Detail: "why", Size: 5,
			Headers: map[string][]string{"Tarry-Delay": {"soon"}}, Body: &text},
		{Sequence: 2, At: 1896076800000, Topic: "bills", Word: "too_large", Detail: "why",
			Incomplete: true},
	}}
}

func (j *rejects) List(_ context.Context, q ops.RejectQuery) (page []ops.Rejected, next uint64, err error) {
	j.asked = append(j.asked, q)
	for i, one := range j.list {
		if one.Sequence < q.From || !q.Selects(&one) {
			continue
		}
		one.Headers, one.Body = nil, nil
		if page = append(page, one); len(page) == q.Limit && i+1 < len(j.list) {
			return page, one.Sequence + 1, j.err
		}
	}
	return page, 0, j.err
}

func (j *rejects) Get(_ context.Context, sequence uint64) (ops.Rejected, error) {
	i := slices.IndexFunc(j.list, func(r ops.Rejected) bool { return r.Sequence == sequence })
	j.read++
	switch {
	case j.silent > 0 && j.read >= j.silent:
		return ops.Rejected{}, fmt.Errorf("%w: nats does not answer", scheduler.ErrUnavailable)
	case j.err != nil:
		return ops.Rejected{}, j.err
	case i < 0: // as the server's answer has it
		return ops.Rejected{}, fmt.Errorf("%w: ask $JS.API.STREAM.MSG.GET.TARRY_REJECTED: no message found",
			ops.ErrUnknownReject)
	}
	return j.list[i], nil
}

func (j *rejects) Push(ctx context.Context, sequence uint64, o *ops.RejectOrder) (*scheduler.Push, error) {
	one, err := j.Get(ctx, sequence)
	switch {
	case err != nil:
		return nil, err
	case one.Incomplete:
		return nil, ops.ErrIncompleteReject
	}
	p := &scheduler.Push{Topic: one.Topic, ID: one.ID, Key: one.Key, Delay: time.Hour, Stored: 7}
	if o.Topic != "" {
		p.Topic = o.Topic
	}
	if one.Body != nil {
		p.Body = []byte(*one.Body)
	}
	return p, nil
}

func (j *rejects) Drop(_ context.Context, sequence uint64) error {
	j.dropped = append(j.dropped, sequence)
	return j.keeps
}

func rejecting(j *rejects) func(*api.Config) { return func(c *api.Config) { c.Rejects = j } }
