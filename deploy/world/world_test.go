package world_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/tarry-mq/tarry/deploy/check/history"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/memory"
)

// seeds is how many worlds a test command runs.
const seeds = 300

// brokers: one of so many worlds has a nats-server, which takes its processor ten times as long.
const brokers = 8

const buckets = 2

// calm is how long everything has, once the faults are over, to come to its end.
const calm = 100 * time.Second

// TestWorld_KeepsItsPromises runs worlds. TARRY_SEED runs one seed; others run from
// TARRY_FROM to TARRY_SEEDS. With TARRY_BROKER=1 each has a nats-server.
func TestWorld_KeepsItsPromises(t *testing.T) {
	alone(t)
	number := func(name string, otherwise uint64) uint64 {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			return n
		}
		return otherwise
	}
	one := number("TARRY_SEED", 0)
	from, to := cmp.Or(one, number("TARRY_FROM", 1)), cmp.Or(one, number("TARRY_SEEDS", seeds))
	seen, judged, of := map[string]int{}, 0, 0
	for seed := from; seed <= to; seed++ {
		w := live(t, seed, from == to)
		judged, of = judged+w.judged, of+w.of
		for what, n := range w.sometimes {
			seen[what] += n
		}
	}
	if to-from+1 < seeds {
		return
	}
	if judged < of/2 {
		t.Errorf("the answers about %d of %d messages could be judged", judged, of)
	}
	for _, what := range sometimes {
		if seen[what] == 0 {
			t.Errorf("in %d worlds it never came to %q", to, what)
		}
	}
}

// alone gives the test one processor: goroutines of a bubble that run side by side may take turns in any order, and
// where they fire timers of one instant the race detector of Go 1.26 may crash (runtime.(*timer).maybeRunChan).
//
// The goroutine that tells all nats-servers of a process the time outlives them, so it is of no bubble.
func alone(t *testing.T) {
	ats.Register()
	t.Cleanup(ats.Unregister)
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// world is one run.
type world struct {
	t          *testing.T
	seed       uint64
	rnd        *rand.Rand // what users and faults do
	bus        *bus
	redis      *redis
	sql        server
	db         *memory.Journal
	zk         zooKeeper
	topics     *scheduler.Topics
	broker     *broker    // nil: consumers get what is due
	processes  []*process // those that run; the dead are kept by all
	all        []*process
	background sync.WaitGroup
	faults     map[string]bool
	natsRate   int          // of so many messages four have another outcome
	wrong      string       // which of the three clocks is wrong, where one is
	off        atomic.Int64 // how far a server's is
	storm      bool
	decisions  []decision
	only       []string            // the decisions that are carried out; nil: all
	over       bool                // nothing fails any more
	calmed     func(history.Event) // tells that nothing is repeated any more

	mu        sync.Mutex
	history   []history.Event
	calls     int
	pushed    []pushed
	begun     map[string][]string // the names that were pushed, by topic
	changing  []*changing
	held      []held
	buried    []pushed
	paused    []span // from the answer on
	resumed   []span
	sometimes map[string]int
	judged    int // messages of whose answers all were judged, of so many
	of        int
	emptied   bool
}

// kinds are the faults that a world may have.
var kinds = []string{"stop", "kill", "freeze", "cut", "redis calls", "redis away", "redis empty", "sql calls",
	"sql away", "nats", "clock", "http", "target"}

// rated are those that come with some of many calls, and not at a time.
var rated = []string{"redis calls", "sql calls", "http", "target"}

func newWorld(t *testing.T, seed uint64, traced bool) *world {
	w := &world{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 1)), bus: newBus(seed),
		sometimes: map[string]int{}, faults: map[string]bool{}, topics: &scheduler.Topics{}, only: only()}
	w.bus.traced = traced
	for _, kind := range kinds {
		w.faults[kind] = w.rnd.IntN(2) == 0
	}
	if w.rnd.IntN(6) == 0 {
		clear(w.faults)
	}
	w.wrong = []string{"wall", "redis", "nats"}[w.rnd.IntN(3)]
	mode := journal.Mode(w.rnd.IntN(3))
	if mode == journal.Off {
		w.faults["redis empty"] = false
	}
	w.met("journal: " + mode.String())
	if w.anyFault() == "" {
		w.met("no fault at all")
	}
	w.topics.Set([]*scheduler.Topic{
		{Pattern: "serial", Serial: true, Deliver: scheduler.DeliverPull},
		{Pattern: "rated", Rate: 20},
		{Pattern: "hook", Deliver: scheduler.DeliverPull, Webhook: true},
	}, message.Retry{})
	w.redis = newRedis(w, mode)
	w.sql = server{world: w, name: "sql"}
	w.redis.rate, w.sql.rate = w.ifFault("redis calls", 15), w.ifFault("sql calls", 10)
	w.natsRate = w.ifFault("nats", 12)
	var err error
	if w.db, err = memory.NewJournal(memory.JournalConfig{}); err != nil {
		t.Fatal(err)
	}
	if w.rnd.IntN(brokers) == 0 || os.Getenv("TARRY_BROKER") != "" {
		w.broker = newBroker(w)
		if w.wrong == "nats" { // its clock is right
			w.wrong = "redis"
		}
	}
	if w.repeats() {
		w.calmed = w.call(history.Event{Kind: history.Fault, Word: history.Repeats})
	}
	return w
}

