package api_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/seeds"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/lead"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/steer"
	"github.com/tarry-mq/tarry/store/memory"
)

// door is a server over a real scheduler and a timeline in memory.
type door struct {
	*api.Server
	timeline *memory.Timeline
	log      *syncBuffer
}

// instance is what the server asks: the scheduler, and why messages are held back.
type instance struct {
	*steer.Scheduler
	*lead.Leader
}

// open starts one; change may alter its configuration.
func open(t testing.TB, change ...func(*api.Config)) *door {
	t.Helper()
	return openTopics(t, nil, change...)
}

// openTopics is open with settings of topics, for the routes of other systems.
func openTopics(t testing.TB, topics *scheduler.Topics, change ...func(*api.Config)) *door {
	t.Helper()
	timeline, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	leader, err := lead.New(lead.Config{
		Timeline: timeline, Publisher: nowhere{}, Clock: scheduler.NewClock(scheduler.System()),
		EndedKeep: 10 * time.Minute, ClaimBatch: 100, ClaimBytes: 1 << 20, Pending: 100, Attempts: 3,
		CallTimeout: time.Second, StopTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	heart, err := steer.New(scheduler.Config{
		Timeline: timeline, Clock: scheduler.NewClock(scheduler.System()),
		IDs:      scheduler.NewIDs(machine(7), time.Now),
		MaxDelay: 3653 * 24 * time.Hour, EndedKeep: 10 * time.Minute,
		CallTimeout: time.Second, StopTimeout: time.Second, Registerer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- heart.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	d := &door{timeline: timeline, log: &syncBuffer{}}
	cfg := api.Config{Config: ops.Config{Service: instance{heart, leader}, Cluster: &cluster{}, Namespace: "test",
		Log: zerolog.New(d.log), Instance: "one", Version: "v1.2.3", Hour: hour, Details: details, Overview: well},
		Gatherer: registry, Registerer: registry, Hosts: []string{"example.com", "a"}}
	for _, f := range change {
		f(&cfg)
	}
	if d.Server, err = api.New(cfg); err != nil {
		t.Fatal(err)
	}
	seeds.Mount(d.Server, topics, new(seeds.Stats))
	return d
}

type machine int

func (m machine) ID() (int, bool) { return int(m), true }

// nowhere is a publisher that is never ready.
type nowhere struct{}

func (nowhere) Ready() bool                          { return false }
func (nowhere) Lane(m *message.Message) message.Lane { return message.Lane(m.Topic) }
func (nowhere) Send(_ context.Context, batch []*message.Message, done func(*message.Message, scheduler.Outcome)) {
	for _, m := range batch {
		done(m, scheduler.Outcome{Kind: scheduler.NotSent})
	}
}

// cluster answers as a test sets it.
type cluster struct {
	info    ops.Cluster
	err     error
	refusal error // of a resign, and of forgetting an instance
	reasons []string
}

func (c *cluster) Cluster(context.Context) (ops.Cluster, error) { return c.info, c.err }
func (c *cluster) Forget(_ context.Context, instance string) error {
	c.reasons = append(c.reasons, "forget "+instance)
	return c.refusal
}
func (c *cluster) Resign(_ context.Context, reason string) error {
	c.reasons = append(c.reasons, reason)
	return c.refusal
}

// service is a scheduler that answers as a test sets it.
type service struct {
	accept func(ctx context.Context, batch []*scheduler.Push) []scheduler.Accepted
	get    func(context.Context, scheduler.Ref) (message.Info, error)
	cancel func(context.Context, scheduler.Ref) (scheduler.CancelResult, error)
	*steering
	pullers
}

// pullers answer consumers that pull as a test sets it.
type pullers struct {
	found   []scheduler.PulledMessage
	gave    *atomic.Int64 // how many messages were given back
	settled scheduler.Settled
	failure error
	wait    func(ctx context.Context) // of a poll
	polled  func(scheduler.Poll)
	ordered func([]scheduler.Settlement)
}

func (p pullers) Pull(ctx context.Context, poll scheduler.Poll) ([]scheduler.PulledMessage, error) {
	if p.polled != nil {
		p.polled(poll)
	}
	if p.wait != nil {
		p.wait(ctx)
	}
	return p.found, p.failure
}

// Listed lists the dead of steering. Of others it knows one.
func (s service) Listed(ctx context.Context, q scheduler.Listing, cursor string, limit,
	most int) ([]message.Info, string, int, error) {
	if len(q.States) > 0 {
		return s.steering.Listed(ctx, q, cursor, limit, most)
	}
	return []message.Info{{Message: message.Message{UID: uidA, Topic: "orders.x", Due: later},
		State: message.StateWaiting}}, "", 7, s.pullers.failure
}

func (p pullers) GiveBack(_ context.Context, found []scheduler.PulledMessage) {
	if p.gave != nil {
		p.gave.Add(int64(len(found)))
	}
}

func (p pullers) SettleHeld(context.Context, scheduler.Ref, scheduler.Verb) (scheduler.Settled, error) {
	return p.settled, p.failure
}

func (p pullers) LeaseOf(context.Context, scheduler.Ref) (scheduler.LeaseInfo, error) {
	return scheduler.LeaseInfo{Message: info(uidA, "a", message.StateInFlight), Nonce: 1}, p.failure
}

func (p pullers) Release(_ context.Context, ref scheduler.Ref, _ string) (message.Info, error) {
	one := info(uidA, "orders.x", message.StateReady)
	one.ID, one.Attempt = cmp.Or(ref.ID, "a"), 1
	return one, p.failure
}

func (p pullers) LeasesOf(context.Context, string, string, int) ([]scheduler.LeaseInfo, string, error) {
	one := scheduler.LeaseInfo{Message: info(uidA, "a", message.StateInFlight),
		Holding: message.Holding{Consumer: "worker", Since: later, Until: later + 1000}}
	one.Message.Attempt = 1
	return []scheduler.LeaseInfo{one}, "next", p.failure
}

func (p pullers) PullCounts(_ context.Context, topics []string, within []time.Duration) ([]scheduler.PullCount, error) {
	counts := make([]scheduler.PullCount, len(topics))
	for i := range counts {
		counts[i].Leased = 1
		for n := range within {
			counts[i].Due = append(counts[i].Due, n)
		}
	}
	return counts, p.failure
}

func (p pullers) View(context.Context, ...*message.Info) error { return p.failure }

func (p pullers) Settle(_ context.Context, orders []scheduler.Settlement) ([]scheduler.Settled, []error) {
	settled, errs := make([]scheduler.Settled, len(orders)), make([]error, len(orders))
	if p.ordered != nil {
		p.ordered(orders)
	}
	for i := range orders {
		settled[i], errs[i] = p.settled, p.failure
	}
	return settled, errs
}

// receiptA is a receipt of the message uidA on the topic a.
var receiptA = ops.Receipt{UID: string(uidA), Nonce: 1, Topic: "a"}.String()

func (s service) AcceptAll(ctx context.Context, batch []*scheduler.Push) []scheduler.Accepted {
	return s.accept(ctx, batch)
}
func (s service) Get(ctx context.Context, ref scheduler.Ref) (message.Info, error) {
	return s.get(ctx, ref)
}
func (s service) Resolve(ctx context.Context, ref scheduler.Ref) (message.Info, error) {
	return s.get(ctx, ref)
}
func (s service) Cancel(ctx context.Context, ref scheduler.Ref) (scheduler.CancelResult, error) {
	return s.cancel(ctx, ref)
}

func with(s ops.Service) func(*api.Config) { return func(c *api.Config) { c.Service = s } }

// reply is an answer, read.
type reply struct {
	status int
	header http.Header
	raw    string
	json   map[string]any
}

func (r reply) word() string {
	word, _ := r.json["error"].(string)
	return word
}

func (r reply) detail() string {
	detail, _ := r.json["detail"].(string)
	return detail
}

// call makes one request; every answer but that of /metrics must be JSON. header holds pairs.
func call(t testing.TB, h http.Handler, method, target, body string, header ...string) reply {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return read(t, w.Result())
}

func read(t testing.TB, from *http.Response) reply {
	t.Helper()
	raw, err := io.ReadAll(from.Body)
	if err != nil {
		t.Fatalf("read the answer: %v", err)
	}
	_ = from.Body.Close()
	a := reply{status: from.StatusCode, header: from.Header, raw: string(raw)}
	if strings.HasPrefix(from.Header.Get("Content-Type"), "text/plain; version=") {
		return a // metrics
	}
	if got := from.Header.Get("Content-Type"); got != "application/json" && a.status != http.StatusNoContent {
		t.Errorf("%d %.80q: Content-Type %q", a.status, raw, got)
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &a.json); err != nil {
			t.Errorf("%d %.200q: %v", a.status, raw, err)
		}
	}
	if a.status >= 400 && a.json["ready"] == nil && (a.word() == "" || a.detail() == "") {
		t.Errorf("%d without word or detail: %s", a.status, raw)
	}
	return a
}

// want checks status and word; an empty word means a success.
func (r reply) want(t testing.TB, status int, word string) reply {
	t.Helper()
	if r.status != status || r.word() != word {
		t.Errorf("got %d %s, want %d %q", r.status, r.raw, status, word)
	}
	return r
}

// stored is how many messages wait or are in flight.
func (d *door) stored(t testing.TB) int {
	t.Helper()
	counts, err := d.timeline.Counts(context.Background(), "", 10_000)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range counts {
		n += c.Waiting + c.InFlight
	}
	return n
}

// claim puts everything that is due in flight.
func (d *door) claim(t testing.TB) []*message.Message {
	t.Helper()
	var all []*message.Message
	for bucket := range d.timeline.Buckets() {
		if err := d.timeline.Begin(t.Context(), bucket, 1); err != nil {
			t.Fatal(err)
		}
		claimed, err := d.timeline.Claim(t.Context(), bucket,
			scheduler.Claim{Term: 1, Now: later, Limit: 100, Bytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, claimed.Messages...)
	}
	return all
}

// end claims everything and ends it in the given state.
func (d *door) end(t testing.TB, state message.State, uncertain bool) {
	t.Helper()
	for _, m := range d.claim(t) {
		e := scheduler.End{Message: m, State: state, Uncertain: uncertain, Reason: "as told"}
		if err := d.timeline.Finish(
			t.Context(), m.UID.Bucket(d.timeline.Buckets()), 1, []scheduler.End{e},
			later); err != nil {
			t.Fatal(err)
		}
	}
}

// later is long after everything that the tests push.
const later = message.Milli(1_896_076_800_000)

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// eventually polls until check is content.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within 10s: %v", err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func hourly(fields string) string {
	return fmt.Sprintf(`{"topic":"orders.created","delay":"1h"%s}`, fields)
}

func well(context.Context) ops.Overview { return ops.Overview{} }

func details(context.Context) (map[string]*ops.InstanceDetail, error) {
	return map[string]*ops.InstanceDetail{"t1": {Since: later,
		Checks: []ops.Check{{Name: "nats", Detail: "not connected"}},
		Clocks: []ops.ClockReading{{Source: "machine", LeastMS: -0.5, MostMS: -0.5}}}}, nil
}

// hour is one in which a message came and one left, late.
func hour(context.Context) (ops.Hour, error) {
	some, none := []int{1, 0}, []int{0, 0}
	return ops.Hour{Series: ops.Series{From: later, StepMS: 60_000, Late: some, P50MS: []float64{1500, 0},
		P99MS: []float64{1990, 0}, Instances: []ops.SeriesOf{{Instance: "one", Since: later}}, Missing: []string{"two"},
		Flows: ops.Flows[[]int]{Accepted: some, Delivered: some, Canceled: none, Expired: none, Dead: some, Rejected: none,
			RejectsDropped: none}},
		Sum: ops.LastHour{Flows: ops.Flows[int]{Accepted: 1, Delivered: 1, Dead: 1}, Late: 1, P50MS: 1500, P99MS: 1990}}, nil
}
