package lead_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// severalTopics makes a rig whose topics consumers pull.
func severalTopics(t *testing.T) (*rig.Rig, *watched) {
	r, w := watching(t)
	r.Topics(&scheduler.Topic{Pattern: ">", Deliver: scheduler.DeliverPull})
	return r, w
}

// pullTopics polls several topics and counts what comes of each.
func pullTopics(t *testing.T, s *rig.Instance, p scheduler.Poll, topics ...string) (count map[string]int,
	found []scheduler.PulledMessage) {
	t.Helper()
	p.Topics, p.Bytes, count = topics, 1<<20, map[string]int{}
	found, err := s.Pull(t.Context(), p)
	if err != nil {
		t.Errorf("pull: %v", err)
	}
	for _, m := range found {
		count[m.Topic]++
	}
	return count, found
}

func TestPullAny_SharesWhatIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := severalTopics(t)
		for topic, n := range map[string]int{"a": 100, "b": 2, "c": 100} {
			for range n {
				r.Push(scheduler.Push{Topic: topic})
			}
		}
		got, _ := pullTopics(t, r.S, scheduler.Poll{Max: 30}, "a", "b", "c", "d")
		if got["a"]+got["c"] != 28 || got["b"] != 2 || min(got["a"], got["c"]) < 7 {
			t.Errorf("of 30 came %v", got)
		}
		begun := map[string]int{} // one at a time, each has its turn
		for range 60 {
			one, _ := pullTopics(t, r.S, scheduler.Poll{Max: 1}, "a", "c")
			begun["a"] += one["a"]
			begun["c"] += one["c"]
		}
		if begun["a"]+begun["c"] != 60 || min(begun["a"], begun["c"]) < 10 {
			t.Errorf("of 60 came %v", begun)
		}
	})
}

// A poll of several topics wakes for any of them, at whichever instance it waits, and asks the store no more for it.
func TestPullAny_WakesForAny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := severalTopics(t)
		other := r.Scheduler()
		r.Serve(other)
		topics := []string{"a", "b", "c", "d"}
		type end struct {
			at   time.Time
			got  map[string]int
			poll string
		}
		ends := make(chan end, 10)
		for i, s := range []*rig.Instance{r.S, r.S, other} {
			go func() {
				got, _ := pullTopics(t, s, scheduler.Poll{Max: 5, Wait: 50 * time.Second}, topics...)
				ends <- end{time.Now(), got, fmt.Sprint(i)}
			}()
		}
		single := wait(t.Context(), r.S.Scheduler, 1, 50*time.Second) // of a topic that nobody else polls
		synctest.Wait()
		before := store.looks
		time.Sleep(10 * time.Second)
		if n := store.looks - before; n > 0 {
			t.Errorf("polls that wait looked %d times in 10 s", n)
		}
		var due []time.Time
		for i, topic := range []string{"c", "a", "d"} {
			d := time.Duration(i+1) * time.Second
			r.Push(scheduler.Push{Topic: topic, Delay: d})
			due = append(due, time.Now().Add(d))
		}
		for i, topic := range []string{"c", "a", "d"} {
			e := <-ends
			if late := e.at.Sub(due[i]); e.got[topic] != 1 || late < 0 || late > 100*time.Millisecond {
				t.Errorf("poll %s got %v %s after it was due", e.poll, e.got, late)
			}
		}
		if n := store.looks - before; n > 60 {
			t.Errorf("three messages cost %d looks", n)
		}
		single.want(t, 0, 50*time.Second, 50*time.Second)
	})
}

// Beside it wait polls of one topic, for one message each: every message is handed out.
func TestPullAny_StandsInLineWithOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := severalTopics(t)
		done := make(chan int, 20)
		for range 5 {
			go func() {
				_, found := pullTopics(t, r.S, scheduler.Poll{Max: 1, Wait: 20 * time.Second}, "work", "else")
				done <- len(found)
			}()
			synctest.Wait()
			go func() { done <- len(pullOn(t, r.S, scheduler.Poll{Max: 1, Wait: 20 * time.Second})) }()
			synctest.Wait()
		}
		began := time.Now()
		for i := range 10 {
			r.Push(scheduler.Push{Topic: "work", Delay: time.Duration(i/2) * time.Second})
		}
		for range 10 {
			if n := <-done; n != 1 {
				t.Errorf("a poll got %d", n)
			}
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the last message of %s was handed out after %s", 4*time.Second, took)
		}
	})
}

func TestPullAny_RepeatsItsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := severalTopics(t)
		other := r.Scheduler()
		r.Serve(other)
		for _, topic := range []string{"a", "b", "c", "a", "b", "c"} {
			r.Push(scheduler.Push{Topic: topic})
		}
		p := scheduler.Poll{Max: 4, Attempt: 77}
		_, first := pullTopics(t, r.S, p, "a", "b", "c")
		p.Sending = 2
		_, again := pullTopics(t, other, p, "a", "b", "c")
		same := func(a, b scheduler.PulledMessage) int { return a.UID.Compare(b.UID) }
		slices.SortFunc(first, same)
		slices.SortFunc(again, same)
		if len(first) != 4 || !slices.EqualFunc(first, again, func(a, b scheduler.PulledMessage) bool {
			return a.UID == b.UID && a.Nonce == b.Nonce && a.Until == b.Until
		}) {
			t.Errorf("first %+v, then %+v", first, again)
		}
	})
}

