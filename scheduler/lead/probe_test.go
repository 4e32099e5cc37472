package lead_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

func TestRun_AProbeThatIsRefusedForNowLeavesVersionAndHistoryAlone(t *testing.T) {
	for _, kind := range []scheduler.OutcomeKind{scheduler.Unanswered, scheduler.NoListener} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &rig.Recorded{}
				r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
				away := true
				r.Nats.Answer = func(*message.Message, int) scheduler.Outcome {
					if away {
						return scheduler.Outcome{Kind: kind, Err: errors.New("away")}
					}
					return scheduler.Outcome{}
				}
				stop := r.Lead(r.S, 1)
				defer func() { _ = stop(rig.ErrStop) }()
				var uids []message.UID
				for range 3 {
					uids = append(uids, r.Push(scheduler.Push{Topic: "odd.x", Delay: time.Second}).UID)
				}
				time.Sleep(5 * time.Second)
				var before []message.Info
				parked := 0
				for _, uid := range uids {
					before = append(before, r.Info(uid))
					changes := store.Of(uid)
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
					now := r.Info(uid)
					// Where nobody listens the first is the probe, so that the order stays.
					if (i == 0 || kind != scheduler.NoListener) && r.Nats.Tries[uid] < 10 {
						t.Errorf("%s was probed %d times in eight minutes", uid, r.Nats.Tries[uid])
					}
					if now.Version != before[i].Version || now.Mark != before[i].Mark {
						t.Errorf("probes made version %d, %+v of version %d, %+v", now.Version, now.Mark,
							before[i].Version, before[i].Mark)
					}
				}
				edited, err := r.S.Reschedule(t.Context(), scheduler.Ref{UID: uids[0]},
					scheduler.Edit{Delay: new(time.Second), Version: before[0].Version})
				if err != nil || edited.Code != scheduler.AmendDone {
					t.Errorf("a reschedule of the version that was read before the probes: %v, %v", edited.Code, err)
				}
				r.Nats.Mu.Lock()
				away = false
				r.Nats.Mu.Unlock()
				time.Sleep(10 * time.Second)
				for _, uid := range uids[1:] {
					changes := store.Of(uid)
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
		store := &rig.Recorded{}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		kind := scheduler.NoListener
		r.Nats.Answer = func(*message.Message, int) scheduler.Outcome {
			return scheduler.Outcome{Kind: kind, Err: errors.New("no answer")}
		}
		stop := r.Lead(r.S, 1)
		defer func() { _ = stop(rig.ErrStop) }()
		uid := r.Push(scheduler.Push{Topic: "odd.x", Delay: time.Second}).UID
		time.Sleep(10 * time.Second)
		before := r.Info(uid)
		if before.Mark.Uncertain || before.Mark.Lane == "" {
			t.Fatalf("parked by a definite refusal: %+v", before.Mark)
		}
		r.Nats.Mu.Lock()
		kind = scheduler.Unknown
		r.Nats.Mu.Unlock()
		time.Sleep(6 * time.Second)
		now, changes := r.Info(uid), store.Of(uid)
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
		r := rig.New(t, 2, nil)
		r.Nats.LaneOf = func(m *message.Message) message.Lane {
			if m.Topic == "orders.a" {
				return "js:ORDERS"
			}
			return message.LaneCore.Lane(m.Topic)
		}
		away := true
		r.Nats.Answer = func(m *message.Message, _ int) scheduler.Outcome {
			switch {
			case !away:
				return scheduler.Outcome{}
			case m.Topic == "odd.x":
				return scheduler.Outcome{Kind: scheduler.NoListener, Err: errors.New("no responders")}
			}
			return scheduler.Outcome{Kind: scheduler.Unanswered, Err: errors.New("maximum messages exceeded")}
		}
		if _, err := r.S.Pause(t.Context(), "mail.>", "ops"); err != nil {
			t.Fatal(err)
		}
		stop := r.Lead(r.S, 1)
		topics := []string{"odd.x", "orders.a", "mail.a", "well"}
		uids := map[string]message.UID{}
		for _, topic := range topics {
			delay := time.Second
			if topic == "well" {
				delay = time.Hour
			}
			uids[topic] = r.Push(scheduler.Push{Topic: topic, Delay: delay, Key: "k"}).UID
		}
		time.Sleep(30*time.Second + 50*time.Millisecond)
		check := func(s *rig.Instance, where string, want map[string]string) {
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
				if text := info.Why.Detail; all[topic].Detail != want[topic] || text != want[topic] && topic != "well" {
					t.Errorf("%s says of a message on %s %q, and of the topic %q; want %q", where, topic,
						text, all[topic].Detail, want[topic])
				}
			}
			by, err := s.Get(t.Context(), scheduler.Ref{UID: uids["mail.a"]})
			if err != nil || by.Why.By != "ops" || by.Why.Since < by.Due || all["mail.a"].By != "ops" ||
				all["mail.a"].Since == 0 {
				t.Errorf("%s says of a pause %+v, and of its topic %+v, %v", where, by.Why, all["mail.a"], err)
			}
			lanes, err := s.HeldLanes(t.Context())
			if err != nil || len(lanes) != 3 {
				t.Fatalf("%s lists %+v, %v", where, lanes, err)
			}
			for i, name := range []string{"core:odd.x", "js:ORDERS", "paused.mail.>"} {
				if string(lanes[i].Lane) != name || lanes[i].Detail != want[topics[i]] || lanes[i].Count != 1 ||
					lanes[i].Oldest == 0 || lanes[i].Name != lanes[i].Lane.Name() {
					t.Errorf("%s lists %+v, want %s", where, lanes[i], name)
				}
			}
		}
		in := func() string {
			text := r.Info(uids["odd.x"]).Why.Detail
			return text[strings.LastIndex(text, " in "):]
		}
		if wait := in(); wait < " in 1 s" || wait > " in 5 s" {
			t.Errorf("the next try is%s", wait)
		}
		ordersIn := r.Info(uids["orders.a"]).Why.Detail
		check(r.S, "the leader", map[string]string{
			"odd.x": "nobody listens on odd.x; next try" + in(),
			"orders.a": "stream ORDERS is not accepting messages (maximum messages exceeded); next try" +
				ordersIn[strings.LastIndex(ordersIn, " in "):],
			"mail.a": "mail.> is paused",
		})
		check(r.Scheduler(), "a standby", map[string]string{
			"odd.x":    "nobody listens on odd.x; next try within 5s",
			"orders.a": "stream ORDERS is not accepting messages; next try within 5s",
			"mail.a":   "mail.> is paused",
		})
		r.Nats.Mu.Lock()
		away = false
		r.Nats.Mu.Unlock()
		time.Sleep(10 * time.Second)
		_ = stop(rig.ErrStop)
		if lanes, err := r.S.HeldLanes(t.Context()); err != nil || len(lanes) != 1 {
			t.Errorf("once they take messages again: %+v, %v", lanes, err)
		}
	})
}

