package accept

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// A uid that was just generated here may belong to another message: two instances may share a machine id, or a caller
// may have sent a uid of the near future as the id of a repeated push. A push with such a uid gets another one. If an
// earlier try may have stored the push, that try must be distinguished from a foreign message.

// comparers is how many messages are compared at once: after a lost reply the complete batch may have been stored, and
// its bucket stores nothing else during the comparison.
const comparers = 16

// foreign is the verdict on whether the uid just given to a push belongs to another message. err is set if that is
// unknown.
type foreign struct {
	taken bool
	err   error
}

// taken judges each push of a batch. If only headers and body can decide, the timeline is asked for them, for as long
// as a call may take.
func (c *coalescer) taken(batch []*queued, results []scheduler.AddResult, repeat bool) []foreign {
	verdicts := make([]foreign, len(batch))
	var open []int
	for i, q := range batch {
		if q.fresh {
			var sure bool
			if verdicts[i].taken, sure = q.taken(&results[i], repeat); !sure {
				open = append(open, i)
			}
		}
	}
	if len(open) == 0 {
		return verdicts
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.s.cfg.CallTimeout)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(comparers)
	for _, i := range open {
		group.Go(func() error {
			verdicts[i].taken, verdicts[i].err = c.differs(ctx, batch[i].message, &results[i].First)
			return nil
		})
	}
	_ = group.Wait()
	return verdicts
}

// taken reports whether the message under the uid that q was just given is not an earlier try of q. sure is false if
// only the whole message can show that.
func (q *queued) taken(r *scheduler.AddResult, repeat bool) (taken, sure bool) {
	m, there := q.message, &r.First
	switch r.Code {
	case scheduler.Added, scheduler.AddedCanceled, scheduler.AddFilling, scheduler.AddCalls:
		return false, true
	case scheduler.AddUnreadable:
		return there.UID == m.UID && !repeat, true
	}
	if there.UID == m.UID && there.EndOnly() { // what it was nobody knows
		return !repeat, true
	}
	if there.UID != m.UID && m.Call != "" { // its call may have led there
		return false, true
	}
	if !called(there, m) { // nothing but its uid led there
		return true, true
	}
	if there.UID != m.UID {
		return false, true
	}
	if !repeat {
		return true, true
	}
	changed := there.Version - 1
	if there.State.Ended() {
		changed--
	}
	if changed > 0 { // its stored form is no longer known
		return false, true
	}
	if !begunAs(there, m) {
		return true, true
	}
	return false, m.ID != "" || there.State.Ended() // its digest, or all that is left of it, is the same
}

// differs reports whether the stored message differs from what the push would have stored.
func (c *coalescer) differs(ctx context.Context, m *message.Message, there *message.Info) (bool, error) {
	found, err := c.timeline.Find(ctx, scheduler.Ref{UID: m.UID})
	if err != nil {
		return false, fmt.Errorf("compare it with the message %s: %w: %w", m.UID, scheduler.ErrOutcomeUnknown, err)
	}
	if len(found) == 0 || found[0].Version != there.Version {
		return false, nil
	}
	whole := &found[0].Message
	return !bytes.Equal(whole.Body, m.Body) || !slices.Equal(whole.Headers, m.Headers) ||
		whole.Retry.Jitter != m.Retry.Jitter || !slices.Equal(whole.Retry.Delays, m.Retry.Delays), nil
}

// called reports whether two messages have the same name, topic and key.
func called(i *message.Info, m *message.Message) bool {
	return i.ID == m.ID && i.Topic == m.Topic && i.Key == m.Key
}

// begunAs reports whether a message that did not change may have been stored as m, judging by the fields that every
// store returns.
func begunAs(i *message.Info, m *message.Message) bool {
	const whole = time.Millisecond // a store rounds a fraction of one up
	return i.Due == m.Due && i.Priority == m.Priority && i.Attempt == m.Attempt && i.Digest == m.Digest &&
		(i.TTL+whole-1)/whole == (m.TTL+whole-1)/whole
}
