package request_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/steer"
)

// service is what the operations ask: a scheduler, and nothing else that it has not.
type service struct {
	*steer.Scheduler
	rest
}

// rest is deeper in it than what a scheduler has.
type rest struct{ deeper }

type deeper struct{ ops.Service }

// operations returns those of a service; nothing bounds a message but the server, if limit is 0.
func operations(t testing.TB, nc *nats.Conn, s ops.Service, limit int) *ops.Ops {
	return ops.New(ops.Config{Service: s, Prefix: "delayed", MaxPayload: nc.MaxPayload, SizeLimit: limit,
		Timeout: 5 * time.Second, Now: time.Now, Log: bridgetest.Logger(t)})
}

// serving runs the request API and waits until it answers.
func serving(t testing.TB, cfg request.ServiceConfig) {
	t.Helper()
	cfg.Log = bridgetest.Logger(t)
	if cfg.Prefix == "" {
		cfg.Prefix = "delayed"
	}
	if s, ok := cfg.Scheduler.(*steer.Scheduler); ok && cfg.Ops == nil {
		cfg.Ops = operations(t, cfg.Conn, service{Scheduler: s}, cfg.SizeLimit)
	}
	s, err := request.NewService(cfg)
	if err != nil {
		t.Fatal(err)
	}
	bridgetest.RunFor(t, s.Run)
	lab.Eventually(t, 10*time.Second, func() error {
		_, err := cfg.Conn.Request("tarry."+cfg.Namespace+".api.run", nil, time.Second) // the last that is offered
		return err
	})
}

// ask sends a request and reads the answer; problem is its word, empty for a success.
func ask(t testing.TB, nc *nats.Conn, ns, endpoint, body string) (answer map[string]any, status, problem string) {
	t.Helper()
	msg, err := nc.Request("tarry."+ns+".api."+endpoint, []byte(body), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		t.Fatalf("%s %s: %q: %v", endpoint, body, msg.Data, err)
	}
	status, problem = msg.Header.Get(micro.ErrorCodeHeader), msg.Header.Get(micro.ErrorHeader)
	if word, _ := answer["error"].(string); word != problem {
		t.Errorf("%s %s: the header says %q, the body %q", endpoint, body, problem, word)
	}
	return answer, status, problem
}

func TestService_PushesCancelsAndTells(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewTimeline(t)
		serving(t, request.ServiceConfig{Conn: nc, Namespace: "ns", Scheduler: bridgetest.Scheduling(t, nc, timeline),
			Instance: "one", Version: "v1.2.3"})

		got, _, problem := ask(t, nc, "ns", "push",
			`{"topic":"orders","delay":"20m","id":"order-7131","key":"c","body":"x","headers":{"a":"1"}}`)
		if problem != "" || got["id"] != "order-7131" || got["state"] != "waiting" || got["durable"] != "redis" ||
			!message.IsUID(got["uid"].(string)) {
			t.Fatalf("got %v %s", got, problem)
		}
		uid, due := got["uid"].(string), got["due"].(string)
		got, _, problem = ask(t, nc, "ns", "push",
			`{"topic":"orders","delay":"20m","id":"order-7131","key":"c","body":"x","headers":{"a":"1"}}`)
		if problem != "" || got["duplicate"] != true || got["uid"] != uid || got["due"] != due {
			t.Errorf("the retry: got %v %s", got, problem)
		}
		got, status, problem := ask(t, nc, "ns", "push",
			`{"topic":"orders","delay":"21m","id":"order-7131","key":"c","body":"x"}`)
		if problem != "duplicate_id" || status != "409" || got["uid"] != uid {
			t.Errorf("other content: got %v %s %s", got, status, problem)
		}

		got, _, problem = ask(t, nc, "ns", "get", `{"id":"order-7131"}`)
		if problem != "" || got["uid"] != uid || got["topic"] != "orders" || got["body"] != "x" || got["due"] != due ||
			got["key"] != "c" {
			t.Errorf("got %v %s", got, problem)
		}
		if got, _, problem = ask(t, nc, "ns", "get", `{"id":"`+uid+`"}`); problem != "" || got["id"] != "order-7131" {
			t.Errorf("by uid: got %v %s", got, problem)
		}

		if got, _, problem = ask(t, nc, "ns", "cancel", `{"id":"order-7131","key":"c"}`); problem != "" ||
			got["state"] != "canceled" || got["uid"] != uid {
			t.Errorf("got %v %s", got, problem)
		}
		if _, status, problem = ask(t, nc, "ns", "cancel", `{"id":"nobody"}`); problem != "unknown_id" ||
			status != "404" {
			t.Errorf("got %s %s", status, problem)
		}
		if n := bridgetest.Waiting(t, timeline); n != 0 {
			t.Errorf("%d messages wait", n)
		}
	})
}