// A consumer that was away finds what waited in the order in which it was due, also where it goes again when it has
// taken a few of what is on its way.
func TestRun_WhatNobodyListenedForLeavesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 6000 // more than are in flight at a time
		r := rig.New(t, 1, nil)
		listens := 0
		var got []message.UID
		r.Nats.Answer = func(m *message.Message, _ int) scheduler.Outcome {
			if listens == 0 {
				return scheduler.Outcome{Kind: scheduler.NoListener, Err: errors.New("no responders")}
			}
			listens--
			got = append(got, m.UID)
			return scheduler.Outcome{}
		}
		stop := r.Lead(r.S, 1)
		defer func() { _ = stop(rig.ErrStop) }()
		var want []message.UID
		for i := range many {
			want = append(want, r.Push(scheduler.Push{Topic: "orders", Key: "customer-1",
				Delay: time.Second + time.Duration(i)*time.Millisecond}).UID)
		}
		for _, n := range []int{5, many} {
			time.Sleep(5 * time.Minute)
			r.Nats.Mu.Lock()
			listens = n
			r.Nats.Mu.Unlock()
		}
		time.Sleep(time.Minute)
		r.Nats.Mu.Lock()
		defer r.Nats.Mu.Unlock()
		if !slices.Equal(got, want) {
			t.Errorf("%d of %d left, not in order", len(got), len(want))
		}
	})
}

