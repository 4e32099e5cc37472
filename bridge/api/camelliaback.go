package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// What consumers of camellia send back is ready for the polls that begin after it. A poll that is under way gets it at
// its end: a server of camellia wakes none for it, so a consumer that fails at once makes a try each 10 s by default,
// and has not made them all before what it needs is there again.
//
// So the lease stays in force until then, and only this instance knows that it is given up. If the instance dies, the
// lease lapses, which is the same try.

// camelliaBacks are leases that consumers have given up, by topic.
type camelliaBacks struct {
	mu  sync.Mutex
	by  map[string][]camelliaBack
	all int
}

// camelliaBack is a lease that ends at the latest at a time.
type camelliaBack struct {
	scheduler.Receipt
	until time.Time
}

const (
	// camelliaBacked bounds the leases that are kept; beyond it they end at once.
	camelliaBacked = 100_000
	// camelliaLast is how long before its end a poll gets what was sent back.
	camelliaLast = 50 * time.Millisecond
)

// keep keeps a lease, if there is room.
func (b *camelliaBacks) keep(one camelliaBack) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by == nil {
		b.by = map[string][]camelliaBack{}
	}
	if b.all >= camelliaBacked {
		return false
	}
	b.by[one.Topic] = append(b.by[one.Topic], one)
	b.all++
	return true
}

// take takes the leases of a topic, or of all, that are kept at most until a time, or all of these.
func (b *camelliaBacks) take(topic string, until time.Time) (taken []scheduler.Settlement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for on, list := range b.by {
		if topic != "" && topic != on {
			continue
		}
		var rest []camelliaBack
		for _, one := range list {
			if !until.IsZero() && one.until.After(until) {
				rest = append(rest, one)
			} else {
				taken = append(taken, scheduler.Settlement{Verb: scheduler.Nack, Receipt: one.Receipt})
			}
		}
		if b.by[on] = rest; len(rest) == 0 {
			delete(b.by, on)
		}
	}
	b.all -= len(taken)
	return taken
}

// camelliaSendBack gives up the lease in force of a message. It ends at once where nobody would be woken too early: the
// message is dead then, or waits for a delay of its schedule.
func (s *Server) camelliaSendBack(ctx context.Context, ref scheduler.Ref) error {
	held, err := s.cfg.Service.LeaseOf(ctx, ref)
	if err != nil {
		return err
	}
	m, until := &held.Message, s.cfg.Now().Add(camelliaWait)
	back := scheduler.Settlement{Verb: scheduler.Nack,
		Receipt: scheduler.Receipt{UID: m.UID, Nonce: held.Nonce, Topic: m.Topic}}
	schedule := s.cfg.Topics.Schedule(&m.Retry, m.Topic)
	if delay, over := schedule.After(int(m.Mark.Refusals) + 1); delay == 0 && !over && s.stopping.Err() == nil {
		if longer := back; held.Until < message.CeilMilli(until) {
			longer.Verb, longer.Lease = scheduler.Extend, camelliaWait+s.cfg.Timeout
			if _, errs := s.cfg.Service.Settle(ctx, []scheduler.Settlement{longer}); errs[0] != nil {
				return errs[0]
			}
		}
		if s.backs.keep(camelliaBack{back.Receipt, until}) {
			time.AfterFunc(camelliaWait, func() { s.camelliaEnd(m.Topic, until) })
			return nil
		}
	}
	_, err = s.camelliaSettle(ctx, []scheduler.Settlement{back})
	return err
}

// camelliaEnd ends the leases that camelliaBacks.take takes, and returns how soon their messages are ready, which is a
// moment later. What fails lapses.
func (s *Server) camelliaEnd(topic string, until time.Time) (ready time.Duration) {
	ctx, stop := context.WithTimeout(context.Background(), s.cfg.Timeout)
	defer stop()
	if all := s.backs.take(topic, until); len(all) > 0 {
		due, _ := s.camelliaSettle(ctx, all)
		ready = due.Time().Sub(s.cfg.Now())
	}
	return min(ready, camelliaLast)
}

// camelliaSettle settles leases, and returns when all that comes back is due.
func (s *Server) camelliaSettle(ctx context.Context, all []scheduler.Settlement) (due message.Milli, err error) {
	settled, errs := s.cfg.Service.Settle(ctx, all)
	for i := range settled {
		if errs[i] == nil {
			due = max(due, settled[i].Info.Due)
			s.stats.of(all[i].Topic, func(c *camelliaCounts) { c.over(settled[i].Info.State) })
		}
	}
	return due, errors.Join(errs...)
}
