package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

func TestTopics_ShowsWhatThereIsAndWhatIsPaused(t *testing.T) {
	t.Parallel()
	s := &steering{}
	d := open(t, steered(s))
	if a := call(t, d, "GET", "/v1/topics", "").want(t, 200, ""); a.raw != `{"topics":[],"paused":[]}`+"\n" {
		t.Errorf("got %s", a.raw)
	}
	s.counts = []scheduler.TopicCount{{Topic: "a", Waiting: 1, InFlight: 2}, {Topic: "b", Dead: 3}}
	s.pauses = []scheduler.Pause{{Pattern: "orders.>", By: "10.0.0.1", At: later}}
	want := `{"topics":[{"topic":"a","waiting":1,"ready":0,"in_flight":2,"leased":0,"dead":0},` +
		`{"topic":"b","waiting":0,"ready":0,"in_flight":0,"leased":0,"dead":3}],` +
		`"paused":[{"pattern":"orders.>","by":"10.0.0.1","at":"2030-01-31T08:00:00.000Z"}]}` + "\n"
	for _, target := range []string{"/v1/topics", "/v1/topics?limit=2"} {
		if a := call(t, d, "GET", target, "").want(t, 200, ""); a.raw != want {
			t.Errorf("got %s\nwant %s", a.raw, want)
		}
	}
	s.pauses = append(s.pauses, scheduler.Pause{Pattern: "*", By: "ann", At: later},
		scheduler.Pause{Pattern: "b", By: "bob", At: later})
	paused := map[string]string{}
	for _, one := range call(t, d, "GET", "/v1/topics", "").want(t, 200, "").json["topics"].([]any) {
		topic := one.(map[string]any)
		paused[topic["topic"].(string)] = topic["paused"].(map[string]any)["by"].(string)
	}
	if fmt.Sprint(paused) != "map[a:ann b:bob]" { // its own, or one that matches
		t.Errorf("paused by %v", paused)
	}
	s.pauses = nil
	if a := call(t, d, "GET", "/v1/topics?limit=1", "").want(t, 200, ""); a.json["cursor"] == nil ||
		fmt.Sprint(a.json["topics"]) != "[map[dead:0 in_flight:2 leased:0 ready:0 topic:a waiting:1]]" {
		t.Errorf("got %s", a.raw)
	}
}

func TestParked_IsSaidInWordsWhereverItIsRead(t *testing.T) {
	t.Parallel()
	const why = "nobody listens on odd.x; next try in 3 s"
	s := &steering{counts: []scheduler.TopicCount{{Topic: "odd.x", Waiting: 1}},
		parked: map[string]string{"odd.x": why}}
	held, ahead := recordOf(uidA, "a", 1, message.StateWaiting), recordOf(uidB, "b", later, message.StateWaiting)
	held.Topic, ahead.Topic = "odd.x", "odd.x"
	ahead.Due = message.CeilMilli(noon.Add(time.Hour))
	d := open(t, keeping(&journal{records: []record.Record{held, ahead}}), func(c *api.Config) { steered(s)(c) })
	for target, times := range map[string]int{"/v1/topics": 1, "/v1/topics/odd.x": 1, "/v1/messages": 1,
		"/v1/cluster": 1} {
		if a := call(t, d, "GET", target, "").want(t, 200, ""); strings.Count(a.raw, why) != times {
			t.Errorf("%s says it %d times, want %d: %s", target, strings.Count(a.raw, why), times, a.raw)
		}
	}
	s.err = scheduler.ErrUnavailable
	for _, target := range []string{"/v1/messages", "/v1/cluster"} { // what else they say does not wait for the store
		if a := call(t, d, "GET", target, "").want(t, 200, ""); strings.Contains(a.raw, "parked") {
			t.Errorf("got %s", a.raw)
		}
	}
}

