package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
	"github.com/tarry-mq/tarry/scheduler/steer"
)

// mute answers no look-up.
type mute struct{ scheduler.Timeline }

func (mute) Find(context.Context, scheduler.Ref) ([]message.Info, error) {
	return nil, fmt.Errorf("%w: no reply", scheduler.ErrOutcomeUnknown)
}

func TestSteer_ALookUpWithoutAReplyIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { return mute{tl} })
		a := r.Push(scheduler.Push{Delay: time.Hour})
		_, err := r.S.Get(t.Context(), scheduler.Ref{UID: a.UID})
		_, cancelErr := r.S.Cancel(t.Context(), scheduler.Ref{UID: a.UID})
		for _, err := range []error{err, cancelErr} {
			if !errors.Is(err, scheduler.ErrUnavailable) || errors.Is(err, scheduler.ErrOutcomeUnknown) {
				t.Errorf("got %v; nothing was changed, so there is no outcome", err)
			}
		}
	})
}

// A consumer's retry stands beside the attempt before it while that one may still be published again: cancel by the
// name ends both, and says so (P4).
func TestCancel_ByNameEndsEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Nats.Answer = func(_ *message.Message, nth int) scheduler.Outcome {
			return scheduler.Outcome{Kind: scheduler.Unknown, Err: errors.New("no reply")}
		}
		stop := r.Lead(r.S, 1)
		byName := scheduler.Ref{ID: "order-1"}
		first := r.Push(scheduler.Push{ID: "order-1", Delay: time.Second})
		time.Sleep(2 * time.Second)
		_ = stop(rig.ErrStop)
		if i := r.Info(first.UID); i.State != message.StateWaiting || !i.Mark.Uncertain {
			t.Fatalf("the first is %s, uncertain %t", i.State, i.Mark.Uncertain)
		}
		second := r.Push(scheduler.Push{ID: "order-1", Attempt: 2, Delay: time.Hour})
		if second.UID == first.UID || second.Duplicate {
			t.Fatalf("the retry is %+v", second)
		}
		if info, err := r.S.Get(t.Context(), byName); err != nil || info.UID != second.UID {
			t.Fatalf("the name finds %s, %v; want the retry %s", info.UID, err, second.UID)
		}
		for range 2 { // the second answer stays what the first was
			c, err := r.S.Cancel(t.Context(), byName)
			if err != nil || c.Code != scheduler.CancelMaybe || c.Info.UID != second.UID || !c.Info.Mark.Uncertain {
				t.Fatalf("cancel: %s of %s, %v; want maybe_delivered", c.Code, c.Info.UID, err)
			}
		}
		for _, uid := range []message.UID{first.UID, second.UID} {
			if s := r.Info(uid).State; s != message.StateCanceled {
				t.Errorf("%s is %s", uid, s)
			}
		}
		before := len(r.Nats.Arrived())
		stop = r.Lead(r.S, 2)
		time.Sleep(2 * time.Hour)
		_ = stop(rig.ErrStop)
		if got := len(r.Nats.Arrived()); got != before {
			t.Errorf("%d more came after the cancel", got-before)
		}
	})
}

func TestCancel_ByNameWaitsForTheAttemptInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		byName := scheduler.Ref{ID: "order-1"}
		first := r.Push(scheduler.Push{ID: "order-1", At: 1, HasAt: true})
		claim := func(term uint64) []*message.Message {
			c, err := r.Store.Claim(
				t.Context(),
				0,
				scheduler.Claim{
					Term:   term,
					Number: term,
					Now:    r.Clock.Milli(),
					Limit:  10,
					Bytes:  1 << 20,
				},
			)
			if err != nil || len(c.Messages) != 1 {
				t.Fatalf("claimed %d, %v", len(c.Messages), err)
			}
			return c.Messages
		}
		taken := claim(1)
		second := r.Push(scheduler.Push{ID: "order-1", Attempt: 2, Delay: time.Hour})
		for range 2 {
			c, err := r.S.Cancel(t.Context(), byName)
			if err != nil || c.Code != scheduler.CancelInFlight || c.Info.UID != first.UID {
				t.Fatalf("cancel: %s of %s, %v; want in_flight of the first", c.Code, c.Info.UID, err)
			}
		}
		if s := r.Info(second.UID).State; s != message.StateWaiting {
			t.Fatalf("the retry is %s although in_flight changes nothing", s)
		}
		if err := r.Store.Finish(t.Context(), 0, 1,
			[]scheduler.End{{Message: taken[0], State: message.StateDelivered}}, r.Clock.Milli()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			c, err := r.S.Cancel(t.Context(), byName)
			if err != nil || c.Code != scheduler.CancelDone || c.Info.UID != second.UID {
				t.Fatalf("cancel: %s of %s, %v; want the retry canceled for certain", c.Code, c.Info.UID, err)
			}
		}
	})
}

