package request_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/deploy/lab"
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

func TestService_RefusesBadSteeringByWord(t *testing.T) {
	t.Parallel()
	nc, ns := bridgetest.Connect(t, lab.SharedNATS(t).URL()), bridgetest.NewNamespace()
	serving(t, request.ServiceConfig{Conn: nc, Namespace: ns, Scheduler: &slow{},
		Ops: operations(t, nc, &slow{}, 0)})
	for _, c := range []struct{ endpoint, body, status, word string }{
		{"run", `{"id":"a","delay":"1s"}`, "400", "unknown_field"},
		{"run", ``, "400", "invalid_id"},
		{"reschedule", `{"id":"a"}`, "400", "missing_change"},
		{"reschedule", `{"delay":"1s"}`, "400", "invalid_id"},
		{"reschedule", `{"id":"a\n","delay":"1s"}`, "400", "invalid_id"},
		{"reschedule", `{"id":"a","delay":"1s","shift":"1s"}`, "400", "delay_and_at"},
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
}
