package world_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/deploy/check/history"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

type pushed struct {
	name  string
	uid   message.UID
	id    string
	topic string
	key   string
	due   time.Time
}

// ref names it: of a push by tag nobody has told the uid.
func (m *pushed) ref() scheduler.Ref {
	if m.uid != "" {
		return scheduler.Ref{UID: m.uid}
	}
	return scheduler.Ref{ID: m.id, Topic: m.topic, Key: m.key, Keyed: m.key != ""}
}

// span is a time of a topic; without an end it may go on.
type span struct {
	topic    string
	from, to time.Time
}

// held is a lease as its consumer has it.
type held struct {
	scheduler.PulledMessage
	name string
}

// nameOf returns the world's own name of a message, with which its bodies begin.
func nameOf(body []byte) string {
	name, _, _ := strings.Cut(string(body), "|")
	return name
}

// ask has a process do something for a user, who hears nothing if it dies meanwhile.
func ask[T any](p *process, what string, do func(ctx context.Context, at doors) T) (answer T, ok bool) {
	return askAt(p, what, func(roll *rand.Rand) bool { return roll.IntN(2) == 0 }, do)
}

// askAt asks at a door: over HTTP, or directly.
func askAt[T any](p *process, what string, web func(roll *rand.Rand) bool,
	do func(ctx context.Context, at doors) T) (answer T, ok bool) {
	var none T
	t := p.w.bus.enter(p, "user: "+what)
	if t.dead {
		return none, false
	}
	got, at := make(chan T, 1), doors(p.Scheduler)
	if web(t.roll) {
		at = p.web
	}
	p.w.background.Go(func() { got <- do(context.Background(), at) })
	select {
	case answer = <-got:
	case <-p.gone:
	}
	if p.isDead() {
		return none, false
	}
	return answer, true
}

// act decides what happens next, and returns what does it.
func (w *world) act(i int) (what string, do func()) {
	p := w.some()
	delay := time.Duration(w.rnd.IntN(20000)) * time.Millisecond
	which, some, verb := w.rnd.IntN(1<<20), w.rnd.IntN(6), 1+w.rnd.IntN(5)
	switch n := w.rnd.IntN(100); {
	case n < 48:
		m := scheduler.Push{Topic: "plain", Delay: delay, Body: fmt.Append(nil, "m", i)}
		switch {
		case n < 12:
			m.Topic, m.Deliver = "work", scheduler.DeliverPull
		case n < 18:
			m.Topic, m.Key = "serial", fmt.Sprint("k", which%3)
		case n < 21:
			m.Topic = "rated"
		case n < 27:
			m.Topic = "hook"
		}
		switch some {
		case 0:
			m.ID = fmt.Sprint("id", i)
		case 1:
			m.TTL = 3 * time.Second
		case 2:
			m.Priority = uint8(which % 10)
		}
		if w.broker != nil && which%3 > 0 {
			return "push by tag " + m.Topic, func() { w.tag(m, which) }
		}
		return "push " + m.Topic, func() { w.push(p, m, which) }
	case n < 50:
		return "repeat a push", func() { w.repeat(p, which) }
	case n == 50 && which%2 == 0:
		topic := []string{"plain", "work", "serial", "hook", "rated", "burst"}[some]
		return "change all of " + topic, func() { w.many(p, topic, which, delay) }
	case n < 59:
		return "cancel", func() { w.cancel(p, which) }
	case n < 66:
		return "reschedule", func() { w.change(p, which, scheduler.Edit{Delay: new(delay)}) }
	case n < 68:
		return "look", func() { w.look(p, which) }
	case n < 70:
		return "run", func() { w.change(p, which, scheduler.Edit{Run: true}) }
	case n < 73:
		return "edit", func() {
			w.change(p, which, scheduler.Edit{Body: fmt.Append(nil, "|edit", i)})
		}
	case n < 75:
		return "requeue", func() { w.requeue(p, which, delay/2, i) }
	case n < 76:
		return "pause", func() { w.pause(p, []string{"plain", "burst", "work"}[which%3], delay/2, which) }
	case n < 90:
		poll := scheduler.Poll{Topic: []string{"work", "work", "serial"}[which%3], Max: 1 + some, Bytes: 1 << 20,
			Lease: delay/3 + 100*time.Millisecond, Attempt: scheduler.Nonce(w.rnd.Uint64()), Sending: 1}
		if which%2 == 0 {
			poll.Wait = delay / 8
		}
		if which%7 == 0 { // a client that does not ask again, and may go
			poll.Attempt, poll.Sending = 0, 0
			return "pull and go " + poll.Topic, func() { w.leave(p, poll, delay/16) }
		}
		return "pull " + poll.Topic, func() { w.consume(p, poll, which, scheduler.Verb(verb), delay) }
	default: // what was settled before, or lost
		return "settle anew", func() { w.settle(p, w.holds(which, 1+some/2), scheduler.Verb(verb), delay) }
	}
}