func (w *world) ifFault(kind string, rate int) int {
	if w.faults[kind] {
		return rate
	}
	return 0
}

func (w *world) anyFault() string {
	for _, kind := range kinds {
		if w.faults[kind] {
			return kind
		}
	}
	return ""
}

// anyFaultOf reports whether the world has a fault whose name begins so.
func (w *world) anyFaultOf(begin string) bool {
	return slices.ContainsFunc(kinds, func(kind string) bool { return w.faults[kind] && strings.HasPrefix(kind, begin) })
}

// repeats reports whether any fault of the world may have a message delivered twice.
func (w *world) repeats() bool {
	for kind, on := range w.faults {
		if on && kind != "clock" && kind != "sql calls" && kind != "sql away" {
			return true
		}
	}
	return false
}

func (w *world) options() string {
	var with []string
	for _, kind := range kinds {
		if w.faults[kind] {
			with = append(with, kind)
		}
	}
	return fmt.Sprintf("seed %d: journal %s, faults: %s", w.seed, w.redis.mode, strings.Join(with, ", "))
}

// live runs a world, and holds what its users saw against the promises.
func live(t *testing.T, seed uint64, traced bool) (w *world) {
	choose(t, seed)
	failed := false
	defer func() { // a bubble that fails ends the test
		if failed && replays && w.only == nil {
			t.Log(w.shorten())
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(message.Epoch.AddDate(1, 10, 20))) // a bubble starts in 2000, before the uids' epoch
		w = newWorld(t, seed, traced)
		over := make(chan struct{})
		go w.bus.run(over)
		w.live()
		for _, p := range w.all {
			p.stop()
		}
		for _, p := range w.all {
			p.ended.Wait()
		}
		if w.broker != nil {
			w.broker.users.Close()
			w.broker.stop()
		}
		w.background.Wait()
		close(over)
		if file := os.Getenv("TARRY_HISTORY"); file != "" {
			out, err := os.Create(file)
			if err == nil {
				err = history.Write(out, w.history)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if file := os.Getenv("TARRY_TRACE"); file != "" {
			if err := os.WriteFile(file, []byte(w.options()+"\n"+strings.Join(w.bus.trace, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		found, judged, of := history.Judge(w.history)
		w.judged, w.of = judged, of
		for _, v := range found {
			picture, err := v.Draw()
			t.Errorf("seed %d: %s %s %v", seed, v, picture, err)
		}
		if t.Failed() {
			commit, _ := exec.Command("git", "describe", "--always", "--dirty").Output()
			t.Logf("%s, commit %s\nagain: TARRY_SEED=%d deploy/world/run.sh -run TestWorld_Keeps", w.options(),
				strings.TrimSpace(string(commit)), seed)
			failed = true
		}
	})
	return w
}

func (w *world) tell(e history.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.At = time.Now()
	w.history = append(w.history, e)
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

// turn has the world itself do something, in the order of the bus.
func (w *world) turn(what string, do func()) {
	w.bus.enter(nil, what)
	do()
}

// live lets users and faults act, then ends the faults, and waits until everything has come to its end.
func (w *world) live() {
	for range 2 {
		w.run()
	}
	var users sync.WaitGroup
	for i := range 60 + w.rnd.IntN(120) {
		time.Sleep(time.Duration(w.rnd.Int64N(int64(400 * time.Millisecond))))
		w.turn("the world goes on", func() {
			if w.rnd.IntN(20) == 0 {
				w.burst(i, &users)
			}
			if w.rnd.IntN(10) == 0 {
				w.fault(fmt.Sprint("fault ", i))
			}
		})
		if what, do := w.act(i); w.decided(fmt.Sprint("act ", i), what) {
			users.Go(do)
		}
	}
	users.Wait()
	w.turn("the faults end", func() { w.over = true })
	time.Sleep(calm / 4) // what happened just before may still show
	if w.calmed != nil {
		w.calmed(history.Event{Phase: history.OK})
	}
	for _, topic := range []string{"plain", "burst", "work"} { // a pause may have been executed after its resume
		if _, _, err := w.processes[0].Resume(context.Background(), topic); err != nil {
			w.t.Errorf("seed %d: resume %s: %v", w.seed, topic, err)
		}
	}
	for end := time.Now().Add(calm); time.Now().Before(end); time.Sleep(2 * time.Second) {
		w.drain()
	}
	if w.broker != nil {
		w.broker.collect()
	}
	w.ends()
}

// drain has consumers take what is ready.
func (w *world) drain() {
	for _, topic := range []string{"work", "serial"} {
		poll := scheduler.Poll{Topic: topic, Max: 100, Bytes: 1 << 20, Lease: time.Minute,
			Attempt: scheduler.Nonce(w.rnd.Uint64()), Sending: 1}
		w.settle(w.processes[0], w.pull(w.processes[0], poll), scheduler.Ack, 0)
	}
}

// run starts a process.
func (w *world) run() {
	p := w.start(len(w.all) + 1)
	w.all, w.processes = append(w.all, p), append(w.processes, p)
}

// some is a process that runs.
func (w *world) some() *process { return w.processes[w.rnd.IntN(len(w.processes))] }

// ends looks at what became of every message.
func (w *world) ends() {
	ctx, p := context.Background(), w.processes[0]
	last := map[string]message.UID{} // an edit may have given another
	for _, m := range w.pushed {
		last[m.name] = m.uid
	}
	for _, m := range w.pushed {
		if last[m.name] != m.uid {
			continue
		}
		delete(last, m.name)
		info, err := p.Get(ctx, m.ref())
		if err != nil {
			continue // P1 judges by what was seen
		}
		switch {
		case info.State == message.StateExpired:
			w.met("expired")
		case info.State == message.StateInFlight,
			info.State == message.StateWaiting && time.Since(info.Due.Time()) > calm/2:
			p.Explain(ctx, &info, p.leader.Why, func(context.Context) error { return nil })
			w.t.Errorf("seed %d: message %s, due at %s, is still %s: %+v", w.seed, m.name, info.Due.Time(), info.State, info)
		}
		if info.State != message.StateDelivered { // of a delivery its consumer tells
			w.tell(history.Event{Kind: history.End, Message: m.name, UID: string(m.uid), Word: info.State.String()})
		}
	}
	w.keptPaused()
	if w.redis.mode == journal.Off {
		return
	}
	report, err := p.reconciler.Verify(ctx, record.VerifyRequest{}, nil)
	if err != nil {
		w.t.Errorf("seed %d: verify: %v", w.seed, err)
	}
	if len(report.Found) > 0 {
		w.t.Errorf("seed %d: P8: the store and the journal differ: %v: %+v", w.seed, report.Found, report.Differences)
	}
}

// keptPaused: nothing of a paused topic went to NATS. A leader that was suspended may send what it had in its hands.
func (w *world) keptPaused() {
	topics := map[string]string{}
	for _, m := range w.pushed {
		topics[m.name] = m.topic
	}
	if w.faults["freeze"] || w.faults["cut"] {
		return
	}
	for _, e := range w.history {
		for _, one := range w.paused {
			if e.Kind == history.Deliver && topics[e.Message] == one.topic && e.At.After(one.from) &&
				!slices.ContainsFunc(w.resumed, func(r span) bool {
					return r.topic == one.topic && !r.from.After(e.At) && (r.to.IsZero() || !r.to.Before(one.from))
				}) {
				w.t.Errorf("seed %d: P4: %s was paused at %s, and %s was delivered at %s", w.seed, one.topic, one.from,
					e.Message, e.At)
			}
		}
	}
}

// fault has one of the faults of this world happen.
func (w *world) fault(name string) {
	able := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool {
		return !w.faults[kind] || slices.Contains(rated, kind)
	})
	if len(able) == 0 {
		return
	}
	kind := able[w.rnd.IntN(len(able))]
	p, d := w.some(), time.Duration(w.rnd.Int64N(int64(15*time.Second)))
	step := w.rnd.Int64N(int64(20*time.Second)) - int64(10*time.Second)
	if !w.decided(name, fmt.Sprint(kind, " ", p.name, " ", d)) {
		return
	}
	w.bus.note(fmt.Sprint("fault: ", kind, " ", p.name, " ", d))
	if p == w.zk.owner {
		w.met("the leader: " + kind)
	}
	if kind == "redis empty" && time.Now().Before(w.sql.away) {
		w.met("redis: emptied while sql was away")
	}
	if time.Now().Before(w.redis.away) {
		w.met("a fault while redis was away: " + kind)
	}
	switch kind {
	case "stop", "kill":
		w.processes = slices.DeleteFunc(w.processes, func(other *process) bool { return other == p })
		if w.met("process: " + kind); kind == "kill" {
			p.kill()
			if w.zk.owner == p && w.rnd.IntN(2) == 0 {
				w.zk.owner = nil // a standby has seen it die
			}
		} else {
			p.stop()
		}
		w.run()
	case "freeze":
		w.met("process: frozen")
		p.freeze(d)
	case "cut":
		w.met("process: cut from ZooKeeper")
		p.cut.Store(time.Now().Add(d).UnixMicro())
	case "redis away":
		w.redis.away = time.Now().Add(d / 4)
	case "sql away":
		w.sql.away = time.Now().Add(d / 2)
	case "redis empty":
		w.lose()
		w.background.Go(func() { w.regret(int(step & (1<<20 - 1))) })
	case "nats":
		if w.storm = !w.storm; w.broker != nil && w.storm {
			w.broker.restart(d / 8)
		} else if w.broker != nil {
			w.broker.cut(p)
		}
	case "clock":
		w.met("process: its clock steps")
		if w.wrong == "wall" {
			p.skew.Store(wrong(p.skew.Load() + step))
		} else {
			w.off.Store(wrong(w.off.Load() + step))
		}
	}
}

// lose empties Redis. What the journal does not have by then is lost, unless its answers waited for the journal.
func (w *world) lose() {
	w.met("redis: emptied")
	w.emptied = w.redis.mode == journal.Async
	from, word := time.Now(), history.Leases
	if w.emptied {
		word = history.Loss
		lags, _ := w.redis.Lags(context.Background()) // a bucket may not be certified yet
		for _, lag := range lags {
			if lag.Oldest > 0 && lag.Oldest.Time().Before(from) {
				from = lag.Oldest.Time()
			}
		}
	}
	answers := time.Second // that are on their way, and what a clock may be off by which changes are stamped
	if w.faults["freeze"] || w.faults["clock"] {
		answers = 16 * time.Second
	}
	if w.emptied {
		from = from.Add(-answers)
	}
	w.mu.Lock()
	w.calls++
	w.history = append(w.history,
		history.Event{At: from, Kind: history.Fault, Phase: history.Invoke, Call: w.calls, Word: word},
		history.Event{At: time.Now().Add(answers), Kind: history.Fault, Phase: history.OK, Call: w.calls})
	w.mu.Unlock()
	w.redis.empty()
}
