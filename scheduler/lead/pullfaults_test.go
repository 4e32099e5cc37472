package lead_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// pullOn polls on a scheduler; an error is an empty answer.
func pullOn(t *testing.T, s *rig.Instance, p scheduler.Poll) []scheduler.PulledMessage {
	t.Helper()
	p.Topic, p.Bytes = "work", 1<<20
	found, err := s.Pull(t.Context(), p)
	if err != nil {
		t.Logf("pull: %v", err)
	}
	return found
}

// A look asks for so many messages at most. The polls beyond are answered all the same.
func TestPoll_ThatDoesNotWaitIsAnsweredBehindThoseThatDo(t *testing.T) {
	for max, polls := range map[int]int{1000: 1, 1: 1000} {
		t.Run(fmt.Sprint(max), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := watching(t)
				for range polls {
					wait(t.Context(), r.S.Scheduler, max, time.Minute)
				}
				wait(t.Context(), r.S.Scheduler, 1, 0).want(t, 0, 0, 50*time.Millisecond)
				for range 1003 {
					r.Push(scheduler.Push{Topic: "work", Delay: time.Second})
				}
				time.Sleep(time.Second - time.Millisecond)
				short := wait(t.Context(), r.S.Scheduler, 3, 30*time.Second)
				short.want(t, 3, time.Millisecond, 50*time.Millisecond)
			})
		})
	}
}

func TestPull_RepeatsAnAttemptAfterAnUnrelatedPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := watching(t)
		other := r.Scheduler()
		r.Serve(other)
		pullOn(t, other, scheduler.Poll{Max: 3}) // it knows the pauses now
		for range 3 {
			r.Push(scheduler.Push{Topic: "work"})
		}
		p := scheduler.Poll{Max: 3, Attempt: 77, Sending: 1}
		first := pullOn(t, r.S, p)
		if _, err := r.S.Pause(t.Context(), "elsewhere.x", "ann"); err != nil {
			t.Fatal(err)
		}
		p.Sending = 2
		if again := pullOn(t, other, p); len(first) != 3 || len(again) != 3 {
			t.Errorf("first %d, repeated %d", len(first), len(again))
		}
	})
}

func TestPull_HandsOutNoLeaseThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := watching(t)
		r.Push(scheduler.Push{Topic: "work"})
		p := scheduler.Poll{Max: 1, Attempt: 77, Lease: time.Second}
		pullOn(t, r.S, p)
		time.Sleep(10 * time.Second) // nobody leads
		p.Sending = 2
		for _, m := range pullOn(t, r.S, p) {
			t.Errorf("a lease was handed out that was over for %s", time.Since(m.Until.Time()))
		}
	})
}

// An attempt is sent again and again while the sendings before it wait, look or lease at one instance or another, and
// messages come in both buckets. Whatever it took, the last sending gets: nobody else knows of it.
func TestPull_GivesTheLastSendingAllThatItsAttemptTook(t *testing.T) {
	took := 0
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			var mu sync.Mutex
			upTo := func(d time.Duration) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(random.Int64N(int64(d)))
			}
			r := rig.New(t, 2, func(tl scheduler.Timeline) scheduler.Timeline { return slow{tl, upTo} })
			r.Topics(&scheduler.Topic{Pattern: "work", Deliver: scheduler.DeliverPull})
			instances := []*rig.Instance{r.S, r.Scheduler()}
			r.Serve(instances[1])
			for range 4 {
				r.Push(scheduler.Push{Topic: "work", Delay: upTo(300 * time.Millisecond), Retry: message.Retry{None: true}})
			}
			var sendings sync.WaitGroup
			var last []scheduler.PulledMessage
			for i := range 4 {
				sendings.Go(func() {
					p := scheduler.Poll{Max: 2, Attempt: 77, Sending: i + 1, Wait: 10 * time.Second, Lease: time.Minute}
					if found := pullOn(t, instances[upTo(2)], p); i == 3 {
						last = found
					}
				})
				time.Sleep(upTo(200 * time.Millisecond))
			}
			sendings.Wait()
			known := map[message.UID]bool{}
			for _, m := range last {
				known[m.UID] = true
			}
			leased, _, err := r.S.LeasesOf(t.Context(), "work", "", 100)
			if took += len(leased); err != nil || len(last) == 0 {
				t.Errorf("seed %d: the last sending got %v, %v", seed, last, err)
			}
			for _, l := range leased {
				if !known[l.Message.UID] {
					t.Errorf("seed %d: %s is leased, and the last sending does not know", seed, l.Message.UID)
				}
			}
		})
	}
	if took < 200 {
		t.Errorf("the sendings took %d messages", took)
	}
}

