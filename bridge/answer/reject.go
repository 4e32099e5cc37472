package answer

import (
	"errors"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// The errors of orders about rejects.
var (
	// ErrNoRejects reports that there is no JetStream, hence neither an intake nor rejects.
	ErrNoRejects = errors.New("nats runs without jetstream: pushes by tag are not kept there, and none can be rejected")
	// ErrUnknownReject reports that no reject has this sequence: it was requeued, or the limits of the stream of
	// rejects removed it.
	ErrUnknownReject = errors.New("no reject has this sequence")
	// ErrIncompleteReject reports that the reject lacks a part of the original message.
	ErrIncompleteReject = errors.New("the reject lacks a part of what was sent")
)

// RejectQuery selects rejects.
type RejectQuery struct {
	Topic string // a pattern; empty: all
	ID    string // as the push named it; empty: all
	Word  string // of the problem; empty: all
	From  uint64 // the lowest sequence
	Limit int
	// See reports whether the caller may see the messages of a topic; nil: of every topic.
	See func(topic string) bool
}

// Selects reports whether the query selects a reject.
func (q *RejectQuery) Selects(r *wire.Rejected) bool {
	return (q.Topic == "" || scheduler.Matches(q.Topic, r.Topic)) &&
		(q.ID == "" || q.ID == r.ID) &&
		(q.Word == "" || q.Word == r.Word) &&
		(q.See == nil || q.See(r.Topic))
}