func TestPullAny_GivesBackWhatNobodyGets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := severalTopics(t)
		ctx, leave := context.WithCancel(t.Context())
		r.Push(scheduler.Push{Topic: "a"})
		r.Push(scheduler.Push{Topic: "b"})
		store.lease = func([]scheduler.Leased) { leave() } // while the first topic is leased
		_, err := r.S.Pull(ctx, scheduler.Poll{Topics: []string{"a", "b"}, Max: 10, Bytes: 1 << 20})
		store.lease = nil
		if err == nil {
			t.Error("a poll whose client is gone was answered")
		}
		got, found := pullTopics(t, r.S, scheduler.Poll{Max: 10}, "a", "b")
		if got["a"] != 1 || got["b"] != 1 || found[0].Mark != (message.Mark{}) {
			t.Errorf("then came %v", got)
		}
	})
}

// What cannot be had of one topic does not keep the others back: a paused one, and one whose bucket is away.
func TestPullAny_TakesWhatCanBeHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := severalTopics(t)
		for range 30 {
			r.Push(scheduler.Push{Topic: "b"})
			r.Push(scheduler.Push{Topic: "paused"})
		}
		if _, err := r.S.Pause(t.Context(), "paused", "ann"); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			began := time.Now()
			got, _ := pullTopics(t, r.S, scheduler.Poll{Max: 1, Wait: 10 * time.Second}, "paused", "b")
			if got["b"] != 1 || time.Since(began) > time.Second {
				t.Errorf("after %s came %v", time.Since(began), got)
			}
		}
		before := store.looks
		if got, _ := pullTopics(t, r.S, scheduler.Poll{Max: 1, Wait: 10 * time.Second}, "paused", "none"); len(got) > 0 {
			t.Errorf("of a paused topic came %v", got)
		}
		if n := store.looks - before; n > 40 {
			t.Errorf("a paused topic cost %d looks in 10 s", n)
		}
	})
}

// A poll of several topics whose client sent it again ends when it would take something, and asks no more.
func TestPullAny_EndsForALaterSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := severalTopics(t)
		other := r.Scheduler()
		r.Serve(other)
		p := scheduler.Poll{Max: 1, Wait: 30 * time.Second, Attempt: 77}
		first, began := make(chan time.Duration, 1), time.Now()
		go func() {
			pullTopics(t, r.S, p, "a", "b")
			first <- time.Since(began)
		}()
		synctest.Wait()
		p.Sending, p.Wait = 2, 0
		pullTopics(t, other, p, "a", "b") // its client has what it wants
		synctest.Wait()
		before := store.looks
		r.Push(scheduler.Push{Topic: "b", Delay: time.Second})
		if took := <-first; took > 2*time.Second {
			t.Errorf("it ended after %s", took)
		}
		if n := store.looks - before; n > 5 {
			t.Errorf("it looked %d times", n)
		}
		if got, _ := pullTopics(t, other, scheduler.Poll{Max: 1}, "a", "b"); got["b"] != 1 {
			t.Errorf("then came %v", got)
		}
	})
}

// One message wakes few of many polls.
func TestPullAny_WakesNoHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		r := rig.New(t, 2, func(tl scheduler.Timeline) scheduler.Timeline { return behind{tl, &looks} })
		r.Topics(&scheduler.Topic{Pattern: ">", Deliver: scheduler.DeliverPull})
		const polls = 100
		came := make(chan int, polls)
		for range polls {
			go func() {
				_, found := pullTopics(t, r.S, scheduler.Poll{Max: 1, Wait: 20 * time.Second}, "a", "b")
				came <- len(found)
			}()
		}
		time.Sleep(time.Second)
		before := looks.Load()
		r.Push(scheduler.Push{Topic: "a", Delay: time.Second})
		time.Sleep(2 * time.Second)
		if len(came) != 1 || <-came != 1 {
			t.Errorf("%d polls have ended", len(came))
		}
		if n := looks.Load() - before; n > 20 {
			t.Errorf("one message cost %d looks", n)
		}
		for range polls - 1 {
			<-came
		}
	})
}

// behind is a timeline that takes a millisecond to say what is ready.
type behind struct {
	scheduler.Timeline
	looks *atomic.Int64
}

func (b behind) Ready(ctx context.Context, wants []scheduler.Want, now message.Milli) []scheduler.Found {
	if wants[0].Topics[0].Count > 0 {
		b.looks.Add(1)
	}
	time.Sleep(time.Millisecond)
	return b.Timeline.Ready(ctx, wants, now)
}