// A starved instance reads a first sending after its repeat. It takes nothing: nobody would ask for it.
func TestPull_TakesNothingForASendingThatComesAfterItsRepeat(t *testing.T) {
	for _, topics := range [][]string{nil, {"work", "play"}} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := watching(t)
			p := scheduler.Poll{Topics: topics, Max: 3, Attempt: 77, Lease: time.Hour}
			var came []int
			for _, p.Sending = range []int{3, 1, 2, 4} {
				r.Push(scheduler.Push{Topic: "work"})
				came = append(came, len(pullOn(t, r.S, p)))
			}
			if !slices.Equal(came, []int{1, 0, 0, 1}) {
				t.Errorf("%v: its sendings got %v", topics, came)
			}
		})
	}
}

// What a poll took whose client goes meanwhile is given back, unless its next sending knows of it.
func TestPull_GivesBackWhatItsRepeatDoesNotKnow(t *testing.T) {
	for _, topics := range [][]string{nil, {"work", "play"}} {
		for want := range 2 {
			t.Run(fmt.Sprint(topics, want), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r, store := watching(t)
					for range 3 {
						r.Push(scheduler.Push{Topic: "work"})
					}
					p := scheduler.Poll{Topic: "work", Topics: topics, Max: 3, Bytes: 1 << 20, Attempt: 77, Sending: 1,
						Lease: time.Hour}
					ctx, leave := context.WithCancel(t.Context())
					took, again := 0, 0
					store.lease = func(all []scheduler.Leased) {
						for i := range all {
							took += len(all[i].Messages)
						}
						if took < 3 || ctx.Err() != nil {
							return
						}
						if leave(); want > 0 {
							p.Sending++
							again = len(pullOn(t, r.S, p))
						}
					}
					if found, err := r.S.Pull(ctx, p); !errors.Is(err, context.Canceled) {
						t.Errorf("nobody got %+v, %v", found, err)
					}
					if leased, _, err := r.S.LeasesOf(t.Context(), "work", "", 9); err != nil || again != 3*want ||
						len(leased) != again {
						t.Errorf("its client has %d of %d that are leased, %v", again, len(leased), err)
					}
				})
			})
		}
	}
}

// slow is a timeline whose calls for polls take a while, before and after.
type slow struct {
	scheduler.Timeline
	upTo func(time.Duration) time.Duration
}

func (s slow) Lease(ctx context.Context, requests []scheduler.LeaseRequest) (all []scheduler.Leased) {
	for i := range requests { // one after the other: a pipeline is not atomic
		time.Sleep(s.upTo(30 * time.Millisecond))
		all = append(all, s.Timeline.Lease(ctx, requests[i:i+1])...)
	}
	time.Sleep(s.upTo(30 * time.Millisecond))
	return all
}

func TestPull_LeavesTheRepeatOfASuspendedAttemptItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := watching(t)
		other := r.Scheduler()
		r.Serve(other)
		a := r.Push(scheduler.Push{Topic: "work"})
		p := scheduler.Poll{Max: 1, Attempt: 77}
		var calls atomic.Int64
		store.lease = func(all []scheduler.Leased) {
			for i := range all {
				if len(all[i].Messages) > 0 && calls.Add(1) == 1 {
					time.Sleep(40 * time.Second) // suspended
				}
			}
		}
		suspended := make(chan int, 1)
		go func(p scheduler.Poll) { suspended <- len(pullOn(t, r.S, p)) }(p)
		time.Sleep(time.Second)
		p.Sending = 2
		got := pullOn(t, other, p)
		if len(got) != 1 {
			t.Fatalf("the repeat got %d", len(got))
		}
		settle(t, r, got[0], scheduler.Settlement{Verb: scheduler.Extend, Lease: 10 * time.Minute})
		if n := <-suspended; n != 0 {
			t.Errorf("the suspended instance handed out %d dead leases", n)
		}
		if done := settle(t, r, got[0], scheduler.Settlement{Verb: scheduler.Ack}); done.Code != scheduler.SettleDone {
			t.Errorf("the ack comes to %d, and the message is %s", done.Code, r.Info(a.UID).State)
		}
	})
}

