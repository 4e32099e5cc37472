package lead_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// poll pulls from the topic of work.
func poll(t *testing.T, r *rig.Rig, max int) []scheduler.PulledMessage {
	t.Helper()
	found, err := r.S.Pull(t.Context(), scheduler.Poll{Topic: "work", Max: max, Bytes: 1 << 20, Consumer: "worker"})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func settle(t *testing.T, r *rig.Rig, m scheduler.PulledMessage, how scheduler.Settlement) scheduler.Settled {
	t.Helper()
	how.Receipt = scheduler.Receipt{UID: m.UID, Nonce: m.Nonce, Topic: m.Topic}
	done, errs := r.S.Settle(t.Context(), []scheduler.Settlement{how})
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	return done[0]
}

// A message for pull never leaves for NATS, and never before its time. Who does not answer has tried in vain, and so
// has who sends it back: by the schedule it comes again, and after its end it is dead.
func TestPull_TriesBySchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		r.Topics(&scheduler.Topic{Pattern: "work", Deliver: scheduler.DeliverPull, Lease: time.Minute})
		stop := r.Lead(r.S, 1)
		schedule := message.Retry{Delays: []time.Duration{10 * time.Second, 20 * time.Second}}
		begun := time.Now()
		a := r.Push(scheduler.Push{Topic: "work", Delay: time.Second, Retry: schedule})
		time.Sleep(time.Second - time.Millisecond)
		if got := poll(t, r, 10); len(got) > 0 || r.Info(a.UID).State != message.StateWaiting {
			t.Fatalf("%d came early", len(got))
		}
		time.Sleep(2 * time.Millisecond)
		if i := r.Info(a.UID); i.State != message.StateReady {
			t.Fatalf("it is %s", i.State)
		}
		first := poll(t, r, 10)
		if len(first) != 1 || first[0].Until.Time().Before(begun.Add(time.Second+time.Minute)) {
			t.Fatalf("got %d", len(first))
		}
		if i := r.Info(a.UID); i.State != message.StateInFlight || i.Held == nil || i.Held.Consumer != "worker" ||
			i.Held.Until != first[0].Until {
			t.Fatalf("it is %s, held by %+v", i.State, i.Held)
		}
		time.Sleep(time.Minute + lapseLook)
		i := r.Info(a.UID) // lapsed; due again 10 s after that
		if i.State != message.StateWaiting || i.Mark.Refusals != 1 || i.Mark.Uncertain {
			t.Fatalf("it is %s, tried %d times", i.State, i.Mark.Refusals)
		}
		if got := settle(t, r, first[0], scheduler.Settlement{Verb: scheduler.Ack}); got.Code != scheduler.SettleLost {
			t.Fatalf("an acknowledgement after the lapse: %+v", got)
		}
		time.Sleep(11 * time.Second)
		second := poll(t, r, 10)[0]
		back := settle(t, r, second, scheduler.Settlement{Verb: scheduler.Nack})
		if want := message.CeilMilli(time.Now().Add(20 * time.Second)); back.Info.Due != want {
			t.Fatalf("due at %d, want %d", back.Info.Due, want)
		}
		time.Sleep(21 * time.Second)
		third := poll(t, r, 10)[0]
		// After the last retry a delay of the consumer's does not keep it alive.
		over := settle(t, r, third, scheduler.Settlement{Verb: scheduler.Nack, Delay: new(time.Hour),
			Said: "no till"})
		if over.Info.State != message.StateDead {
			t.Fatalf("it is %s", over.Info.State)
		}
		if i := r.Info(a.UID); i.Reason != "consumer worker: sent back after 2 retries: no till" {
			t.Fatalf("the reason is %q", i.Reason)
		}
		if n := len(r.Nats.Arrived()); n > 0 {
			t.Errorf("%d left for NATS", n)
		}
		_ = stop(rig.ErrStop)
	})
}

// lapseLook is more than the time between two looks for what is over.
const lapseLook = 300 * time.Millisecond

func TestPull_ExpiresWhatNobodyPulled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Topics(&scheduler.Topic{Pattern: "work", Deliver: scheduler.DeliverPull, TTL: time.Minute})
		stop := r.Lead(r.S, 1)
		a := r.Push(scheduler.Push{Topic: "work"})
		b := r.Push(scheduler.Push{Topic: "work", TTL: time.Hour})
		time.Sleep(time.Minute + lapseLook)
		if i := r.Info(a.UID); i.State != message.StateExpired {
			t.Errorf("it is %s", i.State)
		}
		if i := r.Info(b.UID); i.State != message.StateReady {
			t.Errorf("one with a longer time of its own is %s", i.State)
		}
		_ = stop(rig.ErrStop)
	})
}

// Without a leader everything but lapses and expiry goes on, and what has expired is not handed out.
func TestPull_NeedsNoLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 4, nil)
		for i := range 40 {
			r.Push(scheduler.Push{Topic: "work", Deliver: scheduler.DeliverPull, Priority: uint8(i % 4)})
			r.Push(scheduler.Push{Topic: "work", Deliver: scheduler.DeliverPull, TTL: time.Second, Priority: 9})
		}
		time.Sleep(2 * time.Second)
		last := uint8(255)
		for range 2 {
			got := poll(t, r, 20)
			if len(got) != 20 {
				t.Fatalf("got %d", len(got))
			}
			for _, m := range got {
				if m.Priority > last || m.TTL > 0 {
					t.Fatalf("priority %d after %d, ttl %s", m.Priority, last, m.TTL)
				}
				last = m.Priority
				if done := settle(t, r, m, scheduler.Settlement{Verb: scheduler.Ack}); done.Code != scheduler.SettleDone {
					t.Fatalf("ack: %+v", done)
				}
			}
		}
		if got := poll(t, r, 20); len(got) > 0 {
			t.Fatalf("%d more", len(got))
		}
	})
}

func TestPull_StopsWhileTheTopicIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Push(scheduler.Push{Topic: "work", Deliver: scheduler.DeliverPull})
		time.Sleep(time.Millisecond)
		if _, err := r.S.Pause(context.Background(), "work", "ann"); err != nil {
			t.Fatal(err)
		}
		if got := poll(t, r, 1); len(got) > 0 {
			t.Fatal("it came although its topic is paused")
		}
		if _, _, err := r.S.Resume(context.Background(), "work"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		if got := poll(t, r, 1); len(got) != 1 {
			t.Fatal("it does not come after the resume")
		}
	})
}

func TestPush_RefusesPullBesideSettingsOfNATS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		for name, topic := range map[string]scheduler.Topic{"rate": {Rate: 1}, "catch_up_rate": {CatchUp: 1},
			"core": {Drop: true}, "partitions": {Partitions: 2}, "dead": {Dead: "x"}, "expired": {Expired: "x"}} {
			topic.Pattern = "work"
			r.Topics(&topic)
			a := r.S.AcceptAll(t.Context(), []*scheduler.Push{{Topic: "work", Deliver: scheduler.DeliverPull}})[0]
			if want := "deliver pull cannot be combined with the setting " + name +
				" of the topics work, which concerns NATS"; !errors.Is(a.Err, scheduler.ErrDeliver) ||
				a.Err.Error() != want {
				t.Errorf("%s: %v", name, a.Err)
			}
		}
		a := r.S.AcceptAll(t.Context(), []*scheduler.Push{{Topic: "other", Lease: time.Minute}})[0]
		if !errors.Is(a.Err, scheduler.ErrDeliver) {
			t.Errorf("a lease of a message for NATS: %v", a.Err)
		}
	})
}
