package steer

import (
	"context"
	"errors"
	"fmt"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// change makes one change in a bucket and returns once the journal holds it, as far as the mode promises. If
// a reply is lost, change repeats the call, since every such call may be sent twice with the effect of once. An error
// that Is ErrUnavailable changed nothing.
func (s *Scheduler) change(ctx context.Context, bucket message.Bucket,
	call func(ctx context.Context, bucket message.Bucket, now message.Milli) (scheduler.Effect, error)) (as changed,
	err error) {
	if err := s.cfg.Admit(); err != nil {
		return as, err
	}
	if err := s.cfg.Journal.Ready(); err != nil {
		return as, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	made, err := call(ctx, bucket, s.cfg.Clock.Milli())
	if errors.Is(err, scheduler.ErrOutcomeUnknown) {
		as.again = true
		if made, err = call(ctx, bucket, s.cfg.Clock.Milli()); errors.Is(err, scheduler.ErrUnavailable) ||
			errors.Is(err, scheduler.ErrFull) || errors.Is(err, scheduler.ErrBehind) {
			// The second call wrote nothing; the first may have.
			err = fmt.Errorf("%w: %v", scheduler.ErrOutcomeUnknown, err)
		}
	}
	if err == nil {
		as.bare, err = s.cfg.AwaitJournal(ctx, made.Changes)
	}
	if err == nil {
		s.Hasten(bucket, made.Earlier)
	}
	return as, err
}

// inOneStep reports whether the message of a reference may be changed without a look-up before: the store finds it by
// its exact name, and the change can be made now.
func (s *Scheduler) inOneStep(ref *scheduler.Ref) (message.Bucket, bool) {
	return message.BucketOf(message.HashedName(ref.ID, ref.Key), s.cfg.Timeline.Buckets()),
		ref.UID == "" && ref.Exact() && ref.Viewer.Sees(ref.Topic) && s.cfg.Journal.Ready() == nil
}

// changed says how a change was made.
type changed struct {
	again bool // it was called twice, and the second reply may describe the effect of the first call
	bare  bool // the journal refused its content
}