func TestHeld_HasTheMostFirst(t *testing.T) {
	t.Parallel()
	s := &steering{counts: []scheduler.TopicCount{{Topic: "jobs", Ready: 5}, {Topic: "none"}, {Topic: "tasks", Ready: 2}},
		parked: map[string]string{"odd.x": "nobody listens on odd.x"}}
	ask := func() reply { return call(t, open(t, steered(s)), "GET", "/v1/held", "") } // each of a server of its own
	want := `{"groups":[{"name":"jobs","count":5,"word":"unpulled","detail":"ready","since":"1970-01-01T00:00:03.000Z",` +
		`"by":"ann"},{"name":"odd.x","count":3,"oldest":"1970-01-01T00:00:01.000Z","word":"no_listener",` +
		`"detail":"nobody listens on odd.x","next":"1970-01-01T00:00:02.000Z"},` +
		`{"name":"tasks","count":2,"word":"unpulled","detail":"ready","since":"1970-01-01T00:00:03.000Z","by":"ann"}],` +
		`"more":false}` + "\n"
	if a := ask().want(t, 200, ""); a.raw != want {
		t.Errorf("got %s\nwant %s", a.raw, want)
	}
	s.part = true
	if a := ask().want(t, 200, ""); a.json["more"] != true {
		t.Errorf("of a part: %s", a.raw)
	}
	s.part, s.counts = false, nil
	for i := range ops.MaxGroups {
		s.counts = append(s.counts, scheduler.TopicCount{Topic: fmt.Sprint(i), Ready: 1})
	}
	a := ask().want(t, 200, "")
	if groups, _ := a.json["groups"].([]any); len(groups) != ops.MaxGroups || a.json["more"] != true {
		t.Errorf("of many: %d groups, more %v", len(groups), a.json["more"])
	}
	s.counts, s.parked = nil, nil
	if a := ask().want(t, 200, ""); a.raw != `{"groups":[],"more":false}`+"\n" {
		t.Errorf("of nothing: %s", a.raw)
	}
	waits := func(c *api.Config) {
		steered(s)(c)
		c.Overview = func(context.Context) ops.Overview {
			return ops.Overview{Conditions: []ops.Condition{{Word: ops.CondNoStandby, Level: ops.LevelWarn},
				{Word: ops.CondIntakeWaits, Count: 7, Since: later, Detail: "they are not accepted"},
				{Word: ops.CondSetAside, Count: 9, Since: later, Detail: "they are set aside"}}}
		}
	}
	of := func(word, detail string, n int) string {
		return fmt.Sprintf(`{"name":"intake","count":%d,"word":%q,"detail":%q,"since":"2030-01-31T08:00:00.000Z"}`, n, word,
			detail)
	}
	if a := call(t, open(t, waits), "GET", "/v1/held", "").want(t, 200, ""); a.raw != `{"groups":[`+
		of("set_aside", "they are set aside", 9)+`,`+of("in_intake", "they are not accepted", 7)+`],"more":false}`+"\n" {
		t.Errorf("of pushes: %s", a.raw)
	}
	s.err = scheduler.ErrUnavailable
	ask().want(t, 503, "unavailable")
}

func TestTopics_GoesOnWhereItsCursorSays(t *testing.T) {
	t.Parallel()
	s := &steering{next: "7:" + string(uidA)}
	for i := range 25 {
		s.counts = append(s.counts, scheduler.TopicCount{Topic: fmt.Sprintf("orders.%02d", i), Waiting: 1})
	}
	d := open(t, steered(s))
	var met, cursors []string
	for target := "/v1/topics?limit=10"; target != "" && len(cursors) < 5; {
		a := call(t, d, "GET", target, "").want(t, 200, "")
		page, _ := a.json["topics"].([]any)
		for _, one := range page {
			met = append(met, fmt.Sprint(one.(map[string]any)["topic"]))
		}
		target = ""
		if cursor, more := a.json["cursor"].(string); more {
			target, cursors = "/v1/topics?limit=10&cursor="+cursor, append(cursors, cursor)
		}
	}
	if len(met) != 25 || !slices.IsSorted(met) || met[0] != "orders.00" || met[24] != "orders.24" || len(cursors) != 2 {
		t.Fatalf("met %q by %q", met, cursors)
	}
	s.take()
	call(t, d, "GET", "/v1/topics?cursor="+cursors[1], "").want(t, 200, "") // another limit is the same query
	if asked := s.take(); len(asked) != 1 || asked[0] != (countsAsked{"orders.19", 101}) {
		t.Errorf("asked for %+v", asked)
	}
	dead, _ := call(t, d, "GET", "/v1/dead?limit=1", "").want(t, 200, "").json["cursor"].(string)
	j := &journal{records: []record.Record{recordOf(uidA, "a", 1, message.StateWaiting),
		recordOf(uidB, "b", 2, message.StateWaiting)}}
	messages, _ := call(t, open(t, keeping(j)), "GET", "/v1/messages?limit=1", "").json["cursor"].(string)
	s.take()
	broken := []byte(cursors[0])
	broken[len(broken)-3] ^= 1
	for _, cursor := range []string{"", "!", dead, messages, string(broken), cursors[0][:len(cursors[0])-4],
		cursors[0] + "AAAA", strings.Repeat("A", 10_000)} {
		if a := call(t, d, "GET", "/v1/topics?cursor="+cursor, "").want(t, 400, "invalid_cursor"); len(
			a.detail()) > 200 {
			t.Errorf("it repeats all of the cursor: %d bytes", len(a.detail()))
		}
	}
	call(t, d, "GET", "/v1/dead?cursor="+cursors[0], "").want(t, 400, "invalid_cursor")
	call(t, open(t, keeping(j)), "GET", "/v1/messages?cursor="+cursors[0], "").want(t, 400, "invalid_cursor")
	if asked := s.take(); len(asked) > 0 {
		t.Errorf("it asked for %+v", asked)
	}
}

