package accept

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Accept queues a push and calls done exactly once with its outcome: from another goroutine or, if the push is refused
// at once, from the caller's. done must not block: it delays other pushes of the same flush.
func (s *Producers) Accept(p *scheduler.Push, done func(scheduler.Accepted)) { s.accept(p, done) }

// accept does the work of Accept. It returns the push's uid for a caller that stops waiting and has to report it.
func (s *Producers) accept(p *scheduler.Push, done func(scheduler.Accepted)) message.UID {
	now := s.cfg.Clock.Latest()
	m := s.message(p, now)
	refuse := func(err error) message.UID {
		s.metrics.refused.Inc()
		done(scheduler.Accepted{UID: m.UID, ID: p.ID, Due: m.Due, Err: err})
		return m.UID
	}
	if err := s.cfg.Admit(); err != nil {
		return refuse(err)
	}
	if err := s.cfg.CheckDue(m.Due, now); err != nil {
		return refuse(err)
	}
	m.Due = max(m.Due, 1) // a due time of 0 would mean that nothing waits
	if err := s.deliver(m, p); err != nil {
		return refuse(err)
	}
	stale := s.names.stale(p, now)
	if p.UID != "" && p.Stored == 0 {
		if age, keep := now.Sub(p.UID.Time()), max(s.cfg.EndedKeep, s.cfg.NamesKeep); age > keep {
			return refuse(
				fmt.Errorf("%w: it was issued %s ago, and uids are remembered for %s", scheduler.ErrStaleUID, age.Round(1e9), keep))
		}
		if err := checkRepeat(p.UID, now, message.HashedName(p.ID, p.Key)); err != nil {
			return refuse(err)
		}
	}
	m.Judge = s.cfg.NamesKeep > 0 && (p.ID != "" || p.UID != "")
	q := &queued{message: m, done: func(a scheduler.Accepted) {
		s.observe(&a)
		done(a)
	}}
	if p.UID != "" && !stale && (p.Stored == 0 || s.cfg.NamesKeep > 0) {
		q.known = p.UID.Time().Add(s.cfg.EndedKeep)
	}
	bucket, chosen := s.bucketOf(m)
	if !chosen {
		bucket = s.queues.current()
	}
	if err := s.queues.watch.Refuse(bucket); err != nil {
		return refuse(err)
	}
	if err := s.queues.identify(bucket, q); err != nil {
		return refuse(err)
	}
	uid := m.UID // the flusher may give another
	var err error
	if s.names.takes(m, stale) {
		err = s.names.put(&asked{queued: q, bucket: bucket, stale: stale})
	} else {
		err = s.queues.put(bucket, q)
	}
	if err != nil {
		return refuse(err)
	}
	return uid
}

// uidAhead is how far in the future a uid of another instance may be. Clocks that are further apart raise an alarm.
const uidAhead = time.Second

// checkRepeat refuses a push whose id has the form of a uid, unless that uid may have been the answer to an earlier
// push outside the intake. Otherwise a client could guess the uid of a later push by tag, which would then be taken for
// a repeat of this push. name decides the push's bucket; it is empty if the push has no name.
func checkRepeat(u message.UID, now time.Time, name string) error {
	switch {
	case u.Intake():
		return fmt.Errorf("%w: the id %s is that of a push by tag; such a push needs no id to be repeated safely",
			scheduler.ErrForeignUID, u)
	case u.Time().Sub(now) > uidAhead:
		return fmt.Errorf("%w: the id %s lies in the future", scheduler.ErrForeignUID, u)
	case name != "" && u.Hash() != message.Hash(name):
		return fmt.Errorf(
			"%w: the id %s does not belong to a message with this key, or with this content where pushes are merged",
			scheduler.ErrForeignUID, u)
	}
	return nil
}

// message returns a push as a message, with its due time computed from the given now.
func (s *Producers) message(p *scheduler.Push, now time.Time) *message.Message {
	m := s.plain(p, now)
	if m.MaxWait > 0 && s.cfg.Clock.Doubted(m.MaxWait) {
		// The stored time of the first push cannot be trusted, so the wait might end early. The due time of this push
		// already respects MaxWait.
		m.MaxWait = 0
	}
	if m.MaxWait > 0 {
		m.MaxWait += s.behind(p, now)
	}
	return m
}

// behind returns how far the clock behind the time of the first push may be behind. The longest wait counts from that
// time, which is NATS's stamp or an instance's: by a clock that is slow it would be over early.
func (s *Producers) behind(p *scheduler.Push, now time.Time) time.Duration {
	lag := s.cfg.Clock.Lag()
	if p.Stored > 0 {
		lag = max(lag, now.Sub(p.UID.Time())-p.Age)
	}
	if lag < time.Second { // what is less raises no alarm
		return 0
	}
	return lag
}

func (s *Producers) plain(p *scheduler.Push, now time.Time) *message.Message {
	if !p.ByRetry {
		return p.Message(now)
	}
	schedule := s.cfg.Topics.Schedule(&p.Retry, p.Topic)
	// After the last retry the message is due at once, and the leader ends it as dead.
	delay, _ := schedule.After(int(p.Attempt) - 1)
	by := *p
	by.Delay, by.HasAt = delay, false
	return by.Message(now)
}

