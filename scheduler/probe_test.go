package scheduler_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// recorded keeps the changes that a store is given: what a journal would hold.
type recorded struct {
	scheduler.Timeline
	mu      sync.Mutex
	changes map[message.UID][]scheduler.Change
	ended   map[message.UID]message.Message // as they were stored
}

func (s *recorded) keep(c scheduler.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == nil {
		s.changes = map[message.UID][]scheduler.Change{}
	}
	s.changes[c.UID] = append(s.changes[c.UID], c)
}

func (s *recorded) of(uid message.UID) []scheduler.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]scheduler.Change(nil), s.changes[uid]...)
}

func (s *recorded) Finish(ctx context.Context, bucket message.Bucket, holder scheduler.Holder, ends []scheduler.End,
	now message.Milli) (scheduler.Receipt, error) {
	made, err := s.Timeline.Finish(ctx, bucket, holder, ends, now)
	for i := range ends {
		if err == nil {
			s.keep(ends[i].Change())
			s.mu.Lock()
			if s.ended == nil {
				s.ended = map[message.UID]message.Message{}
			}
			s.ended[ends[i].Message.UID] = *ends[i].Message
			s.mu.Unlock()
		}
	}
	return made, err
}

func (s *recorded) Return(ctx context.Context, bucket message.Bucket, holder scheduler.Holder, back []scheduler.Back,
	now message.Milli) (scheduler.Receipt, error) {
	made, err := s.Timeline.Return(ctx, bucket, holder, back, now)
	for i := range back {
		if err == nil && back[i].Message != nil {
			s.keep(back[i].Change())
		}
	}
	return made, err
}

func TestRun_AProbeThatIsRefusedForNowLeavesVersionAndHistoryAlone(t *testing.T) {
	for _, kind := range []scheduler.OutcomeKind{scheduler.Unanswered, scheduler.NoListener} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &recorded{}
				r := newRig(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
				away := true
				r.nats.answer = func(*message.Message, int) scheduler.Outcome {
					if away {
						return scheduler.Outcome{Kind: kind, Err: errors.New("away")}
					}
					return scheduler.Outcome{}
				}
				stop := r.lead(r.s, 1)
				defer func() { _ = stop(errStop) }()
				var uids []message.UID
				for range 3 {
					uids = append(uids, r.push(scheduler.Push{Topic: "odd.x", Delay: time.Second}).UID)
				}
				time.Sleep(5 * time.Second)
				var before []message.Info
				parked := 0
				for _, uid := range uids {
					before = append(before, r.info(uid))
					changes := store.of(uid)
					if len(changes) > 1 {
						t.Errorf("%s: parking is recorded %d times: %+v", uid, len(changes), changes)
					}
					if len(changes) == 1 {
						if parked++; !strings.HasPrefix(changes[0].Reason, "parked: ") {
							t.Errorf("parking is recorded as %q", changes[0].Reason)
						}
					}
				}
				if parked == 0 {
					t.Error("no change records that the topic was parked")
				}
				time.Sleep(8 * time.Minute)
				for i, uid := range uids {
					now := r.info(uid)
					// Where nobody listens the first is the probe, so that the order stays.
					if (i == 0 || kind != scheduler.NoListener) && r.nats.tries[uid] < 10 {
						t.Errorf("%s was probed %d times in eight minutes", uid, r.nats.tries[uid])
					}
					if now.Version != before[i].Version || now.Mark != before[i].Mark {
						t.Errorf("probes made version %d, %+v of version %d, %+v", now.Version, now.Mark,
							before[i].Version, before[i].Mark)
					}
				}
				edited, err := r.s.Reschedule(t.Context(), scheduler.Ref{UID: uids[0]},
					scheduler.Edit{Delay: time.Second, HasDelay: true, Version: before[0].Version})
				if err != nil || edited.Code != scheduler.AmendDone {
					t.Errorf("a reschedule of the version that was read before the probes: %v, %v", edited.Code, err)
				}
				r.nats.mu.Lock()
				away = false
				r.nats.mu.Unlock()
				time.Sleep(10 * time.Second)
				for _, uid := range uids[1:] {
					changes := store.of(uid)
					if last := changes[len(changes)-1]; last.State != message.StateDelivered ||
						last.Reason != "unparked" || len(changes) > 2 {
						t.Errorf("%s, parked and delivered, is recorded as %+v", uid, changes)
					}
				}
			})
		})
	}
}

func TestRun_AProbeWithAnUnknownOutcomeIsAChangeAndRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recorded{}
		r := newRig(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		kind := scheduler.NoListener
		r.nats.answer = func(*message.Message, int) scheduler.Outcome {
			return scheduler.Outcome{Kind: kind, Err: errors.New("no answer")}
		}
		stop := r.lead(r.s, 1)
		defer func() { _ = stop(errStop) }()
		uid := r.push(scheduler.Push{Topic: "odd.x", Delay: time.Second}).UID
		time.Sleep(10 * time.Second)
		before := r.info(uid)
		if before.Mark.Uncertain || before.Mark.Lane == "" {
			t.Fatalf("parked by a definite refusal: %+v", before.Mark)
		}
		r.nats.mu.Lock()
		kind = scheduler.Unknown
		r.nats.mu.Unlock()
		time.Sleep(6 * time.Second)
		now, changes := r.info(uid), store.of(uid)
		if !now.Mark.Uncertain || now.Version <= before.Version {
			t.Errorf("after a probe of unknown outcome: version %d after %d, %+v", now.Version,
				before.Version, now.Mark)
		}
		if last := changes[len(changes)-1]; !last.Uncertain || last.Version != now.Version ||
			!strings.HasPrefix(last.Reason, "unknown: ") {
			t.Errorf("it is recorded as %+v", last)
		}
	})
}