// A call leases and its answer is lost; the repeat is refused. What was leased is given back.
func TestPull_UndoesWhatItDoesNotKnow(t *testing.T) {
	for _, second := range []error{scheduler.ErrUnavailable, scheduler.ErrPausesChanged, scheduler.ErrOutcomeUnknown} {
		t.Run(second.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, store := watching(t)
				a := r.Push(scheduler.Push{Topic: "work"})
				answers := []error{scheduler.ErrOutcomeUnknown, second}
				store.lease = func(all []scheduler.Leased) {
					if len(answers) > 0 {
						all[0] = scheduler.Leased{Err: answers[0]}
						answers = answers[1:]
					}
				}
				if found := pullOn(t, r.S, scheduler.Poll{Max: 1}); len(found) > 0 {
					t.Fatalf("pulled %+v", found)
				}
				time.Sleep(2 * time.Second)
				if i := r.Info(a.UID); i.State != message.StateReady {
					t.Errorf("two seconds later it is %s", i.State)
				}
			})
		})
	}
}

// hooked is a timeline whose calls a test spoils.
type hooked struct {
	scheduler.Timeline
	leases func()                                     // after leases were read
	settle func(bucket message.Bucket) (refuse error) // before leases are settled
	lose   func() error                               // after they were
	ready  func(ctx context.Context, found []scheduler.Found)
}

func (h *hooked) Ready(ctx context.Context, wants []scheduler.Want, now message.Milli) []scheduler.Found {
	found := h.Timeline.Ready(ctx, wants, now)
	if h.ready != nil {
		h.ready(ctx, found)
	}
	return found
}

func (h *hooked) Lease(ctx context.Context, requests []scheduler.LeaseRequest) []scheduler.Leased {
	if ctx.Err() == nil {
		return h.Timeline.Lease(ctx, requests)
	}
	all := make([]scheduler.Leased, len(requests))
	for i := range all {
		all[i].Err = fmt.Errorf("%w: %w", scheduler.ErrUnavailable, ctx.Err())
	}
	return all
}

func (h *hooked) Leases(ctx context.Context, bucket message.Bucket, q scheduler.LeaseQuery,
	now message.Milli) (scheduler.LeasePage, error) {
	page, err := h.Timeline.Leases(ctx, bucket, q, now)
	if then := h.leases; then != nil {
		h.leases = nil
		then()
	}
	return page, err
}

func (h *hooked) Settle(ctx context.Context, bucket message.Bucket, term uint64, items []scheduler.Settle,
	now message.Milli) ([]scheduler.Settled, scheduler.Effect, error) {
	if ctx.Err() != nil {
		return nil, scheduler.Effect{}, fmt.Errorf("%w: %w", scheduler.ErrUnavailable, ctx.Err())
	}
	if h.settle != nil {
		if err := h.settle(bucket); err != nil {
			return nil, scheduler.Effect{}, err
		}
	}
	settled, made, err := h.Timeline.Settle(ctx, bucket, term, items, now)
	if err == nil && h.lose != nil {
		err = h.lose()
	}
	for i := range settled {
		made.Changes = append(made.Changes, scheduler.Recorded{UID: items[i].UID, Version: 2, Bucket: bucket})
	}
	return settled, made, err
}