// secondCancel answers the second of two cancels, and those after it.
type secondCancel struct {
	scheduler.Timeline
	calls int
	err   error
}

func (s *secondCancel) Cancel(ctx context.Context, ref scheduler.Ref,
	now message.Milli) (scheduler.CancelResult, error) {
	if ref.UID != "" {
		if s.calls++; s.calls > 1 {
			return scheduler.CancelResult{Code: scheduler.CancelUnknown}, s.err
		}
	}
	return s.Timeline.Cancel(ctx, ref, now)
}

// A cancel that ended one attempt of a name and not the next has changed something, whatever kept it from the next.
func TestCancel_OfAPartIsNotAnsweredAsOfNothing(t *testing.T) {
	for _, err := range []error{scheduler.ErrUnavailable, scheduler.ErrFull, scheduler.ErrStopping, scheduler.ErrBusy,
		scheduler.ErrUnreadable, nil} {
		synctest.Test(t, func(t *testing.T) {
			store := &secondCancel{err: err}
			r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
			first := r.Push(scheduler.Push{ID: "order-1", At: 1, HasAt: true})
			if _, err := r.Store.Claim(t.Context(), 0,
				scheduler.Claim{Term: 1, Number: 1, Now: r.Clock.Milli(), Limit: 10, Bytes: 1 << 20}); err != nil {
				t.Fatal(err)
			}
			r.Push(scheduler.Push{ID: "order-1", Attempt: 2, Delay: time.Hour})
			if err := r.Store.Return(t.Context(), 0, 1, []scheduler.Back{{UID: first.UID, Claim: 1, Keep: true}},
				r.Clock.Milli()); err != nil {
				t.Fatal(err)
			}
			c, got := r.S.Cancel(t.Context(), scheduler.Ref{ID: "order-1"})
			if !errors.Is(got, scheduler.ErrOutcomeUnknown) || store.calls != 2 {
				t.Errorf("%v: %s %v after %d calls, want an unknown outcome", err, c.Code, got, store.calls)
			}
			if state := r.Info(first.UID).State; state != message.StateCanceled {
				t.Errorf("%v: the first attempt is %s", err, state)
			}
		})
	}
}

// goneAfterBury does not answer look-ups once a tombstone is left, where a message had appeared.
type goneAfterBury struct {
	scheduler.Timeline
	err    error
	buried bool
}

func (s *goneAfterBury) Bury(ctx context.Context, ref scheduler.Ref, sequence uint64,
	now message.Milli) ([]message.UID, error) {
	_, err := s.Timeline.Bury(ctx, ref, sequence, now)
	s.buried = true
	return []message.UID{"t-0123456789abcdef"}, err
}

func (s *goneAfterBury) Find(ctx context.Context, ref scheduler.Ref) ([]message.Info, error) {
	if s.buried {
		return nil, s.err
	}
	return s.Timeline.Find(ctx, ref)
}

