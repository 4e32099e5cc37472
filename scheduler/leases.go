package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Receipt is what a consumer gets with a leased message, and what settles the lease.
type Receipt struct {
	UID   message.UID
	Nonce Nonce
	Topic string
}

// Settlement is a consumer's word about a lease.
type Settlement struct {
	Verb Verb
	Receipt
	// Delay replaces the delay of the next retry of a Nack.
	Delay *time.Duration
	// Lease is how long an Extend or an Until holds the message from now.
	Lease time.Duration
	// Reason is in words for people; of an Ack, a Nack or a Bury. Of a Nack it says how the message came back; the
	// default is "sent back".
	Reason string
	// Said is what a consumer says of why it sends the message back.
	Said string
}

// Settle settles leases on behalf of their consumers, and returns an outcome or an error for each. Where every change
// waits for the journal, Settle waits too, after the message has ended or returned: an acknowledgement ends the message
// even while the journal is away. The outcome then says that it is not in the journal yet, and a repeat waits again.
//
// A nack asks for a retry by the schedule of the message: the n-th by its n-th delay, and after the last one the
// message is dead. A delay of the consumer's replaces the next one, not the end.
func (s *Scheduler) Settle(ctx context.Context, orders []Settlement) ([]Settled, []error) {
	results, errs := make([]Settled, len(orders)), make([]error, len(orders))
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
			var settled []Settled
			if err == nil {
				settled, err = s.settle(ctx, bucket, items)
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
func (s *Scheduler) items(ctx context.Context, bucket message.Bucket, orders []Settlement,
	places []int) ([]Settle, error) {
	if err := s.cfg.Admit(); err != nil {
		return nil, err
	}
	var nacks []message.UID
	for _, i := range places {
		if orders[i].Verb == Nack {
			nacks = append(nacks, orders[i].UID)
		}
	}
	leases, err := s.leases(ctx, bucket, nacks...)
	if err != nil {
		return nil, err
	}
	items := make([]Settle, len(places))
	for at, i := range places {
		o := &orders[i]
		item := Settle{Verb: o.Verb, UID: o.UID, Topic: o.Topic, Nonce: o.Nonce, Reason: o.Reason}
		switch o.Verb {
		case Extend, Until:
			item.Number = message.CeilMilli(s.cfg.Clock.Latest().Add(o.Lease))
		case Nack:
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

// leases returns the leases that messages of one bucket have.
func (s *Scheduler) leases(ctx context.Context, bucket message.Bucket,
	uids ...message.UID) (map[message.UID]*LeaseInfo, error) {
	found := map[message.UID]*LeaseInfo{}
	if len(uids) == 0 {
		return found, nil
	}
	page, err := s.cfg.Timeline.Leases(ctx, bucket, LeaseQuery{UIDs: uids, Limit: len(uids)}, s.cfg.Clock.Milli())
	for i := range page.Leases {
		found[page.Leases[i].Message.UID] = &page.Leases[i]
	}
	return found, Looked("look up leases", err)
}

// Retried makes an item that returns a message after one try more say when the message is due again, or that it is
// dead: the schedule is over.
func (t *Topics) Retried(item *Settle, m *message.Info, now time.Time) {
	schedule := t.Schedule(&m.Retry, m.Topic)
	tries := int(m.Mark.Refusals) + 1
	delay, over := schedule.After(tries)
	if over {
		item.Verb, item.Kind = Bury, message.KindPlain
		item.Reason += After(tries - 1)
	}
	item.Number = message.CeilMilli(now.Add(delay))
}

// After returns the words for how often a message that is dead was tried again.
func After(retries int) string {
	if retries == 1 {
		return " after 1 retry"
	}
	return fmt.Sprintf(" after %d retries", retries)
}

// settle settles items of one bucket, in as many calls as that takes, and waits for the journal. It returns the
// outcomes of the first items, and the error of the others.
func (s *Scheduler) settle(ctx context.Context, bucket message.Bucket, items []Settle) (all []Settled, err error) {
	var changes []Recorded
	for err == nil && len(items) > 0 {
		var settled []Settled
		var made Effect
		now := s.cfg.Clock.Milli()
		settled, made, err = s.cfg.Timeline.Settle(ctx, bucket, 0, items, now)
		if errors.Is(err, ErrOutcomeUnknown) {
			settled, made, err = s.cfg.Timeline.Settle(ctx, bucket, 0, items, now)
			if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrFull) {
				err = fmt.Errorf("%w: %v", ErrOutcomeUnknown, err)
			}
		}
		if err == nil && len(settled) == 0 {
			err = fmt.Errorf("%w: the store settles nothing", ErrOutcomeUnknown)
		}
		s.Hasten(bucket, made.Earlier)
		s.metrics.settled(items, settled)
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
	if errors.Is(late, ErrFenced) { // the store that settled them was replaced
		return nil, fmt.Errorf("settle: %w: %w", ErrOutcomeUnknown, late)
	}
	for i := range all {
		all[i].Unjournaled = late != nil && missing[all[i].Info.UID]
	}
	return all, err
}

// SettleHeld settles the lease in force of the message that ref names, for callers that have no receipt. An Ack that
// comes after the lease ends what consumers had all the same. Errors: ErrUnknownID, ErrNotLeased.
func (s *Scheduler) SettleHeld(ctx context.Context, ref Ref, verb Verb) (Settled, error) {
	if verb != Ack {
		held, err := s.LeaseOf(ctx, ref)
		if err != nil {
			return Settled{}, err
		}
		return s.settleOne(ctx, Settlement{Verb: verb,
			Receipt: Receipt{UID: held.Message.UID, Nonce: held.Nonce, Topic: held.Message.Topic}})
	}
	m, err := s.handed(ctx, ref)
	if err != nil {
		return Settled{}, err
	}
	// The store decides whether it is leased: the lease may end at this moment.
	one := Settlement{Verb: verb, Receipt: Receipt{UID: m.UID, Topic: m.Topic}}
	if m.State != message.StateInFlight {
		one.Reason = "acknowledged after its lease"
	}
	return s.settleOne(ctx, one)
}

// LeaseOf returns the lease in force of the message that ref names. Errors: ErrUnknownID, ErrNotLeased.
func (s *Scheduler) LeaseOf(ctx context.Context, ref Ref) (LeaseInfo, error) {
	m, err := s.handed(ctx, ref)
	if err != nil {
		return LeaseInfo{}, err
	}
	leases, err := s.leases(ctx, m.UID.Bucket(s.cfg.Timeline.Buckets()), m.UID)
	if held := leases[m.UID]; held != nil {
		return *held, nil
	}
	return LeaseInfo{}, cmp.Or(err, fmt.Errorf("%w: it is %s", ErrNotLeased, m.State))
}

// handed returns the message that ref names and that consumers pull: the leased one, since a later push of the name may
// wait behind, else one that waits.
func (s *Scheduler) handed(ctx context.Context, ref Ref) (m *message.Info, err error) {
	found, err := s.find(ctx, ref, forChange)
	if err == nil && len(found) == 0 {
		err = ErrUnknownID
	}
	if err != nil {
		return nil, err
	}
	for i := range found {
		if one := &found[i]; one.Pull && !one.State.Ended() &&
			(m == nil || m.State != message.StateInFlight && one.State == message.StateInFlight) {
			m = one
		}
	}
	if m == nil {
		return nil, fmt.Errorf("%w: it is %s", ErrNotLeased, found[len(found)-1].State)
	}
	return m, nil
}

func (s *Scheduler) settleOne(ctx context.Context, one Settlement) (Settled, error) {
	settled, errs := s.Settle(ctx, []Settlement{one})
	if errs[0] == nil && settled[0].Code == SettleLost {
		errs[0] = fmt.Errorf("%w: it is %s", ErrNotLeased, settled[0].Info.State)
	}
	if errs[0] == nil && settled[0].Unjournaled {
		errs[0] = errUnjournaled
	}
	return settled[0], errs[0]
}

var errUnjournaled = fmt.Errorf("settled, and the journal does not have it yet: %w", ErrOutcomeUnknown)

// endedHow are the words for how consumers end leases.
var endedHow = map[Verb]string{Ack: "acked", Nack: "sent_back", Bury: "buried", Release: "released"}

// settled counts leases that ended.
func (m *metrics) settled(items []Settle, settled []Settled) {
	for i := range settled {
		if how := endedHow[items[i].Verb]; how != "" && settled[i].Code == SettleDone {
			m.leasesEnded.WithLabelValues(how).Inc()
		}
	}
}

// Release frees a leased message on behalf of an operator: its consumer loses the lease, and it is ready again at its
// own place. That counts as no try. Its history tells who did so, and why. Error: ErrNotLeased.
func (s *Scheduler) Release(ctx context.Context, ref Ref, reason string) (message.Info, error) {
	info, err := s.Resolve(ctx, ref)
	if err != nil {
		return info, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	bucket := info.UID.Bucket(s.cfg.Timeline.Buckets())
	leases, err := s.leases(ctx, bucket, info.UID)
	held := leases[info.UID]
	if held == nil {
		return info, cmp.Or(err, ErrNotLeased)
	}
	info.Held = &held.Holding
	settled, err := s.settle(ctx, bucket, []Settle{{Verb: Release, UID: info.UID, Topic: info.Topic, Nonce: held.Nonce,
		Kind: message.KindReleased, Reason: reason}})
	if err != nil || settled[0].Code == SettleLost { // by then another consumer may hold it
		return info, cmp.Or(err, ErrNotLeased)
	}
	if settled[0].Unjournaled {
		return info, errUnjournaled
	}
	if info.State, info.Version = settled[0].Info.State, settled[0].Info.Version; info.State == message.StateWaiting {
		info.State = message.StateReady // its place has been due; to look again might fail, after it was released
	}
	return info, nil
}

// LeasesOf lists a page of the leases of a topic, by their end, after the place after. next is where the following page
// begins, or empty.
func (s *Scheduler) LeasesOf(ctx context.Context, topic, after string, limit int) (all []LeaseInfo, next string,
	err error) {
	if err := s.cfg.Admit(); err != nil {
		return nil, "", err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	for bucket := range s.cfg.Timeline.Buckets() {
		page, err := s.cfg.Timeline.Leases(ctx, bucket, LeaseQuery{Topic: topic, After: after, Limit: limit},
			s.cfg.Clock.Milli())
		if err != nil {
			return nil, "", Looked("list leases", err)
		}
		all = append(all, page.Leases...)
		if page.Next != "" && (next == "" || page.Next < next) {
			next = page.Next
		}
	}
	slices.SortFunc(all, func(a, b LeaseInfo) int { return cmp.Compare(a.Place(), b.Place()) })
	if next != "" { // a bucket has more after this
		all = slices.DeleteFunc(all, func(l LeaseInfo) bool { return l.Place() > next })
	}
	if len(all) > limit {
		all = all[:limit]
		next = all[limit-1].Place()
	}
	return all, next, nil
}

// ByConsumer returns the reason of a change that a consumer's lease led to: as much as stores keep, 249 bytes.
func ByConsumer(consumer, reason string) string {
	switch {
	case consumer == "":
	case reason == "":
		reason = "consumer " + consumer
	default:
		reason = "consumer " + consumer + ": " + reason
	}
	return reason[:min(len(reason), 249)]
}
