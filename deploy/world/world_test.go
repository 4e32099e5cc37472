package world_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/deploy/check/history"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest/rig"
)

// seeds is how many worlds a test command runs.
const seeds = 300

// TestHeart_KeepsItsPromises runs the heart: two instances over one store, of which one leads at a time. TARRY_SEED
// runs one seed, and TARRY_SEEDS as many as it says.
func TestHeart_KeepsItsPromises(t *testing.T) {
	// With one processor a seed comes closer to the same run each time. And where goroutines of a bubble run side by side,
	// the race detector of Go 1.26 may crash on timers that fire at one instant (runtime.(*timer).maybeRunChan).
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	from, to := uint64(1), uint64(seeds)
	if n, err := strconv.ParseUint(os.Getenv("TARRY_SEEDS"), 10, 64); err == nil {
		to = n
	}
	if n, err := strconv.ParseUint(os.Getenv("TARRY_SEED"), 10, 64); err == nil {
		from, to = n, n
	}
	seen := map[string]int{}
	for seed := from; seed <= to; seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			w.live()
			for _, v := range history.Check(w.all) {
				t.Errorf("seed %d: %s", seed, v)
			}
			for what, n := range w.sometimes {
				seen[what] += n
			}
		})
		if t.Failed() {
			t.Fatalf("again: TARRY_SEED=%d go test -run TestHeart ./deploy/world", seed)
		}
	}
	if from == to {
		return
	}
	for _, what := range []string{"push", "duplicate", "canceled", "already_delivered", "in_flight", "rescheduled",
		"too late to reschedule", "leased", "ack", "nack", "release", "dead", "lost", "leader stopped", "leader killed",
		"unknown", "unanswered", "no listener", "expired", "a call was refused", "a reply was lost",
		"a call came late"} {
		if seen[what] == 0 {
			t.Errorf("in %d worlds it never came to %q", to, what)
		}
	}
}

// world is one run.
type world struct {
	*rig.Rig
	t         *testing.T
	seed      uint64
	rnd       *rand.Rand
	instances []*rig.Instance
	term      uint64
	stop      func() // ends the leadership in an orderly way
	kill      func() // ends it at once: what it has in flight stays so

	mu        sync.Mutex
	all       []history.Event
	calls     int
	pushed    []pushed
	held      []scheduler.PulledMessage
	sometimes map[string]int
	rough     *rand.Rand // what NATS answers; nil once nothing fails any more
	storm     bool       // NATS loses most of its answers
	shaky     bool       // the store loses calls and replies
}

type pushed struct {
	name string
	uid  message.UID
	id   string
	due  time.Time
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 1)), rough: rand.New(rand.NewPCG(seed, 2)),
		sometimes: map[string]int{}}
	w.shaky = w.rnd.IntN(2) == 0
	w.Rig = rig.New(t, 2, func(store scheduler.Timeline) scheduler.Timeline { return &flaky{store, w} })
	w.instances = []*rig.Instance{w.S, w.Over(w.Store, w.Nats)}
	w.Serve(w.instances[1])
	faults := w.rnd.IntN(3) > 0 // else there is no duplicate at all
	w.Nats.Answer = func(*message.Message, int) scheduler.Outcome { return w.answer(faults) }
	w.Nats.Takes = func(*message.Message) time.Duration { return w.below(20 * time.Millisecond) }
	if faults {
		w.call(history.Event{Kind: history.Fault, Word: history.Repeats})
	}
	return w
}

// answer is what NATS makes of a message.
func (w *world) answer(faults bool) scheduler.Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rough == nil || !faults {
		return scheduler.Outcome{}
	}
	kinds := map[int]scheduler.OutcomeKind{0: scheduler.Unknown, 1: scheduler.Unanswered, 2: scheduler.NoListener}
	n := w.rough.IntN(12)
	if w.storm && n > 3 {
		n = 0
	}
	kind, failed := kinds[n]
	if !failed {
		return scheduler.Outcome{}
	}
	w.sometimes[map[scheduler.OutcomeKind]string{scheduler.Unknown: "unknown", scheduler.Unanswered: "unanswered",
		scheduler.NoListener: "no listener"}[kind]]++
	return scheduler.Outcome{Kind: kind, Err: fmt.Errorf("of kind %d", kind)}
}

