package scheduler_test

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

func reschedule(r *rig.Rig, uid message.UID, e scheduler.Edit) scheduler.AmendResult {
	r.T.Helper()
	result, err := r.S.Reschedule(r.T.Context(), scheduler.Ref{UID: uid}, e)
	if err != nil {
		r.T.Fatalf("reschedule %s: %v", uid, err)
	}
	return result
}

func TestReschedule_MovesAndEditsInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		stop := r.Lead(r.S, 1)
		a := r.Push(scheduler.Push{ID: "a", Delay: time.Hour, Body: []byte("old")})
		sooner := reschedule(r, a.UID,
			scheduler.Edit{Delay: new(time.Second), Body: []byte("new"),
				Headers: []message.Header{{Name: "X", Value: "1"}}, Version: 1})
		if sooner.Code != scheduler.AmendDone || sooner.Info.Version != 2 {
			t.Fatalf("reschedule: %s, version %d", sooner.Code, sooner.Info.Version)
		}
		stale := reschedule(r, a.UID, scheduler.Edit{Delay: new(time.Minute), Version: 1})
		if stale.Code != scheduler.AmendVersion || stale.Info.Version != 2 {
			t.Errorf("with a version that is over: %s, version %d", stale.Code, stale.Info.Version)
		}
		time.Sleep(2 * time.Second)
		got := r.Nats.Arrived()
		if len(got) != 1 || string(got[0].M.Body) != "new" || len(got[0].M.Headers) != 1 || got[0].M.UID != a.UID {
			t.Fatalf("arrived: %+v", got)
		}
		if late := got[0].At.Sub(sooner.Info.Due.Time()); late < 0 || late > 5*time.Millisecond {
			t.Errorf("arrived %s after its new due time", late)
		}
		if over := reschedule(r, a.UID, scheduler.Edit{Run: true}); over.Code != scheduler.AmendEnded ||
			over.Info.State != message.StateDelivered {
			t.Errorf("after delivery: %s of a message that is %s", over.Code, over.Info.State)
		}
		_ = stop(rig.ErrStop)
	})
}

// steps counts the look-ups, and loses the reply of the next move by name if lose is set.
type steps struct {
	scheduler.Timeline
	finds int
	lose  bool
}

func (s *steps) Find(ctx context.Context, ref scheduler.Ref) ([]message.Info, error) {
	s.finds++
	return s.Timeline.Find(ctx, ref)
}

func (s *steps) Amend(ctx context.Context, a scheduler.Amend,
	now message.Milli) (scheduler.AmendResult, error) {
	result, err := s.Timeline.Amend(ctx, a, now)
	if s.lose && a.UID == "" {
		s.lose, result, err = false, scheduler.AmendResult{}, scheduler.ErrOutcomeUnknown
	}
	return result, err
}

func TestReschedule_TakesOneStepByAnExactName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &steps{}
		r := rig.New(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		a := r.Push(scheduler.Push{ID: "a", Topic: "orders", Delay: time.Hour})
		ref := scheduler.Ref{ID: "a", Topic: "orders", Keyed: true}
		store.finds = 0
		for i, c := range []struct {
			edit   scheduler.Edit
			lose   bool
			looked bool
		}{
			{edit: scheduler.Edit{Delay: new(time.Minute)}},
			{edit: scheduler.Edit{At: new(message.CeilMilli(time.Now().Add(2 * time.Minute)))}},
			{edit: scheduler.Edit{Delay: new(3 * time.Minute), Priority: new(uint8(7))}, looked: true},
			{edit: scheduler.Edit{Delay: new(4 * time.Minute)}, lose: true, looked: true},
		} {
			store.lose = c.lose
			got, err := r.S.Reschedule(t.Context(), ref, c.edit)
			due := time.Duration(i+1) * time.Minute
			if err != nil || got.Code != scheduler.AmendDone || got.Info.UID != a.UID ||
				time.Until(got.Info.Due.Time()).Round(time.Second) != due {
				t.Errorf("edit %d: %s of %s, due %s, %v", i, got.Code, got.Info.UID, got.Info.Due.Time(), err)
			}
			if looked := store.finds > 0; looked != c.looked {
				t.Errorf("edit %d: %d look-ups", i, store.finds)
			}
			store.finds = 0
		}
		hidden := ref
		hidden.Viewer = &scheduler.Viewer{Topics: []string{"mail.>"}}
		for _, other := range []scheduler.Ref{hidden, {ID: "b", Topic: "orders", Keyed: true}} {
			got, err := r.S.Reschedule(t.Context(), other, scheduler.Edit{Delay: new(time.Minute)})
			if err != nil || got.Code != scheduler.AmendUnknown {
				t.Errorf("%+v: %s, %v", other, got.Code, err)
			}
		}
	})
}