func TestCancel_ThatLeftATombstoneIsNotAnsweredAsOfNothing(t *testing.T) {
	for _, err := range []error{scheduler.ErrUnavailable, scheduler.ErrUnreadable, scheduler.ErrAmbiguousID} {
		synctest.Test(t, func(t *testing.T) {
			store := &goneAfterBury{err: err}
			r := rig.New(t, 2, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
			_, got := r.S.Cancel(t.Context(), scheduler.Ref{ID: "order-1", Topic: "orders"})
			if !errors.Is(got, scheduler.ErrOutcomeUnknown) || !store.buried {
				t.Errorf("%v: %v, want an unknown outcome", err, got)
			}
			store.buried = false
			_, got = r.S.Cancel(t.Context(), scheduler.Ref{ID: "order-1", Topic: "orders", Key: "k", Keyed: true})
			if errors.Is(got, scheduler.ErrOutcomeUnknown) || !errors.Is(got, err) || !store.buried {
				t.Errorf("%v: %v of the one bucket of a key, where no tombstone is left beside a message", err, got)
			}
		})
	}
}

// lostCancel loses the replies of the first cancels: they happen, or not, and nobody hears of it.
type lostCancel struct {
	scheduler.Timeline
	lost    int
	happens bool
	then    error // of the calls after these
	calls   int
}

func (s *lostCancel) Cancel(ctx context.Context, ref scheduler.Ref,
	now message.Milli) (scheduler.CancelResult, error) {
	return s.reply(func() (scheduler.CancelResult, error) { return s.Timeline.Cancel(ctx, ref, now) })
}

func (s *lostCancel) reply(cancel func() (scheduler.CancelResult, error)) (scheduler.CancelResult, error) {
	s.calls++
	if s.calls > s.lost && s.then != nil {
		return scheduler.CancelResult{}, s.then
	}
	if s.calls <= s.lost && !s.happens {
		return scheduler.CancelResult{}, fmt.Errorf("%w: no reply", scheduler.ErrOutcomeUnknown)
	}
	result, err := cancel()
	if err == nil && s.calls <= s.lost {
		return scheduler.CancelResult{}, fmt.Errorf("%w: no reply", scheduler.ErrOutcomeUnknown)
	}
	return result, err
}

func TestCancel_AsksAgainWhereTheReplyIsLost(t *testing.T) {
	for _, happens := range []bool{true, false} {
		t.Run(fmt.Sprint("happens ", happens), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &lostCancel{lost: 1, happens: happens}
				r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
				a := r.Push(scheduler.Push{Delay: time.Hour})
				c, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: a.UID})
				if err != nil || c.Code != scheduler.CancelDone || c.Info.Version != 2 || store.calls != 2 {
					t.Errorf("cancel: %s, version %d, %v after %d calls", c.Code, c.Info.Version, err, store.calls)
				}
				// By its exact name, too: what the second reply does not know is looked up.
				store.calls = 0
				a = r.Push(scheduler.Push{ID: "order-1", Topic: "orders", Delay: time.Hour})
				ref := scheduler.Ref{ID: "order-1", Topic: "orders", Keyed: true}
				c, err = r.S.Cancel(t.Context(), ref)
				if err != nil || c.Code != scheduler.CancelDone || c.Info.UID != a.UID || c.Info.Version != 2 {
					t.Errorf("cancel by name: %s of %s, version %d, %v", c.Code, c.Info.UID, c.Info.Version, err)
				}
				// What is unknown after the first stays so when the second certainly did nothing.
				store.calls, store.then = 0, scheduler.ErrUnavailable
				b := r.Push(scheduler.Push{Delay: time.Hour})
				if _, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: b.UID}); !errors.Is(err,
					scheduler.ErrOutcomeUnknown) {
					t.Errorf("cancel, and the store is away then: %v", err)
				}
			})
		})
	}
}