func TestTopic_ShowsThePauseThatHoldsItBack(t *testing.T) {
	t.Parallel()
	s := &steering{counts: []scheduler.TopicCount{{Topic: "orders.remind", Waiting: 7}}}
	d := open(t, steered(s))
	get := func(topic string) string {
		return call(t, d, "GET", "/v1/topics/"+topic, "").want(t, 200, "").raw
	}
	none := `,"ready":0,"in_flight":0,"leased":0,"dead":0,"paused":`
	if got := get("orders.remind"); got != `{"topic":"orders.remind","waiting":7`+none+"null}\n" {
		t.Errorf("got %s", got)
	}
	s.pauses = []scheduler.Pause{{Pattern: "mail.>", By: "x", At: later}, {Pattern: "orders.*", By: "y", At: later},
		{Pattern: "orders.remind", By: "z", At: later}}
	if got := get("orders.remind"); got != `{"topic":"orders.remind","waiting":7`+none+
		`{"pattern":"orders.remind","by":"z","at":"2030-01-31T08:00:00.000Z"}}`+"\n" {
		t.Errorf("got %s", got)
	}
	if got := get("orders.cancel"); got != `{"topic":"orders.cancel","waiting":0`+none+
		`{"pattern":"orders.*","by":"y","at":"2030-01-31T08:00:00.000Z"}}`+"\n" {
		t.Errorf("got %s", got)
	}
	if got := get("orders"); got != `{"topic":"orders","waiting":0`+none+"null}\n" {
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
		if a := call(t, d, "POST", target+"/pause", "").want(
			t, 200, ""); a.raw != `{"pattern":"orders.>","paused":true,"by":"192.0.2.1","in_effect":true}`+"\n" {
			t.Errorf("got %s", a.raw)
		}
		if a := call(t, d, "POST", target+"/resume", "").want(
			t, 200, ""); a.raw != `{"pattern":"orders.>","paused":false,"in_effect":true}`+"\n" {
			t.Errorf("got %s", a.raw)
		}
	}
	s.unheard = true
	for _, verb := range []string{"pause", "resume"} {
		if a := call(t, d, "POST", "/v1/topics/orders.>/"+verb, "").want(t, 200, ""); a.json["in_effect"] != false {
			t.Errorf("a %s that the leader has not taken over: %s", verb, a.raw)
		}
	}
	s.was = false
	call(t, d, "POST", "/v1/topics/orders.created/resume", "").want(t, 404, "not_paused")
	s.err = fmt.Errorf("pause: %w", scheduler.ErrTooManyPauses)
	call(t, d, "POST", "/v1/topics/a/pause", "").want(t, 409, "too_many_pauses")
}

// The settings that apply stand with a topic: those of the first pattern that matches. Of a webhook only that it is.
func TestTopics_HaveTheirSettings(t *testing.T) {
	t.Parallel()
	settings := &scheduler.Topics{}
	settings.Set([]*scheduler.Topic{
		{Pattern: "mail.*", Rate: 2.5, CatchUp: 1, TTL: time.Hour, Retry: message.Retry{Delays: []time.Duration{time.Minute}},
			Partitions: 3, Drop: true, Dead: "dead.mail", Expired: "expired.mail"},
		{Pattern: "mail.x", Rate: 9},
		{Pattern: "jobs.>", Deliver: scheduler.DeliverPull, Lease: time.Minute, Serial: true},
		{Pattern: "hooks.a", Deliver: scheduler.DeliverPull, Webhook: true},
	}, message.Retry{})
	d := open(t, func(c *api.Config) { c.Settings = settings })
	for topic, want := range map[string]string{
		"mail.x": `{"pattern":"mail.*","deliver":"mq","rate":2.5,"catch_up_rate":1,"retry":"1m","ttl":"1h0m0s",` +
			`"core":"drop","partitions":3,"dead":"dead.mail","expired":"expired.mail"}`,
		"jobs.a.b": `{"pattern":"jobs.>","deliver":"pull","lease":"1m0s","serial":true}`,
		"hooks.a":  `{"pattern":"hooks.a","deliver":"webhook"}`,
		"other":    "",
	} {
		call(t, d, "POST", "/v1/messages", `{"topic":"`+topic+`","delay":"1h"}`).want(t, 201, "")
		for _, path := range []string{"/v1/topics/" + topic, "/v1/topics"} {
			raw := call(t, d, "GET", path, "").want(t, 200, "").raw
			if want != "" && !strings.Contains(raw, `"settings":`+want) || want == "" && strings.Count(raw, `"settings"`) !=
				strings.Count(raw, `"pattern"`) {
				t.Errorf("%s: %s\nwant %s", path, raw, want)
			}
		}
	}
}
