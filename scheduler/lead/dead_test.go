package lead_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

func listDead(r *rig.Rig, topic, cursor string, limit int) ([]message.Info, string, error) {
	page, next, _, err := r.S.Listed(r.T.Context(), scheduler.Listing{Selection: scheduler.Selection{Topic: topic},
		States: []message.State{message.StateDead}}, cursor, limit, 1000)
	return page, next, err
}

func TestExpired_GoesToTheSubjectThatIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Topics(&scheduler.Topic{Pattern: "orders", TTL: time.Minute, Expired: "expired.orders"})
		a := r.Push(scheduler.Push{Topic: "orders", ID: "a", Body: []byte("x")})
		b := r.Push(scheduler.Push{Topic: "orders", TTL: time.Hour})
		time.Sleep(5 * time.Minute)
		stop := r.Lead(r.S, 1)
		time.Sleep(time.Second)
		if i := r.Info(a.UID); i.State != message.StateExpired {
			t.Errorf("it is %s", i.State)
		}
		if i := r.Info(b.UID); i.State != message.StateDelivered {
			t.Errorf("one with a longer time of its own is %s", i.State)
		}
		got := r.Nats.Arrived()
		if n := rig.TopicsOf(got); n["expired.orders"] != 1 || n["orders"] != 1 {
			t.Fatalf("arrived: %v", n)
		}
		for _, x := range got {
			if x.M.Topic == "expired.orders" && (string(x.M.Body) != "x" || x.M.UID == a.UID || x.M.ID != "a" ||
				header(x.M, "Tarry-Subject") != "orders" || header(x.M, "Tarry-Reason") == "") {
				t.Errorf("the copy is %+v", x.M)
			}
		}
		_ = stop(rig.ErrStop)
	})
}

func header(m *message.Message, name string) string {
	for _, h := range m.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

func TestDead_FollowsTheScheduleAndIsCopiedListedRequeuedAndPurged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		r.Topics(&scheduler.Topic{Pattern: "poison", Dead: "dead.poison"})
		r.Nats.Answer = rig.Refuse("poison")
		stop := r.Lead(r.S, 1)
		schedule := message.Retry{Delays: []time.Duration{0, 10 * time.Second, time.Minute}}
		a := r.Push(scheduler.Push{Topic: "poison", ID: "a", Body: []byte("x"), Retry: schedule})
		var many []scheduler.Accepted
		for i := range 40 {
			many = append(many, r.Push(scheduler.Push{Topic: "poison", Body: fmt.Append(nil, i)}))
		}
		time.Sleep(65 * time.Second)
		if i := r.Info(a.UID); i.State == message.StateDead {
			t.Fatal("dead before its schedule is over")
		}
		time.Sleep(10 * time.Second)
		i := r.Info(a.UID)
		if i.State != message.StateDead || i.Reason == "" || string(i.Body) != "x" {
			t.Fatalf("it is %s, reason %q, body %q", i.State, i.Reason, i.Body)
		}
		if n := rig.TopicsOf(r.Nats.Arrived()); n["dead.poison"] != 41 {
			t.Errorf("copies: %v", n)
		}
		seen, cursor := 0, ""
		for {
			page, next, err := listDead(r, "poi*", cursor, 7)
			if err == nil && len(page) > 7 {
				err = fmt.Errorf("a page of %d", len(page))
			}
			if err != nil {
				break
			}
			if seen += len(page); next == "" {
				break
			}
			cursor = next
		}
		if page, _, err := listDead(r, "poison", "", 1000); err != nil || len(page) != 41 {
			t.Errorf("%d dead, %v", len(page), err)
		}
		if _, _, err := listDead(r, "", "99:3:x", 10); !errors.Is(err, scheduler.ErrBadCursor) {
			t.Errorf("a made-up cursor: %v", err)
		}

		r.Nats.Mu.Lock()
		r.Nats.Answer = nil
		r.Nats.Mu.Unlock()
		again, err := r.S.RequeueOne(t.Context(), scheduler.Ref{ID: "a"},
			scheduler.Requeue{Body: []byte("mended")})
		if err != nil || again.UID == a.UID {
			t.Fatalf("requeue: %+v, %v", again, err)
		}
		time.Sleep(time.Second)
		if i := r.Info(again.UID); i.State != message.StateDelivered {
			t.Errorf("requeued, it is %s", i.State)
		}
		if i := r.Info(a.UID); i.State != message.StateCanceled || i.Reason != "requeued as "+string(again.UID) {
			t.Errorf("the dead one is %s: %s", i.State, i.Reason)
		}
		if _, err := r.S.RequeueOne(t.Context(), scheduler.Ref{UID: a.UID}, scheduler.Requeue{}); !errors.Is(err,
			scheduler.ErrNotDead) {
			t.Errorf("requeued twice: %v", err)
		}
		if err := r.S.PurgeOne(t.Context(), scheduler.Ref{UID: many[0].UID}); err != nil {
			t.Errorf("purge: %v", err)
		}
		if c, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: a.UID}); err != nil ||
			c.Code != scheduler.CancelEnded || c.Info.UID != again.UID || c.Info.State != message.StateDelivered {
			t.Errorf("cancel by the uid that was dead: %s of %s, %v", c.Code, c.Info.UID, err)
		}
		report, err := r.S.RequeueMany(t.Context(), scheduler.Selection{Topic: "poison"},
			scheduler.Requeue{Delay: time.Second}, nil)
		if err != nil || report.Done != 39 {
			t.Errorf("requeue of all: %+v, %v", report, err)
		}
		time.Sleep(3 * time.Second)
		if n := rig.TopicsOf(r.Nats.Arrived()); n["poison"] != 40 {
			t.Errorf("after that: %v", n)
		}
		if page, _, err := listDead(r, "", "", 10); err != nil || len(page) != 0 {
			t.Errorf("%d are dead still, %v", len(page), err)
		}
		_ = stop(rig.ErrStop)
	})
}