// Who acknowledges without a receipt has handled the message, also where its lease ends at that moment.
func TestSettleHeld_EndsWhatLapsesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := watching(t)
		a := r.Push(scheduler.Push{Topic: "work", ID: "a"})
		ref := scheduler.Ref{ID: "a", Topic: "work"}
		if _, err := r.S.SettleHeld(t.Context(), ref, scheduler.Ack); !errors.Is(err, scheduler.ErrNotLeased) {
			t.Errorf("what nobody had is acknowledged: %v", err)
		}
		found := pullOn(t, r.S, scheduler.Poll{Max: 1})
		lapses := func(message.Bucket) error {
			settle(t, r, found[0], scheduler.Settlement{Verb: scheduler.Nack})
			return nil
		}
		s := r.Over(&hooked{Timeline: store, settle: lapses}, r.Nats)
		if _, err := s.SettleHeld(t.Context(), ref, scheduler.Ack); err != nil {
			t.Error(err)
		}
		if i := r.Info(a.UID); i.State != message.StateDelivered {
			t.Errorf("it is %s", i.State)
		}
	})
}

// The undo is repeated for as long as the message's own lease may last.
func TestPull_UndoesALongLeaseOnceTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := watching(t)
		a := r.Push(scheduler.Push{Topic: "work", Lease: 12 * time.Hour})
		var away atomic.Bool
		s := r.Over(&hooked{Timeline: store, settle: func(message.Bucket) error {
			if away.Load() {
				return scheduler.ErrUnavailable
			}
			return nil
		}}, r.Nats)
		r.Serve(s)
		store.lease = func(all []scheduler.Leased) {
			away.Store(true)
			for i := range all {
				all[i] = scheduler.Leased{Err: scheduler.ErrOutcomeUnknown}
			}
		}
		pullOn(t, s, scheduler.Poll{Max: 1})
		time.Sleep(40 * time.Second)
		store.lease = nil
		away.Store(false)
		time.Sleep(2 * time.Second)
		if i := r.Info(a.UID); i.State != message.StateReady {
			t.Errorf("once the store is back it is %s", i.State)
		}
	})
}

// A bucket that does not answer takes all the time of the call that looks. The others hand out all the same.
func TestPoll_IsServedWhileABucketDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := watching(t)
		for i := range 16 {
			r.Push(scheduler.Push{Topic: "work", Key: fmt.Sprint(i)})
		}
		s := r.Over(&hooked{Timeline: store, ready: func(ctx context.Context, found []scheduler.Found) {
			<-ctx.Done()
			found[len(found)-1] = scheduler.Found{Err: scheduler.ErrOutcomeUnknown}
		}}, r.Nats)
		r.Serve(s)
		wait(t.Context(), s.Scheduler, 1, 20*time.Second).want(t, 1, time.Second, time.Second+50*time.Millisecond)
	})
}

// Undoing in a bucket that does not answer holds up no look.
func TestPoll_LooksWhileAnUndoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := watching(t)
		for i := range 60 {
			r.Push(scheduler.Push{Topic: "work", Key: fmt.Sprint(i)})
		}
		s := r.Over(&hooked{Timeline: store, settle: func(bucket message.Bucket) error {
			if bucket == 1 {
				<-time.After(time.Second) // the time-out of the call
				return scheduler.ErrOutcomeUnknown
			}
			return nil
		}}, r.Nats)
		r.Serve(s)
		var lost atomic.Bool
		lost.Store(true)
		store.lease = func(all []scheduler.Leased) {
			for i := range all {
				if lost.Load() {
					all[i] = scheduler.Leased{Err: scheduler.ErrOutcomeUnknown}
				}
			}
		}
		for range 60 {
			go pullOn(t, s, scheduler.Poll{Max: 1})
		}
		time.Sleep(2 * time.Second)
		lost.Store(false)
		for len(pullOn(t, s, scheduler.Poll{Max: 100})) > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		poll := wait(t.Context(), s.Scheduler, 1, time.Minute)
		time.Sleep(500 * time.Millisecond)
		begun := time.Now()
		for i := range 2 { // by another instance, whose announcement is lost
			r.Push(scheduler.Push{Topic: "work", Key: fmt.Sprint(i)})
		}
		<-poll.done
		if took := time.Since(begun); took > 1100*time.Millisecond || len(poll.found) != 1 {
			t.Errorf("the poll got %d after %s", len(poll.found), took)
		}
	})
}

// endless is a journal that does not answer.
type endless struct{ rig.KeptJournal }

