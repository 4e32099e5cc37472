package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// counts is the number of messages of a topic in a bucket, for each state that Count returns. Only topics with messages
// have an entry, since each message may have a topic of its own.
type counts struct{ waiting, inFlight, leased, dead int }

// count updates the counts when an entry enters or leaves an order.
func (b *bucket) count(e *entry, by int) {
	if !e.state.Kept() {
		return
	}
	topic := e.message.Topic
	c := b.topics[topic]
	switch e.state {
	case message.StateWaiting:
		c.waiting += by
	case message.StateInFlight:
		c.inFlight += by
		if e.leased() != nil {
			c.leased += by
		}
	default:
		c.dead += by
	}
	if c == (counts{}) {
		delete(b.topics, topic)
	} else {
		b.topics[topic] = c
	}
}

// Count returns the counts of one topic.
func (t *Timeline) Count(ctx context.Context, topic string) (scheduler.TopicCount, error) {
	counts, err := t.countsOf(ctx, []string{topic})
	if err != nil {
		return scheduler.TopicCount{}, err
	}
	return counts[0], nil
}

// Counts returns the counts of a page of topics, by name.
func (t *Timeline) Counts(ctx context.Context, after string, limit int) ([]scheduler.TopicCount, error) {
	if limit < 1 {
		return nil, fmt.Errorf("counts: a limit of %d", limit)
	}
	page := scheduler.NewTopicPage(after, limit)
	err := t.each(ctx, func(_ message.Bucket, b *bucket) {
		for topic := range b.topics {
			page.Meet(topic)
		}
	})
	if err != nil {
		return nil, err
	}
	return t.countsOf(ctx, page.Topics())
}

// countsOf adds up the counts of topics over all buckets, in the order of topics.
func (t *Timeline) countsOf(ctx context.Context, topics []string) ([]scheduler.TopicCount, error) {
	found := make([]scheduler.TopicCount, len(topics))
	err := t.each(ctx, func(_ message.Bucket, b *bucket) {
		for i, topic := range topics {
			c := b.topics[topic]
			found[i].Topic = topic
			found[i].Waiting += c.waiting
			found[i].InFlight += c.inFlight
			found[i].Dead += c.dead
		}
	})
	return found, err
}

// Falls visits what is due before the last of the times.
func (t *Timeline) Falls(ctx context.Context, times []message.Milli) ([]int, error) {
	counts := make([]int, max(len(times)-1, 0))
	if len(counts) == 0 {
		return counts, ctx.Err()
	}
	err := t.each(ctx, func(_ message.Bucket, b *bucket) {
		b.until(times[len(times)-1], func(_ string, due message.Milli) {
			if at, found := slices.BinarySearch(times, due); found {
				counts[at]++
			} else if at > 0 {
				counts[at-1]++
			}
		})
	})
	return counts, err
}

// Sample visits what is due before until, and takes some of those that are due from the other time on, by chance: each
// is as likely as any other (Knuth, The Art of Computer Programming, 3.4.2, algorithm S).
func (t *Timeline) Sample(ctx context.Context, from, until message.Milli, n int) ([]scheduler.Sample, error) {
	samples := make([]scheduler.Sample, len(t.buckets))
	err := t.each(ctx, func(number message.Bucket, b *bucket) {
		s := &samples[number]
		visit := func(visit func(topic string, due message.Milli)) {
			b.until(until, func(topic string, due message.Milli) {
				if due >= from {
					visit(topic, due)
				}
			})
		}
		visit(func(string, message.Milli) { s.Of++ })
		met, wanted := 0, min(s.Of, max(1, n/len(t.buckets)))
		visit(func(topic string, due message.Milli) {
			if rand.IntN(s.Of-met) < wanted-len(s.Read) {
				s.Read = append(s.Read, scheduler.Sampled{Topic: topic, Due: due})
			}
			met++
		})
	})
	return samples, err
}

// until visits the messages that are due before a time and that nothing holds back, and those for pull, in no order.
func (b *bucket) until(end message.Milli, visit func(topic string, due message.Milli)) {
	each := func(o order, last int64, due func(rank int64) message.Milli) {
		o.each(last, func(s slot) bool { visit(s.message.Topic, due(s.rank)); return true })
	}
	last := message.ScoreNow(end - 1)
	each(b.due, last, message.ScoreDue)
	for _, l := range b.lines {
		each(l.behind, last, message.ScoreDue)
	}
	for _, all := range b.pulls {
		for _, s := range all {
			base := message.RankFrom(s.priority)
			each(s.order, base+int64(end)-1, func(rank int64) message.Milli { return message.Milli(rank - base) })
		}
	}
}

// Totals counts in every bucket.
func (t *Timeline) Totals(ctx context.Context, now message.Milli) ([]scheduler.Total, error) {
	totals := make([]scheduler.Total, len(t.buckets))
	err := t.each(ctx, func(n message.Bucket, b *bucket) {
		total := scheduler.Total{InFlight: len(b.claimed) + len(b.leases), Leased: len(b.leases), Dead: len(b.dead)}
		overdue, next := b.due.upTo(message.ScoreNow(now), scheduler.MaxOverdue)
		total.Falls(message.ScoreDue(next))
		total.Waiting[message.HoldNone] = scheduler.Waiting{Count: len(b.due), Overdue: overdue,
			Oldest: head(b.due)}
		for name, lane := range b.lanes {
			held := &total.Waiting[name.Kind().Hold()]
			held.Add(scheduler.Waiting{Count: len(lane.order), Overdue: len(lane.order), Oldest: head(lane.order)})
			held.Add(scheduler.Waiting{Oldest: head(lane.behind)})
		}
		pull := scheduler.Waiting{Count: len(b.aside), Overdue: len(b.aside), Oldest: head(b.aside)}
		for _, all := range b.pulls {
			overdue, next := all.upTo(now, scheduler.MaxOverdue)
			w := scheduler.Waiting{Oldest: all.due(), Overdue: overdue}
			total.Falls(next)
			for _, s := range all {
				w.Count += len(s.order)
			}
			pull.Add(w)
		}
		for _, l := range b.lines {
			overdue, next := l.behind.upTo(message.ScoreNow(now), scheduler.MaxOverdue)
			pull.Add(scheduler.Waiting{Count: len(l.behind), Oldest: head(l.behind), Overdue: overdue})
			total.Falls(message.ScoreDue(next))
		}
		total.Waiting[message.HoldPull] = pull
		if max(total.Waiting[message.HoldNone].Overdue, pull.Overdue) >= scheduler.MaxOverdue {
			total.Next = 0 // not all were visited
		}
		totals[n] = total
	})
	return totals, err
}
