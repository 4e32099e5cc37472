package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/store/memory"
)

// nats is a publisher that answers as a test sets it.
type nats struct {
	mu     sync.Mutex
	down   bool
	answer func(m *message.Message, nth int) scheduler.Outcome // nil: delivered
	lane   func(m *message.Message) message.Lane               // nil: core, by topic
	takes  func(m *message.Message) time.Duration              // until it answers; nil: it answers at once
	hands  func()                                              // runs before each message is handed over
	tries  map[message.UID]int
	got    []arrival
}

type arrival struct {
	m  *message.Message
	at time.Time
}

func (n *nats) Ready() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.down
}

func (n *nats) Lane(m *message.Message) message.Lane {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lane != nil {
		return n.lane(m)
	}
	return message.LaneCore.Lane(m.Topic)
}

func (n *nats) Send(_ context.Context, batch []*message.Message, done func(*message.Message, scheduler.Outcome)) {
	for _, m := range batch {
		if n.hands != nil {
			n.hands()
		}
		n.mu.Lock()
		n.tries[m.UID]++
		var o scheduler.Outcome
		var takes time.Duration
		if n.answer != nil {
			o = n.answer(m, n.tries[m.UID])
		}
		if o.Kind == scheduler.Delivered || o.Kind == scheduler.Unknown {
			n.got = append(n.got, arrival{m, time.Now()})
		}
		if n.takes != nil {
			takes = n.takes(m)
		}
		n.mu.Unlock()
		if takes > 0 {
			time.AfterFunc(takes, func() { done(m, o) })
			continue
		}
		done(m, o)
	}
}

func (n *nats) arrived() []arrival {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]arrival(nil), n.got...)
}

// newRig0 is newRig over a wrapped store, on the real clock.
func newRig0(t *testing.T, buckets message.Bucket, store *shaky) *rig {
	t.Helper()
	return newRig(t, buckets, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
}

// rig is a scheduler over store/memory and a publisher under test.
type rig struct {
	t     *testing.T
	nats  *nats
	store scheduler.Timeline
	clock *scheduler.Clock
	s     *scheduler.Scheduler

	settings *scheduler.Topics
	metrics  *prometheus.Registry // of the scheduler that was made last
	log      zerolog.Logger       // of a scheduler that is made from now on
	deadKeep time.Duration
	journal  scheduler.Journal           // of a scheduler that is made from now on; nil for none
	names    time.Duration               // likewise: how long that is asked about names
	sure     bool                        // likewise: whether a push needs its answer
	passed   func() bool                 // what waiting for the intake comes to; nil where there is none
	ask      func(context.Context) error // likewise: how it asks the leader to read the pauses
	// whole is likewise what a bucket waits for before it is scanned.
	whole func(ctx context.Context, term uint64, bucket message.Bucket) error
}

type held struct{}

func (held) ID() (int, bool) { return 1, true }

func newRig(t *testing.T, buckets message.Bucket, wrap func(scheduler.Timeline) scheduler.Timeline) *rig {
	t.Helper()
	if time.Now().Before(message.Epoch) {
		time.Sleep(time.Until(message.Epoch.AddDate(1, 10, 20))) // a bubble starts in 2000, before the uids' epoch
	}
	store, err := memory.New(memory.Config{Buckets: buckets})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, nats: &nats{tries: map[message.UID]int{}}, store: store,
		clock: scheduler.NewClock(scheduler.System()), settings: &scheduler.Topics{}}
	if wrap != nil {
		r.store = wrap(store)
	}
	r.s = r.scheduler()
	r.serve(r.s)
	return r
}

