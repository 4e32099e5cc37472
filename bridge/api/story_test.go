package api_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// TestSteering_TellsTheStoryOfAMessage goes through the routes with a real scheduler behind them.
func TestSteering_TellsTheStoryOfAMessage(t *testing.T) {
	t.Parallel()
	d := open(t)
	first := call(t, d, "POST", "/v1/messages",
		`{"topic":"orders.created","at":"2029-01-01T00:00:00Z","id":"a","key":"k","body":"one"}`).want(t, 201, "")
	tag := call(t, d, "GET", "/v1/messages/a?key=k", "").want(t, 200, "").header.Get("ETag")
	a := call(t, d, "PATCH", "/v1/messages/a?key=k", `{"shift":"1h","priority":9,"headers":{"X":"1"}}`, "If-Match",
		tag).want(t, 200, "")
	if a.json["due"] != "2029-01-01T01:00:00.000Z" || a.json["version"] != 2.0 || a.json["priority"] != 9.0 ||
		a.json["uid"] != first.json["uid"] {
		t.Errorf("got %s", a.raw)
	}
	if a := call(t, d, "PATCH", "/v1/messages/a", `{"body":"two"}`, "If-Match", `"7"`).want(
		t, 412, "version_mismatch"); a.json["version"] != 2.0 || a.header.Get("ETag") != `"2"` {
		t.Errorf("got %s", a.raw)
	}
	call(t, d, "PATCH", "/v1/messages/a", `{"body":"two"}`, "If-Match", a.header.Get("ETag")).want(t, 200, "")
	if a := call(t, d, "GET", "/v1/messages/a", "").want(t, 200, ""); a.json["body"] != "two" ||
		fmt.Sprint(a.json["headers"]) != "map[X:[1]]" || a.header.Get("ETag") != `"3"` {
		t.Errorf("got %s", a.raw)
	}
	if a := call(t, d, "GET", "/v1/topics", "").want(t, 200, ""); fmt.Sprint(
		a.json["topics"]) != "[map[dead:0 in_flight:0 leased:0 ready:0 topic:orders.created waiting:1]]" {
		t.Errorf("got %s", a.raw)
	}
	if a := call(t, d, "POST", "/v1/messages/cancel", `{"key":"other"}`).want(t, 200, ""); a.json["matched"] != 0.0 {
		t.Errorf("got %s", a.raw)
	}
	if a := call(t, d, "POST", "/v1/messages/reschedule", `{"topic":"orders.*","at":1896076799000}`).want(
		t, 200, ""); a.json["done"] != 1.0 {
		t.Errorf("got %s", a.raw)
	}
	call(t, d, "POST", "/v1/dead/requeue", `{"id":"a"}`).want(t, 409, "not_dead")
	d.end(t, message.StateDead, false)
	call(t, d, "PATCH", "/v1/messages/a", `{"delay":"1ms"}`).want(t, 409, "already_dead")
	call(t, d, "POST", "/v1/messages/a/run", "").want(t, 409, "already_dead")
	list := call(t, d, "GET", "/v1/dead?topic=orders.%3E", "").want(t, 200, "")
	if messages, _ := list.json["messages"].([]any); len(messages) != 1 {
		t.Errorf("got %s", list.raw)
	}
	if list = call(t, d, "GET", "/v1/dead?topic=mail.%3E", "").want(t, 200, ""); list.raw != `{"messages":[]}`+"\n" {
		t.Errorf("got %s", list.raw)
	}
	again := call(t, d, "POST", "/v1/dead/requeue", `{"id":"a","key":"k","delay":"1h","body":"three"}`).want(t, 200, "")
	if again.json["uid"] == first.json["uid"] || again.json["state"] != "waiting" {
		t.Errorf("got %s", again.raw)
	}
	call(t, d, "POST", "/v1/messages/a/run?key=k", "").want(t, 200, "")
	d.end(t, message.StateDead, false)
	results, _ := call(t, d, "POST", "/v1/dead/purge", fmt.Sprintf(`{"ids":[%q,%q,"b"]}`, again.json["uid"],
		first.json["uid"])).want(t, 200, "").json["results"].([]any)
	if fmt.Sprint(results[0]) != fmt.Sprintf("map[id:%s purged:true]", again.json["uid"]) || len(results) != 3 {
		t.Errorf("got %v", results)
	}
	for i, word := range []any{nil, "not_dead", "unknown_id"} {
		if r, _ := results[i].(map[string]any); r["error"] != word {
			t.Errorf("%d: got %v, want %v", i, r, word)
		}
	}
	call(t, d, "POST", "/v1/topics/orders.%3E/pause", "").want(t, 200, "")
	if a := call(t, d, "GET", "/v1/topics/orders.created", "").want(t, 200, ""); a.json["waiting"] != 0.0 ||
		a.json["paused"] == nil {
		t.Errorf("got %s", a.raw)
	}
	call(t, d, "POST", "/v1/topics/orders.*/resume", "").want(t, 404, "not_paused")
	call(t, d, "POST", "/v1/topics/orders.%3E/resume", "").want(t, 200, "")
}

func TestPush_RefusesAUIDThatNoPushWasAnsweredWith(t *testing.T) {
	t.Parallel()
	d := open(t)
	coming, err := message.IntakeUID(1, time.Now().Add(time.Second), "", "")
	if err != nil {
		t.Fatal(err)
	}
	push := fmt.Sprintf(`{"topic":"orders","delay":"1h","id":%q}`, coming)
	call(t, d, "POST", "/v1/messages", push).want(t, 400, "invalid_id")
	batch := call(t, d, "POST", "/v1/messages/batch", `{"messages":[`+push+`]}`).want(t, 200, "")
	results, _ := batch.json["results"].([]any)
	if len(results) != 1 || results[0].(map[string]any)["error"] != "invalid_id" {
		t.Errorf("got %s", batch.raw)
	}
	call(t, d, "GET", "/v1/messages/"+string(coming), "").want(t, 404, "unknown_id")
}

func TestPush_MergesWhenItIsAskedTo(t *testing.T) {
	t.Parallel()
	d := open(t)
	first := call(t, d, "POST", "/v1/messages", hourly(`,"id":"a","body":"one"`)).want(t, 201, "")
	for _, c := range []struct{ how, body, stays string }{{"keep", "two", "one"}, {"replace", "three", "three"},
		{"debounce", "four", "four"}} {
		a := call(t, d, "POST", "/v1/messages",
			hourly(`,"id":"a","on_duplicate":"`+c.how+`","body":"`+c.body+`"`)).want(t, 200, "")
		if a.json["merged"] != true || a.json["uid"] != first.json["uid"] {
			t.Errorf("%s: got %s", c.how, a.raw)
		}
		if a := call(t, d, "GET", "/v1/messages/a", "").want(t, 200, ""); a.json["body"] != c.stays {
			t.Errorf("%s: got %s", c.how, a.raw)
		}
	}
	if n := d.stored(t); n != 1 {
		t.Errorf("%d messages wait", n)
	}
}
