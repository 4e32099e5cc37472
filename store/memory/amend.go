package memory

import (
	"bytes"
	"context"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Amend changes a waiting message, or reports why it cannot.
func (t *Timeline) Amend(ctx context.Context, a scheduler.Amend,
	now message.Milli) (result scheduler.AmendResult, err error) {
	err = t.in(ctx, a.UID.Bucket(t.Buckets()), func(b *bucket) error {
		result.Number = b.cert.Number
		if e := b.entries[a.UID]; e != nil {
			first := b.first()
			result.Code = b.amend(e, &a, now)
			result.Info, result.Head = b.brief(e), b.earlier(first)
		}
		return nil
	})
	return result, err
}

func (b *bucket) amend(e *entry, a *scheduler.Amend, now message.Milli) scheduler.AmendCode {
	switch {
	case e.state.Ended():
		return scheduler.AmendEnded
	case e.state == message.StateInFlight:
		return scheduler.AmendInFlight
	case b.uncertain(e):
		return scheduler.AmendMaybe
	case e.version == a.Version+1 && stands(e.message, a):
		return scheduler.AmendDone
	case e.version != a.Version:
		return scheduler.AmendVersion
	}
	m := *e.message
	m.Due, m.Priority = a.Due, a.Priority
	mark := message.Mark{Refusals: m.Mark.Refusals, Changes: m.Mark.Changes + 1}
	if a.Message != nil {
		m.Headers, m.Body = a.Message.Headers, a.Message.Body
		mark.Refusals = 0 // NATS has not refused the new content
	}
	b.leave(e)
	e.message = &m
	b.wait(e, m.Score(), mark)
	b.amended(e, a.Message != nil, cause{reason: a.Reason}, now)
	return scheduler.AmendDone
}

// stands reports whether a message satisfies the conditions of an amend.
func stands(m *message.Message, a *scheduler.Amend) bool {
	return m.Due == a.Due && m.Priority == a.Priority &&
		(a.Message == nil || slices.Equal(m.Headers, a.Message.Headers) && bytes.Equal(m.Body, a.Message.Body))
}
