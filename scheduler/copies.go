package scheduler

import (
	"context"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// copies sends a copy of each message that expires or is dead to the subject that is set for such ends. The message
// ends once its copy is settled: taken, or tried often enough.
type copies struct {
	s     *Scheduler
	put   func(result)        // to the settler
	tries map[message.UID]int // how often a copy was not taken; used only by the settling goroutine
}

const (
	// copyTries is how often a copy is tried, lastBackoff apart, before its message ends without one. The message must
	// end, because each try takes the room of another message.
	copyTries = 5
	// maxCopying is how many messages may wait for another try of their copy. Beyond that, messages end at once.
	maxCopying = 10_000
)

// end settles a message that ends without a delivery, after its copy has been sent if its topic has a subject for such
// ends. The scanning and the settling goroutine call it.
func (c *copies) end(ctx context.Context, r result, t *Topic) {
	to := ""
	switch {
	case t == nil:
	case r.ends == message.StateExpired:
		to = t.Expired
	case r.ends == message.StateDead:
		to = t.Dead
	}
	if to == "" {
		c.put(r)
		return
	}
	m := r.message
	copied := *m
	// The copy has a uid of its own, so that no stream takes it for a repeat of the delivery.
	copied.UID = m.UID + message.UID("."+r.ends.String())
	if m.ID == "" {
		copied.ID = string(m.UID)
	}
	copied.Topic = to
	copied.Headers = append(m.Headers[:len(m.Headers):len(m.Headers)],
		message.Header{Name: "Tarry-Subject", Value: m.Topic})
	if _, ok := headerOf(m, reasonHeader); !ok {
		copied.Headers = append(copied.Headers, message.Header{Name: reasonHeader, Value: r.why})
	}
	c.s.cfg.Publisher.Send(ctx, []*message.Message{&copied}, func(_ *message.Message, o Outcome) {
		c.s.metrics.copies.WithLabelValues(o.Kind.String()).Inc()
		r.copied, r.outcome, r.at = true, o, time.Now()
		c.put(r)
	})
}

// again reports whether a message that ends has to wait for another try of its copy. The count is in memory only: a new
// leader starts over.
func (c *copies) again(r *result) bool {
	uid := r.message.UID
	if r.copied && !r.outcome.settlesCopy() {
		c.tries[uid]++
		if c.tries[uid] < copyTries && len(c.tries) <= maxCopying {
			return true
		}
	}
	delete(c.tries, uid)
	return false
}

// settlesCopy reports whether a copy needs no further try: NATS has taken it, NATS will never take it, or nobody
// listens.
func (o *Outcome) settlesCopy() bool {
	return o.Kind == Delivered || o.Kind == Refused || o.Kind == NoListener
}
