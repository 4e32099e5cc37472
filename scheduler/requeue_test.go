package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// lostThenRefused gives no answer to the first attempt, and refuses the next for good: the message dies, and may have
// been delivered.
func lostThenRefused(_ *message.Message, nth int) scheduler.Outcome {
	if nth == 1 {
		return scheduler.Outcome{Kind: scheduler.Unknown, Err: errors.New("no answer")}
	}
	return scheduler.Outcome{Kind: scheduler.Refused, Err: errors.New("no such permission")}
}

func TestRequeue_OfWhatMayHaveBeenDeliveredIsUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		r.Nats.Answer = lostThenRefused
		stop := r.Lead(r.S, 1)
		defer stop(rig.ErrStop)
		once := message.Retry{Delays: []time.Duration{0}}
		var dead []scheduler.Accepted
		for i := range 4 {
			dead = append(dead, r.Push(scheduler.Push{ID: fmt.Sprint("order-", i), Key: "k", Retry: once}))
		}
		dead = append(dead, r.Push(scheduler.Push{Retry: once}))
		time.Sleep(time.Minute)
		for _, a := range dead {
			if i := r.Info(a.UID); i.State != message.StateDead || !i.Mark.Uncertain {
				t.Fatalf("%s is %s, uncertain %t", a.ID, i.State, i.Mark.Uncertain)
			}
		}

		edited, err := r.S.RequeueOne(t.Context(), scheduler.Ref{ID: "order-0"},
			scheduler.Requeue{Delay: time.Hour, Body: []byte("mended")})
		if err != nil || edited.Version != 1 {
			t.Fatalf("requeue: %+v, %v", edited, err)
		}
		if report, err := r.S.RequeueMany(t.Context(), scheduler.Selection{}, scheduler.Requeue{Delay: time.Hour},
			nil); err != nil || report.Done != 4 {
			t.Fatalf("requeue of many: %+v, %v", report, err)
		}

		ref := scheduler.Ref{ID: "order-0", Key: "k", Keyed: true}
		for _, e := range []scheduler.Edit{{Run: true}, {Delay: new(time.Second)},
			{Body: []byte("x")}} {
			if got, err := r.S.Reschedule(t.Context(), ref, e); err != nil || got.Code != scheduler.AmendMaybe {
				t.Errorf("reschedule %+v: %s, %v", e, got.Code, err)
			}
		}
		for name, ref := range map[string]scheduler.Ref{
			"name in its key":              ref,
			"name":                         {ID: "order-1"},
			"uid that died":                {UID: dead[2].UID},
			"uid without a name that died": {UID: dead[4].UID},
		} {
			if got, err := r.S.Cancel(t.Context(), ref); err != nil || got.Code != scheduler.CancelMaybe ||
				!got.Info.Mark.Uncertain {
				t.Errorf("cancel by %s: %s, %+v, %v; want maybe_delivered", name, got.Code, got.Info, err)
			}
		}
		lives := 0
		for _, a := range r.Nats.Arrived() {
			if a.M.Attempt != 1 {
				t.Errorf("attempt %d arrived", a.M.Attempt)
			}
			lives++
		}
		if lives != len(dead) {
			t.Errorf("%d arrived before the requeue, want the %d that died", lives, len(dead))
		}
	})
}

