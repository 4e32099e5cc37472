package request_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestService_ReschedulesAndRuns(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewTimeline(t)
		serving(t, request.ServiceConfig{Conn: nc, Namespace: "ns", Scheduler: bridgetest.Scheduling(t, nc, timeline)})
		got, _, problem := ask(t, nc, "ns", "push",
			`{"topic":"orders","at":"2030-01-31T08:00:00Z","id":"order-7131","key":"c","body":"x","headers":{"a":"1"}}`)
		if problem != "" {
			t.Fatal(problem)
		}
		uid := got["uid"].(string)
		got, _, problem = ask(t, nc, "ns", "reschedule",
			`{"id":"order-7131","key":"c","shift":"-1h","priority":9,"body":"y","headers":{"b":"2"},"version":1}`)
		if problem != "" || got["uid"] != uid || got["due"] != "2030-01-31T07:00:00.000Z" || got["version"] != 2.0 ||
			got["priority"] != 9.0 ||
			got["state"] != "waiting" || got["topic"] != "orders" || got["id"] != "order-7131" {
			t.Fatalf("got %v %s", got, problem)
		}
		got, _, _ = ask(t, nc, "ns", "get", `{"id":"`+uid+`"}`)
		if headers, _ := got["headers"].(map[string]any); got["body"] != "y" || len(headers) != 1 ||
			headers["b"] == nil || got["priority"] != 9.0 {
			t.Errorf("got %v", got)
		}
		got, status, problem := ask(t, nc, "ns", "reschedule", `{"id":"order-7131","version":7,"delay":"1h"}`)
		if problem != "version_mismatch" || status != "412" || got["version"] != 2.0 {
			t.Errorf("got %v %s %s", got, status, problem)
		}
		got, _, problem = ask(t, nc, "ns", "run", `{"id":"order-7131"}`)
		due, err := time.Parse(time.RFC3339, fmt.Sprint(got["due"]))
		if problem != "" || err != nil || time.Since(due).Abs() > 5*time.Second || got["version"] != 3.0 {
			t.Errorf("got %v %s", got, problem)
		}
		if _, _, problem = ask(t, nc, "ns", "cancel", `{"id":"`+uid+`"}`); problem != "" {
			t.Fatal(problem)
		}
		for _, endpoint := range []string{"run", "reschedule"} {
			body := map[string]string{
				"run": `{"id":"` + uid + `"}`, "reschedule": `{"id":"` + uid + `","delay":"1h"}`}[endpoint]
			if got, status, problem = ask(t, nc, "ns", endpoint, body); problem != "already_canceled" ||
				status != "409" || got["at"] == nil {
				t.Errorf("%s: got %v %s %s", endpoint, got, status, problem)
			}
		}
	})
}

