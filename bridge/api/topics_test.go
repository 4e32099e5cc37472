package api_test

import (
	"fmt"
	"testing"

	"github.com/tarry-mq/tarry/scheduler"
)

func TestTopics_ShowsWhatThereIsAndWhatIsPaused(t *testing.T) {
	t.Parallel()
	s := &steering{}
	d := open(t, steered(s))
	if a := call(t, d, "GET", "/v1/topics", "").want(t, 200, ""); a.raw != `{"topics":[],"paused":[],"more":false}`+"\n" {
		t.Errorf("got %s", a.raw)
	}
	s.counts = []scheduler.TopicCount{{Topic: "a", Waiting: 1, InFlight: 2}, {Topic: "b", Dead: 3}}
	s.pauses = []scheduler.Pause{{Pattern: "orders.>", By: "10.0.0.1", At: later}}
	want := `{"topics":[{"topic":"a","waiting":1,"in_flight":2,"dead":0},{"topic":"b","waiting":0,"in_flight":0,"dead":3}],` +
		`"paused":[{"pattern":"orders.>","by":"10.0.0.1","at":"2030-01-31T08:00:00.000Z"}],"more":false}` + "\n"
	for _, target := range []string{"/v1/topics", "/v1/topics?limit=2"} {
		if a := call(t, d, "GET", target, "").want(t, 200, ""); a.raw != want {
			t.Errorf("got %s\nwant %s", a.raw, want)
		}
	}
	if a := call(t, d, "GET", "/v1/topics?limit=1", "").want(t, 200, ""); a.json["more"] != true || fmt.Sprint(a.json["topics"]) != "[map[dead:0 in_flight:2 topic:a waiting:1]]" {
		t.Errorf("got %s", a.raw)
	}
}

func TestTopic_ShowsThePauseThatHoldsItBack(t *testing.T) {
	t.Parallel()
	s := &steering{counts: []scheduler.TopicCount{{Topic: "orders.remind", Waiting: 7}}}
	d := open(t, steered(s))
	get := func(topic string) string {
		return call(t, d, "GET", "/v1/topics/"+topic, "").want(t, 200, "").raw
	}
	if got := get("orders.remind"); got != `{"topic":"orders.remind","waiting":7,"in_flight":0,"dead":0,"paused":null}`+"\n" {
		t.Errorf("got %s", got)
	}
	s.pauses = []scheduler.Pause{{Pattern: "mail.>", By: "x", At: later}, {Pattern: "orders.*", By: "y", At: later}, {Pattern: "orders.remind", By: "z", At: later}}
	if got := get("orders.remind"); got != `{"topic":"orders.remind","waiting":7,"in_flight":0,"dead":0,"paused":{"pattern":"orders.remind","by":"z","at":"2030-01-31T08:00:00.000Z"}}`+"\n" {
		t.Errorf("got %s", got)
	}
	if got := get("orders.cancel"); got != `{"topic":"orders.cancel","waiting":0,"in_flight":0,"dead":0,"paused":{"pattern":"orders.*","by":"y","at":"2030-01-31T08:00:00.000Z"}}`+"\n" {
		t.Errorf("got %s", got)
	}
	if got := get("orders"); got != `{"topic":"orders","waiting":0,"in_flight":0,"dead":0,"paused":null}`+"\n" {
		t.Errorf("got %s", got)
	}
	get("a%2Fb") // a slash may stand in a topic
	if asked := s.take(); asked[len(asked)-1] != countAsked("a/b") {
		t.Errorf("asked for %+v", asked)
	}
}

func TestPause_AndResumeSayWhatStands(t *testing.T) {
	t.Parallel()
	s := &steering{was: true}
	d := open(t, steered(s))
	for _, target := range []string{"/v1/topics/orders.%3E", "/v1/topics/orders.>"} {
		if a := call(t, d, "POST", target+"/pause", "").want(t, 200, ""); a.raw != `{"pattern":"orders.>","paused":true,"by":"192.0.2.1"}`+"\n" {
			t.Errorf("got %s", a.raw)
		}
		if a := call(t, d, "POST", target+"/resume", "").want(t, 200, ""); a.raw != `{"pattern":"orders.>","paused":false}`+"\n" {
			t.Errorf("got %s", a.raw)
		}
	}
	s.was = false
	call(t, d, "POST", "/v1/topics/orders.created/resume", "").want(t, 404, "not_paused")
	s.err = fmt.Errorf("pause: %w", scheduler.ErrTooManyPauses)
	call(t, d, "POST", "/v1/topics/a/pause", "").want(t, 409, "too_many_pauses")
}