// consume pulls, handles for a while, and settles, by another process if that one died.
func (w *world) consume(p *process, poll scheduler.Poll, which int, verb scheduler.Verb, delay time.Duration) {
	found := w.pull(p, poll)
	if len(found) == 0 || which%5 == 0 { // or the consumer dies
		return
	}
	time.Sleep(delay / 6)
	w.turn("a consumer settles", func() {
		if p.isDead() {
			p = w.processes[which%len(w.processes)]
		}
	})
	if which%3 == 0 {
		verb = scheduler.Ack
	}
	w.settle(p, found, verb, delay)
}

// holds returns some of the leases that consumers got lately.
func (w *world) holds(which, count int) (all []held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range min(count, len(w.held)) {
		all = append(all, w.held[len(w.held)-1-(which+n)%min(12, len(w.held))])
	}
	return all
}

// regret has users cancel and edit what is due about now, soon after Redis has lost everything.
func (w *world) regret(which int) {
	for n := range 8 {
		time.Sleep(time.Duration((which>>n)%1000) * time.Millisecond)
		w.turn("somebody regrets", func() {
			p := w.processes[(which+n)%len(w.processes)]
			w.background.Go(func() { w.cancel(p, which+n) })
			w.background.Go(func() {
				w.change(p, which+n+1, scheduler.Edit{Body: fmt.Append(nil, "|regret", which, ".", n)})
			})
		})
	}
}

// burst pushes messages that are due at one moment, and has something happen right then.
func (w *world) burst(i int, users *sync.WaitGroup) {
	delay := 50*time.Millisecond + time.Duration(w.rnd.IntN(1000))*time.Millisecond
	p := w.some()
	topic := []string{"burst", "rated", "plain"}[w.rnd.IntN(3)]
	on := w.decided(fmt.Sprint("burst ", i), topic)
	for n := range 5 + w.rnd.IntN(20) {
		m := scheduler.Push{Topic: topic, Delay: delay, Body: fmt.Append(nil, "m", i, ".", n)}
		if on {
			users.Go(func() { w.push(p, m, 0) })
		}
	}
	which, kind := w.rnd.IntN(1<<20), w.rnd.IntN(2)
	if !on {
		return
	}
	users.Go(func() {
		time.Sleep(delay + time.Duration(which%30)*time.Millisecond)
		if kind == 0 {
			w.turn("a burst is due", func() { w.fault(fmt.Sprint("fault of burst ", i)) })
		}
		var group sync.WaitGroup
		for n := range 5 {
			group.Go(func() { w.cancel(p, which+n) })
		}
		group.Wait()
	})
}

