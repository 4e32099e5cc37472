package seeds

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// What consumers of camellia send back is ready for the polls that begin after it. A poll that is under way gets it at
// its end: a server of camellia wakes none for it, so a consumer that fails at once makes a try each 10 s by default,
// and has not made them all before what it needs is there again.
//
// So the lease stays in force. Its end moves to 10 s from then, when it lapses wherever nobody has ended it before.

// camelliaBacks are the nacks of leases that consumers have given up, by topic. Some may have lapsed meanwhile.
type camelliaBacks struct {
	mu    sync.Mutex
	by    map[string][]scheduler.Settlement
	all   int
	ended bool // the instance stops: none is kept any more
}

const (
	// camelliaBacked bounds the leases that are known. Beyond it all are forgotten, and lapse.
	camelliaBacked = 100_000
	// camelliaLast is how long before its end a poll gets what was sent back.
	camelliaLast = 50 * time.Millisecond
)

// keep keeps one, unless the instance stops.
func (b *camelliaBacks) keep(one scheduler.Settlement) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return false
	}
	if b.by == nil || b.all >= camelliaBacked {
		b.by, b.all = map[string][]scheduler.Settlement{}, 0
	}
	b.by[one.Topic] = append(b.by[one.Topic], one)
	b.all++
	return true
}

// end takes all, and reports from then on that none is kept.
func (b *camelliaBacks) end() []scheduler.Settlement {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := slices.Concat(slices.Collect(maps.Values(b.by))...)
	b.by, b.all, b.ended = nil, 0, true
	return taken
}

// take takes those of a topic.
func (b *camelliaBacks) take(topic string) []scheduler.Settlement {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.by[topic]
	delete(b.by, topic)
	b.all -= len(taken)
	return taken
}

// sendBack gives up the lease in force of a message. It ends at once where nobody would get the message too
// early: it ends too, or waits for a delay of its schedule.
func (s *camellia) sendBack(ctx context.Context, ref scheduler.Ref) error {
	held, err := s.ops.Service.LeaseOf(ctx, ref)
	if err != nil {
		return err
	}
	m := &held.Message
	back := scheduler.Settlement{Verb: scheduler.Nack, Lease: camelliaWait,
		Receipt: scheduler.Receipt{UID: m.UID, Nonce: held.Nonce, Topic: m.Topic}}
	schedule := s.topics.Schedule(&m.Retry, m.Topic)
	delay, over := schedule.After(int(m.Mark.Refusals) + 1)
	expires := held.Expires > 0 && held.Expires < message.Milli(s.ops.Now().Add(camelliaWait).UnixMilli())
	if over || delay > 0 || expires || held.Discarded {
		_, err := s.settle(ctx, []scheduler.Settlement{back})
		return err
	}
	later := back
	later.Verb = scheduler.Until
	if _, err = s.settle(ctx, []scheduler.Settlement{later}); err != nil || s.backs.keep(back) {
		return err
	}
	_, err = s.settle(ctx, []scheduler.Settlement{back})
	return err
}

// endBacks ends leases that consumers have given up, and returns how soon their messages are ready, which is a moment
// later. What fails lapses.
func (s *camellia) endBacks(backs []scheduler.Settlement) (ready time.Duration) {
	ctx, stop := context.WithTimeout(context.Background(), s.ops.Timeout)
	defer stop()
	for part := range slices.Chunk(backs, ops.MaxPull) {
		due, _ := s.settle(ctx, part)
		ready = max(ready, due.Time().Sub(s.ops.Now()))
	}
	return min(ready, camelliaLast)
}

// settle settles leases, and returns when all that comes back is due.
func (s *camellia) settle(ctx context.Context, all []scheduler.Settlement) (due message.Milli, err error) {
	settled, errs := s.ops.Service.Settle(ctx, all)
	for i := range settled {
		switch is := &settled[i]; {
		case errs[i] != nil:
		case is.Code == scheduler.SettleLost:
			errs[i] = scheduler.ErrNotLeased
		default:
			due = max(due, is.Info.Due)
			s.stats.of(all[i].Topic, func(c *camelliaCounts) { c.over(is.Info.State) })
		}
	}
	return due, errors.Join(errs...)
}