// serve lets a scheduler serve until the test ends.
func (r *rig) serve(s *scheduler.Scheduler) {
	t := r.t
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func (r *rig) scheduler() *scheduler.Scheduler {
	r.t.Helper()
	r.metrics = prometheus.NewRegistry()
	s, err := scheduler.New(scheduler.Config{
		Timeline: r.store, Publisher: r.nats, IDs: scheduler.NewIDs(held{}, time.Now), Clock: r.clock,
		MaxDelay: 3653 * 24 * time.Hour, EndedKeep: 10 * time.Minute, ClaimBatch: 500, ClaimBytes: 8 << 20,
		Pending: 4096, Attempts: 3,
		Log: r.log, CallTimeout: time.Second, StopTimeout: 5 * time.Second, Topics: r.settings, DeadKeep: r.deadKeep,
		Journal: r.journal, AskPauses: r.ask,
		Whole: r.whole, NamesKeep: r.names, NamesSure: r.sure, Registerer: r.metrics,
		Passed: func(context.Context) bool { return r.passed != nil && r.passed() },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// lead starts a leadership; the returned function ends it and gives Run's error.
func (r *rig) lead(s *scheduler.Scheduler, term uint64) (stop func(cause error) error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, term, func() time.Duration { return time.Hour }) }()
	return func(cause error) error {
		cancel(cause)
		return <-done
	}
}

func (r *rig) push(p scheduler.Push) scheduler.Accepted {
	r.t.Helper()
	if p.Topic == "" {
		p.Topic = "orders"
	}
	a := r.s.AcceptAll(context.Background(), []*scheduler.Push{&p})[0]
	if a.Err != nil {
		r.t.Fatalf("push: %v", a.Err)
	}
	return a
}

func (r *rig) info(uid message.UID) message.Info {
	r.t.Helper()
	info, err := r.s.Get(context.Background(), scheduler.Ref{UID: uid})
	if err != nil {
		r.t.Fatalf("get %s: %v", uid, err)
	}
	return info
}

var errStop = errors.New("stop")

func TestRun_DeliversWhenDueAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		stop := r.lead(r.s, 1)
		start := time.Now()
		late := r.push(scheduler.Push{Delay: 3 * time.Second, Body: []byte("c")})
		r.push(scheduler.Push{Delay: 2 * time.Second, Body: []byte("b")})
		r.push(scheduler.Push{At: message.Milli(start.Add(2 * time.Second).UnixMilli()), HasAt: true, Priority: 9,
			Body: []byte("a")})
		time.Sleep(2500 * time.Millisecond)
		if c, err := r.s.Cancel(t.Context(), scheduler.Ref{UID: late.UID}); err != nil ||
			c.Code != scheduler.CancelDone {
			t.Fatalf("cancel: %+v, %v", c, err)
		}
		r.push(scheduler.Push{At: 1, HasAt: true, Body: []byte("d")}) // long past is now
		time.Sleep(5 * time.Second)
		if err := stop(errStop); !errors.Is(err, errStop) {
			t.Fatalf("run ended with %v", err)
		}
		var order string
		for _, a := range r.nats.arrived() {
			order += string(a.m.Body)
			if due := a.m.Due.Time(); a.at.Before(due) || (a.m.Due > 1000 && a.at.Sub(due) > 2*time.Millisecond) {
				t.Errorf("%s arrived %s after its due time", a.m.Body, a.at.Sub(due))
			}
		}
		if order != "abd" {
			t.Fatalf("order %q, want \"abd\"", order)
		}
	})
}

func TestRun_WakesForAnEarlierMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		stop := r.lead(r.s, 1)
		defer stop(errStop)
		r.push(scheduler.Push{Delay: time.Hour})
		time.Sleep(10 * time.Minute)
		r.push(scheduler.Push{Delay: time.Millisecond, Body: []byte("soon")})
		time.Sleep(3 * time.Millisecond)
		if got := r.nats.arrived(); len(got) != 1 {
			t.Fatalf("%d messages arrived, want the earlier one without waiting for a poll", len(got))
		}
	})
}