func TestRetry_AConsumersRetryWaitsByItsScheduleAndEndsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		stop := r.Lead(r.S, 1)
		schedule := message.Retry{Delays: []time.Duration{0, 2 * time.Minute}}
		first := r.Push(scheduler.Push{ID: "a", Retry: schedule, Body: []byte("x")})
		time.Sleep(time.Second)
		send := func(attempt uint32) scheduler.Accepted {
			return r.Push(scheduler.Push{ID: "a", Attempt: attempt, ByRetry: true, Retry: schedule, Body: []byte("x"),
				Headers: []message.Header{{Name: "Tarry-Reason", Value: "the till is closed"}}})
		}
		second := send(2)
		otherwise := r.Push(scheduler.Push{ID: "a", Attempt: 2, ByRetry: true, Retry: schedule, Body: []byte("x"),
			Headers: []message.Header{{Name: "Tarry-Reason", Value: "in other words"}}})
		if !otherwise.Duplicate || otherwise.UID != second.UID {
			t.Errorf("sent back twice, in other words: %+v", otherwise)
		}
		if again := send(2); !again.Duplicate || again.UID != second.UID {
			t.Errorf("sent back twice: %+v", again)
		}
		time.Sleep(time.Second)
		if i := r.Info(second.UID); i.State != message.StateDelivered || i.Attempt != 2 || second.UID == first.UID {
			t.Fatalf("first retry: %s, attempt %d", i.State, i.Attempt)
		}
		third := send(3)
		if wait := time.Until(third.Due.Time()); wait < 119*time.Second || wait > 121*time.Second {
			t.Errorf("the second retry waits %s", wait)
		}
		time.Sleep(3 * time.Minute)
		last := send(4)
		time.Sleep(time.Second)
		if i := r.Info(last.UID); i.State != message.StateDead ||
			i.Reason != "sent back after 2 retries: the till is closed" {
			t.Errorf("past the last: %s, %q", i.State, i.Reason)
		}
		if n := len(r.Nats.Arrived()); n != 3 {
			t.Errorf("%d deliveries, want 3", n)
		}
		_ = stop(rig.ErrStop)
	})
}