func TestReschedule_RunIsNowAndShiftMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		stop := r.Lead(r.S, 1)
		a, b := r.Push(scheduler.Push{Delay: time.Hour}), r.Push(scheduler.Push{Delay: time.Hour})
		if got := reschedule(r, a.UID, scheduler.Edit{Run: true}); got.Code != scheduler.AmendDone {
			t.Fatalf("run: %s", got.Code)
		}
		if got := reschedule(r, b.UID,
			scheduler.Edit{Shift: new(-30 * time.Minute)}); got.Info.Due != b.Due.Add(-30*time.Minute) {
			t.Errorf("shifted from %d to %d", b.Due, got.Info.Due)
		}
		time.Sleep(100 * time.Millisecond)
		if got := r.Nats.Arrived(); len(got) != 1 || got[0].M.UID != a.UID {
			t.Errorf("arrived: %+v", got)
		}
		_, err := r.S.Reschedule(t.Context(), scheduler.Ref{UID: b.UID},
			scheduler.Edit{Delay: new(20 * 365 * 24 * time.Hour)})
		if err == nil {
			t.Error("twenty years ahead were taken")
		}
		_ = stop(rig.ErrStop)
	})
}

func TestReschedule_LeavesAMessageAloneThatMayHaveBeenDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Nats.Answer = func(*message.Message, int) scheduler.Outcome {
			return scheduler.Outcome{Kind: scheduler.Unknown}
		}
		a := r.Push(scheduler.Push{Body: []byte("x")})
		stop := r.Lead(r.S, 1)
		time.Sleep(50 * time.Millisecond)
		_ = stop(rig.ErrStop)
		before := r.Info(a.UID)
		if !before.Mark.Uncertain {
			t.Fatalf("it is %s, uncertain %t", before.State, before.Mark.Uncertain)
		}
		got := reschedule(r, a.UID, scheduler.Edit{Delay: new(time.Hour)})
		if got.Code != scheduler.AmendMaybe {
			t.Errorf("reschedule: %s", got.Code)
		}
		if after := r.Info(a.UID); after.Due != before.Due || after.Version != before.Version {
			t.Errorf("it changed: %+v, was %+v", after, before)
		}
	})
}