// push pushes a message, and again while it is not known what became of it.
func (w *world) push(p *process, m scheduler.Push, which int) {
	name := string(m.Body)
	for try := range 3 {
		begun := history.Event{Kind: history.Push, Message: name, Key: m.Key, Body: name, Due: time.Now().Add(m.Delay)}
		if m.TTL > 0 {
			begun.TTL = m.TTL.String()
		}
		answer := w.call(begun)
		if try == 0 {
			w.begins(name, m.Topic)
		}
		again := m
		a, ok := askAt(p, "push "+name, pushedByWeb(name), func(ctx context.Context, at doors) scheduler.Accepted {
			return at.AcceptAll(ctx, []*scheduler.Push{&again})[0]
		})
		if ok && a.Err == nil {
			w.met("push")
			switch {
			case a.Duplicate:
				w.met("push: its first sending was stored")
			case a.Version > 1:
				w.met("push: it was tried before its answer")
			case try > 0:
				w.met("push: its first sending was not stored")
			}
			kept := history.Event{Phase: history.OK, UID: string(a.UID)}
			if a.Version == 1 { // else it has been tried or changed before the answer, which tells the present due time
				kept.Due = a.Due.Time()
			}
			answer(kept)
			w.mu.Lock()
			w.pushed = append(w.pushed, pushed{name, a.UID, m.ID, m.Topic, m.Key, a.Due.Time()})
			w.mu.Unlock()
			return
		}
		phase := history.Unknown
		if ok && !errors.Is(a.Err, scheduler.ErrOutcomeUnknown) {
			phase = history.Fail
		}
		answer(history.Event{Phase: phase, Word: fmt.Sprint(ok, " ", a.Err)})
		switch {
		case phase == history.Fail:
			w.met("a push was refused")
			return
		case m.ID == "" && a.UID == "", try == 2: // it cannot be repeated safely
			return
		case ok:
			m.UID = a.UID // the retry of an unknown outcome
		}
		w.met("a push was repeated")
		time.Sleep(time.Duration(which%4000) * time.Millisecond)
		w.turn("a push is repeated", func() { p = w.processes[which%len(w.processes)] })
	}
}

// pushedByWeb: a push is repeated at the door of its first sending. Another way to write it may be another push.
func pushedByWeb(name string) func(*rand.Rand) bool {
	return func(*rand.Rand) bool { return name[len(name)-1]%2 == 0 }
}

