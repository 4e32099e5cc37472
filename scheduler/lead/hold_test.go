package lead_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

func TestPause_HoldsATopicAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		if _, err := r.S.Pause(t.Context(), "orders.*", "ann"); err != nil {
			t.Fatal(err)
		}
		stop := r.Lead(r.S, 1)
		for i := range 50 {
			r.Push(scheduler.Push{Topic: "orders.remind", Body: fmt.Append(nil, i), Key: "k"})
			r.Push(scheduler.Push{Topic: "mail"})
		}
		time.Sleep(3 * time.Second)
		if got := rig.TopicsOf(r.Nats.Arrived()); got["orders.remind"] != 0 || got["mail"] != 50 {
			t.Fatalf("while paused: %v", got)
		}
		// A paused message can be canceled, and the pause outlives the leader.
		_ = stop(rig.ErrStop)
		stop = r.Lead(r.S, 2)
		time.Sleep(time.Second)
		if was, _, err := r.S.Resume(t.Context(), "orders.*"); err != nil || !was {
			t.Fatalf("resume: %t, %v", was, err)
		}
		time.Sleep(3 * time.Second)
		if got := rig.TopicsOf(r.Nats.Arrived()); got["orders.remind"] != 50 {
			t.Fatalf("after the resume: %v", got)
		}
		var bodies []int
		for _, a := range r.Nats.Arrived() {
			if a.M.Topic == "orders.remind" {
				var n int
				_, _ = fmt.Sscan(string(a.M.Body), &n)
				bodies = append(bodies, n)
			}
		}
		if !slices.IsSorted(bodies) {
			t.Errorf("order after the resume: %v", bodies)
		}
		if was, _, err := r.S.Resume(t.Context(), "orders.*"); err != nil || was {
			t.Errorf("resume of what is not paused: %t, %v", was, err)
		}
		_ = stop(rig.ErrStop)
	})
}

// deafJournal records pauses only as a test sets it.
type deafJournal struct {
	scheduler.Journal
	err   error
	heard []scheduler.PauseChange
}

func (*deafJournal) Ready() error { return nil }

func (j *deafJournal) WritePause(_ context.Context, c scheduler.PauseChange) error {
	if j.err == nil {
		j.heard = append(j.heard, c)
	}
	return j.err
}

// A pause takes effect whether or not the journal hears of it, and says which; to ask again is what mends it.
func TestPause_SaysWhenTheJournalDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		j := &deafJournal{err: errors.New("away")}
		r.Journal = j
		s := r.Scheduler()
		if _, err := s.Pause(t.Context(), "a.>", "ann"); !errors.Is(err, scheduler.ErrOutcomeUnknown) {
			t.Fatalf("pause: %v", err)
		}
		list, err := s.Pauses(t.Context())
		if err != nil || len(list) != 1 || list[0].Pattern != "a.>" || list[0].By != "ann" {
			t.Fatalf("paused are %+v, %v", list, err)
		}
		if was, _, err := s.Resume(t.Context(), "a.>"); !was || !errors.Is(err, scheduler.ErrOutcomeUnknown) {
			t.Fatalf("resume: %t, %v", was, err)
		}
		j.err = nil
		if was, _, err := s.Resume(t.Context(), "a.>"); was || err != nil {
			t.Fatalf("resume again: %t, %v", was, err)
		}
		if _, err := s.Pause(t.Context(), "b", "bob"); err != nil {
			t.Fatal(err)
		}
		if len(j.heard) != 2 || !j.heard[0].Resumed || j.heard[0].Pattern != "a.>" || j.heard[1].Resumed ||
			j.heard[1].By != "bob" || j.heard[0].At <= list[0].At || j.heard[1].At <= j.heard[0].At {
			t.Fatalf("the journal heard %+v", j.heard)
		}
	})
}

func TestRate_BoundsAPatternInOrderAndHoldsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Topics(&scheduler.Topic{Pattern: "slow.>", Rate: 20})
		stop := r.Lead(r.S, 1)
		start := time.Now()
		for i := range 100 {
			r.Push(scheduler.Push{Topic: "slow.one", Body: fmt.Append(nil, i)})
			r.Push(scheduler.Push{Topic: "fast"})
		}
		time.Sleep(time.Second)
		got := rig.TopicsOf(r.Nats.Arrived())
		if got["fast"] != 100 || got["slow.one"] < 15 || got["slow.one"] > 25 {
			t.Errorf("after %s: %v, want about 20 of the slow and all of the fast", time.Since(start), got)
		}
		time.Sleep(5 * time.Second)
		var order []int
		for _, a := range r.Nats.Arrived() {
			if a.M.Topic == "slow.one" {
				var n int
				_, _ = fmt.Sscan(string(a.M.Body), &n)
				order = append(order, n)
			}
		}
		if len(order) != 100 || !slices.IsSorted(order) {
			t.Errorf("%d arrived, in order: %t: %v", len(order), slices.IsSorted(order), order)
		}
		_ = stop(rig.ErrStop)
	})
}

func TestRate_HoldsAfterANewLeaderAndNewSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		r.Topics(&scheduler.Topic{Pattern: "slow.>", Rate: 1})
		stop := r.Lead(r.S, 1)
		for range 300 {
			r.Push(scheduler.Push{Topic: "slow.one"})
		}
		time.Sleep(2 * time.Second)
		_ = stop(rig.ErrStop)
		before := len(r.Nats.Arrived())
		stop = r.Lead(r.S, 2)
		time.Sleep(5 * time.Second)
		if n := len(r.Nats.Arrived()) - before; n > 8 {
			t.Errorf("%d arrived in the new leader's first 5 s, at one a second", n)
		}
		r.Topics(&scheduler.Topic{Pattern: "slow.*", Rate: 2}) // another pattern: the old lane stands no more
		before = len(r.Nats.Arrived())
		time.Sleep(10 * time.Second)
		if n := len(r.Nats.Arrived()) - before; n > 25 {
			t.Errorf("%d arrived in 10 s under the new settings, at two a second", n)
		}
		_ = stop(rig.ErrStop)
	})
}

func TestRate_CatchesUpSlowlyWhileTheRestIsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		r.Topics(&scheduler.Topic{Pattern: "orders", CatchUp: 50})
		for range 1000 {
			r.Push(scheduler.Push{Topic: "orders", Body: []byte("old")})
		}
		time.Sleep(time.Minute) // an outage
		stop := r.Lead(r.S, 1)
		for range 100 {
			r.Push(scheduler.Push{Topic: "orders", Delay: 10 * time.Millisecond, Body: []byte("new")})
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(time.Second)
		old := 0
		fresh := 0
		for _, a := range r.Nats.Arrived() {
			if string(a.M.Body) == "old" {
				old++
				continue
			}
			fresh++
			if late := a.At.Sub(a.M.Due.Time()); late > 100*time.Millisecond {
				t.Fatalf("a message that is on time was held for %s", late)
			}
		}
		if fresh != 100 || old < 100 || old > 170 {
			t.Errorf("in three seconds %d on time and %d overdue arrived, want 100 and about 150", fresh, old)
		}
		time.Sleep(20 * time.Second)
		if got := len(r.Nats.Arrived()); got != 1100 {
			t.Errorf("%d arrived in the end", got)
		}
		_ = stop(rig.ErrStop)
	})
}