func TestRetry_OfAMessageWithoutANameIsFoundAndCanceledByItsUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 4, nil)
		stop := r.Lead(r.S, 1)
		first := r.Push(scheduler.Push{Key: "k", Body: []byte("x")})
		time.Sleep(time.Second)
		retry := r.Push(
			scheduler.Push{ID: string(first.UID), Key: "k", Attempt: 2, Delay: time.Hour, Body: []byte("x")})
		if i := r.Info(first.UID); i.UID != retry.UID || i.State != message.StateWaiting {
			t.Errorf("by its uid: %s, %s; want the retry %s", i.UID, i.State, retry.UID)
		}
		if c, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: first.UID}); err != nil ||
			c.Code != scheduler.CancelDone || c.Info.UID != retry.UID {
			t.Errorf("cancel by uid: %s of %s, %v", c.Code, c.Info.UID, err)
		}
		_ = stop(rig.ErrStop)
	})
}

func TestCancel_FollowsAMessageThroughAllItsLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		r.Nats.Answer = rig.Refuse("poison")
		stop := r.Lead(r.S, 1)
		first := r.Push(scheduler.Push{Topic: "poison", Retry: message.Retry{Delays: []time.Duration{0}}})
		life := first.UID
		for range 2 {
			time.Sleep(time.Second)
			again, err := r.S.RequeueOne(t.Context(), scheduler.Ref{UID: life}, scheduler.Requeue{Delay: 0})
			if err != nil {
				t.Fatal(err)
			}
			life = again.UID
		}
		time.Sleep(time.Second)
		last, err := r.S.RequeueOne(t.Context(), scheduler.Ref{UID: life}, scheduler.Requeue{Delay: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: first.UID}); err != nil ||
			c.Code != scheduler.CancelDone || c.Info.UID != last.UID {
			t.Errorf("cancel by the first uid: %s of %s, %v; want the last life, %s", c.Code, c.Info.UID, err, last.UID)
		}
		if i := r.Info(last.UID); i.State != message.StateCanceled {
			t.Errorf("the last life is %s", i.State)
		}
		_ = stop(rig.ErrStop)
	})
}

func TestExpired_EndsThoughItsCopyIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Topics(&scheduler.Topic{Pattern: "orders", TTL: time.Minute, Expired: "full"})
		r.Nats.Answer = func(m *message.Message, _ int) scheduler.Outcome {
			if m.Topic == "full" {
				return scheduler.Outcome{Kind: scheduler.Unanswered, Err: errors.New("no space")}
			}
			return scheduler.Outcome{}
		}
		a := r.Push(scheduler.Push{Topic: "orders"})
		time.Sleep(5 * time.Minute)
		stop := r.Lead(r.S, 1)
		time.Sleep(time.Minute)
		if i := r.Info(a.UID); i.State != message.StateExpired {
			t.Errorf("it is %s", i.State)
		}
		_ = stop(rig.ErrStop)
	})
}

func TestDead_WaitsForItsCopyWithoutAnotherAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Topics(&scheduler.Topic{Pattern: "poison", Dead: "dead.poison"})
		attempts := 0
		r.Nats.Answer = func(m *message.Message, nth int) scheduler.Outcome {
			if m.Topic == "poison" {
				attempts++
				return scheduler.Outcome{Kind: scheduler.Refused, Err: errors.New("no such permission")}
			}
			if nth < 3 {
				return scheduler.Outcome{Kind: scheduler.Unanswered, Err: errors.New("no space")}
			}
			return scheduler.Outcome{}
		}
		a := r.Push(scheduler.Push{Topic: "poison", Retry: message.Retry{Delays: []time.Duration{time.Second}}})
		stop := r.Lead(r.S, 1)
		time.Sleep(3 * time.Second)
		if i := r.Info(a.UID); i.State != message.StateWaiting || i.Mark.Refusals != 2 || i.Version != 3 {
			t.Errorf("while its copy is not taken it is %s, refusals %d, version %d", i.State, i.Mark.Refusals,
				i.Version)
		}
		time.Sleep(time.Minute)
		if i := r.Info(a.UID); i.State != message.StateDead || i.Reason != "no such permission" {
			t.Errorf("once its copy is taken it is %s, reason %q", i.State, i.Reason)
		}
		if n := rig.TopicsOf(r.Nats.Arrived()); attempts != 2 || n["dead.poison"] != 1 {
			t.Errorf("%d attempts, %d copies; want 2 and 1", attempts, n["dead.poison"])
		}
		_ = stop(rig.ErrStop)
	})
}