// Anybody may give a message the uid of another's as its id, and call it a retry. It is none, unless it stands where
// the uid's own message did.
func TestSteer_ARetryUnderTheUIDOfAnothersMessageIsNoneOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorded(t, nil)
		first := r.Push(scheduler.Push{Topic: "a.orders", Delay: time.Second})
		stop := r.Lead(r.S, 1)
		time.Sleep(2 * time.Second)
		_ = stop(rig.ErrStop)
		forged := r.Push(scheduler.Push{Topic: "b.orders", ID: string(first.UID), Attempt: 2, Delay: 24 * time.Hour})
		ref := scheduler.Ref{UID: first.UID}
		wants := func(when string, want message.State, topic string) {
			t.Helper()
			if i, err := r.S.Get(t.Context(), ref); err != nil || i.State != want || i.Topic != topic {
				t.Errorf("%s: a look-up finds one that is %s on %q, %v; want %s on %s", when, i.State, i.Topic,
					err, want, topic)
			}
			if c, err := r.S.Cancel(t.Context(), ref); err != nil || c.Code != scheduler.CancelEnded ||
				c.Info.UID != first.UID {
				t.Errorf("%s: a cancel says %s of %s, %v", when, c.Code, c.Info.UID, err)
			}
		}
		// The other's message stays the other's, who may name it and sees nothing of the first.
		b := &scheduler.Viewer{Topics: []string{"b.>"}}
		others := func(when string) {
			t.Helper()
			for _, ref := range []scheduler.Ref{{UID: first.UID, Viewer: b}, {UID: first.UID, Topic: "b.orders"}} {
				if i, err := r.S.Get(t.Context(), ref); err != nil || i.UID != forged.UID {
					t.Errorf("%s: the other's look-up finds %s, %v", when, i.UID, err)
				}
			}
			_, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: first.UID, Viewer: b})
			if !errors.Is(err, scheduler.ErrAmbiguousID) {
				t.Errorf("%s: the other's cancel without a topic: %v", when, err)
			}
		}
		wants("while its end is remembered", message.StateDelivered, "a.orders")
		others("while its end is remembered")
		r.forget(11 * time.Minute)
		wants("while the journal has it", message.StateDelivered, "a.orders")
		others("while the journal has it")

		r.Journal = &rig.KeptJournal{} // one that has forgotten it too
		r.S = r.Scheduler()
		r.Serve(r.S)
		if i, err := r.S.Get(t.Context(), ref); err != nil || i.UID != forged.UID || i.Topic != "b.orders" {
			t.Errorf("a look-up finds %s on %q, %v; want what has the name, with its topic", i.UID, i.Topic, err)
		}
		if _, err := r.S.Cancel(t.Context(), ref); !errors.Is(err, scheduler.ErrAmbiguousID) {
			t.Errorf("a cancel that names no topic: %v, want %v", err, scheduler.ErrAmbiguousID)
		}
		if s := r.Info(forged.UID).State; s != message.StateWaiting {
			t.Errorf("the other's message is %s", s)
		}
		named := scheduler.Ref{UID: first.UID, Topic: "b.orders"}
		if c, err := r.S.Cancel(t.Context(), named); err != nil || c.Code != scheduler.CancelDone {
			t.Errorf("a cancel that names the topic: %s, %v", c.Code, err)
		}
	})
}

// The true retry of a message without a name is meant by the message's uid, as long as it lives, whatever has been
// forgotten.
func TestSteer_ARetryOfAMessageWithoutANameIsMeantByItsUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorded(t, nil)
		first := r.Push(scheduler.Push{Topic: "a.orders", Key: "k", Delay: time.Second})
		stop := r.Lead(r.S, 1)
		time.Sleep(2 * time.Second)
		_ = stop(rig.ErrStop)
		second := r.Push(
			scheduler.Push{Topic: "a.orders", Key: "k", ID: string(first.UID), Attempt: 2, Delay: 24 * time.Hour})
		retried := func(when string) {
			t.Helper()
			if i, err := r.S.Get(t.Context(), scheduler.Ref{UID: first.UID}); err != nil || i.UID != second.UID {
				t.Errorf("%s: a look-up finds %s, %v; want the retry", when, i.UID, err)
			}
		}
		retried("while the end is remembered")
		r.forget(11 * time.Minute)
		retried("while the journal has it")
		if c, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: first.UID}); err != nil ||
			c.Code != scheduler.CancelDone || c.Info.UID != second.UID {
			t.Errorf("cancel: %s of %s, %v", c.Code, c.Info.UID, err)
		}
	})
}

// full has no room for another tombstone.
type full struct{ scheduler.Timeline }

func (full) Bury(context.Context, scheduler.Ref, uint64, message.Milli) ([]message.UID, error) {
	return nil, scheduler.ManyTombstones(false)
}