// any returns a message that was pushed before: any, or one of those that are due about now.
func (w *world) any(which int) (pushed, bool) {
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
func (w *world) repeat(p *process, which int) {
	m, some := w.any(which)
	if !some || m.id == m.name { // a push by tag is repeated by its own id
		return
	}
	again := scheduler.Push{Topic: m.topic, Key: m.key, UID: m.uid, ID: m.id, Body: []byte(m.name), Delay: time.Second}
	answer := w.call(history.Event{Kind: history.Push, Message: m.name, Body: m.name, Due: time.Now().Add(time.Second)})
	a, ok := askAt(p, "repeat "+m.name, pushedByWeb(m.name), func(ctx context.Context, at doors) scheduler.Accepted {
		return at.AcceptAll(ctx, []*scheduler.Push{&again})[0]
	})
	switch {
	case !ok, errors.Is(a.Err, scheduler.ErrOutcomeUnknown):
		answer(history.Event{Phase: history.Unknown})
	case a.Err != nil:
		answer(history.Event{Phase: history.Fail, Word: a.Err.Error()})
	case a.Duplicate:
		w.met("duplicate")
		answer(history.Event{Phase: history.Fail, Word: "duplicate"}) // it changes nothing
	default:
		answer(history.Event{Phase: history.OK, UID: string(a.UID), Due: a.Due.Time()})
		if !w.emptied || a.UID != m.uid {
			w.t.Errorf("seed %d: a repeat of %s is %+v", w.seed, m.uid, a)
		}
	}
}

func (w *world) cancel(p *process, which int) {
	m, some := w.any(which)
	if !some {
		return
	}
	answer := w.call(history.Event{Kind: history.Cancel, Message: m.name})
	ref := m.ref()
	if m.id != "" && which%2 == 0 {
		ref = scheduler.Ref{ID: m.id, Topic: m.topic, Key: m.key, Keyed: m.key != "" || which%4 == 0}
		w.met("cancel: by name")
	}
	type answered struct {
		scheduler.CancelResult
		err error
	}
	r, ok := ask(p, fmt.Sprint("cancel ", m.name, " ", ref), func(ctx context.Context, at doors) answered {
		r, err := at.Cancel(ctx, ref)
		return answered{r, err}
	})
	word, phase := r.Code.String(), history.Fail
	switch {
	case !ok, r.err != nil:
		word, phase = "no answer", history.Unknown
	case r.Code == scheduler.CancelDone:
		word, phase = "canceled", history.OK
	case r.Code == scheduler.CancelUnknown && (r.Buried || r.Info.IntakeUnknown): // it may end a push that is on its way
		phase = history.Unknown
	case r.Code == scheduler.CancelMaybe:
		phase = history.Unknown
	case r.Code == scheduler.CancelEnded:
		word = "already_" + r.Info.State.String()
	case r.Code == scheduler.CancelInFlight:
		word = "in_flight"
	}
	w.met("cancel: " + word)
	answer(history.Event{Phase: phase, Word: word})
}

// many cancels or moves all that waits on a topic. What becomes of each one nobody is told.
func (w *world) many(p *process, topic string, which int, delay time.Duration) {
	one := history.Event{Kind: history.Cancel}
	if which&2 == 0 {
		one = history.Event{Kind: history.Reschedule, Due: time.Now().Add(delay)}
	}
	w.mu.Lock()
	w.changing = append(w.changing, &changing{topic, one})
	c := w.changing[len(w.changing)-1]
	names, before := slices.Clone(w.begun[topic]), slices.Clone(w.pushed)
	w.mu.Unlock()
	for _, name := range names {
		w.maybe(name, one)
	}
	type answered struct {
		scheduler.Report
		err error
	}
	r, ok := ask(p, one.Kind+" all of "+topic, func(ctx context.Context, _ doors) (a answered) {
		if sel := (scheduler.Selection{Topic: topic}); one.Kind == history.Cancel {
			a.Report, a.err = p.CancelMany(ctx, sel, nil)
		} else {
			a.Report, a.err = p.RescheduleMany(ctx, sel, scheduler.Edit{Delay: new(delay)}, nil)
		}
		return a
	})
	if !ok { // what was asked of a process that is dead may still happen
		return
	}
	w.mu.Lock()
	w.changing = slices.DeleteFunc(w.changing, func(other *changing) bool { return other == c })
	w.mu.Unlock()
	if r.err != nil {
		return
	}
	w.met(one.Kind + ": all of a topic")
	if r.Done > 1 {
		w.met(one.Kind + ": several at once")
	}
	if sum := r.Done + r.InFlight + r.Maybe + r.Ended + r.Failed; sum != r.Matched {
		w.t.Errorf("seed %d: %s of all of %s is answered by %+v", w.seed, one.Kind, topic, r.Report)
	}
	if one.Kind != history.Cancel || r.InFlight+r.Maybe+r.Failed+r.Leased > 0 || r.IntakeUnknown || w.emptied {
		return
	}
	for _, m := range before { // what was there before is not there any more
		if m.topic != topic {
			continue
		}
		info, err := p.Get(context.Background(), m.ref())
		if err == nil && info.State == message.StateWaiting && !w.emptied {
			w.t.Errorf("seed %d: P4: %s waits, although all of its topic were canceled: %+v", w.seed, m.uid, r.Report)
		}
	}
}

// changing is a change of all of a topic that may be under way.
type changing struct {
	topic string
	each  history.Event // what it may do to each
}

// begins tells that the push of a message begins.
func (w *world) begins(name, topic string) {
	w.mu.Lock()
	if w.begun == nil {
		w.begun = map[string][]string{}
	}
	w.begun[topic] = append(w.begun[topic], name)
	all := slices.Clone(w.changing)
	w.mu.Unlock()
	for _, c := range all {
		if c.topic == topic {
			w.maybe(name, c.each)
		}
	}
}

// maybe tells of a change that may happen, now or later.
func (w *world) maybe(name string, each history.Event) {
	each.Message = name
	w.call(each)(history.Event{Phase: history.Unknown, Word: "one of many"})
}

// change reschedules a message, has it run, or edits its body.
func (w *world) change(p *process, which int, e scheduler.Edit) {
	m, some := w.any(which)
	if !some {
		return
	}
	begun := history.Event{Kind: history.Reschedule, Message: m.name,
		Due: time.Now().Add(*cmp.Or(e.Delay, new(time.Duration)))}
	what := "reschedule "
	switch {
	case e.Body != nil:
		e.Body = append([]byte(m.name), e.Body...)
		begun.Body, begun.Due, what = string(e.Body), time.Time{}, "edit "
	case e.Run:
		what = "run "
	}
	answer := w.call(begun)
	type answered struct {
		scheduler.AmendResult
		err error
	}
	r, ok := ask(p, what+m.name, func(ctx context.Context, at doors) answered {
		r, err := at.Reschedule(ctx, m.ref(), e)
		return answered{r, err}
	})
	switch {
	case !ok, r.err != nil:
		answer(history.Event{Phase: history.Unknown, Word: fmt.Sprint(r.err)})
	case r.Code == scheduler.AmendDone:
		if w.met(what + "ok"); r.Info.UID != m.uid {
			w.met("edit: content that was tried got a new uid")
			w.mu.Lock()
			w.pushed = append(w.pushed, pushed{m.name, r.Info.UID, m.id, m.topic, m.key, r.Info.Due.Time()})
			w.mu.Unlock()
		}
		answer(history.Event{Phase: history.OK, UID: string(r.Info.UID), Due: r.Info.Due.Time()})
	default:
		w.met(what + "too late")
		word := "maybe_delivered"
		switch r.Code {
		case scheduler.AmendEnded:
			word = "already_" + r.Info.State.String()
		case scheduler.AmendInFlight:
			word = "in_flight"
		case scheduler.AmendUnknown:
			if word = "unknown_id"; r.Info.IntakeUnknown {
				word = "in_intake"
			}
		}
		answer(history.Event{Phase: history.Fail, Word: word})
	}
}

// look asks what became of a message.
func (w *world) look(p *process, which int) {
	m, some := w.any(which)
	if !some {
		return
	}
	answer := w.call(history.Event{Kind: history.Look, Message: m.name})
	type answered struct {
		info message.Info
		err  error
	}
	r, ok := ask(p, "look "+m.name, func(ctx context.Context, at doors) answered {
		info, err := at.Get(ctx, m.ref())
		return answered{info, err}
	})
	switch {
	case ok && errors.Is(r.err, scheduler.ErrInIntake):
		w.met("look: in_intake")
		answer(history.Event{Phase: history.Fail, Word: "in_intake"})
	case ok && errors.Is(r.err, scheduler.ErrUnknownID):
		w.met("look: unknown_id")
		answer(history.Event{Phase: history.Fail, Word: "unknown_id"})
	case !ok || r.err != nil:
		answer(history.Event{Phase: history.Unknown, Word: fmt.Sprint(r.err)})
	default:
		w.met("look: " + r.info.State.String())
		answer(history.Event{Phase: history.OK, Word: r.info.State.String()})
	}
}

// byWeb: an attempt goes by one door. At another it would be another.
func byWeb(attempt scheduler.Nonce) func(*rand.Rand) bool {
	return func(*rand.Rand) bool { return attempt>>1&1 == 0 }
}

// pull pulls, and again while no answer comes.
func (w *world) pull(p *process, poll scheduler.Poll) (got []held) {
	type answered struct {
		found []scheduler.PulledMessage
		err   error
	}
	for ; poll.Sending < 4; poll.Sending++ {
		what := fmt.Sprint("pull ", poll.Topic, " ", uint64(poll.Attempt))
		r, ok := askAt(p, what, byWeb(poll.Attempt), func(ctx context.Context, at doors) answered {
			found, err := at.Pull(ctx, poll)
			return answered{found, err}
		})
		if len(r.found) > 1 {
			w.met("several leased at once")
		}
		for _, m := range r.found {
			if poll.Sending > 1 {
				w.met("a repeated pull got messages")
			}
			got = append(got, w.leased(p, m))
		}
		if ok && r.err == nil {
			if poll.Attempt%8 == 0 && poll.Sending == 1 {
				w.pullAgain(p, poll, got)
			}
			return got
		}
		w.met("a pull had no answer")
		w.turn("a pull is repeated", func() { p = w.processes[int(poll.Attempt%7)%len(w.processes)] })
	}
	return got
}

// pullAgain repeats a pull that was answered: what it leased, and nothing else, is handed out again.
func (w *world) pullAgain(p *process, poll scheduler.Poll, got []held) {
	poll.Sending++
	poll.Wait = 0
	found, ok := askAt(p, fmt.Sprint("pull again ", poll.Topic, " ", uint64(poll.Attempt)), byWeb(poll.Attempt),
		func(ctx context.Context, at doors) []scheduler.PulledMessage {
			found, _ := at.Pull(ctx, poll)
			return found
		})
	over := func(h held) bool { return !time.Now().Before(h.Until.Time()) }
	if !ok || len(got) == 0 || len(found) == 0 || w.anyFaultOf("redis") || slices.ContainsFunc(got, over) {
		return // what is over, forgotten, or in a bucket that does not answer
	}
	w.met("an answered pull was repeated")
	for _, m := range found {
		if !slices.ContainsFunc(got, func(h held) bool { return h.UID == m.UID && h.Nonce == m.Nonce }) {
			w.t.Errorf("seed %d: P5: the repeat of a pull is answered by %s, which its answer had not", w.seed, m.UID)
		}
	}
}

// leave pulls, and goes before an answer may come: what the poll took is given back.
func (w *world) leave(p *process, poll scheduler.Poll, after time.Duration) {
	_, _ = ask(p, "pull and go "+poll.Topic, func(ctx context.Context, at doors) error {
		ctx, cancel := context.WithTimeout(ctx, after)
		defer cancel()
		found, err := at.Pull(ctx, poll)
		if ctx.Err() != nil && len(found) > 0 { // the HTTP API cannot answer either
			at.GiveBack(ctx, found)
			w.met("pull: its client went, and it is given back")
			return nil
		}
		for _, m := range found {
			w.leased(p, m)
		}
		return err
	})
}

// requeue gives a dead message another life, under another name.
func (w *world) requeue(p *process, which int, delay time.Duration, i int) {
	w.mu.Lock()
	if len(w.buried) == 0 {
		w.mu.Unlock()
		return
	}
	m := w.buried[which%len(w.buried)]
	w.mu.Unlock()
	name := fmt.Sprint("r", i)
	answer := w.call(history.Event{Kind: history.Push, Message: name, Dead: m.name, Body: name,
		Due: time.Now().Add(delay)})
	w.begins(name, m.topic)
	a, ok := ask(p, "requeue "+m.name, func(ctx context.Context, at doors) scheduler.Accepted {
		a, err := p.RequeueOne(ctx, m.ref(), scheduler.Requeue{Delay: delay,
			Body: []byte(name)})
		a.Err = err
		return a
	})
	switch {
	case !ok, errors.Is(a.Err, scheduler.ErrOutcomeUnknown):
		answer(history.Event{Phase: history.Unknown})
	case a.Err != nil:
		answer(history.Event{Phase: history.Fail, Word: a.Err.Error()})
	default:
		w.met("requeued")
		answer(history.Event{Phase: history.OK, UID: string(a.UID), Due: a.Due.Time()})
		w.mu.Lock()
		w.pushed = append(w.pushed, pushed{name, a.UID, "", m.topic, m.key, a.Due.Time()})
		w.mu.Unlock()
	}
}

// pause pauses a topic for a while. Once that was answered, nothing of it goes to NATS until somebody, whoever, begins
// to resume it.
func (w *world) pause(p *process, topic string, d time.Duration, which int) {
	type answered struct {
		inEffect bool
		err      error
	}
	r, ok := ask(p, "pause "+topic, func(ctx context.Context, at doors) answered {
		inEffect, err := p.Pause(ctx, topic, "somebody")
		return answered{inEffect, err}
	})
	if ok && r.err == nil && r.inEffect {
		w.met("paused")
		w.mu.Lock()
		w.paused = append(w.paused, span{topic, time.Now(), time.Time{}})
		w.mu.Unlock()
	}
	time.Sleep(d)
	for { // however often it takes: what stays paused never ends
		w.turn("somebody resumes "+topic, func() { p = w.processes[which%len(w.processes)] })
		w.mu.Lock()
		at := len(w.resumed)
		w.resumed = append(w.resumed, span{topic: topic, from: time.Now()})
		w.mu.Unlock()
		err, ok := ask(p, "resume "+topic, func(ctx context.Context, at doors) error {
			_, _, err := p.Resume(ctx, topic)
			return err
		})
		if ok && err == nil {
			w.mu.Lock()
			w.resumed[at].to = time.Now()
			w.mu.Unlock()
			return
		}
		time.Sleep(time.Second)
	}
}

// leased tells of a lease.
func (w *world) leased(p *process, m scheduler.PulledMessage) held {
	w.met("leased")
	if over := time.Since(m.Until.Time()); over > 20*time.Millisecond {
		w.t.Errorf("seed %d: P5: the lease of %s is handed out %s after its end", w.seed, m.UID, over)
	}
	w.tell(history.Event{Kind: history.Lease, By: p.name, Message: nameOf(m.Body), UID: string(m.UID),
		Attempt: int(m.Tries(message.StateInFlight)), Body: string(m.Body), Receipt: receipt(m), Until: m.Until.Time()})
	h := held{m, nameOf(m.Body)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, h)
	return h
}

func receipt(m scheduler.PulledMessage) string { return fmt.Sprintf("%s %v", m.UID, m.Nonce) }

var verbs = map[scheduler.Verb]string{scheduler.Ack: "ack", scheduler.Nack: "nack", scheduler.Bury: "dead",
	scheduler.Release: "release", scheduler.Extend: "extend"}

// settle settles some leases by one call.
func (w *world) settle(p *process, all []held, verb scheduler.Verb, delay time.Duration) {
	if len(all) == 0 {
		return
	}
	word := verbs[verb]
	if len(all) > 1 {
		w.met("settle: several at once")
	}
	orders := make([]scheduler.Settlement, len(all))
	answers := make([]func(history.Event), len(all))
	for i, m := range all {
		orders[i] = scheduler.Settlement{Verb: verb, Lease: delay/2 + time.Second, Receipt: scheduler.Receipt{UID: m.UID,
			Nonce: m.Nonce, Topic: m.Topic}}
		answers[i] = w.call(history.Event{Kind: history.Settle, Message: m.name, Word: word,
			Receipt: receipt(m.PulledMessage)})
	}
	type answered struct {
		done []scheduler.Settled
		errs []error
	}
	r, ok := ask(p, word+" "+all[0].name, func(ctx context.Context, at doors) answered {
		done, errs := at.Settle(ctx, orders)
		return answered{done, errs}
	})
	for i, answer := range answers {
		switch {
		case !ok:
			answer(history.Event{Phase: history.Unknown, Word: "no answer"})
		case r.errs[i] != nil:
			answer(history.Event{Phase: history.Unknown, Word: r.errs[i].Error()})
		case r.done[i].Code == scheduler.SettleLost:
			w.met("settle: lost")
			answer(history.Event{Phase: history.Fail})
		case r.done[i].Unjournaled: // a loss of the store undoes it
			w.met("settle: not in the journal yet")
			answer(history.Event{Phase: history.Unknown, Word: "unjournaled"})
		default:
			w.met("settle: " + word)
			a := history.Event{Phase: history.OK}
			switch d := r.done[i]; {
			case verb == scheduler.Nack && d.Code == scheduler.SettleDone && d.Info.State == message.StateWaiting:
				a.Due = d.Info.Due.Time()
			case verb == scheduler.Extend:
				a.Until = d.Until.Time()
			case verb == scheduler.Bury:
				w.mu.Lock()
				w.buried = append(w.buried, pushed{all[i].name, all[i].UID, all[i].ID, all[i].Topic, all[i].Key, time.Time{}})
				w.mu.Unlock()
			}
			answer(a)
		}
	}
}
