package schedulertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/lead"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/steer"
)

// ExerciseRaces lets two instances push, merge, reschedule, edit, run and cancel the same few messages at once, within
// the milliseconds in which they are delivered or expire, and compares every answer with what really happened (P1,
// P2, P4). one and two are the same timeline, as opened by two instances.
func ExerciseRaces(t *testing.T, one, two scheduler.Timeline, rounds int) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &races{t: t, out: &recorded{seen: map[message.UID][]seen{}, rng: rand.New(rand.NewPCG(seed, 0))}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	leader, err := lead.New(lead.Config{
		Timeline: one, Publisher: r.out, Clock: scheduler.NewClock(scheduler.System()),
		EndedKeep: 10 * time.Minute, ClaimBatch: 100, ClaimBytes: 1 << 20, Pending: 256, Attempts: 3,
		CallTimeout: 10 * time.Second, StopTimeout: time.Second, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, tl := range []scheduler.Timeline{one, two} {
		s, err := steer.New(scheduler.Config{
			Timeline: tl, IDs: scheduler.NewIDs(slot(i), time.Now), Clock: scheduler.NewClock(scheduler.System()),
			MaxDelay: 24 * time.Hour, EndedKeep: 10 * time.Minute,
			CallTimeout: 10 * time.Second, StopTimeout: time.Second, Log: zerolog.Nop(),
			Announce: func(bucket message.Bucket, due message.Milli) { leader.Nudge(bucket, due) },
		})
		if err != nil {
			t.Fatal(err)
		}
		r.instances = append(r.instances, s)
	}
	for _, s := range r.instances {
		running.Go(func() { _ = s.Serve(ctx) })
	}
	running.Go(func() { _ = leader.Run(ctx, 1, func() time.Duration { return time.Hour }) })
	defer running.Wait()
	defer cancel()
	for n := range rounds {
		r.round(n, rand.New(rand.NewPCG(seed, uint64(n)+1)))
		if t.Failed() {
			return
		}
	}
	t.Logf("answers: %v", r.answers)
}

type races struct {
	t         *testing.T
	out       *recorded
	instances []*steer.Scheduler

	mu      sync.Mutex
	deeds   []deed
	answers map[string]int
}

// deed is an action of one worker, with its answer.
type deed struct {
	what   string
	uid    message.UID // that the answer is about
	answer string
	// version, due and body are those of the message after the change. due is 0 and body "" if the change left them.
	version uint64
	due     message.Milli
	body    string
	ended   time.Time
}

const (
	raceWorkers = 5
	raceDeeds   = 5
	raceNames   = 2
)

func (r *races) round(n int, rng *rand.Rand) {
	r.deeds = nil
	if r.answers == nil {
		r.answers = map[string]int{}
	}
	var working sync.WaitGroup
	for w := range raceWorkers {
		own := rand.New(rand.NewPCG(rng.Uint64(), uint64(w)))
		working.Go(func() {
			s := r.instances[w%len(r.instances)]
			for i := range raceDeeds {
				id := fmt.Sprintf("race-%d-%d", n, own.IntN(raceNames))
				r.did(r.deed(s, own, id, fmt.Sprintf("%d.%d", w, i)))
				if own.IntN(3) == 0 {
					time.Sleep(time.Duration(own.IntN(2000)) * time.Microsecond)
				}
			}
		})
	}
	working.Wait()
	r.settle(n)
	r.judge(n)
}

func (r *races) did(d deed) {
	d.ended = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deeds = append(r.deeds, d)
	r.answers[d.what+" "+d.answer]++
}

// deed does one thing at random.
func (r *races) deed(s *steer.Scheduler, rng *rand.Rand, id, body string) deed {
	ctx := context.Background()
	delay := time.Duration(rng.IntN(4)) * time.Millisecond
	switch k := rng.IntN(10); {
	case k < 4:
		merge := message.Merge(rng.IntN(4))
		p := &scheduler.Push{ID: id, Topic: "races", Body: []byte(body), Delay: delay, Merge: merge}
		if merge == message.MergeDebounce {
			p.MaxWait = 4 * time.Millisecond
		}
		if merge == message.MergeReject && rng.IntN(3) == 0 {
			p.TTL = time.Millisecond // it may be too late by the time it is claimed
		}
		a := s.AcceptAll(ctx, []*scheduler.Push{p})[0]
		d := deed{what: fmt.Sprintf("push %d", merge), uid: a.UID, version: a.Version}
		switch {
		case a.Err != nil:
			d.answer = "refused"
			d.uid = ""
		case a.Duplicate:
			d.answer = "duplicate"
		case a.Merged && merge == message.MergeKeep:
			d.answer = "absorbed"
		case a.Merged:
			d.answer, d.due, d.body = "merged", a.Due, body
		default:
			d.answer, d.due, d.body = "new", a.Due, body
		}
		return d
	case k < 7:
		c, err := s.Cancel(ctx, scheduler.Ref{ID: id})
		if err != nil {
			return deed{what: "cancel", answer: "error: " + err.Error()}
		}
		return deed{what: "cancel", uid: c.Info.UID, answer: word(c.Code.String(), c.Info.State),
			version: c.Info.Version}
	default:
		e := scheduler.Edit{Delay: new(delay)}
		what := "reschedule"
		switch rng.IntN(3) {
		case 0:
			e, what = scheduler.Edit{Run: true}, "run"
		case 1:
			e.Body, what = []byte(body), "edit"
		}
		a, err := s.Reschedule(ctx, scheduler.Ref{ID: id}, e)
		if err != nil {
			return deed{what: what, answer: "error: " + err.Error()}
		}
		d := deed{what: what, uid: a.Info.UID, answer: word(a.Code.String(), a.Info.State)}
		if a.Code == scheduler.AmendDone {
			d.version, d.due = a.Info.Version, a.Info.Due
			if e.Body != nil {
				d.body = body
			}
		}
		return d
	}
}

// word returns an answer as a word. It replaces "already_ended" by how the message ended.
func word(code string, s message.State) string {
	if code == "already_ended" {
		return "already_" + s.String()
	}
	return code
}

// settle waits until every message of the round has ended.
func (r *races) settle(n int) {
	r.t.Helper()
	for until := time.Now().Add(30 * time.Second); ; {
		live := 0
		for _, uid := range r.uids() {
			if i, err := r.instances[0].Get(context.Background(), scheduler.Ref{UID: uid}); err != nil ||
				!i.State.Ended() {
				live++
			}
		}
		if live == 0 {
			return
		}
		if time.Now().After(until) {
			r.t.Fatalf("round %d: %d messages have not ended", n, live)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// uids returns the messages that the round's answers name.
func (r *races) uids() []message.UID {
	var all []message.UID
	for _, d := range r.deeds {
		if d.uid != "" && !slices.Contains(all, d.uid) {
			all = append(all, d.uid)
		}
	}
	return all
}

// judge compares the answers with the deliveries.
func (r *races) judge(n int) {
	r.t.Helper()
	wrong := func(uid message.UID, format string, args ...any) {
		r.t.Errorf("round %d, %s: %s", n, uid, fmt.Sprintf(format, args...))
		for _, d := range r.deeds {
			if d.uid == uid {
				r.t.Logf("  %s: %s, version %d, due %d, body %q", d.what, d.answer, d.version, d.due, d.body)
			}
		}
	}
	for _, d := range r.deeds {
		if len(d.answer) > 6 && d.answer[:6] == "error:" && d.what != "cancel" {
			r.t.Errorf("round %d: %s: %s", n, d.what, d.answer)
		}
	}
	for _, uid := range r.uids() {
		i, err := r.instances[0].Get(context.Background(), scheduler.Ref{UID: uid})
		if err != nil {
			wrong(uid, "get: %v", err)
			continue
		}
		got := r.out.of(uid)
		made := map[uint64]deed{} // what made which version
		var due, body deed        // the last that set it
		accepted := false
		for _, d := range r.deeds {
			if d.uid != uid {
				continue
			}
			accepted = accepted || d.answer == "new"
			if d.due > 0 || d.answer == "absorbed" {
				// A reschedule that changes nothing makes no version. Its answer has the version of another change.
				if other, twice := made[d.version]; twice &&
					((d.due > 0 && other.due > 0 && d.due != other.due) || (d.body != "" && other.body != "")) {
					wrong(uid, "%s and %s both made version %d", other.what, d.what, d.version)
				}
				made[d.version] = d
			}
			if d.due > 0 && d.version > due.version {
				due = d
			}
			if d.body != "" && d.version > body.version {
				body = d
			}
			switch d.answer {
			case "canceled":
				if len(got) > 0 {
					wrong(uid, "it was canceled and seen")
				}
			case "already_expired":
				if len(got) > 0 && !i.Mark.Uncertain {
					wrong(uid, "%s was answered that it expired, and it was seen", d.what)
				}
			case "already_delivered":
				if len(got) == 0 || got[0].at.After(d.ended) {
					wrong(uid, "%s was answered that it is delivered, and it was not yet", d.what)
				}
			}
		}
		if !accepted {
			wrong(uid, "nobody pushed it")
			continue
		}
		switch {
		case i.State == message.StateDelivered && len(got) == 0:
			wrong(uid, "it is delivered and was never seen")
		case i.State == message.StateCanceled && len(got) > 0 && !i.Mark.Uncertain:
			wrong(uid, "it is canceled for certain and was seen")
		case i.State == message.StateExpired && len(got) > 0 && !i.Mark.Uncertain:
			wrong(uid, "it expired for certain and was seen")
		case i.State != message.StateDelivered && i.State != message.StateCanceled &&
			i.State != message.StateExpired:
			wrong(uid, "it is %s", i.State)
		}
		for _, s := range got {
			switch {
			case s.at.UnixMilli() < int64(s.due):
				wrong(uid, "seen %d ms early", int64(s.due)-s.at.UnixMilli())
			case s.due != due.due:
				wrong(uid, "seen with due %d, the last that was set is %d (version %d)", s.due, due.due, due.version)
			case s.body != body.body:
				wrong(uid, "seen with body %q, the last that was set is %q (version %d)", s.body,
					body.body, body.version)
			}
		}
	}
}

// recorded is a publisher that keeps what it sends, and whose outcomes are random.
type recorded struct {
	mu   sync.Mutex
	seen map[message.UID][]seen
	rng  *rand.Rand
}

type seen struct {
	at   time.Time
	due  message.Milli
	body string
}

func (p *recorded) Ready() bool                          { return true }
func (p *recorded) Lane(m *message.Message) message.Lane { return message.Lane(m.Topic) }

func (p *recorded) Send(_ context.Context, batch []*message.Message,
	done func(*message.Message, scheduler.Outcome)) {
	for _, m := range batch {
		p.mu.Lock()
		outcome := scheduler.Outcome{Kind: scheduler.Delivered}
		switch p.rng.IntN(16) {
		case 0:
			outcome.Kind = scheduler.NotSent
		case 1:
			outcome.Kind = scheduler.Unknown
		}
		if outcome.Kind == scheduler.Delivered || (outcome.Kind == scheduler.Unknown && p.rng.IntN(2) == 0) {
			p.seen[m.UID] = append(p.seen[m.UID], seen{time.Now(), m.Due, string(m.Body)})
		}
		p.mu.Unlock()
		done(m, outcome)
	}
}

func (p *recorded) of(uid message.UID) []seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen[uid])
}

type slot int

func (s slot) ID() (int, bool) { return int(s), true }