func TestRun_BurstArrivesOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, nil)
		at := message.Milli(time.Now().Add(time.Minute).UnixMilli())
		const n = 10_000
		for from := 0; from < n; from += 1000 {
			batch := make([]*scheduler.Push, 1000)
			for i := range batch {
				batch[i] = &scheduler.Push{Topic: fmt.Sprintf("orders.%d", from+i), At: at, HasAt: true}
			}
			for _, a := range r.s.AcceptAll(t.Context(), batch) {
				if a.Err != nil {
					t.Fatal(a.Err)
				}
			}
			time.Sleep(time.Millisecond) // a bubble's clock stands still, and a millisecond has 4,096 ids
		}
		stop := r.lead(r.s, 1)
		time.Sleep(2 * time.Minute)
		_ = stop(errStop)
		seen := map[message.UID]bool{}
		for _, a := range r.nats.arrived() {
			if seen[a.m.UID] {
				t.Fatalf("%s arrived twice", a.m.UID)
			}
			seen[a.m.UID] = true
		}
		if len(seen) != n {
			t.Fatalf("%d of %d arrived", len(seen), n)
		}
	})
}

func TestRun_ExpiresWhatIsTooLateToDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		a := r.push(scheduler.Push{Delay: time.Second, TTL: time.Second})
		b := r.push(scheduler.Push{Delay: time.Second, TTL: time.Minute})
		time.Sleep(5 * time.Second)
		stop := r.lead(r.s, 1)
		time.Sleep(time.Second)
		_ = stop(errStop)
		if got := r.info(a.UID).State; got != message.StateExpired {
			t.Errorf("too late: %s, want expired", got)
		}
		if got := r.info(b.UID).State; got != message.StateDelivered {
			t.Errorf("late but worth it: %s, want delivered", got)
		}
	})
}

func TestRun_ParksALaneThatFailsAndHoldsNothingElseBack(t *testing.T) {
	for _, kind := range []scheduler.OutcomeKind{scheduler.Unanswered, scheduler.NoListener, scheduler.Unknown} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1, nil)
				away := true
				r.nats.answer = func(m *message.Message, _ int) scheduler.Outcome {
					if m.Topic == "sick" && away {
						return scheduler.Outcome{Kind: kind, Err: errors.New("away")}
					}
					return scheduler.Outcome{}
				}
				stop := r.lead(r.s, 1)
				var sick []message.UID
				for range 2000 {
					sick = append(sick, r.push(scheduler.Push{Topic: "sick", Delay: time.Second}).UID)
				}
				time.Sleep(2 * time.Second)
				for range 50 {
					r.push(scheduler.Push{Topic: "well", Delay: time.Millisecond})
					time.Sleep(10 * time.Millisecond)
				}
				well := 0
				for _, a := range r.nats.arrived() {
					if a.m.Topic == "well" {
						well++
						if late := a.at.Sub(a.m.Due.Time()); late > 10*time.Millisecond {
							t.Errorf("a healthy topic was late by %s", late)
						}
					}
				}
				if well != 50 {
					t.Errorf("%d of 50 messages of a healthy topic arrived", well)
				}
				// A parked message is canceled by its uid alone.
				last := sick[len(sick)-1]
				if info := r.info(last); info.State != message.StateWaiting || info.Mark.Lane != "core:sick" {
					t.Errorf("parked message: %s in lane %q", info.State, info.Mark.Lane)
				}
				r.nats.mu.Lock()
				away = false
				r.nats.mu.Unlock()
				time.Sleep(20 * time.Second)
				_ = stop(errStop)
				for _, uid := range sick {
					if got := r.info(uid).State; got != message.StateDelivered {
						t.Fatalf("after the lane healed %s is %s", uid, got)
					}
				}
				if lanes, err := r.store.Lanes(t.Context(), 0); err != nil || len(lanes) != 0 {
					t.Errorf("lanes left: %v, %v", lanes, err)
				}
			})
		})
	}
}