// What ran out of a consumer's retries was delivered for certain before, and never tried again: as certain is its next
// life.
func TestRequeue_OfWhatIsCertainIsCertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		stop := r.Lead(r.S, 1)
		defer stop(rig.ErrStop)
		once := message.Retry{Delays: []time.Duration{0}}
		r.Push(scheduler.Push{ID: "a", Retry: once})
		time.Sleep(time.Second)
		for attempt := range uint32(2) {
			r.Push(scheduler.Push{ID: "a", Attempt: attempt + 2, ByRetry: true, Retry: once})
			time.Sleep(time.Second)
		}
		again, err := r.S.RequeueOne(t.Context(), scheduler.Ref{ID: "a"}, scheduler.Requeue{Delay: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.S.Reschedule(t.Context(), scheduler.Ref{ID: "a"},
			scheduler.Edit{Delay: new(2 * time.Hour)}); err != nil || got.Code != scheduler.AmendDone {
			t.Errorf("reschedule: %s, %v", got.Code, err)
		}
		if got, err := r.S.Cancel(t.Context(), scheduler.Ref{ID: "a"}); err != nil ||
			got.Code != scheduler.CancelDone || got.Info.UID != again.UID {
			t.Errorf("cancel: %s of %s, %v", got.Code, got.Info.UID, err)
		}
	})
}

// lostRequeue loses the replies of requeues, which happen. Once full is set, the next one is refused.
type lostRequeue struct {
	scheduler.Timeline
	lost int
	full error
}

func (s *lostRequeue) Requeue(ctx context.Context, dead message.UID, waits uint64, m *message.Message,
	now message.Milli) (scheduler.RequeueResult, error) {
	if s.lost == 0 && s.full != nil {
		return scheduler.RequeueResult{}, s.full
	}
	result, err := s.Timeline.Requeue(ctx, dead, waits, m, now)
	if err == nil && s.lost > 0 {
		s.lost--
		return scheduler.RequeueResult{}, scheduler.ErrOutcomeUnknown
	}
	return result, err
}

func TestRequeue_OfAnUnknownOutcomeTellsWhomToLookFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lostRequeue{}
		r := rig.New(t, 2, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		r.Nats.Answer = rig.Refuse("poison")
		stop := r.Lead(r.S, 1)
		defer stop(rig.ErrStop)
		once := message.Retry{Delays: []time.Duration{0}}
		one, two := r.Push(scheduler.Push{Topic: "poison", Retry: once}),
			r.Push(scheduler.Push{Topic: "poison", ID: "a", Retry: once})
		time.Sleep(time.Second)

		store.lost = 1
		again, err := r.S.RequeueOne(t.Context(), scheduler.Ref{UID: one.UID}, scheduler.Requeue{Delay: time.Hour})
		if err != nil || r.Info(again.UID).State != message.StateWaiting {
			t.Fatalf("one lost reply: %+v, %v", again, err)
		}
		store.lost = 2
		again, err = r.S.RequeueOne(t.Context(), scheduler.Ref{UID: two.UID}, scheduler.Requeue{Delay: time.Hour})
		if !errors.Is(err, scheduler.ErrOutcomeUnknown) || again.UID == "" || again.ID != "a" {
			t.Fatalf("no reply: %+v, %v", again, err)
		}
		if i := r.Info(again.UID); i.State != message.StateWaiting || i.ID != "a" {
			t.Errorf("what it names is %s under %q", i.State, i.ID)
		}
		_, err = r.S.RequeueOne(t.Context(), scheduler.Ref{UID: two.UID}, scheduler.Requeue{Delay: time.Hour})
		if !errors.Is(err, scheduler.ErrNotDead) || !strings.Contains(err.Error(), "requeued as "+string(again.UID)) {
			t.Errorf("asked again: %v", err)
		}

		for _, full := range []error{scheduler.ErrFull, scheduler.ErrUnavailable} {
			three := r.Push(scheduler.Push{Topic: "poison", Retry: once})
			time.Sleep(time.Second)
			store.lost, store.full = 1, full
			again, err = r.S.RequeueOne(t.Context(), scheduler.Ref{UID: three.UID}, scheduler.Requeue{Delay: time.Hour})
			if !errors.Is(err, scheduler.ErrOutcomeUnknown) || errors.Is(err, full) {
				t.Errorf("a lost reply, then %v: %v", full, err)
			}
			if i := r.Info(again.UID); i.State != message.StateWaiting {
				t.Errorf("a lost reply, then %v: what it names is %s", full, i.State)
			}
			store.full = nil
		}
	})
}
