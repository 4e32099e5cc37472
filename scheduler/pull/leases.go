package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Settle settles leases on behalf of their consumers, and returns an outcome or an error for each. Where every change
// waits for the journal, Settle waits too, after the message has ended or returned: an acknowledgement ends the message
// even while the journal is away. The outcome then says that it is not in the journal yet, and a repeat waits again.
//
// A nack asks for a retry by the schedule of the message: the n-th by its n-th delay, and after the last one the
// message is dead. A delay of the consumer's replaces the next one, not the end.
func (s *Consumers) Settle(ctx context.Context, orders []scheduler.Settlement) ([]scheduler.Settled, []error) {
	results, errs := make([]scheduler.Settled, len(orders)), make([]error, len(orders))
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	parts := map[message.Bucket][]int{}
	for i := range orders {
		bucket := orders[i].UID.Bucket(s.cfg.Timeline.Buckets())
		parts[bucket] = append(parts[bucket], i)
	}
	var all sync.WaitGroup // none waits for the journal, or for a bucket that does not answer, before another is sent
	for bucket, places := range parts {
		all.Go(func() {
			items, err := s.items(ctx, bucket, orders, places)
			var settled []scheduler.Settled
			if err == nil {
				settled, err = s.SettleIn(ctx, bucket, items)
			}
			for at, i := range places {
				if at < len(settled) {
					results[i] = settled[at]
				} else {
					errs[i] = err
				}
			}
		})
	}
	all.Wait()
	return results, errs
}

// items translates the orders at places, which concern one bucket.
func (s *Consumers) items(ctx context.Context, bucket message.Bucket, orders []scheduler.Settlement,
	places []int) ([]scheduler.Settle, error) {
	if err := s.cfg.Admit(); err != nil {
		return nil, err
	}
	var nacks []message.UID
	for _, i := range places {
		if orders[i].Verb == scheduler.Nack {
			nacks = append(nacks, orders[i].UID)
		}
	}
	leases, err := s.LeasesIn(ctx, bucket, nacks...)
	if err != nil {
		return nil, err
	}
	items := make([]scheduler.Settle, len(places))
	for at, i := range places {
		o := &orders[i]
		item := scheduler.Settle{Verb: o.Verb, UID: o.UID, Topic: o.Topic, Nonce: o.Nonce, Reason: o.Reason}
		switch o.Verb {
		case scheduler.Extend, scheduler.Until:
			item.Number = message.CeilMilli(s.cfg.Clock.Latest().Add(o.Lease))
		case scheduler.Nack:
			item.Reason = cmp.Or(o.Reason, "sent back")
			if l := leases[o.UID]; l != nil && l.Nonce == o.Nonce {
				s.cfg.Topics.Retried(&item, &l.Message, s.cfg.Clock.Latest())
			}
			if o.Said != "" {
				item.Reason += ": " + o.Said
			}
			if o.Delay != nil {
				item.Number = message.CeilMilli(s.cfg.Clock.Latest().Add(*o.Delay))
			}
		}
		items[at] = item
	}
	return items, nil
}

// LeasesIn returns the leases that messages of one bucket have.
func (s *Consumers) LeasesIn(ctx context.Context, bucket message.Bucket,
	uids ...message.UID) (map[message.UID]*scheduler.LeaseInfo, error) {
	found := map[message.UID]*scheduler.LeaseInfo{}
	if len(uids) == 0 {
		return found, nil
	}
	page, err := s.cfg.Timeline.Leases(ctx, bucket, scheduler.LeaseQuery{UIDs: uids, Limit: len(uids)},
		s.cfg.Clock.Milli())
	for i := range page.Leases {
		found[page.Leases[i].Message.UID] = &page.Leases[i]
	}
	return found, scheduler.Looked("look up leases", err)
}