// fate is what becomes of a call of the store.
type fate int

const (
	done fate = iota
	refused
	lost
	late
)

func (w *world) fate() fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rough == nil || !w.shaky {
		return done
	}
	f := fate(w.rough.IntN(60))
	if f > late {
		return done
	}
	w.sometimes[[]string{"", "a call was refused", "a reply was lost", "a call came late"}[f]]++
	return f
}

// below returns a time below most, by what NATS is decided by: it is asked from several goroutines.
func (w *world) below(most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rough == nil {
		return 0
	}
	return time.Duration(w.rough.Int64N(int64(most)))
}

func (w *world) tell(e history.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.At = time.Now()
	w.all = append(w.all, e)
}

// call tells that a call begins; answer tells its answer.
func (w *world) call(e history.Event) (answer func(history.Event)) {
	w.mu.Lock()
	w.calls++
	n := w.calls
	w.mu.Unlock()
	e.Phase, e.Call = history.Invoke, n
	w.tell(e)
	return func(a history.Event) {
		a.Kind, a.Message, a.Call = e.Kind, e.Message, n
		w.tell(a)
	}
}

func (w *world) met(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sometimes[what]++
}

// live lets users and faults act, then ends the faults, and waits until everything has come to its end.
func (w *world) live() {
	w.lead()
	var users sync.WaitGroup
	for i := range 60 + w.rnd.IntN(120) {
		time.Sleep(time.Duration(w.rnd.Int64N(int64(400 * time.Millisecond))))
		if w.rnd.IntN(20) == 0 {
			w.burst(i, &users)
		}
		act := w.act(i)
		users.Go(act)
	}
	users.Wait()
	w.mu.Lock()
	w.rough = nil
	w.mu.Unlock()
	time.Sleep(4 * time.Minute)
	for _, a := range w.Nats.Arrived() {
		w.all = append(w.all, history.Event{At: a.At, Kind: history.Deliver, Message: string(a.M.Body), UID: string(a.M.UID),
			Attempt: int(a.M.Attempt), Body: string(a.M.Body)})
	}
	for _, p := range w.pushed {
		info, err := w.S.Get(context.Background(), scheduler.Ref{UID: p.uid})
		if err != nil {
			continue // P1 judges by what was seen
		}
		switch {
		case info.State == message.StateExpired:
			w.sometimes["expired"]++
		case info.State == message.StateInFlight,
			info.State == message.StateWaiting && time.Since(info.Due.Time()) > time.Minute: // faults are long over
			w.t.Errorf("seed %d: message %s, due at %s, is still %s", w.seed, p.name, info.Due.Time(), info.State)
		}
		if info.State != message.StateDelivered { // of a delivery its consumer tells
			w.tell(history.Event{Kind: history.End, Message: p.name, UID: string(p.uid), Word: info.State.String()})
		}
	}
	w.kill()
}

// burst pushes messages that are due at one moment, and has something happen right then.
func (w *world) burst(i int, users *sync.WaitGroup) {
	delay := 50*time.Millisecond + time.Duration(w.rnd.IntN(1000))*time.Millisecond
	s := w.instances[w.rnd.IntN(2)]
	for n := range 5 + w.rnd.IntN(20) {
		p := scheduler.Push{Topic: fmt.Sprint("burst", i%3), Delay: delay, Body: fmt.Append(nil, "m", i, ".", n)}
		users.Go(func() { w.push(s, p) })
	}
	time.Sleep(delay + time.Duration(w.rnd.IntN(30))*time.Millisecond)
	switch w.rnd.IntN(4) {
	case 0:
		w.crash()
	case 1:
		w.stop()
		w.lead()
	case 2:
		w.mu.Lock()
		w.storm = !w.storm
		w.mu.Unlock()
	}
	for range 5 {
		which := w.rnd.IntN(1 << 20)
		users.Go(func() { w.cancel(w.S, which) })
	}
}

