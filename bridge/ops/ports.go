package ops

import (
	"context"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Service is the part of the scheduler that the operations use.
type Service interface {
	AcceptAll(ctx context.Context, batch []*scheduler.Push) []scheduler.Accepted
	Get(ctx context.Context, ref scheduler.Ref) (message.Info, error)
	// Resolve returns the one message that a change would apply to. Errors: ErrUnknownID, ErrAmbiguousID.
	Resolve(ctx context.Context, ref scheduler.Ref) (message.Info, error)
	Cancel(ctx context.Context, ref scheduler.Ref) (scheduler.CancelResult, error)
	Steering
	Pulling
}

// Journal is the part of the journal that the operations use. Failures of the database or of the store must be reported
// as ErrUnavailable; an error that is not one of the scheduler's is answered with 500.
//
// progress may be nil. It is called from time to time, from the goroutine of the call, with the progress so far.
type Journal interface {
	// History returns a message and, if it was requested by name, every other message that has or had the name, the
	// latest first. It returns at most MaxLives messages, plus one to show that there are more, and bounds the changes
	// of all of them together. Errors: ErrUnknownID, ErrAmbiguousID, ErrUnavailable.
	History(ctx context.Context, ref scheduler.Ref) ([]record.Life, error)
	// Rejects returns up to limit pushes that ref names and that were acknowledged and then rejected, the latest first.
	Rejects(ctx context.Context, ref scheduler.Ref, limit int) ([]scheduler.Rejected, error)
	// Resolve returns the uid of the one message that a restore would apply to. Errors: ErrUnknownID, ErrAmbiguousID,
	// ErrUnavailable.
	Resolve(ctx context.Context, ref scheduler.Ref) (message.UID, error)
	// Whole returns a message with its headers and body. Errors: ErrUnknownID, ErrUnavailable.
	Whole(ctx context.Context, uid message.UID) (record.Record, error)
	// List returns a page of messages in the order of due time, then uid.
	List(ctx context.Context, q record.RecordQuery) ([]record.Record, error)
	// Forecast counts the waiting messages that fall due, by step; empty steps may be missing.
	Forecast(ctx context.Context, q record.ForecastQuery) ([]record.Forecast, error)
	// Act records what an operator does, before and after it. It is done also if the journal does not answer.
	Act(ctx context.Context, a *record.Action)
	// Actions returns a page of what operators did, the last first.
	Actions(ctx context.Context, q record.ActionQuery) ([]record.Action, error)
	// Lag returns the changes that are not yet in the journal, over all buckets.
	Lag(ctx context.Context) (record.Lag, error)
	Restore(ctx context.Context, req record.RestoreRequest,
		progress func(record.RestoreReport)) (record.RestoreReport, error)
	Verify(ctx context.Context, req record.VerifyRequest,
		progress func(record.VerifyReport)) (record.VerifyReport, error)
	Redeliver(ctx context.Context, req record.RedeliverRequest,
		progress func(record.RedeliverReport)) (record.RedeliverReport, error)
}

// Steering is the part of the scheduler that changes waiting and dead messages. progress may be nil; it is called from
// time to time, from the goroutine of the call, with the progress so far. An operation on many messages that fails
// reports what it had done.
type Steering interface {
	// Listed returns a page of the messages that have not ended, or are dead, the cursor of the next page, empty on the
	// last one, and how many messages it looked at. Error: ErrBadCursor.
	Listed(ctx context.Context, q scheduler.Listing, cursor string, limit, most int) (page []message.Info, next string,
		looked int, err error)
	Reschedule(ctx context.Context, ref scheduler.Ref, e scheduler.Edit) (scheduler.AmendResult, error)
	CancelMany(ctx context.Context, sel scheduler.Selection, progress func(scheduler.Report)) (scheduler.Report, error)
	RescheduleMany(ctx context.Context, sel scheduler.Selection, e scheduler.Edit,
		progress func(scheduler.Report)) (scheduler.Report, error)

	RequeueOne(ctx context.Context, ref scheduler.Ref, r scheduler.Requeue) (scheduler.Accepted, error)
	RequeueMany(ctx context.Context, sel scheduler.Selection, r scheduler.Requeue,
		progress func(scheduler.Report)) (scheduler.Report, error)
	PurgeOne(ctx context.Context, ref scheduler.Ref) error
	PurgeMany(ctx context.Context, sel scheduler.Selection, progress func(scheduler.Report)) (scheduler.Report, error)

	TopicCount(ctx context.Context, topic string) (scheduler.TopicCount, error)
	// Outlook counts what falls due when.
	Outlook(ctx context.Context, q scheduler.OutlookQuery) (*scheduler.Outlook, error)
	// TopicCounts returns a page of the topics that have messages, ordered by name, after the given name.
	TopicCounts(ctx context.Context, after string, limit int) ([]scheduler.TopicCount, error)
	Pauses(ctx context.Context) ([]scheduler.Pause, error)
	// HeldLanes lists the lanes that hold messages back, and the reasons, the most messages first.
	HeldLanes(ctx context.Context) ([]scheduler.HeldGroup, error)
	// ReadyTopics lists the topics with messages that consumers may pull, among the first most by name, and whether those
	// were all.
	ReadyTopics(ctx context.Context, most int) (groups []scheduler.HeldGroup, whole bool, err error)
	// ParkedTopics returns the reason for each of the topics that has messages held back.
	ParkedTopics(ctx context.Context, topics []string) (map[string]message.Why, error)
	// Pause and Resume report whether the leader has applied the change.
	Pause(ctx context.Context, pattern, by string) (inEffect bool, err error)
	Resume(ctx context.Context, pattern string) (was, inEffect bool, err error)
}

// Pulling is the part of the scheduler that serves consumers that pull.
type Pulling interface {
	// Pull leases ready messages, or waits for some.
	Pull(ctx context.Context, p scheduler.Poll) ([]scheduler.PulledMessage, error)
	// GiveBack undoes the leases of messages that cannot be handed out.
	GiveBack(ctx context.Context, found []scheduler.PulledMessage)
	// Settle settles leases, each with an outcome or an error.
	Settle(ctx context.Context, orders []scheduler.Settlement) ([]scheduler.Settled, []error)
	// SettleHeld settles the lease in force of a message. Errors: ErrUnknownID, ErrNotLeased.
	SettleHeld(ctx context.Context, ref scheduler.Ref, verb scheduler.Verb) (scheduler.Settled, error)
	// LeaseOf returns the lease in force of a message. Errors: ErrUnknownID, ErrNotLeased.
	LeaseOf(ctx context.Context, ref scheduler.Ref) (scheduler.LeaseInfo, error)
	// Release frees a leased message on behalf of an operator. Error: ErrNotLeased.
	Release(ctx context.Context, ref scheduler.Ref, reason string) (message.Info, error)
	// View completes messages of the journal: which are ready, and who holds those that are leased.
	View(ctx context.Context, infos ...*message.Info) error
	// PullCounts counts the messages for pull of topics: the leased ones, and those due within each of the times.
	PullCounts(ctx context.Context, topics []string, within []time.Duration) ([]scheduler.PullCount, error)
	// LeasesOf lists a page of the leases of a topic.
	LeasesOf(ctx context.Context, topic, after string, limit int) ([]scheduler.LeaseInfo, string, error)
}

// Rejects are the pushes by tag that NATS acknowledged and tarry refused. The errors are those about rejects, the
// refusals of a push by bridge/wire, and ErrUnavailable.
type Rejects interface {
	// List returns a page in the order of sequence, without headers and bodies, and the sequence at which the next page
	// begins, or 0 if there is none. A page may hold fewer than the limit and have a next one.
	List(ctx context.Context, q RejectQuery) ([]Rejected, uint64, error)
	// Get returns one reject with headers and body.
	Get(ctx context.Context, sequence uint64) (Rejected, error)
	// Push returns a reject as a push, with the order's changes applied. Pushing it twice makes one message.
	Push(ctx context.Context, sequence uint64, o *RejectOrder) (*scheduler.Push, error)
	// Drop removes a reject.
	Drop(ctx context.Context, sequence uint64) error
}

// Election is the part of the election that the operations use.
type Election interface {
	// Cluster returns the term, the leader and the instances. It returns ErrUnreachable while they cannot be read.
	Cluster(ctx context.Context) (Cluster, error)
	// Forget removes an instance that is gone. It may return ErrNotGone and ErrUnreachable.
	Forget(ctx context.Context, instance string) error
	// Resign makes the leader give leadership up. It may return the errors of an election.
	Resign(ctx context.Context, reason string) error
}
