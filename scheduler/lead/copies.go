package lead

import (
	"context"
	"maps"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// copies sends a copy of each message that expires or is dead to the subject that is set for such ends. The message
// ends once its copy is settled: taken, or tried often enough.
type copies struct {
	l     *leadership
	put   func(result)         // to the settler
	tries map[message.UID]vain // of copies that were not taken; used only by the settling goroutine
	swept time.Time            // when tries was last rid of messages that did not come back
}

// vain counts the tries of a copy that were in vain, up to the time of the last one. why is the reason of the end.
type vain struct {
	n    int
	last time.Time
	why  string
}

const (
	// copyTries is how often a copy is tried, lastBackoff apart, before its message ends without one. The message must
	// end, because each try takes the room of another message.
	copyTries = 5
	// maxCopying is how many messages may wait for another try of their copy. Beyond that, messages end at once.
	maxCopying = 10_000
	// copyForgotten is after how long without another try a message no longer counts: it was canceled, or moved to a
	// later time. The next try is due after lastBackoff.
	copyForgotten = 10 * lastBackoff
)

// end settles a message that ends without a delivery, after its copy has been sent if its topic has a subject for such
// ends. The scanning and the settling goroutine call it.
func (c *copies) end(ctx context.Context, r result, t *scheduler.Topic) {
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
	if _, ok := headerOf(m, scheduler.ReasonHeader); !ok {
		copied.Headers = append(copied.Headers, message.Header{Name: scheduler.ReasonHeader, Value: r.why})
	}
	c.l.cfg.Publisher.Send(ctx, []*message.Message{&copied}, func(_ *message.Message, o scheduler.Outcome) {
		c.l.metrics.copies.WithLabelValues(o.Kind.String()).Inc()
		r.copied, r.outcome, r.at = true, o, time.Now()
		c.put(r)
	})
}

// again reports whether a message that ends has to wait for another try of its copy. The count is in memory only: a new
// leader starts over.
func (c *copies) again(r *result, now time.Time) bool {
	uid := r.message.UID
	tried := c.tries[uid]
	if r.why == refusedTooOften && tried.why != "" {
		r.why = tried.why // of the last refusal
	}
	if r.copied && !settlesCopy(&r.outcome) {
		c.forget(now)
		tried = vain{n: tried.n + 1, last: now, why: r.why}
		c.tries[uid] = tried
		if tried.n < copyTries && len(c.tries) <= maxCopying {
			return true
		}
	}
	delete(c.tries, uid)
	return false
}

// forget makes room for others once too many messages wait for another try: it drops those that did not come back.
func (c *copies) forget(now time.Time) {
	if len(c.tries) < maxCopying || now.Sub(c.swept) < lastBackoff {
		return
	}
	c.swept = now
	maps.DeleteFunc(c.tries, func(_ message.UID, tried vain) bool { return now.Sub(tried.last) > copyForgotten })
}

// settlesCopy reports whether a copy needs no further try: NATS has taken it, NATS will never take it, or nobody
// listens.
func settlesCopy(o *scheduler.Outcome) bool {
	return o.Kind == scheduler.Delivered || o.Kind == scheduler.Refused || o.Kind == scheduler.NoListener
}