func TestMany_CancelsAndShiftsWhatIsSelectedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 3, nil)
		var mine, others []scheduler.Accepted
		for i := range 1200 {
			p := scheduler.Push{Topic: "orders.remind", Delay: time.Hour + time.Duration(i)*time.Second,
				Key: string(rune('a' + i%3))}
			if i%2 == 1 {
				p.Topic = "mail"
				others = append(others, r.Push(p))
				continue
			}
			mine = append(mine, r.Push(p))
		}
		dry, err := r.S.CancelMany(t.Context(), scheduler.Selection{Topic: "orders.>", DryRun: true}, nil)
		if err != nil || dry.Looked != 1200 || dry.Matched != 600 || dry.Done != 0 {
			t.Fatalf("dry run: %+v, %v", dry, err)
		}
		until := message.Milli(time.Now().UnixMilli())
		time.Sleep(2 * time.Millisecond)
		later := r.Push(scheduler.Push{Topic: "orders.remind", Delay: time.Hour})
		for want, sel := range map[int]scheduler.Selection{600: {Topic: "orders.>", AcceptedTo: until},
			601: {Topic: "orders.>"}, 0: {Topic: "orders.>", AcceptedTo: 1}} {
			sel.DryRun = true
			if some, err := r.S.CancelMany(t.Context(), sel, nil); err != nil || some.Matched != want {
				t.Fatalf("accepted until %d: %+v, %v", sel.AcceptedTo, some, err)
			}
		}
		if one, err := r.S.CancelMany(t.Context(), scheduler.Selection{Topic: "orders.>", From: later.Due, To: later.Due,
			AcceptedTo: until}, nil); err != nil || r.Info(later.UID).State != message.StateWaiting {
			t.Fatalf("%+v, %v", one, err)
		}
		if _, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: later.UID}); err != nil {
			t.Fatal(err)
		}
		shifted, err := r.S.RescheduleMany(t.Context(), scheduler.Selection{Topic: "orders.>"},
			scheduler.Edit{Shift: new(time.Minute)}, nil)
		if err != nil || shifted.Done != 600 {
			t.Fatalf("shift: %+v, %v", shifted, err)
		}
		for _, a := range mine {
			if got := r.Info(a.UID).Due; got != a.Due.Add(time.Minute) {
				t.Fatalf("shifted by %d ms", got-a.Due)
			}
		}
		steps := 0
		// A pause keeps those that are due now in the walk's way: it must end all the same.
		for _, e := range []scheduler.Edit{{Delay: new(2 * time.Hour)}, {Run: true},
			{Delay: new(3 * time.Hour)}} {
			if again, err := r.S.RescheduleMany(t.Context(), scheduler.Selection{Topic: "mail"}, e, nil); err != nil ||
				again.Done != 600 {
				t.Fatalf("reschedule to one time: %+v, %v", again, err)
			}
		}
		report, err := r.S.CancelMany(t.Context(), scheduler.Selection{Topic: "orders.>", Key: "a", HasKey: true},
			func(scheduler.Report) {
				steps++
			})
		if err != nil || report.Done != 200 || steps < 3 {
			t.Fatalf("cancel by key: %+v in %d steps, %v", report, steps, err)
		}
		if report, err = r.S.CancelMany(t.Context(), scheduler.Selection{Topic: "orders.>", From: mine[300].Due},
			nil); err != nil || report.Done == 0 {
			t.Fatalf("cancel by due: %+v, %v", report, err)
		}
		for _, a := range others {
			if i := r.Info(a.UID); i.State != message.StateWaiting || i.Version != 4 {
				t.Fatalf("another topic's message is %s, version %d", i.State, i.Version)
			}
		}
	})
}

// shortBody is a limit on the body alone.
type shortBody int

var errLong = errors.New("long")

func (n shortBody) Fits(m *message.Message) error {
	if len(m.Headers) != 1 || len(m.Body) > int(n) {
		return errLong
	}
	return nil
}

func TestReschedule_RefusesWhatDoesNotFitAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		a := r.Push(scheduler.Push{Delay: time.Hour, Body: []byte("four"),
			Headers: []message.Header{{Name: "X", Value: "1"}}})
		edit := func(body string) scheduler.Edit {
			return scheduler.Edit{Body: []byte(body), Delay: new(time.Second),
				Fit: shortBody(4)}
		}
		if _, err := r.S.Reschedule(t.Context(), scheduler.Ref{UID: a.UID}, edit("fives")); !errors.Is(err, errLong) {
			t.Errorf("got %v", err)
		}
		if info := r.Info(a.UID); info.Version != 1 || info.Due != a.Due || string(info.Body) != "four" {
			t.Errorf("version %d, due %d, body %q", info.Version, info.Due, info.Body)
		}
		// What stays is not held to a limit that it was not pushed under.
		got := reschedule(r, a.UID, scheduler.Edit{Delay: new(time.Minute), Fit: shortBody(1)})
		if got.Code != scheduler.AmendDone {
			t.Errorf("moved: %s", got.Code)
		}
		if got := reschedule(r, a.UID, edit("more")); got.Code != scheduler.AmendDone {
			t.Errorf("edited: %s", got.Code)
		}
		if _, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: a.UID}); err != nil {
			t.Fatal(err)
		}
		if got := reschedule(r, a.UID, edit("fives")); got.Code != scheduler.AmendEnded {
			t.Errorf("of one that is canceled: %s", got.Code)
		}
	})
}