// What the journal knows is answered whether or not the cancel can be remembered too.
func TestCancel_AnswersWhatTheJournalKnowsThoughNoTombstoneFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorded(t, func(tl scheduler.Timeline) scheduler.Timeline { return full{tl} })
		first := r.Push(scheduler.Push{Topic: "orders", ID: "order-1", Delay: time.Second})
		stop := r.Lead(r.S, 1)
		time.Sleep(2 * time.Second)
		_ = stop(rig.ErrStop)
		r.forget(11 * time.Minute)
		c, err := r.S.Cancel(t.Context(), scheduler.Ref{ID: "order-1", Topic: "orders"})
		if err != nil || c.Code != scheduler.CancelEnded || c.Info.UID != first.UID ||
			c.Info.State != message.StateDelivered {
			t.Errorf("got %s of %s, %v", c.Code, c.Info.UID, err)
		}
		if _, err := r.S.Cancel(t.Context(), scheduler.Ref{ID: "order-2", Topic: "orders"}); !errors.Is(err,
			scheduler.ErrManyTombstones) {
			t.Errorf("of what nobody knows: %v", err)
		}
	})
}

// One token does not use up the room that the cancels of others need.
func TestCancel_SharesTheRoomForTombstonesAmongTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		other := "b"
		for schedulertest.NameBucket("", other, 2) == schedulertest.NameBucket("", "a", 2) {
			other += "b"
		}
		cancel := func(by string, n int) error {
			ref := scheduler.Ref{ID: fmt.Sprint(by, " ", n), Topic: "orders", Key: "a", Keyed: true}
			if n == -1 {
				ref.Key, ref.Keyed = "", false
			} else if n == -2 {
				ref.Key = other
			}
			_, err := r.S.Cancel(scheduler.CalledBy(t.Context(), by), ref)
			return err
		}
		for n := range steer.BurialShare {
			if err := cancel("shop", n); err != nil {
				t.Fatalf("cancel %d: %v", n, err)
			}
		}
		for n, by := range []string{"shop", "mail", scheduler.ByNATS, "", "shop"} {
			err := cancel(by, 10_000+n)
			if refused := errors.Is(err, scheduler.ErrManyTombstones) && errors.Is(err, scheduler.ErrUnavailable); refused !=
				(by == "shop") || err != nil && !refused {
				t.Errorf("another, by %q: %v", by, err)
			}
		}
		if err := cancel("shop", -1); !errors.Is(err, scheduler.ErrManyTombstones) {
			t.Errorf("in both buckets: %v", err)
		}
		if err := cancel("shop", -2); err != nil {
			t.Errorf("in the other bucket: %v", err)
		}
		time.Sleep(10 * time.Minute)
		if err := cancel("shop", 0); err != nil {
			t.Errorf("ten minutes later: %v", err)
		}
	})
}

// halfRead is a store that holds a damaged record beside whatever has a name.
type halfRead struct{ scheduler.Timeline }

func (s halfRead) Find(ctx context.Context, ref scheduler.Ref) ([]message.Info, error) {
	found, err := s.Timeline.Find(ctx, ref)
	if err == nil && ref.ID != "" {
		err = scheduler.ErrUnreadable
	}
	return found, err
}

// An id that leads to a damaged record and to another topic's message reports that message. Which of the two a change
// means nobody knows.
func TestSteer_TellsOfWhatStandsBesideADamagedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { return halfRead{tl} })
		a := r.Push(scheduler.Push{Topic: "orders", ID: "n", Delay: time.Hour})
		if got, err := r.S.Get(t.Context(), scheduler.Ref{ID: "n"}); err != nil || got.UID != a.UID {
			t.Errorf("by its id: %+v, %v", got, err)
		}
		if _, err := r.S.Get(t.Context(), scheduler.Ref{ID: "n", Topic: "orders"}); !errors.Is(err,
			scheduler.ErrUnreadable) {
			t.Errorf("by its name: %v", err)
		}
		if _, err := r.S.Get(t.Context(), scheduler.Ref{ID: "m"}); !errors.Is(err, scheduler.ErrUnreadable) {
			t.Errorf("by the id of nothing that can be read: %v", err)
		}
		if _, err := r.S.Cancel(t.Context(), scheduler.Ref{ID: "n"}); !errors.Is(err, scheduler.ErrUnreadable) {
			t.Errorf("a cancel by its id: %v", err)
		}
		if got := r.Info(a.UID); got.State != message.StateWaiting {
			t.Errorf("it is %s", got.State)
		}
	})
}