// deliver decides whether consumers pull a message. That is settled when it is accepted, and its topic's time to live
// with it: the instance that leases a message knows no settings of other instances.
func (s *Producers) deliver(m *message.Message, p *scheduler.Push) error {
	if p.Deliver == scheduler.DeliverTopic && s.cfg.Topics == nil && p.Lease == 0 {
		return nil
	}
	topic := s.cfg.Topics.Of(m.Topic)
	m.Pull = p.Deliver == scheduler.DeliverPull || p.Deliver == scheduler.DeliverTopic && topic != nil &&
		topic.Deliver == scheduler.DeliverPull
	switch {
	case !m.Pull && p.Lease > 0:
		return fmt.Errorf("%w: lease requires deliver pull", scheduler.ErrDeliver)
	case !m.Pull:
		return nil
	}
	m.Lease = p.Lease
	if topic == nil {
		return nil
	}
	if topic.Webhook && p.Lease > 0 {
		return fmt.Errorf("%w: lease cannot be combined with a webhook, which leases for as long as it needs",
			scheduler.ErrDeliver)
	}
	m.TTL = cmp.Or(m.TTL, topic.TTL)
	m.Serial = topic.Serial && m.Key != ""
	if setting := topic.ForNATS(); setting != "" {
		return fmt.Errorf("%w pull cannot be combined with the setting %s of the topics %s, which concerns NATS",
			scheduler.ErrDeliver,
			setting, topic.Pattern)
	}
	return nil
}

// AcceptAll pushes a batch, waits for all outcomes and returns them in the batch's order. If ctx ends first, the
// missing outcomes are ErrOutcomeUnknown.
func (s *Producers) AcceptAll(ctx context.Context, batch []*scheduler.Push) []scheduler.Accepted {
	var (
		mu      sync.Mutex
		results = make([]scheduler.Accepted, len(batch))
		left    = len(batch)
		all     = make(chan struct{})
	)
	if left == 0 {
		return results
	}
	for i, p := range batch {
		results[i] = scheduler.Accepted{UID: p.UID, ID: p.ID, Err: scheduler.ErrOutcomeUnknown}
	}
	by := scheduler.Caller(ctx)
	for i, p := range batch {
		p.By = by
		uid := s.accept(p, func(a scheduler.Accepted) {
			mu.Lock()
			defer mu.Unlock()
			results[i] = a
			if left--; left == 0 {
				close(all)
			}
		})
		mu.Lock()
		if results[i].UID == "" {
			results[i].UID = uid // to repeat with, should ctx end first
		}
		mu.Unlock()
	}
	select {
	case <-all:
		return results
	case <-ctx.Done():
		mu.Lock()
		defer mu.Unlock()
		return append([]scheduler.Accepted(nil), results...)
	}
}

// bucketOf returns the bucket that a message's identity or name determines, if either does.
func (s *Producers) bucketOf(m *message.Message) (bucket message.Bucket, chosen bool) {
	n := s.cfg.Timeline.Buckets()
	if m.UID != "" {
		return m.UID.Bucket(n), true
	}
	if name := message.HashedName(m.ID, m.Key); name != "" {
		return message.BucketOf(name, n), true
	}
	if len(m.Call) > 1 { // where its repeats find it
		return message.Bucket(binary.BigEndian.Uint16([]byte(m.Call))) % n, true
	}
	return 0, false
}

// observe counts an outcome.
func (s *Producers) observe(a *scheduler.Accepted) {
	switch {
	case a.Err != nil:
		s.metrics.refused.Inc()
	case a.Merged:
		s.metrics.merged.Inc()
	case a.Duplicate:
		s.metrics.duplicates.Inc()
	default:
		s.metrics.accepted.Inc()
	}
}

// Answer converts the timeline's result for a push into the answer to its producer.
func Answer(m *message.Message, r scheduler.AddResult) scheduler.Accepted {
	a := scheduler.Accepted{UID: m.UID, ID: cmp.Or(m.ID, string(m.UID)), Due: m.Due, State: message.StateWaiting,
		Version: 1}
	if r.Code == scheduler.AddConflict && r.First.Topic != m.Topic { // a name never leads to another topic, so the uid did
		what := "uid " + string(m.UID)
		if r.First.UID != m.UID {
			what = "Nats-Msg-Id"
		}
		a.Err = fmt.Errorf("%w: the %s is that of another message", scheduler.ErrDuplicateID, what)
		return a
	}
	if r.Code == scheduler.AddCalls {
		a.Err = fmt.Errorf("%w: its bucket keeps the Nats-Msg-Ids of as many pushes as it may", scheduler.ErrBusy)
		return a
	}
	if r.Code == scheduler.AddUnreadable {
		a.Err = fmt.Errorf("%w: that of the message %s, which this push's uid or id leads to; nothing was changed, "+
			"and `tarry verify` lists it", scheduler.ErrUnreadable, r.First.UID)
		return a
	}
	switch r.Code {
	case scheduler.AddedCanceled:
		a.State, a.Version = message.StateCanceled, 2
	case scheduler.AddDuplicate, scheduler.AddConflict, scheduler.AddMerged, scheduler.AddUncertain:
		a.UID, a.Due, a.State, a.Version = r.First.UID, r.First.Due, r.First.State, r.First.Version
		a.Duplicate, a.Merged = r.Code == scheduler.AddDuplicate, r.Code == scheduler.AddMerged
	}
	if r.Code == scheduler.AddUncertain {
		a.Err = fmt.Errorf("%w: the message %s with this id; it stays as it was", scheduler.ErrMaybeDelivered, a.UID)
	}
	if r.Code == scheduler.AddConflict {
		if a.State.Ended() {
			also := ""
			if a.State == message.StateDead {
				also = ", or to requeue that one"
			}
			a.Err = fmt.Errorf("%w: the message %s with this id is %s; what helps is another id, or on_duplicate replace%s",
				scheduler.ErrDuplicateID, a.UID, a.State, also)
		} else {
			a.Err = fmt.Errorf("%w: the message %s with this id has other content, which is its body, headers, "+
				"options, and the delay or time as given; "+
				"what helps is another id, on_duplicate replace, or a reschedule", scheduler.ErrDuplicateID, a.UID)
		}
	}
	return a
}