func TestService_RefusesBadInputByWord(t *testing.T) {
	t.Parallel()
	nc, ns, timeline := bridgetest.Connect(t,
		lab.SharedNATS(t).URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
	serving(t,
		request.ServiceConfig{Conn: nc, Namespace: ns, Scheduler: bridgetest.Scheduling(t, nc, timeline), SizeLimit: 1000})
	for _, c := range []struct{ endpoint, body, status, word string }{
		{"push", ``, "400", "invalid_json"},
		{"push", `{"topic":"a.*","delay":"1s"}`, "400", "invalid_topic"},
		{"push", `{"topic":"delayed.a","delay":"1s"}`, "400", "invalid_topic"},
		{"push", `{"topic":"a","delay":"1s","body":"` + strings.Repeat("x", 1001) + `"}`, "413", "too_large"},
		{"push", `{"messages":[]}`, "400", "invalid_json"},
		{"push", `{"topic":"a","at":"2600-01-01T00:00:00Z"}`, "400", "too_far"},
		{"push", `{"topic":"a","delay":"1s","id":"t-0123456789abcdef"}`, "409", "stale_uid"},
		{"cancel", `{"id":""}`, "400", "invalid_id"},
		{"cancel", `{"id":"a","why":"b"}`, "400", "unknown_field"},
		{"get", `{"id":"nobody"}`, "404", "unknown_id"},
		{"get", `{"id":"t-0123456789abcdef"}`, "404", "unknown_id"},
	} {
		if got, status, word := ask(t, nc, ns, c.endpoint, c.body); status != c.status || word != c.word ||
			got["detail"] == "" {
			t.Errorf("%s %.60s: got %s %s %v, want %s %s", c.endpoint, c.body, status, word, got, c.status, c.word)
		}
	}
	if n := bridgetest.Waiting(t, timeline); n != 0 {
		t.Errorf("%d messages wait", n)
	}
}

func TestService_RefusesAUIDThatNoPushWasAnsweredWith(t *testing.T) {
	t.Parallel()
	nc, ns, timeline := bridgetest.Connect(t,
		lab.SharedNATS(t).URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
	serving(t, request.ServiceConfig{Conn: nc, Namespace: ns, Scheduler: bridgetest.Scheduling(t, nc, timeline)})
	coming, err := message.IntakeUID(1, time.Now().Add(time.Second), "", "")
	if err != nil {
		t.Fatal(err)
	}
	push := fmt.Sprintf(`{"topic":"a","delay":"1h","id":%q}`, coming)
	got, status, problem := ask(t, nc, ns, "push", push)
	if detail, _ := got["detail"].(string); problem != "invalid_id" || status != "400" ||
		!strings.Contains(detail, "the id "+string(coming)) {
		t.Errorf("got %v %s", got, status)
	}
	got, _, _ = ask(t, nc, ns, "push", `{"messages":[`+push+`,{"topic":"a","delay":"1h"}]}`)
	results, _ := got["results"].([]any)
	if len(results) != 2 || results[0].(map[string]any)["error"] != "invalid_id" ||
		results[1].(map[string]any)["state"] != "waiting" {
		t.Errorf("got %v", got)
	}
	if n := bridgetest.Waiting(t, timeline); n != 1 {
		t.Errorf("%d messages wait, want the one good push", n)
	}
}

func TestService_AnswersABatchInOrder(t *testing.T) {
	t.Parallel()
	nc, ns, timeline := bridgetest.Connect(t,
		lab.SharedNATS(t).URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
	serving(t, request.ServiceConfig{Conn: nc, Namespace: ns, Scheduler: bridgetest.Scheduling(t, nc, timeline)})
	var items []string
	for i := range ops.MaxBatch {
		if i%10 == 3 {
			items = append(items, `{"topic":"bad..topic","delay":"1s"}`)
		} else {
			items = append(items, fmt.Sprintf(`{"topic":"a","delay":"1h","id":"id-%d"}`, i))
		}
	}
	got, _, problem := ask(t, nc, ns, "push", `{"messages":[`+strings.Join(items, ",")+`]}`)
	results, _ := got["results"].([]any)
	if problem != "" || len(results) != ops.MaxBatch {
		t.Fatalf("got %d results, %s", len(results), problem)
	}
	for i, r := range results {
		one := r.(map[string]any)
		if i%10 == 3 {
			if one["error"] != "invalid_topic" {
				t.Fatalf("result %d: %v", i, one)
			}
		} else if one["id"] != fmt.Sprintf("id-%d", i) || one["state"] != "waiting" {
			t.Fatalf("result %d: %v", i, one)
		}
	}
	if n := bridgetest.Waiting(t, timeline); n != 900 {
		t.Errorf("%d messages wait, want 900", n)
	}
}

func TestService_OmitsABodyThatDoesNotFitTheAnswer(t *testing.T) {
	t.Parallel()
	nc, ns, timeline := bridgetest.Connect(t,
		lab.SharedNATS(t).URL()), bridgetest.NewNamespace(), bridgetest.NewTimeline(t)
	s := bridgetest.Scheduling(t, nc, timeline)
	serving(t, request.ServiceConfig{Conn: nc, Namespace: ns, Scheduler: s})
	body := make([]byte, 900<<10) // in base64 beyond max_payload
	for i := range body {
		body[i] = 0xff
	}
	a := s.AcceptAll(t.Context(), []*scheduler.Push{{ID: "large", Topic: "a", Body: body, Delay: time.Hour}})[0]
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	got, _, problem := ask(t, nc, ns, "get", `{"id":"large"}`)
	if problem != "" || got["body_omitted"] != true || got["topic"] != "a" {
		t.Errorf("got %v %s", got, problem)
	}
}

func TestService_ShowsInMicroAndWorksWithoutJetStream(t *testing.T) {
	t.Parallel()
	server := lab.NewNATS(t, lab.NoJetStream())
	nc, timeline := bridgetest.Connect(t, server.URL()), bridgetest.NewTimeline(t)
	s := bridgetest.Scheduling(t, nc, timeline)
	serving(t, request.ServiceConfig{Conn: nc, Namespace: "ns", Scheduler: s, Instance: "one", Version: "v1.2.3"})
	msg, err := nc.Request("$SRV.INFO.tarry", nil, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(msg.Data, &info); err != nil {
		t.Fatal(err)
	}
	subjects := map[string]bool{}
	for _, e := range info.Endpoints {
		subjects[e.Subject] = true
	}
	if info.Version != "1.2.3" || info.Metadata["namespace"] != "ns" || info.Metadata["instance"] != "one" ||
		len(subjects) != 24 || !subjects["tarry.ns.push.>"] {
		t.Errorf("got %+v", info)
	}
	for _, name := range []string{"push", "get", "cancel", "run", "reschedule"} {
		if !subjects["tarry.ns.api."+name] {
			t.Errorf("there is no %s: %v", name, subjects)
		}
	}
	if got, _, problem := ask(t, nc, "ns", "push", `{"topic":"a","delay":"1h"}`); problem != "" ||
		got["id"] != got["uid"] {
		t.Errorf("got %v %s", got, problem)
	}
	for subject, want := range map[string]string{
		"$SRV.PING": micro.PingResponseType, "$SRV.PING.tarry." + info.ID: micro.PingResponseType,
		"$SRV.INFO.tarry." + info.ID: micro.InfoResponseType,
	} {
		if m, err := nc.Request(subject, nil, 5*time.Second); err != nil ||
			!strings.Contains(string(m.Data), `"type":"`+want+`"`) || !strings.Contains(string(m.Data), info.ID) {
			t.Errorf("%s: got %v, %v", subject, m, err)
		}
	}
	// a request is counted once it is handled, its answer may come before
	lab.Eventually(t, 10*time.Second, func() error {
		msg, err := nc.Request("$SRV.STATS.tarry."+info.ID, nil, 5*time.Second)
		if err != nil {
			return err
		}
		var stats micro.Stats
		if err := json.Unmarshal(msg.Data, &stats); err != nil || stats.Type != micro.StatsResponseType ||
			stats.Started.IsZero() || len(stats.Endpoints) != 24 {
			return fmt.Errorf("got %s, %w", msg.Data, err)
		}
		for _, e := range stats.Endpoints {
			asked := e.Name == "push" || e.Name == "cancel"
			pushed := e.Name == "push"
			if asked && ((e.NumRequests == 1) != pushed || (e.ProcessingTime > 0) != pushed ||
				e.AverageProcessingTime != e.ProcessingTime) {
				return fmt.Errorf("got %+v", e)
			}
		}
		return nil
	})
	// A push nobody waits for is kept all the same.
	if err := nc.Publish("tarry.ns.api.push", []byte(`{"topic":"a","delay":"1h"}`)); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, 10*time.Second, func() error {
		if n := bridgetest.Waiting(t, timeline); n != 2 {
			return fmt.Errorf("%d messages wait", n)
		}
		return nil
	})
}

// slow answers when it is let; what it has no method for is not asked of it.
type slow struct {
	ops.Service
	waiting chan func(scheduler.Accepted)
}

func (s *slow) Accept(_ *scheduler.Push, done func(scheduler.Accepted)) { s.waiting <- done }
func (s *slow) Get(ctx context.Context, _ scheduler.Ref) (message.Info, error) {
	<-ctx.Done()
	return message.Info{}, context.Cause(ctx)
}
func (s *slow) Cancel(ctx context.Context, _ scheduler.Ref) (scheduler.CancelResult, error) {
	return scheduler.CancelResult{}, errors.New("a secret of the inside")
}

func TestService_IsBusyBeforeItIsFull(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	held := &slow{waiting: make(chan func(scheduler.Accepted), 10_000)}
	serving(t, request.ServiceConfig{Conn: nc, Namespace: ns, Scheduler: held,
		Ops: operations(t, nc, held, 0)})
	answers := make(chan *nats.Msg, 10_000)
	inbox := nc.NewInbox()
	if _, err := nc.ChanSubscribe(inbox, answers); err != nil {
		t.Fatal(err)
	}
	const n = 3000
	for range n {
		if err := nc.PublishRequest("tarry."+ns+".api.push", inbox, []byte(`{"topic":"a","delay":"1h"}`)); err != nil {
			t.Fatal(err)
		}
	}
	busy := 0
	for busy < n-2000 {
		msg := <-answers
		if word := msg.Header.Get(micro.ErrorHeader); word != "busy" {
			t.Fatalf("got %q %s", word, msg.Data)
		}
		busy++
	}
	for range 2000 {
		done := <-held.waiting
		done(scheduler.Accepted{UID: "t-0123456789abcdef", State: message.StateWaiting})
	}
	for range 2000 {
		if msg := <-answers; msg.Header.Get(micro.ErrorHeader) != "" {
			t.Fatalf("got %s", msg.Data)
		}
	}
	if got, status, word := ask(t, nc, ns, "cancel", `{"id":"a"}`); status != "500" || word != "internal" ||
		strings.Contains(fmt.Sprint(got), "secret") {
		t.Errorf("got %v %s %s", got, status, word)
	}
	if _, status, word := ask(t, nc, ns, "get", `{"id":"a"}`); status != "504" || word != "outcome_unknown" {
		t.Errorf("got %s %s", status, word)
	}
}