func TestService_ChangesManyAndReports(t *testing.T) {
	t.Parallel()
	nc, ns, timeline := bridgetest.Connect(t,
		lab.SharedNATS(t).URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
	serving(t, request.ServiceConfig{Conn: nc, Namespace: ns, Scheduler: bridgetest.Scheduling(t, nc, timeline)})
	var items []string
	for i := range 60 {
		items = append(items, fmt.Sprintf(`{"topic":"%s.%d","at":"2030-01-31T0%d:00:00Z","key":"k%d"}`,
			[]string{"orders", "mails"}[i%2], i, i%3, i%5))
	}
	if _, _, problem := ask(t, nc, ns, "push", `{"messages":[`+strings.Join(items, ",")+`]}`); problem != "" {
		t.Fatal(problem)
	}
	want := func(endpoint, body string, matched, done float64) {
		t.Helper()
		got, _, problem := ask(t, nc, ns, endpoint, body)
		if problem != "" || got["matched"] != matched || got["done"] != done || got["failed"] != 0.0 {
			t.Errorf("%s %s: got %v %s, want %v matched, %v done", endpoint, body, got, problem, matched, done)
		}
	}
	want("cancel_many", `{"topic":"orders.*","dry_run":true}`, 30, 0)
	want("reschedule_many", `{"topic":"orders.>","due_from":"2030-01-31T02:00:00Z","shift":"24h"}`, 10, 10)
	want("cancel_many", `{"due_from":"2030-02-01T02:00:00Z","due_to":"2030-02-01T02:00:00Z"}`, 10, 10)
	want("cancel_many", `{"key":"k0","topic":"mails.*"}`, 6, 6)
	if n := bridgetest.Waiting(t, timeline); n != 44 {
		t.Errorf("%d messages wait, want 44", n)
	}
	want("cancel_many", `{"all":true}`, 44, 44)
}

func TestService_RequeuesWhatIsDead(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	held := &steered{}
	serving(t, request.ServiceConfig{Conn: nc, Namespace: ns, Scheduler: held, Durable: "journal"})
	held.requeue = func(ref scheduler.Ref, r scheduler.Requeue) (scheduler.Accepted, error) {
		if ref.ID != "order" || ref.Key != "k" || r.Delay != time.Minute || !r.HasBody || string(r.Body) != "x" ||
			r.HasHeaders {
			t.Errorf("got %+v %+v", ref, r)
		}
		return scheduler.Accepted{
			UID: "t-0123456789abcdef", ID: "order", Due: 1896076800000, State: message.StateWaiting, Version: 1}, nil
	}
	got, _, problem := ask(t, nc, ns, "dead_requeue", `{"id":"order","key":"k","delay":"1m","body":"x"}`)
	if problem != "" || got["id"] != "order" || got["uid"] != "t-0123456789abcdef" || got["durable"] != "journal" ||
		got["state"] != "waiting" {
		t.Errorf("got %v %s", got, problem)
	}
	for err, word := range map[error]string{scheduler.ErrNotDead: "not_dead", scheduler.ErrDuplicateID: "duplicate_id",
		scheduler.ErrUnknownID:   "unknown_id",
		scheduler.ErrUnavailable: "unavailable", errors.New("a secret of the inside"): "internal"} {
		held.requeue = func(scheduler.Ref, scheduler.Requeue) (scheduler.Accepted, error) {
			return scheduler.Accepted{}, fmt.Errorf("requeue: %w", err)
		}
		if got, _, problem := ask(t, nc, ns, "dead_requeue", `{"id":"order"}`); problem != word ||
			strings.Contains(fmt.Sprint(got), "secret") {
			t.Errorf("%v: got %v %s", err, got, problem)
		}
	}
	held.requeue = func(scheduler.Ref, scheduler.Requeue) (scheduler.Accepted, error) {
		return scheduler.Accepted{UID: "t-0123456789abcdef", ID: "t-0123456789abcdef"}, fmt.Errorf("requeue: %w",
			scheduler.ErrOutcomeUnknown)
	}
	got, _, problem = ask(t, nc, ns, "dead_requeue", `{"id":"t-000000000000000b"}`)
	if problem != "outcome_unknown" || got["id"] != "t-000000000000000b" || got["uid"] != "t-0123456789abcdef" {
		t.Errorf("an unknown outcome: got %v %s", got, problem)
	}
}

func TestService_RefusesBadSteeringByWord(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	serving(t, request.ServiceConfig{Conn: nc, Namespace: ns, Scheduler: &steered{}})
	for _, c := range []struct{ endpoint, body, status, word string }{
		{"run", `{"id":"a","delay":"1s"}`, "400", "unknown_field"},
		{"run", ``, "400", "invalid_json"},
		{"reschedule", `{"id":"a"}`, "400", "missing_change"},
		{"reschedule", `{"delay":"1s"}`, "400", "invalid_id"},
		{"reschedule", `{"id":"a\n","delay":"1s"}`, "400", "invalid_id"},
		{"reschedule", `{"id":"a","delay":"1s","shift":"1s"}`, "400", "delay_and_at"},
		{"cancel_many", ``, "400", "empty_selection"},
		{"cancel_many", `{"topic":"a.>.b"}`, "400", "invalid_topic"},
		{"cancel_many", `{"due_from":"1s","due_to":"2001-01-31T08:00:00Z"}`, "400", "invalid_due_from"},
		{"reschedule_many", `{"topic":"a"}`, "400", "missing_change"},
		{"reschedule_many", `{"delay":"1s"}`, "400", "empty_selection"},
		{"dead_requeue", `{"topic":"a"}`, "400", "invalid_id"},
		{"dead_requeue", `{"id":"a","dry_run":true}`, "400", "invalid_dry_run"},
	} {
		if got, status, word := ask(t, nc, ns, c.endpoint, c.body); status != c.status || word != c.word ||
			got["detail"] == "" {
			t.Errorf("%s %.60s: got %s %s %v, want %s %s", c.endpoint, c.body, status, word, got, c.status, c.word)
		}
	}
}

func TestService_HoldsTheWholeMessageToTheLimitOfAPush(t *testing.T) {
	t.Parallel()
	nc, ns, timeline := bridgetest.Connect(t,
		lab.SharedNATS(t).URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
	serving(t,
		request.ServiceConfig{Conn: nc, Namespace: ns, Scheduler: bridgetest.Scheduling(t, nc, timeline), SizeLimit: 1000})
	const most = 1000 - len("X: \r\n") - 500 // for a body beside the header below
	content := func(id string, body int) string {
		return `{"id":"` + id + `","body":"` + strings.Repeat("y", body) + `"}`
	}
	answers := func(endpoint, body, want string) {
		t.Helper()
		if got, _, word := ask(t, nc, ns, endpoint, body); word != want ||
			(word == "too_large" && !strings.Contains(fmt.Sprint(got["detail"]), "the limit is 1000")) {
			t.Errorf("%s: got %v %s, want %q", endpoint, got, word, want)
		}
	}
	push := func(id string, body int, want string) {
		t.Helper()
		answers("push", `{"topic":"orders","at":"2029-01-31T08:00:00Z","id":"`+id+`","body":"`+
			strings.Repeat("x", body)+`","headers":{"X":"`+strings.Repeat("v", 500)+`"}}`, want)
	}
	stands := func(id, state string) {
		t.Helper()
		got, _, _ := ask(t, nc, ns, "get", `{"id":"`+id+`"}`)
		if headers, _ := got["headers"].(map[string]any); got["body"] != "x" || len(headers) != 1 ||
			got["state"] != state {
			t.Errorf("it is %v", got)
		}
	}
	push("large", most+1, "too_large")
	push("a", 1, "")
	answers("reschedule", content("a", most+1), "too_large")
	stands("a", "waiting")
	answers("reschedule", content("a", most), "")
	answers("reschedule", `{"id":"a","headers":{"X":"`+strings.Repeat("v", 501)+`"}}`, "too_large")
	answers("reschedule", `{"id":"a","headers":{},"body":"`+strings.Repeat("y", 1000)+`"}`, "")
	answers("reschedule", `{"id":"a","priority":9}`, "")
	answers("reschedule", content("b", 1001), "unknown_id")
	answers("cancel", `{"id":"a"}`, "")
	answers("reschedule", content("a", 1001), "already_canceled")

	push("dead", 1, "")
	giveUp(t, timeline, bridgetest.MustFind(t, timeline, scheduler.Ref{ID: "dead"}).UID)
	answers("dead_requeue", content("dead", most+1), "too_large")
	stands("dead", "dead")
	answers("dead_requeue", content("dead", most), "")
}

// giveUp ends a message that waits as dead.
func giveUp(t *testing.T, timeline scheduler.Timeline, uid message.UID) {
	t.Helper()
	const later = message.Milli(1_896_076_800_000)
	bucket := uid.Bucket(timeline.Buckets())
	if err := timeline.Begin(t.Context(), bucket, 1); err != nil {
		t.Fatal(err)
	}
	claimed, err := timeline.Claim(t.Context(), bucket,
		scheduler.Claim{Term: 1, Now: later, Limit: 100, Bytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range claimed.Messages {
		if m.UID == uid {
			end := scheduler.End{Message: m, State: message.StateDead, Reason: "as told"}
			_, err := timeline.Finish(t.Context(), bucket, 1, []scheduler.End{end}, later)
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s is not among the %d messages that are due", uid, len(claimed.Messages))
}

// steered answers as the tests set it.
type steered struct {
	request.Steerer
	requeue func(scheduler.Ref, scheduler.Requeue) (scheduler.Accepted, error)
	many    func(context.Context) (scheduler.Report, error)
}

func (s *steered) RequeueOne(_ context.Context, ref scheduler.Ref, r scheduler.Requeue) (scheduler.Accepted, error) {
	return s.requeue(ref, r)
}

func (s *steered) CancelMany(ctx context.Context, _ scheduler.Selection,
	_ func(scheduler.Report)) (scheduler.Report, error) {
	return s.many(ctx)
}

func TestService_TellsHowFarManyCame(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	begun, began := make(chan struct{}, 8), scheduler.Report{Looked: 9, Matched: 5, Done: 4, Failed: 1}
	held := &steered{many: func(ctx context.Context) (scheduler.Report, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return began, fmt.Errorf("browse: %w", scheduler.ErrUnavailable) // as a store says whose call was ended
	}}
	s, err := request.NewService(
		request.ServiceConfig{Conn: nc, Namespace: ns, Prefix: "delayed", Scheduler: held, Log: bridgetest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }() // waited for below
	answers := make(chan *nats.Msg, 8)
	inbox := nc.NewInbox()
	if _, err := nc.ChanSubscribe(inbox, answers); err != nil {
		t.Fatal(err)
	}
	send := func() {
		if err := nc.PublishRequest("tarry."+ns+".api.cancel_many", inbox, []byte(`{"all":true}`)); err != nil {
			t.Fatal(err)
		}
	}
	lab.Eventually(t, 10*time.Second, func() error {
		send()
		select {
		case <-begun:
			return nil
		case m := <-answers: // nobody listens yet
			return fmt.Errorf("got %v %s", m.Header, m.Data)
		}
	})
	for range 3 { // with the first, as many as run at once
		send()
		<-begun
	}
	send()
	if m := <-answers; m.Header.Get(micro.ErrorHeader) != "busy" {
		t.Errorf("the fifth: got %v %s", m.Header, m.Data)
	}
	stop()
	for range 4 {
		m := <-answers
		if m.Header.Get(micro.ErrorHeader) != "stopping" || m.Header.Get(micro.ErrorCodeHeader) != "503" ||
			!strings.Contains(string(m.Data), `"report":{"looked":9,"matched":5,"done":4,`) {
			t.Errorf("got %v %s", m.Header, m.Data)
		}
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	held.many = func(context.Context) (scheduler.Report, error) { return began, scheduler.ErrFull }
	ns = bridgetest.NewNamespace()
	serving(t, request.ServiceConfig{Conn: nc, Namespace: ns, Scheduler: held})
	if got, status, word := ask(t, nc, ns, "cancel_many", `{"all":true}`); word != "store_full" || status != "503" ||
		got["report"].(map[string]any)["done"] != 4.0 {
		t.Errorf("got %v %s %s", got, status, word)
	}
}