func (*endless) Await(ctx context.Context, changes []scheduler.Recorded, _ func(int, bool)) error {
	if len(changes) == 0 {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestSettle_EndsInEveryBucketWhileTheJournalIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 4, nil)
		r.Topics(&scheduler.Topic{Pattern: "work", Deliver: scheduler.DeliverPull})
		for i := range 16 {
			r.Push(scheduler.Push{Topic: "work", Key: fmt.Sprint(i)})
		}
		found := pullOn(t, r.S, scheduler.Poll{Max: 16})
		r.Journal = &endless{}
		s := r.Over(&hooked{Timeline: r.Store}, r.Nats)
		var orders []scheduler.Settlement
		for _, m := range found {
			orders = append(orders, scheduler.Settlement{Verb: scheduler.Ack,
				Receipt: scheduler.Receipt{UID: m.UID, Nonce: m.Nonce, Topic: m.Topic}})
		}
		settled, errs := s.Settle(t.Context(), orders)
		for i, m := range found {
			if state := r.Info(m.UID).State; state != message.StateDelivered || errs[i] != nil || !settled[i].Unjournaled {
				t.Errorf("%s is %s, and was answered %+v, %v", m.UID, state, settled[i], errs[i])
			}
		}
	})
}

// Once it is known that the journal is away, nobody waits for it.
func TestSettle_IsAnsweredAtOnceWhileTheJournalIsKnownToBeAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Topics(&scheduler.Topic{Pattern: "work", Deliver: scheduler.DeliverPull})
		r.Push(scheduler.Push{Topic: "work"})
		m := pullOn(t, r.S, scheduler.Poll{Max: 1})[0]
		away := &endless{}
		away.Away.Store(true)
		r.Journal = away
		begun := time.Now()
		settled, errs := r.Over(&hooked{Timeline: r.Store}, r.Nats).Settle(t.Context(),
			[]scheduler.Settlement{{Verb: scheduler.Ack,
				Receipt: scheduler.Receipt{UID: m.UID, Nonce: m.Nonce, Topic: m.Topic}}})
		if took := time.Since(begun); errs[0] != nil || !settled[0].Unjournaled || took > 0 {
			t.Errorf("%+v, %v after %s", settled[0], errs[0], took)
		}
	})
}

// parted settles in calls of three items, as Redis does of 500, and is away from the second call on.
type parted struct {
	scheduler.Timeline
	calls int
}

func (p *parted) Settle(ctx context.Context, bucket message.Bucket, term uint64, items []scheduler.Settle,
	now message.Milli) ([]scheduler.Settled, scheduler.Effect, error) {
	if p.calls++; p.calls > 1 {
		return nil, scheduler.Effect{}, fmt.Errorf("%w: connection refused", scheduler.ErrUnavailable)
	}
	return p.Timeline.Settle(ctx, bucket, term, items[:3], now)
}

func TestSettle_TellsWhatIsSettledWhenTheStoreGoesAwayMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Topics(&scheduler.Topic{Pattern: "work", Deliver: scheduler.DeliverPull})
		for range 6 {
			r.Push(scheduler.Push{Topic: "work"})
		}
		var orders []scheduler.Settlement
		for _, m := range pullOn(t, r.S, scheduler.Poll{Max: 6}) {
			orders = append(orders, scheduler.Settlement{Verb: scheduler.Ack,
				Receipt: scheduler.Receipt{UID: m.UID, Nonce: m.Nonce, Topic: m.Topic}})
		}
		settled, errs := r.Over(&parted{Timeline: r.Store}, r.Nats).Settle(t.Context(), orders)
		for i := range orders {
			delivered := r.Info(orders[i].UID).State == message.StateDelivered
			if told := errs[i] == nil && settled[i].Code == scheduler.SettleDone; told != (i < 3) || told != delivered ||
				!told && !errors.Is(errs[i], scheduler.ErrUnavailable) {
				t.Errorf("%d: delivered %t, answered %+v, %v", i, delivered, settled[i], errs[i])
			}
		}
	})
}

