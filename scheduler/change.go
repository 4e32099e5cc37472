package scheduler

import (
	"context"
	"errors"
	"fmt"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Effect describes what a call changed in one bucket. Its changes are passed to Await, and what came earlier is
// announced.
type Effect struct {
	Changes []Recorded
	Earlier []Earlier
}

// Earlier says that a call made an order of its bucket begin earlier: at Due. It is the order of a topic that consumers
// pull or, without a topic, that of the messages for NATS.
type Earlier struct {
	Topic string
	Due   message.Milli
}

// Effect returns what the cancel changed.
func (r *CancelResult) Effect(bucket message.Bucket) (made Effect) {
	if r.Code == CancelDone || r.Code == CancelMaybe {
		made.Changes = []Recorded{{r.Info.UID, r.Info.Version, bucket, r.Number}}
		if r.Info.Serial { // its key may go to one that is due
			made.Earlier = []Earlier{{r.Info.Topic, 1}}
		}
	}
	return made
}

// Effect returns what the amend changed.
func (r *AmendResult) Effect(bucket message.Bucket) (made Effect) {
	if r.Code == AmendDone {
		made.Changes, made.Earlier = []Recorded{{r.Info.UID, r.Info.Version, bucket, r.Number}}, r.Earlier
	}
	return made
}

// Effect returns what the requeue of a dead message changed: the dead message, and the new one that continues it.
func (r *RequeueResult) Effect(bucket message.Bucket, dead message.UID) (made Effect) {
	if r.Code == RequeueDone {
		made.Changes = []Recorded{{dead, r.Old, bucket, r.Number}, {r.Info.UID, 1, bucket, r.Number}}
		made.Earlier = r.Earlier
	}
	return made
}

// change makes one change in a bucket and returns once the journal holds it, as far as the mode promises. If
// a reply is lost, change repeats the call, since every such call may be sent twice with the effect of once. An error
// that Is ErrUnavailable changed nothing.
func (s *Scheduler) change(ctx context.Context, bucket message.Bucket,
	call func(ctx context.Context, bucket message.Bucket, now message.Milli) (Effect, error)) (as changed, err error) {
	if err := s.cfg.Admit(); err != nil {
		return as, err
	}
	if err := s.cfg.Journal.Ready(); err != nil {
		return as, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	made, err := call(ctx, bucket, s.cfg.Clock.Milli())
	if errors.Is(err, ErrOutcomeUnknown) {
		as.again = true
		if made, err = call(ctx, bucket, s.cfg.Clock.Milli()); errors.Is(err, ErrUnavailable) ||
			errors.Is(err, ErrFull) || errors.Is(err, ErrBehind) { // the second call wrote nothing; the first may have
			err = fmt.Errorf("%w: %v", ErrOutcomeUnknown, err)
		}
	}
	if err == nil {
		as.bare, err = s.await(ctx, made.Changes)
	}
	if err == nil {
		s.Hasten(bucket, made.Earlier)
	}
	return as, err
}

// of returns the bucket of a uid.
func (s *Scheduler) of(uid message.UID) message.Bucket { return uid.Bucket(s.cfg.Timeline.Buckets()) }

// inOneStep reports whether the message of a reference may be changed without a look-up before: the store finds it by
// its exact name, and the change can be made now.
func (s *Scheduler) inOneStep(ref *Ref) (message.Bucket, bool) {
	return message.BucketOf(message.HashedName(ref.ID, ref.Key), s.cfg.Timeline.Buckets()),
		ref.UID == "" && ref.Exact() && ref.Viewer.Sees(ref.Topic) && s.cfg.Journal.Ready() == nil
}

// changed says how a change was made.
type changed struct {
	again bool // it was called twice, and the second reply may describe the effect of the first call
	bare  bool // the journal refused its content
}

// await returns once the journal holds the changes, and reports whether it refused a content.
func (s *Scheduler) await(ctx context.Context, changes []Recorded) (bare bool, err error) {
	if len(changes) == 0 {
		return false, nil
	}
	if err := s.cfg.Journal.Await(ctx, changes, func(_ int, b bool) { bare = bare || b }); err != nil {
		return false, fmt.Errorf("wait for the journal: %w: %w", ErrOutcomeUnknown, err)
	}
	return bare, nil
}

// Hasten informs the leader and waiting consumers of orders that begin earlier.
func (s *Scheduler) Hasten(bucket message.Bucket, earlier []Earlier) {
	for _, e := range earlier {
		if e.Topic == "" {
			s.cfg.Announce(bucket, e.Due)
			continue
		}
		s.Hear(e.Topic, e.Due)
		s.cfg.AnnouncePull(e.Topic, e.Due)
	}
}