// crash kills the leader, and lets one lead again.
func (w *world) crash() {
	over := w.call(history.Event{Kind: history.Fault, By: "kill", Word: history.Repeats})
	w.kill()
	w.met("leader killed")
	w.lead()
	time.AfterFunc(5*time.Second, func() { over(history.Event{Phase: history.OK}) })
}

// lead lets one of the instances lead the next term.
func (w *world) lead() {
	w.term++
	term, over := w.term, false
	var mu sync.Mutex
	lease := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return 0
		}
		return time.Hour
	}
	i := w.rnd.IntN(2)
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	w.tell(history.Event{Kind: history.Lead, By: fmt.Sprint("instance ", i), Term: term})
	go func() {
		defer close(done)
		_ = w.instances[i].Run(ctx, term, lease)
	}()
	w.kill = func() {
		mu.Lock()
		over = true
		mu.Unlock()
		cancel(rig.ErrStop)
		<-done
	}
	w.stop = func() {
		cancel(rig.ErrStop)
		<-done
	}
}

// act decides what happens next, and returns what does it.
func (w *world) act(i int) func() {
	s := w.instances[w.rnd.IntN(2)]
	delay := time.Duration(w.rnd.IntN(20000)) * time.Millisecond
	which, some, verb := w.rnd.IntN(1<<20), w.rnd.IntN(5), 1+w.rnd.IntN(4)
	switch n := w.rnd.IntN(100); {
	case n < 45:
		p := scheduler.Push{Topic: "plain", Delay: delay, Body: fmt.Append(nil, "m", i)}
		if n < 15 {
			p.Topic, p.Deliver = "work", scheduler.DeliverPull
		}
		if some == 0 {
			p.ID = fmt.Sprint("id", i)
		}
		if some == 1 {
			p.TTL = 3 * time.Second
		}
		return func() { w.push(s, p) }
	case n < 48:
		return func() { w.repeat(s, which) }
	case n < 58:
		return func() { w.cancel(s, which) }
	case n < 70:
		return func() { w.reschedule(s, which, delay) }
	case n < 80:
		return func() { w.pull(s, 1+some, delay/4+100*time.Millisecond) }
	case n < 94:
		return func() { w.settle(s, which, scheduler.Verb(verb)) }
	case n < 97:
		w.stop()
		w.met("leader stopped")
		w.lead()
	default:
		w.crash()
	}
	return func() {}
}

func (w *world) push(s *rig.Instance, p scheduler.Push) {
	name := string(p.Body)
	answer := w.call(history.Event{Kind: history.Push, Message: name, Body: name, Due: time.Now().Add(p.Delay)})
	a := s.AcceptAll(context.Background(), []*scheduler.Push{&p})[0]
	if a.Err != nil {
		answer(history.Event{Phase: history.Unknown, Word: a.Err.Error()})
		return
	}
	w.met("push")
	answer(history.Event{Phase: history.OK, UID: string(a.UID), Due: a.Due.Time()})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pushed = append(w.pushed, pushed{name, a.UID, p.ID, a.Due.Time()})
}

// some returns a message that was pushed before: any, or one of those that are due about now.
func (w *world) some(which int) (pushed, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pushed) == 0 {
		return pushed{}, false
	}
	if which%3 > 0 {
		var near []pushed
		for _, p := range w.pushed {
			if time.Until(p.due).Abs() < time.Second {
				near = append(near, p)
			}
		}
		if len(near) > 0 {
			return near[which%len(near)], true
		}
	}
	return w.pushed[which%len(w.pushed)], true
}

// repeat pushes a uid once more, as after a lost answer.
func (w *world) repeat(s *rig.Instance, which int) {
	p, some := w.some(which)
	if !some {
		return
	}
	again := scheduler.Push{Topic: "plain", UID: p.uid, ID: p.id, Body: []byte(p.name), Delay: time.Second}
	a := s.AcceptAll(context.Background(), []*scheduler.Push{&again})[0]
	if a.Duplicate {
		w.met("duplicate")
	}
	if a.Err == nil && (!a.Duplicate || a.UID != p.uid) {
		w.t.Errorf("a repeat of %s is %+v", p.uid, a)
	}
}