func TestParked_SaysInWordsWhatHoldsAMessageBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, nil)
		r.nats.lane = func(m *message.Message) message.Lane {
			if m.Topic == "orders.a" {
				return "js:ORDERS"
			}
			return message.LaneCore.Lane(m.Topic)
		}
		away := true
		r.nats.answer = func(m *message.Message, _ int) scheduler.Outcome {
			switch {
			case !away:
				return scheduler.Outcome{}
			case m.Topic == "odd.x":
				return scheduler.Outcome{Kind: scheduler.NoListener, Err: errors.New("no responders")}
			}
			return scheduler.Outcome{Kind: scheduler.Unanswered, Err: errors.New("maximum messages exceeded")}
		}
		if _, err := r.s.Pause(t.Context(), "mail.>", "ops"); err != nil {
			t.Fatal(err)
		}
		stop := r.lead(r.s, 1)
		topics := []string{"odd.x", "orders.a", "mail.a", "well"}
		uids := map[string]message.UID{}
		for _, topic := range topics {
			delay := time.Second
			if topic == "well" {
				delay = time.Hour
			}
			uids[topic] = r.push(scheduler.Push{Topic: topic, Delay: delay, Key: "k"}).UID
		}
		time.Sleep(30*time.Second + 50*time.Millisecond)
		check := func(s *scheduler.Scheduler, where string, want map[string]string) {
			t.Helper()
			all, err := s.ParkedTopics(t.Context(), topics)
			if err != nil {
				t.Fatal(err)
			}
			for _, topic := range topics {
				info, err := s.Get(t.Context(), scheduler.Ref{UID: uids[topic]})
				if err != nil {
					t.Fatal(err)
				}
				if info.ParkedWhy != want[topic] || all[topic] != want[topic] {
					t.Errorf("%s says of a message on %s %q, and of the topic %q; want %q", where, topic,
						info.ParkedWhy, all[topic], want[topic])
				}
			}
			lanes, err := s.ParkedLanes(t.Context())
			if err != nil || len(lanes) != 3 {
				t.Fatalf("%s lists %+v, %v", where, lanes, err)
			}
			for i, name := range []string{"core:odd.x", "js:ORDERS", "paused.mail.>"} {
				if string(lanes[i].Lane) != name || lanes[i].Why != want[topics[i]] {
					t.Errorf("%s lists %+v, want %s", where, lanes[i], name)
				}
			}
		}
		in := func() string {
			text := r.info(uids["odd.x"]).ParkedWhy
			return text[strings.LastIndex(text, " in "):]
		}
		if wait := in(); wait < " in 1 s" || wait > " in 5 s" {
			t.Errorf("the next try is%s", wait)
		}
		ordersIn := r.info(uids["orders.a"]).ParkedWhy
		check(r.s, "the leader", map[string]string{
			"odd.x": "nobody listens on odd.x; next try" + in(),
			"orders.a": "stream ORDERS takes nothing now (maximum messages exceeded); next try" +
				ordersIn[strings.LastIndex(ordersIn, " in "):],
			"mail.a": "mail.> is paused",
		})
		check(r.scheduler(), "a standby", map[string]string{
			"odd.x":    "nobody listens on odd.x; next try within 5s",
			"orders.a": "stream ORDERS takes nothing now; next try within 5s",
			"mail.a":   "mail.> is paused",
		})
		r.nats.mu.Lock()
		away = false
		r.nats.mu.Unlock()
		time.Sleep(10 * time.Second)
		_ = stop(errStop)
		if lanes, err := r.s.ParkedLanes(t.Context()); err != nil || len(lanes) != 1 {
			t.Errorf("once they take messages again: %+v, %v", lanes, err)
		}
	})
}

// A consumer that was away finds what waited in the order in which it was due, also where it goes again when it has
// taken a few of what is on its way.
func TestRun_WhatNobodyListenedForLeavesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 6000 // more than are in flight at a time
		r := newRig(t, 1, nil)
		listens := 0
		var got []message.UID
		r.nats.answer = func(m *message.Message, _ int) scheduler.Outcome {
			if listens == 0 {
				return scheduler.Outcome{Kind: scheduler.NoListener, Err: errors.New("no responders")}
			}
			listens--
			got = append(got, m.UID)
			return scheduler.Outcome{}
		}
		stop := r.lead(r.s, 1)
		defer func() { _ = stop(errStop) }()
		var want []message.UID
		for i := range many {
			want = append(want, r.push(scheduler.Push{Topic: "orders", Key: "customer-1",
				Delay: time.Second + time.Duration(i)*time.Millisecond}).UID)
		}
		for _, n := range []int{5, many} {
			time.Sleep(5 * time.Minute)
			r.nats.mu.Lock()
			listens = n
			r.nats.mu.Unlock()
		}
		time.Sleep(time.Minute)
		r.nats.mu.Lock()
		defer r.nats.mu.Unlock()
		if !slices.Equal(got, want) {
			t.Errorf("%d of %d left, not in order", len(got), len(want))
		}
	})
}