// A refusal that a subscriber may have sent in the stream's place parks and counts as any other, but it leaves open
// whether the stream has the message: a cancel must not answer OK.
func TestRun_ARefusalThatNobodyVouchesForLeavesTheMessageUncertain(t *testing.T) {
	for _, kind := range []scheduler.OutcomeKind{scheduler.Unanswered, scheduler.Refused} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &rig.Recorded{}
				r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
				r.Nats.Answer = func(*message.Message, int) scheduler.Outcome {
					return scheduler.Outcome{Kind: kind, Unvouched: true, Err: errors.New("forged")}
				}
				stop := r.Lead(r.S, 1)
				defer func() { _ = stop(rig.ErrStop) }()
				a := r.Push(scheduler.Push{Topic: "held"})
				time.Sleep(50 * time.Millisecond)
				info := r.Info(a.UID)
				if info.State != message.StateWaiting || !info.Mark.Uncertain {
					t.Fatalf("after one attempt it is %s, %+v", info.State, info.Mark)
				}
				if changes := store.Of(a.UID); len(changes) == 0 || !changes[0].Uncertain {
					t.Errorf("recorded: %+v", changes)
				}
				c, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: a.UID})
				if err != nil || c.Code != scheduler.CancelMaybe {
					t.Errorf("cancel: %s, %v", c.Code, err)
				}
				b := r.Push(scheduler.Push{Topic: "held"})
				time.Sleep(10 * time.Minute)
				switch info := r.Info(b.UID); {
				case !info.Mark.Uncertain:
					t.Errorf("in the end: %s, %+v", info.State, info.Mark)
				case kind == scheduler.Refused && info.State != message.StateDead:
					t.Errorf("refused without end: %s", info.State)
				case kind == scheduler.Unanswered && len(store.Of(b.UID)) > 2:
					t.Errorf("each probe is recorded: %+v", store.Of(b.UID))
				}
			})
		})
	}
}

// changing is a store whose server may change under its leader.
type changing struct {
	scheduler.Timeline
	changed atomic.Bool
}

func (s *changing) Claim(ctx context.Context, b message.Bucket, req scheduler.Claim) (scheduler.Claimed, error) {
	if s.changed.Load() {
		return scheduler.Claimed{}, scheduler.ErrUncertified
	}
	return s.Timeline.Claim(ctx, b, req)
}

// A probe is out when the server of its bucket changes, and nobody judges its outcome. The next scanner probes again:
// else nothing for that destination is delivered until another instance leads.
func TestRun_ProbesAgainAfterTheStoreChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &changing{}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		var whole atomic.Int32
		r.Whole = func(context.Context, uint64, message.Bucket) error {
			whole.Add(1)
			store.changed.Store(false)
			return nil
		}
		s := r.Scheduler()
		r.Nats.Answer = func(m *message.Message, _ int) scheduler.Outcome {
			if m.Topic == "gone" {
				return scheduler.Outcome{Kind: scheduler.NoListener, Err: errors.New("nobody")}
			}
			return scheduler.Outcome{}
		}
		r.Nats.Takes = func(*message.Message) time.Duration { return 10 * time.Second } // longer than a stop waits
		stop := r.Lead(s, 1)
		for range 3 {
			r.Push(scheduler.Push{Topic: "gone"})
		}
		time.Sleep(12 * time.Second) // the lane is parked, and a probe is out
		store.changed.Store(true)
		r.Push(scheduler.Push{Topic: "other"})
		time.Sleep(20 * time.Second)
		if n := whole.Load(); n != 2 {
			t.Fatalf("the store was made whole %d times, want 2", n)
		}
		r.Nats.Mu.Lock()
		r.Nats.Answer = nil
		r.Nats.Mu.Unlock()
		time.Sleep(time.Minute)
		if n := rig.TopicsOf(r.Nats.Arrived())["gone"]; n < 3 {
			t.Errorf("a minute after somebody listens again %d of 3 messages have come", n)
		}
		_ = stop(rig.ErrStop)
	})
}