// An operator frees the consumer that was found to hold the message, and no other, however often the call is sent.
func TestRelease_FreesWhomItFound(t *testing.T) {
	for _, c := range []struct {
		name                     string
		meanwhile, lost, another bool
		word                     error
	}{
		{"the lease changes hands before the release", true, false, true, scheduler.ErrNotLeased},
		{"the answer is lost", false, true, false, nil},
		{"the answer is lost, and another consumer comes", false, true, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, store := watching(t)
				a := r.Push(scheduler.Push{Topic: "work"})
				first := pullOn(t, r.S, scheduler.Poll{Max: 1, Consumer: "hangs"})
				var second []scheduler.PulledMessage
				take := func() {
					if c.another {
						second = pullOn(t, r.S, scheduler.Poll{Max: 1, Consumer: "works"})
					}
				}
				hook := &hooked{Timeline: store}
				if c.meanwhile {
					hook.leases = func() {
						settle(t, r, first[0], scheduler.Settlement{Verb: scheduler.Nack, Delay: new(time.Duration(0))})
						take()
					}
				}
				if c.lost {
					hook.lose = func() error {
						hook.lose = nil
						take()
						return scheduler.ErrOutcomeUnknown
					}
				}
				info, err := r.Over(hook, r.Nats).Release(t.Context(), scheduler.Ref{UID: a.UID}, "stuck")
				if err != c.word || info.Held == nil || info.Held.Consumer != "hangs" {
					t.Errorf("it was answered %v, %+v", err, info.Held)
				}
				if !c.another {
					return
				}
				if done := settle(t, r, second[0], scheduler.Settlement{Verb: scheduler.Ack}); done.Code != scheduler.SettleDone {
					t.Errorf("the other consumer's ack comes to %d", done.Code)
				}
			})
		})
	}
}

func TestLapse_WakesPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := watching(t)
		stop := r.Lead(r.S, 1)
		r.Push(scheduler.Push{Topic: "work", Retry: message.Retry{Delays: []time.Duration{0, 0, 0}}})
		pullOn(t, r.S, scheduler.Poll{Max: 1, Lease: 10*time.Second + 10*time.Millisecond})
		poll := wait(t.Context(), r.S.Scheduler, 1, time.Minute)
		<-poll.done
		if late := time.Since(poll.found[0].Due.Time()); late > 20*time.Millisecond {
			t.Errorf("it came %s after it was ready", late)
		}
		_ = stop(rig.ErrStop)
	})
}

// A consumer may skip a uid or a webhook-id that it knows. What it has tried comes with other content under another.
func TestPull_GivesOtherContentAnotherUID(t *testing.T) {
	for how, edit := range map[string]scheduler.Edit{"edited": {Body: []byte("pay 50")},
		"edited and brought forward": {Body: []byte("pay 50"), Delay: new(time.Duration(0)), Version: 2},
		"replaced":                   {}} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t, 1, nil)
				r.Topics(&scheduler.Topic{Pattern: "work", Deliver: scheduler.DeliverPull})
				p := scheduler.Push{Topic: "work", ID: "bill-7", Body: []byte("pay 100"), Merge: message.MergeReplace,
					Retry: message.Retry{Delays: []time.Duration{time.Minute, time.Minute}}}
				bill := r.Push(p)
				first := pullOn(t, r.S, scheduler.Poll{Max: 1})
				settle(t, r, first[0], scheduler.Settlement{Verb: scheduler.Nack})
				var now message.UID
				if how == "replaced" {
					p.Body, p.Delay = []byte("pay 50"), time.Minute
					now = r.Push(p).UID
				} else {
					got, err := r.S.Reschedule(t.Context(), scheduler.Ref{ID: "bill-7"}, edit)
					if err != nil || got.Code != scheduler.AmendDone {
						t.Fatalf("edit: %s, %v", got.Code, err)
					}
					now = got.Info.UID
				}
				time.Sleep(2 * time.Minute)
				again := pullOn(t, r.S, scheduler.Poll{Max: 3})
				if len(again) != 1 || again[0].UID != now || now == bill.UID || again[0].Mark.Refusals != 0 ||
					string(again[0].Body) != "pay 50" {
					t.Fatalf("first %s, then %+v under %s", bill.UID, again, now)
				}
				// Whoever knows the first uid alone cancels what became of it, or learns where it went.
				if got, err := r.S.Reschedule(t.Context(), scheduler.Ref{UID: bill.UID}, edit); err != nil ||
					got.Code != scheduler.AmendEnded {
					t.Fatalf("edit of the first: %s, %v", got.Code, err)
				}
			})
		})
	}
}