func TestRun_EndsPoisonAsDeadAfterTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		r.nats.answer = func(m *message.Message, _ int) scheduler.Outcome {
			if m.Topic == "poison" {
				return scheduler.Outcome{Kind: scheduler.Refused, Err: errors.New("message size exceeds maximum")}
			}
			return scheduler.Outcome{}
		}
		stop := r.lead(r.s, 1)
		a := r.push(scheduler.Push{Topic: "poison", Body: []byte("x")})
		b := r.push(scheduler.Push{Topic: "well"})
		time.Sleep(time.Minute)
		_ = stop(errStop)
		info := r.info(a.UID)
		if info.State != message.StateDead || info.Reason == "" || string(info.Body) != "x" {
			t.Errorf("poison: %s, reason %q, body %q", info.State, info.Reason, info.Body)
		}
		if r.nats.tries[a.UID] != 3 {
			t.Errorf("poison was tried %d times, the limit is 3", r.nats.tries[a.UID])
		}
		if got := r.info(b.UID).State; got != message.StateDelivered {
			t.Errorf("its neighbour is %s", got)
		}
	})
}

func TestRun_UnknownOutcomeIsRepeatedAndNeverCanceledAsSure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		r.nats.answer = func(m *message.Message, nth int) scheduler.Outcome {
			if nth <= 3 {
				return scheduler.Outcome{Kind: scheduler.Unknown, Err: errors.New("time-out")}
			}
			return scheduler.Outcome{Duplicate: true}
		}
		stop := r.lead(r.s, 1)
		a := r.push(scheduler.Push{Topic: "a"})
		time.Sleep(50 * time.Millisecond) // three failures park the lane
		if info := r.info(a.UID); info.State != message.StateWaiting || !info.Mark.Uncertain {
			t.Fatalf("after an unknown outcome: %s, uncertain %t", info.State, info.Mark.Uncertain)
		}
		b := r.push(scheduler.Push{Topic: "a"})
		time.Sleep(20 * time.Millisecond)
		c, err := r.s.Cancel(t.Context(), scheduler.Ref{UID: a.UID})
		if err != nil || c.Code != scheduler.CancelMaybe {
			t.Fatalf("cancel of an uncertain message: %s, %v", c.Code, err)
		}
		time.Sleep(time.Minute)
		_ = stop(errStop)
		if r.nats.tries[a.UID] != 3 {
			t.Errorf("after its cancel it was tried again: %d tries", r.nats.tries[a.UID])
		}
		if got := r.info(b.UID).State; got != message.StateDelivered {
			t.Errorf("the next message is %s", got)
		}
	})
}

func TestRun_ClaimsNothingWhileNATSIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		r.nats.down = true
		stop := r.lead(r.s, 1)
		a := r.push(scheduler.Push{})
		time.Sleep(10 * time.Second)
		if got := r.info(a.UID).State; got != message.StateWaiting {
			t.Fatalf("claimed while NATS is away: %s", got)
		}
		r.nats.mu.Lock()
		r.nats.down = false
		r.nats.mu.Unlock()
		time.Sleep(time.Second)
		_ = stop(errStop)
		if got := r.info(a.UID).State; got != message.StateDelivered {
			t.Fatalf("after NATS came back: %s", got)
		}
	})
}

// lossy loses the reply of some claims: they happen, and nobody hears of it.
type lossy struct {
	scheduler.Timeline
	mu   sync.Mutex
	lose int
}

func (l *lossy) Claim(ctx context.Context, bucket message.Bucket, req scheduler.Claim) (scheduler.Claimed, error) {
	got, err := l.Timeline.Claim(ctx, bucket, req)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && len(got.Messages) > 0 && l.lose > 0 {
		l.lose--
		return scheduler.Claimed{}, context.DeadlineExceeded
	}
	return got, err
}

func TestRun_FindsClaimsWhoseReplyWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lossy{lose: 2}
		r := newRig(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		r.nats.down = true
		var uids []message.UID
		for range 700 {
			uids = append(uids, r.push(scheduler.Push{}).UID)
		}
		r.nats.down = false
		stop := r.lead(r.s, 1)
		time.Sleep(10 * time.Second)
		_ = stop(errStop)
		for _, uid := range uids {
			if got := r.info(uid).State; got != message.StateDelivered {
				t.Fatalf("%s is %s", uid, got)
			}
			if r.nats.tries[uid] != 1 {
				t.Fatalf("%s was published %d times", uid, r.nats.tries[uid])
			}
		}
	})
}

func TestRun_StepsDownAtAHigherTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, nil)
		stop := r.lead(r.s, 1)
		time.Sleep(time.Second)
		for b := range message.Bucket(2) {
			if err := r.store.Begin(t.Context(), b, 2); err != nil {
				t.Fatal(err)
			}
		}
		a := r.push(scheduler.Push{})
		time.Sleep(5 * time.Second)
		if err := stop(errStop); !errors.Is(err, scheduler.ErrStaleTerm) {
			t.Fatalf("the old leader ended with %v, want ErrStaleTerm", err)
		}
		if got := r.info(a.UID).State; got != message.StateWaiting {
			t.Fatalf("the old leader changed a message: %s", got)
		}
	})
}

func TestRun_SuccessorSweepsWhatADeadLeaderHadClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		a := r.push(scheduler.Push{})
		if err := r.store.Begin(t.Context(), 0, 1); err != nil {
			t.Fatal(err)
		}
		if got, err := r.store.Claim(t.Context(), 0,
			scheduler.Claim{Holder: scheduler.Leader(1), Now: message.Milli(time.Now().UnixMilli()), Limit: 9,
				Bytes: 999}); err != nil ||
			len(got.Messages) != 1 {
			t.Fatalf("claim: %+v, %v", got, err)
		}
		c, err := r.s.Cancel(t.Context(), scheduler.Ref{UID: a.UID})
		if err != nil || c.Code != scheduler.CancelInFlight {
			t.Fatalf("cancel in flight: %s, %v", c.Code, err)
		}
		stop := r.lead(r.s, 2)
		time.Sleep(time.Second)
		_ = stop(errStop)
		if got := r.info(a.UID).State; got != message.StateDelivered {
			t.Fatalf("after the takeover: %s", got)
		}
	})
}

// staleConnection refuses to finish: the connection leads to a server that was replaced, though the store itself is
// whole.
type staleConnection struct {
	scheduler.Timeline
	stale atomic.Bool
}

func (s *staleConnection) Finish(ctx context.Context, b message.Bucket, holder scheduler.Holder, ends []scheduler.End,
	now message.Milli) (scheduler.Receipt, error) {
	if s.stale.Load() {
		return scheduler.Receipt{}, scheduler.ErrUncertified
	}
	return s.Timeline.Finish(ctx, b, holder, ends, now)
}

func TestRun_ASecondRunUnderTheSameTermKnowsNothingOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &staleConnection{}
		r := newRig(t, 1, func(tl scheduler.Timeline) scheduler.Timeline { store.Timeline = tl; return store })
		store.stale.Store(true)
		a := r.push(scheduler.Push{})
		lease := func() time.Duration { return time.Hour }
		if err := r.s.Run(t.Context(), 1, lease); !errors.Is(err, scheduler.ErrUncertified) {
			t.Fatalf("the first run: %v", err)
		}
		if n := len(r.nats.arrived()); n != 1 {
			t.Fatalf("%d arrived, want 1", n)
		}
		store.stale.Store(false)
		r.nats.mu.Lock()
		r.nats.down = true
		r.nats.mu.Unlock()
		stop := r.lead(r.s, 1)
		defer stop(errStop)
		time.Sleep(time.Minute)
		if got := r.info(a.UID); got.State != message.StateWaiting || !got.Mark.Uncertain {
			t.Errorf("what may have been delivered is %s, uncertain %t", got.State, got.Mark.Uncertain)
		}
		if c, err := r.s.Cancel(t.Context(), scheduler.Ref{UID: a.UID}); err != nil || c.Code != scheduler.CancelMaybe {
			t.Errorf("cancel of what was delivered: %s, %v", c.Code, err)
		}
	})
}

