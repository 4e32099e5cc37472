package steer

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// SettleHeld settles the lease in force of the message that ref names, for callers that have no receipt. An Ack that
// comes after the lease ends what consumers had all the same. Errors: ErrUnknownID, ErrNotLeased.
func (s *Scheduler) SettleHeld(ctx context.Context, ref scheduler.Ref, verb scheduler.Verb) (scheduler.Settled, error) {
	if verb != scheduler.Ack {
		held, err := s.LeaseOf(ctx, ref)
		if err != nil {
			return scheduler.Settled{}, err
		}
		return s.settleOne(ctx, scheduler.Settlement{Verb: verb,
			Receipt: scheduler.Receipt{UID: held.Message.UID, Nonce: held.Nonce, Topic: held.Message.Topic}})
	}
	m, err := s.handed(ctx, ref)
	if err != nil {
		return scheduler.Settled{}, err
	}
	// The store decides whether it is leased: the lease may end at this moment.
	one := scheduler.Settlement{Verb: verb, Receipt: scheduler.Receipt{UID: m.UID, Topic: m.Topic}}
	if m.State != message.StateInFlight {
		one.Reason = "acknowledged after its lease"
	}
	return s.settleOne(ctx, one)
}

// LeaseOf returns the lease in force of the message that ref names. Errors: ErrUnknownID, ErrNotLeased.
func (s *Scheduler) LeaseOf(ctx context.Context, ref scheduler.Ref) (scheduler.LeaseInfo, error) {
	m, err := s.handed(ctx, ref)
	if err != nil {
		return scheduler.LeaseInfo{}, err
	}
	leases, err := s.LeasesIn(ctx, m.UID.Bucket(s.cfg.Timeline.Buckets()), m.UID)
	if held := leases[m.UID]; held != nil {
		return *held, nil
	}
	return scheduler.LeaseInfo{}, cmp.Or(err, fmt.Errorf("%w: it is %s", scheduler.ErrNotLeased, m.State))
}

// handed returns the message that ref names and that consumers pull: the leased one, since a later push of the name may
// wait behind, else one that waits.
func (s *Scheduler) handed(ctx context.Context, ref scheduler.Ref) (m *message.Info, err error) {
	found, err := s.find(ctx, ref, forChange)
	if err == nil && len(found) == 0 {
		err = scheduler.ErrUnknownID
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
		return nil, fmt.Errorf("%w: it is %s", scheduler.ErrNotLeased, found[len(found)-1].State)
	}
	return m, nil
}

func (s *Scheduler) settleOne(ctx context.Context, one scheduler.Settlement) (scheduler.Settled, error) {
	settled, errs := s.Settle(ctx, []scheduler.Settlement{one})
	if errs[0] == nil && settled[0].Code == scheduler.SettleLost {
		errs[0] = fmt.Errorf("%w: it is %s", scheduler.ErrNotLeased, settled[0].Info.State)
	}
	if errs[0] == nil && settled[0].Unjournaled {
		errs[0] = errUnjournaled
	}
	return settled[0], errs[0]
}

var errUnjournaled = fmt.Errorf("settled, and the journal does not have it yet: %w", scheduler.ErrOutcomeUnknown)

// Release frees a leased message on behalf of an operator: its consumer loses the lease, and it is ready again at its
// own place. That counts as no try. Its history tells who did so, and why. Error: ErrNotLeased.
func (s *Scheduler) Release(ctx context.Context, ref scheduler.Ref, reason string) (message.Info, error) {
	info, err := s.Resolve(ctx, ref)
	if err != nil {
		return info, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	bucket := info.UID.Bucket(s.cfg.Timeline.Buckets())
	leases, err := s.LeasesIn(ctx, bucket, info.UID)
	held := leases[info.UID]
	if held == nil {
		return info, cmp.Or(err, scheduler.ErrNotLeased)
	}
	info.Held = &held.Holding
	settled, err := s.SettleIn(ctx, bucket, []scheduler.Settle{{Verb: scheduler.Release, UID: info.UID, Topic: info.Topic,
		Nonce: held.Nonce,
		Kind:  message.KindReleased, Reason: reason}})
	if err != nil || settled[0].Code == scheduler.SettleLost { // by then another consumer may hold it
		return info, cmp.Or(err, scheduler.ErrNotLeased)
	}
	if settled[0].Unjournaled {
		return info, errUnjournaled
	}
	if info.State, info.Version = settled[0].Info.State, settled[0].Info.Version; info.State == message.StateWaiting {
		info.State = message.StateReady // its place has been due; to look again might fail, after it was released
	}
	return info, nil
}
