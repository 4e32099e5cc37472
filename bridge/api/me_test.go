package api_test

import (
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestMe_TellsATokenWhatItMayDo(t *testing.T) {
	t.Parallel()
	d := open(t, letting(crowd()...))
	for name, want := range map[string]string{
		"shop":   `"open":false,"read":false,"operate":false,"bodies":false,"push":["orders.>","mail.*"],"pull":[]`,
		"ops":    `"open":false,"read":true,"operate":true,"bodies":true,"push":[],"pull":[]`,
		"puller": `"open":false,"read":false,"operate":false,"bodies":false,"push":[],"pull":[">"]`,
	} {
		a := call(t, d, "GET", "/v1/me", "", as(name)...).want(t, 200, "")
		if !strings.Contains(a.raw, `{"name":"`+name+`",`+want+`,"namespace":"test","instance":"one","version":"v1.2.3"`) {
			t.Errorf("%s is told %s", name, a.raw)
		}
	}
	call(t, d, "GET", "/v1/me", "").want(t, 401, "unauthorized")
	if a := call(t, open(t), "GET", "/v1/me", ""); !strings.Contains(a.raw,
		`{"name":"anonymous","open":true,"read":true,"operate":true,"bodies":true,"push":[">"],"pull":[">"]`) {
		t.Errorf("without tokens it tells %s", a.raw)
	}
}

// A token that is not to see bodies may operate all the same, but for what it would have to see.
func TestBodies_AreHiddenFromATokenWithoutThem(t *testing.T) {
	t.Parallel()
	blind, sighted := token("blind", nil, true, true), token("sighted", nil, true, true)
	blind.Blind = true
	one := info(uidA, "orders.x", message.StateWaiting)
	one.Body, one.Headers = []byte("secret"), []message.Header{{Name: "Patient", Value: "secret"}}
	s := newCounting()
	s.found[scheduler.Ref{ID: "a"}] = one
	d := open(t, letting(blind, sighted), rejecting(newRejects()), with(s))
	for _, c := range []struct {
		method, target, body string
		edits                bool
	}{
		{"GET", "/v1/messages/a", "", false}, {"GET", "/v1/rejects/1", "", false},
		{"PATCH", "/v1/messages/a", `{"delay":"1h"}`, false}, {"PATCH", "/v1/messages/a", `{"body":"x"}`, true},
		{"PATCH", "/v1/messages/a", `{"headers":{"a":"b"}}`, true},
		{"POST", "/v1/dead/requeue", `{"id":"a"}`, false}, {"POST", "/v1/dead/requeue", `{"id":"a","body":"x"}`, true},
	} {
		seen := call(t, d, c.method, c.target, c.body, as("sighted")...)
		hidden := call(t, d, c.method, c.target, c.body, as("blind")...)
		if c.edits {
			hidden.want(t, 403, "forbidden")
		} else if hidden.status != seen.status || strings.Contains(hidden.raw, "secret") || hidden.json["body"] != nil ||
			hidden.json["headers"] != nil {
			t.Errorf("%s %s: %d %s", c.method, c.target, hidden.status, hidden.raw)
		}
		if seen.word() == "forbidden" || c.method == "GET" && seen.json["headers"] == nil {
			t.Errorf("%s %s for one that may see: %s", c.method, c.target, seen.raw)
		}
	}
}