func TestRun_GracefulStopFinishesWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		slow := &slowly{nats: r.nats, by: time.Second}
		quick := func() *scheduler.Scheduler {
			s, err := scheduler.New(scheduler.Config{
				Timeline: r.store, Publisher: slow, IDs: scheduler.NewIDs(held{}, time.Now),
				Clock:    scheduler.NewClock(scheduler.System()),
				MaxDelay: time.Hour, EndedKeep: 10 * time.Minute, ClaimBatch: 500, ClaimBytes: 8 << 20,
				Pending: 4096, Attempts: 3,
				CallTimeout: time.Second, StopTimeout: 5 * time.Second,
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}()
		r.s = quick
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- quick.Serve(ctx) }()
		a := r.push(scheduler.Push{})
		stop := r.lead(r.s, 1)
		time.Sleep(100 * time.Millisecond)
		if got := r.info(a.UID).State; got != message.StateInFlight {
			t.Fatalf("before the stop: %s", got)
		}
		_ = stop(errStop)
		if got := r.info(a.UID).State; got != message.StateDelivered {
			t.Fatalf("after the stop: %s, want delivered", got)
		}
		cancel()
		<-served
	})
}

// slowly answers after a while.
type slowly struct {
	*nats
	by time.Duration
}

func (s *slowly) Send(ctx context.Context, batch []*message.Message,
	done func(*message.Message, scheduler.Outcome)) {
	s.nats.Send(ctx, batch, func(m *message.Message, o scheduler.Outcome) {
		time.AfterFunc(s.by, func() { done(m, o) })
	})
}

func TestRun_ClaimsNothingThatConsumersPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		a := r.push(scheduler.Push{Topic: "orders.pulled"})
		ready, now := message.LaneReady.Lane("orders.pulled"), message.Milli(time.Now().UnixMilli())
		if err := r.store.Begin(t.Context(), 0, 1); err != nil {
			t.Fatal(err)
		}
		leader := scheduler.Leader(1)
		got, err := r.store.Claim(t.Context(), 0,
			scheduler.Claim{Holder: leader, Number: 1, Now: now, Limit: 1, Bytes: 999})
		if err != nil || len(got.Messages) != 1 {
			t.Fatalf("claim: %+v, %v", got, err)
		}
		_, err = r.store.Return(t.Context(), 0, leader, []scheduler.Back{
			{UID: a.UID, Claim: 1, Score: got.Messages[0].Score(), Mark: message.Mark{Lane: ready}}}, now)
		if err != nil {
			t.Fatal(err)
		}
		stop := r.lead(r.s, 2)
		time.Sleep(time.Minute)
		_ = stop(errStop)
		if i := r.info(a.UID); i.State != message.StateWaiting || i.Mark.Lane != ready || i.Mark.Uncertain {
			t.Fatalf("what consumers pull is %s in lane %q, uncertain: %t", i.State, i.Mark.Lane, i.Mark.Uncertain)
		}
	})
}

func TestRun_ClaimsNothingThatConsumersPullFromNowOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, nil)
		ready := message.LaneReady.Lane("orders.pulled")
		r.nats.lane = func(*message.Message) message.Lane { return ready }
		r.nats.answer = func(*message.Message, int) scheduler.Outcome {
			return scheduler.Outcome{Kind: scheduler.NoListener, Err: errors.New("nobody")}
		}
		stop := r.lead(r.s, 1)
		defer stop(errStop)
		a := r.push(scheduler.Push{Topic: "orders.pulled"})
		time.Sleep(time.Hour)
		if i := r.info(a.UID); i.Mark.Lane != ready || r.nats.tries[a.UID] != 1 {
			t.Fatalf("what consumers pull is in lane %q after %d tries", i.Mark.Lane, r.nats.tries[a.UID])
		}
	})
}