// SettleIn settles items of one bucket, in as many calls as that takes, and waits for the journal. It returns the
// outcomes of the first items, and the error of the others.
func (s *Consumers) SettleIn(ctx context.Context, bucket message.Bucket,
	items []scheduler.Settle) (all []scheduler.Settled, err error) {
	var changes []scheduler.Recorded
	for err == nil && len(items) > 0 {
		var settled []scheduler.Settled
		var made scheduler.Effect
		now := s.cfg.Clock.Milli()
		settled, made, err = s.cfg.Timeline.Settle(ctx, bucket, 0, items, now)
		if errors.Is(err, scheduler.ErrOutcomeUnknown) {
			settled, made, err = s.cfg.Timeline.Settle(ctx, bucket, 0, items, now)
			if errors.Is(err, scheduler.ErrUnavailable) || errors.Is(err, scheduler.ErrFull) {
				err = fmt.Errorf("%w: %v", scheduler.ErrOutcomeUnknown, err)
			}
		}
		if err == nil && len(settled) == 0 {
			err = fmt.Errorf("%w: the store settles nothing", scheduler.ErrOutcomeUnknown)
		}
		s.Hasten(bucket, made.Earlier)
		s.settled(items, settled)
		all, changes, items = append(all, settled...), append(changes, made.Changes...), items[len(settled):]
	}
	if err != nil {
		err = fmt.Errorf("settle: %w", err)
	}
	if len(changes) == 0 {
		return all, err
	}
	missing := map[message.UID]bool{}
	for i := range changes {
		missing[changes[i].UID] = true
	}
	late := s.cfg.Journal.Ready() // nobody waits for a journal that is known to be away
	if late == nil {
		late = s.cfg.Journal.Await(ctx, changes, func(i int, _ bool) { delete(missing, changes[i].UID) })
	}
	if errors.Is(late, scheduler.ErrFenced) { // the store that settled them was replaced
		return nil, fmt.Errorf("settle: %w: %w", scheduler.ErrOutcomeUnknown, late)
	}
	for i := range all {
		all[i].Unjournaled = late != nil && missing[all[i].Info.UID]
	}
	return all, err
}

// endedHow are the words for how consumers end leases.
var endedHow = map[scheduler.Verb]string{scheduler.Ack: "acked", scheduler.Nack: "sent_back", scheduler.Bury: "buried",
	scheduler.Release: "released"}

// usedUp is the word for a message that was sent back once too often, and so died.
const usedUp = "used_up"

// settled counts leases that ended.
func (s *Consumers) settled(items []scheduler.Settle, settled []scheduler.Settled) {
	for i := range settled {
		how, died := endedHow[items[i].Verb], settled[i].Info.State == message.StateDead
		if died && items[i].Verb == scheduler.Nack {
			how = usedUp
		}
		if how != "" && settled[i].Code == scheduler.SettleDone {
			s.metrics.leasesEnded.WithLabelValues(how).Inc()
			if died {
				s.cfg.Events.Tell(scheduler.Event{Kind: scheduler.EventDead, UID: items[i].UID, Topic: items[i].Topic,
					Detail: items[i].Reason})
			}
		}
	}
}

// LeasesOf lists a page of the leases of a topic, by their end, after the place after. next is where the following page
// begins, or empty.
func (s *Consumers) LeasesOf(ctx context.Context, topic, after string, limit int) (all []scheduler.LeaseInfo,
	next string,
	err error) {
	if err := s.cfg.Admit(); err != nil {
		return nil, "", err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	for bucket := range s.cfg.Timeline.Buckets() {
		page, err := s.cfg.Timeline.Leases(ctx, bucket, scheduler.LeaseQuery{Topic: topic, After: after, Limit: limit},
			s.cfg.Clock.Milli())
		if err != nil {
			return nil, "", scheduler.Looked("list leases", err)
		}
		all = append(all, page.Leases...)
		if page.Next != "" && (next == "" || page.Next < next) {
			next = page.Next
		}
	}
	slices.SortFunc(all, func(a, b scheduler.LeaseInfo) int { return cmp.Compare(a.Place(), b.Place()) })
	if next != "" { // a bucket has more after this
		all = slices.DeleteFunc(all, func(l scheduler.LeaseInfo) bool { return l.Place() > next })
	}
	if len(all) > limit {
		all = all[:limit]
		next = all[limit-1].Place()
	}
	return all, next, nil
}