func TestExpired_CanceledMessagesTakeNoTriesFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		r.Topics(&scheduler.Topic{Pattern: "orders", TTL: time.Minute, Expired: "full"})
		r.Nats.Answer = func(m *message.Message, nth int) scheduler.Outcome {
			if m.Topic == "full" && (m.Key != "last" || nth < 3) {
				return scheduler.Outcome{Kind: scheduler.Unanswered, Err: errors.New("no space")}
			}
			return scheduler.Outcome{}
		}
		const many = 10_000 // as many as may wait for another try
		for range many / 100 {
			some := make([]*scheduler.Push, 100)
			for i := range some {
				some[i] = &scheduler.Push{Topic: "orders"}
			}
			for _, a := range r.S.AcceptAll(t.Context(), some) {
				if a.Err != nil {
					t.Fatal(a.Err)
				}
			}
		}
		time.Sleep(2 * time.Minute)
		stop := r.Lead(r.S, 1)
		time.Sleep(3 * time.Second)
		if report, err := r.S.CancelMany(t.Context(), scheduler.Selection{}, nil); err != nil || report.Done != many {
			t.Fatalf("canceled %+v, %v", report, err)
		}
		away := func(down bool) {
			r.Nats.Mu.Lock()
			r.Nats.Down = down
			r.Nats.Mu.Unlock()
		}
		away(true)
		r.Push(scheduler.Push{Topic: "orders", Key: "last"})
		time.Sleep(2 * time.Minute)
		away(false)
		time.Sleep(time.Minute)
		if n := rig.TopicsOf(r.Nats.Arrived()); n["full"] != 1 {
			t.Errorf("%d copies arrived, want 1", n["full"])
		}
		_ = stop(rig.ErrStop)
	})
}

func TestDead_IsPurgedByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 2, nil)
		r.DeadKeep = time.Hour
		s := r.Scheduler()
		r.Nats.Answer = rig.Refuse("poison")
		old := r.Push(scheduler.Push{Topic: "poison", Retry: message.Retry{Delays: []time.Duration{0}}})
		stop := r.Lead(s, 1)
		time.Sleep(50 * time.Minute)
		young := r.Push(scheduler.Push{Topic: "poison", Retry: message.Retry{Delays: []time.Duration{0}}})
		time.Sleep(15 * time.Minute)
		if i := r.Info(old.UID); i.State != message.StateCanceled || i.Reason != "purged" {
			t.Errorf("after an hour it is %s: %s", i.State, i.Reason)
		}
		if i := r.Info(young.UID); i.State != message.StateDead {
			t.Errorf("a younger one is %s", i.State)
		}
		_ = stop(rig.ErrStop)
	})
}

// What NATS or a consumer says is text: no word of it steers anything.
func TestCancel_DoesNotFollowWordsThatLookLikeItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, 1, nil)
		other := r.Push(scheduler.Push{Delay: time.Hour})
		forged := map[string]string{"requeued": "requeued as " + string(other.UID),
			"merged": "merged into " + string(other.UID)}
		r.Nats.Answer = func(m *message.Message, _ int) scheduler.Outcome {
			return scheduler.Outcome{Kind: scheduler.Refused, Err: errors.New(forged[m.Topic])}
		}
		stop := r.Lead(r.S, 1)
		for topic, words := range forged {
			a := r.Push(scheduler.Push{Topic: topic, Delay: time.Second})
			time.Sleep(time.Minute)
			c, err := r.S.Cancel(t.Context(), scheduler.Ref{UID: a.UID})
			if err != nil || c.Code != scheduler.CancelEnded || c.Info.UID != a.UID || c.Info.Reason != words ||
				c.Info.Kind != message.KindPlain {
				t.Errorf("cancel of what died of %q: %s of %s, %v", words, c.Code, c.Info.UID, err)
			}
			if i := r.Info(a.UID); i.UID != a.UID {
				t.Errorf("a look-up of what died of %q finds %s", words, i.UID)
			}
			if err := r.S.PurgeOne(t.Context(), scheduler.Ref{UID: a.UID}); err != nil {
				t.Error(err)
			}
		}
		_ = stop(rig.ErrStop)
		if i := r.Info(other.UID); i.State != message.StateWaiting {
			t.Errorf("a message that forged words name is %s", i.State)
		}
	})
}