func (w *world) cancel(s *rig.Instance, which int) {
	p, some := w.some(which)
	if !some {
		return
	}
	answer := w.call(history.Event{Kind: history.Cancel, Message: p.name})
	r, err := s.Cancel(context.Background(), scheduler.Ref{UID: p.uid})
	word, phase := r.Code.String(), history.Fail
	switch {
	case err != nil:
		word, phase = err.Error(), history.Unknown
	case r.Code == scheduler.CancelDone:
		word, phase = "canceled", history.OK
	case r.Code == scheduler.CancelMaybe:
		phase = history.Unknown
	case r.Code == scheduler.CancelEnded && r.Info.State == message.StateDelivered:
		word = "already_delivered"
	case r.Code == scheduler.CancelInFlight:
		word = "in_flight"
	}
	w.met(word)
	answer(history.Event{Phase: phase, Word: word})
}

func (w *world) reschedule(s *rig.Instance, which int, delay time.Duration) {
	p, some := w.some(which)
	if !some {
		return
	}
	answer := w.call(history.Event{Kind: history.Reschedule, Message: p.name, Due: time.Now().Add(delay)})
	r, err := s.Reschedule(context.Background(), scheduler.Ref{UID: p.uid}, scheduler.Edit{HasDelay: true, Delay: delay})
	switch {
	case err != nil:
		answer(history.Event{Phase: history.Unknown, Word: err.Error()})
	case r.Code == scheduler.AmendDone:
		w.met("rescheduled")
		answer(history.Event{Phase: history.OK, Due: r.Info.Due.Time()})
	default:
		w.met("too late to reschedule")
		answer(history.Event{Phase: history.Fail})
	}
}

func (w *world) pull(s *rig.Instance, max int, lease time.Duration) {
	found, err := s.Pull(context.Background(), scheduler.Poll{Topic: "work", Max: max, Bytes: 1 << 20, Lease: lease})
	if err != nil {
		w.t.Errorf("pull: %v", err)
	}
	for _, m := range found {
		w.met("leased")
		w.tell(history.Event{Kind: history.Lease, Message: string(m.Body), UID: string(m.UID),
			Attempt: int(m.Tries(message.StateInFlight)), Body: string(m.Body), Receipt: receipt(m), Until: m.Until.Time()})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, found...)
}

func receipt(m scheduler.PulledMessage) string { return fmt.Sprintf("%s %v", m.UID, m.Nonce) }

func (w *world) settle(s *rig.Instance, which int, verb scheduler.Verb) {
	w.mu.Lock()
	if len(w.held) == 0 {
		w.mu.Unlock()
		return
	}
	m := w.held[which%len(w.held)]
	w.mu.Unlock()
	word := map[scheduler.Verb]string{scheduler.Ack: "ack", scheduler.Nack: "nack", scheduler.Bury: "dead",
		scheduler.Release: "release"}[verb]
	answer := w.call(history.Event{Kind: history.Settle, Message: string(m.Body), Word: word, Receipt: receipt(m)})
	done, errs := s.Settle(context.Background(), []scheduler.Settlement{{Verb: verb,
		Receipt: scheduler.Receipt{UID: m.UID, Nonce: m.Nonce, Topic: m.Topic}}})
	switch {
	case errs[0] != nil:
		answer(history.Event{Phase: history.Unknown, Word: errs[0].Error()})
	case done[0].Code == scheduler.SettleLost:
		w.met("lost")
		answer(history.Event{Phase: history.Fail})
	default:
		w.met(word)
		a := history.Event{Phase: history.OK}
		if verb == scheduler.Nack && done[0].Code == scheduler.SettleDone && done[0].Info.State == message.StateWaiting {
			a.Due = done[0].Info.Due.Time()
		}
		answer(a)
	}
}
