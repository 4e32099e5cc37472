package api_test

import (
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// steerCalls are good requests of every route that steers, and what they ask for.
var steerCalls = []struct {
	method, target, body string
	asked                any
}{
	{"PATCH", "/v1/messages/a", `{"delay":"20m"}`,
		rescheduleAsked{scheduler.Ref{ID: "a"}, scheduler.Edit{Delay: new(20 * time.Minute)}}},
	{"PATCH", "/v1/messages/a?key=k", `{"at":"2030-01-31T08:00:00Z","priority":0}`,
		rescheduleAsked{scheduler.Ref{ID: "a", Key: "k", Keyed: true},
			scheduler.Edit{At: new(later), Priority: new(uint8(0))}}},
	{"PATCH", "/v1/messages/" + string(uidA), `{"shift":"-60000ms"}`,
		rescheduleAsked{scheduler.Ref{UID: uidA}, scheduler.Edit{Shift: new(-time.Minute)}}},
	{"PATCH", "/v1/messages/a", `{"priority":7,"body":"","headers":{}}`,
		rescheduleAsked{scheduler.Ref{ID: "a"},
			scheduler.Edit{Priority: new(uint8(7)), Body: []byte{}, Headers: []message.Header{}}}},
	{"PATCH", "/v1/messages/a", `{"body_base64":"AP8=","headers":{"X":["1","2"]}}`,
		rescheduleAsked{scheduler.Ref{ID: "a"}, scheduler.Edit{Body: []byte{0, 0xff},
			Headers: []message.Header{{Name: "X", Value: "1"}, {Name: "X", Value: "2"}}}}},
	{"POST", "/v1/messages/a/run", ``, rescheduleAsked{scheduler.Ref{ID: "a"}, scheduler.Edit{Run: true}}},
	{"POST", "/v1/messages/a/run?key=", `{}`,
		rescheduleAsked{scheduler.Ref{ID: "a", Keyed: true}, scheduler.Edit{Run: true}}},
	{"POST", "/v1/messages/cancel",
		`{"topic":"orders.>","key":"","due_from":1896076800000,"due_to":"2030-01-31T09:00:00Z","dry_run":true}`,
		manyAsked{what: "cancel", sel: scheduler.Selection{Topic: "orders.>", HasKey: true, From: later,
			To: later + 3_600_000, DryRun: true}}},
	{"POST", "/v1/messages/cancel", `{"all":true}`, manyAsked{what: "cancel"}},
	{"POST", "/v1/messages/cancel", `{"due_to":"2h"}`,
		manyAsked{what: "cancel", sel: scheduler.Selection{To: message.Milli(noon.Add(2 * time.Hour).UnixMilli())}}},
	{"POST", "/v1/messages/reschedule", `{"key":"k","delay":"1h"}`,
		manyAsked{what: "reschedule", sel: scheduler.Selection{Key: "k", HasKey: true},
			edit: scheduler.Edit{Delay: new(time.Hour)}}},
	{"POST", "/v1/messages/reschedule", `{"all":true,"shift":"-1h","dry_run":true}`,
		manyAsked{what: "reschedule", sel: scheduler.Selection{DryRun: true},
			edit: scheduler.Edit{Shift: new(-time.Hour)}}},
	{"GET", "/v1/dead", ``, deadAsked{limit: 100}},
	{"GET", "/v1/dead?topic=orders.*&limit=1000", ``, deadAsked{topic: "orders.*", limit: 1000}},
	{"POST", "/v1/dead/requeue", `{"id":"a","delay":"1m","body":"b","headers":{"X":"1"}}`,
		oneAsked{"requeue", scheduler.Ref{ID: "a"},
			scheduler.Requeue{Delay: time.Minute, Body: []byte("b"),
				Headers: []message.Header{{Name: "X", Value: "1"}}}}},
	{"POST", "/v1/dead/requeue", `{"id":"a","topic":"b"}`,
		oneAsked{what: "requeue", ref: scheduler.Ref{ID: "a", Topic: "b"}}},
	{"POST", "/v1/messages/a/run?topic=b.c&key=", `{}`,
		rescheduleAsked{scheduler.Ref{ID: "a", Topic: "b.c", Keyed: true}, scheduler.Edit{Run: true}}},
	{"POST", "/v1/dead/requeue", `{"id":"a","key":"k"}`,
		oneAsked{what: "requeue", ref: scheduler.Ref{ID: "a", Key: "k", Keyed: true}}},
	{"POST", "/v1/dead/requeue", `{"ids":["` + string(uidA) + `"]}`,
		oneAsked{what: "requeue", ref: scheduler.Ref{UID: uidA}}},
	{"POST", "/v1/dead/requeue", `{"topic":"orders.>","older":"1h","delay":"5ms","dry_run":true}`,
		manyAsked{what: "requeue",
			sel: scheduler.Selection{Topic: "orders.>", To: message.Milli(noon.Add(-time.Hour).UnixMilli()),
				DryRun: true}, how: scheduler.Requeue{Delay: 5 * time.Millisecond}}},
	{"POST", "/v1/dead/purge", `{"id":"a"}`, oneAsked{what: "purge", ref: scheduler.Ref{ID: "a"}}},
	{"POST", "/v1/dead/purge", `{"ids":["a"]}`, oneAsked{what: "purge", ref: scheduler.Ref{ID: "a"}}},
	{"POST", "/v1/dead/purge", `{"from":"2030-01-31T08:00:00Z","to":1896080400000}`,
		manyAsked{what: "purge", sel: scheduler.Selection{From: later, To: later + 3_600_000}}},
	{"POST", "/v1/dead/purge", `{"all":true}`, manyAsked{what: "purge"}},
	{"GET", "/v1/topics", ``, countsAsked{limit: 101}},
	{"GET", "/v1/topics?limit=1", ``, countsAsked{limit: 2}},
	{"GET", "/v1/topics?limit=7", ``, countsAsked{limit: 8}},
	{"GET", "/v1/topics/orders.created", ``, countAsked("orders.created")},
	{"POST", "/v1/topics/orders.created/pause", ``, pauseAsked{"orders.created", "192.0.2.1"}},
	{"POST", "/v1/topics/orders.%3E/pause", `{}`, pauseAsked{"orders.>", "192.0.2.1"}},
	{"POST", "/v1/topics/*.created/resume", ``, "*.created"},
}

func TestSteering_AsksForWhatTheRequestSays(t *testing.T) {
	t.Parallel()
	s := &steering{was: true, amend: scheduler.AmendResult{Code: scheduler.AmendDone,
		Info: message.Info{Message: message.Message{UID: uidA}, State: message.StateWaiting, Version: 2}}}
	d := open(t, steered(s))
	for _, c := range steerCalls {
		a := call(t, d, c.method, c.target, c.body).want(t, 200, "")
		if asked := s.take(); len(asked) != 1 || !reflect.DeepEqual(asked[0], c.asked) {
			t.Errorf("%s %s %s: asked for %+v, want %+v", c.method, c.target, c.body, asked, c.asked)
		}
		if len(a.json) == 0 {
			t.Errorf("%s %s: got %s", c.method, c.target, a.raw)
		}
	}
}

// badSteers is what no such request may be.
var badSteers = []struct {
	name, method, target, body string
	status                     int
	word                       string
}{
	{"no edit", "PATCH", "/v1/messages/a", ``, 400, "missing_change"},
	{"empty edit", "PATCH", "/v1/messages/a", `{}`, 400, "missing_change"},
	{"edit of nulls", "PATCH", "/v1/messages/a", `{"delay":null,"body":null}`, 400, "missing_change"},
	{"edit of two times", "PATCH", "/v1/messages/a", `{"delay":"1ms","at":1896076800000}`, 400, "delay_and_at"},
	{"edit with a shift and a delay", "PATCH", "/v1/messages/a", `{"delay":"1ms","shift":"1ms"}`, 400, "delay_and_at"},
	{"negative delay", "PATCH", "/v1/messages/a", `{"delay":"-1ms"}`, 400, "invalid_delay"},
	{"delay of another type", "PATCH", "/v1/messages/a", `{"delay":{"ms":1}}`, 400, "invalid_delay"},
	{"huge delay", "PATCH", "/v1/messages/a", `{"delay":99999999999999999999}`, 400, "invalid_delay"},
	{"a billion digits' shift", "PATCH", "/v1/messages/a", `{"shift":1e1000000000}`, 400, "invalid_shift"},
	{"shift of nothing", "PATCH", "/v1/messages/a", `{"shift":"-"}`, 400, "invalid_shift"},
	{"shift back and forth", "PATCH", "/v1/messages/a", `{"shift":"-+1h"}`, 400, "invalid_shift"},
	{"eleven years' shift", "PATCH", "/v1/messages/a", `{"shift":"4015d"}`, 400, "invalid_shift"},
	{"seconds for milliseconds", "PATCH", "/v1/messages/a", `{"at":1896076800}`, 400, "invalid_at"},
	{"priority above", "PATCH", "/v1/messages/a", `{"priority":256}`, 400, "invalid_priority"},
	{"priority below", "PATCH", "/v1/messages/a", `{"priority":-1}`, 400, "invalid_priority"},
	{"priority of another type", "PATCH", "/v1/messages/a", `{"priority":"high"}`, 400, "invalid_priority"},
	{"body of another type", "PATCH", "/v1/messages/a", `{"body":{"a":1}}`, 400, "invalid_body"},
	{"two bodies", "PATCH", "/v1/messages/a", `{"body":"a","body_base64":"YQ=="}`, 400, "invalid_body"},
	{"tag among the headers", "PATCH", "/v1/messages/a", `{"headers":{"Tarry-Delay":"1s"}}`, 400, "invalid_header"},
	{"Nats header", "PATCH", "/v1/messages/a", `{"headers":{"Nats-Rollup":"all"}}`, 400, "invalid_header"},
	{"topic of a message", "PATCH", "/v1/messages/a", `{"topic":"b"}`, 400, "unknown_field"},
	{"repeated field", "PATCH", "/v1/messages/a", `{"delay":"1ms","delay":"2ms"}`, 400, "repeated_field"},
	{"deep nesting", "PATCH", "/v1/messages/a", `{"x":` + strings.Repeat("[", 200_000), 400, "invalid_json"},
	{"cut off", "PATCH", "/v1/messages/a", `{"delay":1`, 400, "invalid_json"},
	{"a list", "PATCH", "/v1/messages/a", `[1]`, 400, "invalid_json"},
	{"two values", "PATCH", "/v1/messages/a", `{"delay":"1ms"}{"delay":"1ms"}`, 400, "invalid_json"},
	{"not UTF-8", "PATCH", "/v1/messages/a", "{\"body\":\"\xff\"}", 400, "invalid_json"},
	{"bad id", "PATCH", "/v1/messages/%20", `{"delay":"1ms"}`, 400, "invalid_id"},
	{"bad key", "PATCH", "/v1/messages/a?key=%0a", `{"delay":"1ms"}`, 400, "invalid_key"},
	{"unknown parameter", "PATCH", "/v1/messages/a?kye=k", `{"delay":"1ms"}`, 400, "unknown_parameter"},

	{"a run with more", "POST", "/v1/messages/a/run", `{"delay":"1ms"}`, 400, "unknown_field"},
	{"a run of a list", "POST", "/v1/messages/a/run", `[]`, 400, "invalid_json"},
	{"a run of a bad id", "POST", "/v1/messages/%00/run", ``, 400, "invalid_id"},

	{"cancel of nothing said", "POST", "/v1/messages/cancel", ``, 400, "empty_selection"},
	{"cancel of {}", "POST", "/v1/messages/cancel", `{}`, 400, "empty_selection"},
	{"cancel of not all", "POST", "/v1/messages/cancel", `{"all":false}`, 400, "empty_selection"},
	{"cancel of a null topic", "POST", "/v1/messages/cancel", `{"topic":null,"dry_run":true}`, 400, "empty_selection"},
	{"cancel of an empty topic", "POST", "/v1/messages/cancel", `{"topic":"","all":true}`, 400, "invalid_topic"},
	{"cancel of a bad pattern", "POST", "/v1/messages/cancel", `{"topic":"a.>.b"}`, 400, "invalid_topic"},
	{"cancel of half a wildcard", "POST", "/v1/messages/cancel", `{"topic":"a*"}`, 400, "invalid_topic"},
	{"cancel of a topic of another type", "POST", "/v1/messages/cancel", `{"topic":["a"]}`, 400, "invalid_topic"},
	{"cancel of a bad key", "POST", "/v1/messages/cancel", `{"key":"a\n"}`, 400, "invalid_key"},
	{"cancel of a time that is none", "POST", "/v1/messages/cancel", `{"due_to":"soon"}`, 400, "invalid_due_to"},
	{"cancel of a huge time", "POST", "/v1/messages/cancel", `{"due_from":99999999999999999999}`, 400,
		"invalid_due_from"},
	{"cancel of a time of another type", "POST", "/v1/messages/cancel", `{"due_from":[1]}`, 400, "invalid_due_from"},
	{"cancel of nothing between", "POST", "/v1/messages/cancel", `{"due_from":"2031-01-31T08:00:00Z","due_to":"2h"}`,
		400, "invalid_due_from"},
	{"cancel of all of another type", "POST", "/v1/messages/cancel", `{"all":"yes"}`, 400, "invalid_all"},
	{"cancel with a dry run of another type", "POST", "/v1/messages/cancel", `{"all":true,"dry_run":1}`, 400,
		"invalid_dry_run"},
	{"cancel with a change", "POST", "/v1/messages/cancel", `{"all":true,"delay":"1ms"}`, 400, "unknown_field"},
	{"cancel with a query", "POST", "/v1/messages/cancel?dry_run=true", `{"all":true}`, 400, "unknown_parameter"},
	{"cancel with deep nesting", "POST", "/v1/messages/cancel", `{"topic":` + strings.Repeat(`{"a":`, 100_000), 400,
		"invalid_json"},

	{"reschedule of many without a change", "POST", "/v1/messages/reschedule", `{"all":true}`, 400, "missing_change"},
	{"reschedule of many with a body", "POST", "/v1/messages/reschedule", `{"all":true,"body":"x"}`, 400,
		"unknown_field"},
	{"reschedule of many by two times", "POST", "/v1/messages/reschedule", `{"all":true,"shift":"1ms","delay":"1ms"}`, 400,
		"delay_and_at"},
	{"reschedule of nothing said", "POST", "/v1/messages/reschedule", `{"delay":"1ms"}`, 400, "empty_selection"},

	{"dead of a bad topic", "GET", "/v1/dead?topic=a..b", ``, 400, "invalid_topic"},
	{"dead of an empty topic", "GET", "/v1/dead?topic=", ``, 400, "invalid_topic"},
	{"dead without a limit", "GET", "/v1/dead?limit=", ``, 400, "invalid_limit"},
	{"dead of none", "GET", "/v1/dead?limit=0", ``, 400, "invalid_limit"},
	{"dead of many", "GET", "/v1/dead?limit=1001", ``, 400, "invalid_limit"},
	{"dead of a huge limit", "GET", "/v1/dead?limit=99999999999999999999", ``, 400, "invalid_limit"},
	{"dead with an empty cursor", "GET", "/v1/dead?cursor=", ``, 400, "invalid_cursor"},
	{"dead with a cursor that is none", "GET", "/v1/dead?cursor=%25", ``, 400, "invalid_cursor"},
	{"dead with a short cursor", "GET", "/v1/dead?cursor=AgICAgIC", ``, 400, "invalid_cursor"},
	{"dead with a forged cursor", "GET", "/v1/dead?cursor=AgICAgICAgICAgICAgIC", ``, 400, "invalid_cursor"},
	{"dead with another parameter", "GET", "/v1/dead?state=dead", ``, 400, "unknown_parameter"},

	{"requeue of nothing said", "POST", "/v1/dead/requeue", ``, 400, "empty_selection"},
	{"requeue of no ids", "POST", "/v1/dead/requeue", `{"ids":[]}`, 400, "invalid_ids"},
	{"requeue of ids that are none", "POST", "/v1/dead/requeue", `{"ids":[1]}`, 400, "invalid_ids"},
	{"requeue of ids of another type", "POST", "/v1/dead/requeue", `{"ids":"a"}`, 400, "invalid_ids"},
	{"requeue of ids in ids", "POST", "/v1/dead/requeue", `{"ids":[["a"]]}`, 400, "invalid_ids"},
	{"requeue of too many ids", "POST", "/v1/dead/requeue", `{"ids":["a"` + strings.Repeat(`,"a"`, 1000) + `]}`,
		413, "too_large"},
	{"requeue of id and ids", "POST", "/v1/dead/requeue", `{"id":"a","ids":["b"]}`, 400, "invalid_ids"},
	{"requeue of id and pattern", "POST", "/v1/dead/requeue", `{"id":"a","topic":"b.*"}`, 400, "invalid_topic"},
	{"requeue of ids and topic", "POST", "/v1/dead/requeue", `{"ids":["a"],"topic":"b"}`, 400, "invalid_ids"},
	{"requeue of a bad id", "POST", "/v1/dead/requeue", `{"id":" "}`, 400, "invalid_id"},
	{"requeue of an empty id", "POST", "/v1/dead/requeue", `{"id":""}`, 400, "invalid_id"},
	{"requeue of a key alone", "POST", "/v1/dead/requeue", `{"key":"k"}`, 400, "invalid_key"},
	{"requeue of many with a body", "POST", "/v1/dead/requeue", `{"all":true,"body":"x"}`, 400, "invalid_body"},
	{"requeue of many with headers", "POST", "/v1/dead/requeue", `{"ids":["a","b"],"headers":{}}`, 400,
		"invalid_header"},
	{"requeue of ids as a dry run", "POST", "/v1/dead/requeue", `{"ids":["a"],"dry_run":true}`, 400, "invalid_dry_run"},
	{"requeue of an id as a dry run", "POST", "/v1/dead/requeue", `{"id":"a","dry_run":true}`, 400, "invalid_dry_run"},
	{"requeue with a negative delay", "POST", "/v1/dead/requeue", `{"id":"a","delay":"-1ms"}`, 400, "invalid_delay"},
	{"requeue older and from", "POST", "/v1/dead/requeue", `{"older":"1h","from":"2h"}`, 400, "invalid_older"},
	{"requeue of what is older than what is none", "POST", "/v1/dead/requeue", `{"older":"old"}`, 400, "invalid_older"},
	{"requeue of nothing between", "POST", "/v1/dead/requeue", `{"from":"1h","to":"2h"}`, 400, "invalid_from"},
	{"requeue of nothing between, by the clock", "POST", "/v1/dead/requeue",
		`{"from":"1h","to":"2001-01-31T08:00:00Z"}`, 400, "invalid_from"},
	{"purge with a delay", "POST", "/v1/dead/purge", `{"all":true,"delay":"1ms"}`, 400, "unknown_field"},
	{"purge of nothing said", "POST", "/v1/dead/purge", `{"dry_run":true}`, 400, "empty_selection"},
	{"purge as a dry run of an id", "POST", "/v1/dead/purge", `{"id":"a","dry_run":true}`, 400, "invalid_dry_run"},
	{"purge of a number", "POST", "/v1/dead/purge", `{"id":7}`, 400, "invalid_id"},

	{"topics without a limit", "GET", "/v1/topics?limit=-1", ``, 400, "invalid_limit"},
	{"topics with an empty cursor", "GET", "/v1/topics?cursor=", ``, 400, "invalid_cursor"},
	{"topics with a cursor that is none", "GET", "/v1/topics?cursor=AgICAgICAgICAgICAgIC", ``, 400, "invalid_cursor"},
	{"topics of one", "GET", "/v1/topics?topic=a", ``, 400, "unknown_parameter"},
	{"topic that is a pattern", "GET", "/v1/topics/orders.*", ``, 400, "invalid_topic"},
	{"topic with a blank", "GET", "/v1/topics/a%20b", ``, 400, "invalid_topic"},
	{"topic with a query", "GET", "/v1/topics/a?x=1", ``, 400, "unknown_parameter"},
	{"pause of a bad pattern", "POST", "/v1/topics/%3E.a/pause", ``, 400, "invalid_topic"},
	{"pause of an empty token", "POST", "/v1/topics/a%2E%2Eb/pause", ``, 400, "invalid_topic"},
	{"pause of what is long", "POST", "/v1/topics/" + strings.Repeat("a", 256) + "/pause", ``, 400, "invalid_topic"},
	{"pause with more", "POST", "/v1/topics/a/pause", `{"by":"me"}`, 400, "unknown_field"},
	{"pause of a list", "POST", "/v1/topics/a/pause", `[]`, 400, "invalid_json"},
	{"resume with a query", "POST", "/v1/topics/a/resume?all=true", ``, 400, "unknown_parameter"},
	{"resume of a bad pattern", "POST", "/v1/topics/a%0ab/resume", ``, 400, "invalid_topic"},
}

func TestSteering_RefusesWhatCannotBeMeantAndAsksForNothing(t *testing.T) {
	t.Parallel()
	s := &steering{}
	d := open(t, steered(s))
	for _, c := range badSteers {
		t.Run(c.name, func(t *testing.T) {
			a := call(t, d, c.method, c.target, c.body).want(t, c.status, c.word)
			if asked := s.take(); len(asked) > 0 {
				t.Errorf("it asked for %+v", asked)
			}
			if len(a.raw) > 700 {
				t.Errorf("the answer has %d bytes", len(a.raw))
			}
			if a.status < 500 && c.method != "GET" { // nor as lines
				call(t, d, c.method, c.target, c.body, "Accept", "application/x-ndjson").want(t, c.status, c.word)
			}
		})
	}
}

func TestSteering_ThatFailsIsReported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		word   string
	}{
		{scheduler.ErrUnavailable, 503, "unavailable"}, {scheduler.ErrBehind, 503, "journal_behind"},
		{scheduler.ErrFull, 503, "store_full"},
		{errors.New("secret inside"), 500, "internal"},
	} {
		d := open(t, steered(&steering{err: fmt.Errorf("ask the store: %w", c.err), one: func(scheduler.Ref) error {
			return c.err
		}}))
		for _, r := range steerCalls {
			if strings.Contains(r.body, `"ids"`) {
				continue // answers 200 with a result for each
			}
			a := call(t, d, r.method, r.target, r.body).want(t, c.status, c.word)
			if strings.Contains(a.raw, "secret") {
				t.Errorf("%s: the inside shows: %s", r.target, a.raw)
			}
		}
		if c.status == 500 && !strings.Contains(d.log.String(), "secret inside") {
			t.Errorf("the log does not say what: %s", d.log)
		}
	}
}

func TestReschedule_SaysWhatReallyHappened(t *testing.T) {
	t.Parallel()
	info := func(state message.State) message.Info {
		return message.Info{Message: message.Message{UID: uidA, ID: "a", Topic: "orders.remind", Due: later,
			Priority: 7, Body: []byte("hidden")}, State: state, Version: 4, EndedAt: later}
	}
	waiting := info(message.StateWaiting)
	waiting.EndedAt = 0
	for _, c := range []struct {
		result scheduler.AmendResult
		status int
		want   string // of the answer
	}{
		{scheduler.AmendResult{Code: scheduler.AmendDone, Info: waiting}, 200,
			`{"id":"a","uid":"t-000000000000000a","state":"waiting","due":"2030-01-31T08:00:00.000Z","version":4,` +
				`"priority":7,"topic":"orders.remind"}` + "\n"},
		{scheduler.AmendResult{Code: scheduler.AmendInFlight, Info: info(message.StateInFlight)}, 409,
			`"error":"in_flight"`},
		{scheduler.AmendResult{Code: scheduler.AmendMaybe, Info: waiting}, 409, `"error":"maybe_delivered"`},
		{scheduler.AmendResult{Code: scheduler.AmendEnded, Info: info(message.StateDelivered)}, 409,
			`"error":"already_delivered"`},
		{scheduler.AmendResult{Code: scheduler.AmendEnded, Info: info(message.StateCanceled)}, 409,
			`"error":"already_canceled"`},
		{scheduler.AmendResult{Code: scheduler.AmendEnded, Info: info(message.StateDead)}, 409,
			`"error":"already_dead"`},
		{scheduler.AmendResult{Code: scheduler.AmendEnded, Info: info(message.StateExpired)}, 409,
			`"error":"already_expired"`},
		{scheduler.AmendResult{Code: scheduler.AmendVersion, Info: waiting}, 412, `"version":4`},
		{scheduler.AmendResult{}, 404, `"error":"unknown_id"`},
	} {
		d := open(t, steered(&steering{amend: c.result}))
		for _, r := range [][3]string{{"PATCH", "/v1/messages/a", `{"priority":7}`},
			{"POST", "/v1/messages/a/run", ""}} {
			a := call(t, d, r[0], r[1], r[2])
			if a.status != c.status || !strings.Contains(a.raw, c.want) || strings.Contains(a.raw, "hidden") ||
				a.json["id"] != "a" {
				t.Errorf("%v: got %d %s, want %d %s", r, a.status, a.raw, c.status, c.want)
			}
			if tag, want := a.header.Get("ETag"), `"4"`; c.status != 404 && tag != want ||
				c.status == 404 && tag != "" {
				t.Errorf("%v, %d: ETag %q", r, a.status, tag)
			}
			if c.status == 412 && a.word() != "version_mismatch" {
				t.Errorf("got %s", a.raw)
			}
		}
	}
}

func TestReschedule_HoldsToTheVersionOfIfMatch(t *testing.T) {
	t.Parallel()
	s := &steering{amend: scheduler.AmendResult{Code: scheduler.AmendDone, Info: message.Info{Version: 4}}}
	d := open(t, steered(s))
	for header, version := range map[string]uint64{`"3"`: 3, `3`: 3, ` "18446744073709551615" `: 1<<64 - 1,
		`*`: 0} {
		for _, r := range [][3]string{{"PATCH", "/v1/messages/a", `{"priority":7}`},
			{"POST", "/v1/messages/a/run", ""}} {
			call(t, d, r[0], r[1], r[2], "If-Match", header).want(t, 200, "")
			if asked, _ := s.take()[0].(rescheduleAsked); asked.edit.Version != version {
				t.Errorf("If-Match %q asked for version %d", header, asked.edit.Version)
			}
		}
	}
	for _, header := range []string{``, ` `, `"0"`, `0`, `-1`, `W/"3"`, `"3", "4"`, `3,4`, `"`, `""`, `"3`, `three`, `1e3`,
		`99999999999999999999`, `"*"`} {
		call(t, d, "PATCH", "/v1/messages/a", `{"priority":7}`, "If-Match", header).want(t, 400, "invalid_if_match")
	}
	call(t, d, "PATCH", "/v1/messages/a", `{"priority":7}`, "If-Match", "3", "If-Match", "4").want(t, 400,
		"invalid_if_match")
	if asked := s.take(); len(asked) > 0 {
		t.Errorf("it asked for %+v", asked)
	}
}

func TestGet_TagsTheVersion(t *testing.T) {
	t.Parallel()
	d := open(t)
	call(t, d, "POST", "/v1/messages", hourly(`,"id":"a"`)).want(t, 201, "")
	for _, method := range []string{"GET", "HEAD"} {
		if a := call(t, d, method, "/v1/messages/a", ""); a.status != 200 || a.header.Get("ETag") != `"1"` {
			t.Errorf("%s: %d, ETag %q", method, a.status, a.header.Get("ETag"))
		}
	}
	if a := call(t, d, "GET", "/v1/messages/b", "").want(t, 404, "unknown_id"); a.header.Get("ETag") != "" {
		t.Errorf("ETag %q", a.header.Get("ETag"))
	}
}

// largest finds how long a body may be with these headers for a push to be taken: it makes a message for each length.
func largest(t *testing.T, d *door, headers string) int {
	t.Helper()
	return sort.Search(4096, func(n int) bool {
		return call(t, d, "POST", "/v1/messages",
			hourly(`,"body":"`+strings.Repeat("x", n)+`","headers":`+headers)).status != 201
	}) - 1
}

func TestReschedule_HoldsTheWholeMessageToTheLimitOfAPush(t *testing.T) {
	t.Parallel()
	headers := `{"X":"` + strings.Repeat("v", 600) + `"}`
	for name, limit := range map[string]func(*api.Config){
		"NATS":         func(c *api.Config) { c.MaxPayload = func() int64 { return 2048 } },
		"of a request": func(c *api.Config) { c.MaxBody = 2048 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, limit)
			most := largest(t, d, headers)
			call(t, d, "POST", "/v1/messages", hourly(`,"id":"a","body":"old","headers":`+headers)).want(t, 201, "")
			body := func(n int) string { return `"body":"` + strings.Repeat("y", n) + `"` }
			const room = 128 // a request has more than the message
			stands := func(id, state string) {
				t.Helper()
				got := call(t, d, "GET", "/v1/messages/"+id, "").want(t, 200, "")
				if kept, _ := got.json["headers"].(map[string]any); got.json["body"] != "old" || len(kept) != 1 ||
					got.json["state"] != state {
					t.Errorf("it is %s", got.raw)
				}
			}
			for _, edit := range []string{body(most + room), body(most+room) + `,"priority":7`} {
				call(t, d, "PATCH", "/v1/messages/a", `{`+edit+`}`).want(t, 413, "too_large")
				stands("a", "waiting")
			}
			if a := call(t, d, "GET", "/v1/messages/a", ""); a.json["version"] != 1.0 {
				t.Errorf("it changed: %s", a.raw)
			}
			call(t, d, "PATCH", "/v1/messages/a", `{`+body(most)+`}`).want(t, 200, "")
			call(t, d, "PATCH", "/v1/messages/a", `{"headers":{"X":"`+strings.Repeat("v", 600+room)+`"}}`).want(t,
				413, "too_large")
			call(t, d, "PATCH", "/v1/messages/a", `{`+body(most+room)+`,"headers":{}}`).want(t, 200, "")
			call(t, d, "PATCH", "/v1/messages/a", `{"priority":9}`).want(t, 200, "")
			call(t, d, "PATCH", "/v1/messages/b", `{`+body(most+room)+`}`).want(t, 404, "unknown_id")

			call(t, d, "POST", "/v1/messages", hourly(`,"id":"dead","body":"old","headers":`+headers)).want(t, 201, "")
			d.end(t, message.StateDead, false)
			call(t, d, "PATCH", "/v1/messages/dead", `{`+body(most+room)+`}`).want(t, 409, "already_dead")
			call(t, d, "POST", "/v1/dead/requeue", `{"id":"dead",`+body(most+room)+`}`).want(t, 413, "too_large")
			stands("dead", "dead")
			call(t, d, "POST", "/v1/dead/requeue", `{"id":"dead",`+body(most)+`}`).want(t, 200, "")
		})
	}
}

func TestPush_ThatMergedIsNoNewMessage(t *testing.T) {
	t.Parallel()
	d := open(t, with(service{accept: acceptMerged}))
	a := call(t, d, "POST", "/v1/messages", hourly(`,"id":"a","on_duplicate":"replace"`)).want(t, 200, "")
	if a.json["merged"] != true || a.json["uid"] != string(uidB) ||
		a.header.Get("Location") != "/v1/messages/"+string(uidB) {
		t.Errorf("got %s", a.raw)
	}
	if a := call(t, d, "POST", "/v1/messages/batch", `{"messages":[`+hourly(`,"id":"a","on_duplicate":"keep"`)+
		`]}`).want(t, 200, ""); !strings.Contains(a.raw, `"merged":true`) {
		t.Errorf("got %s", a.raw)
	}
}

func TestSteering_NeedsTheTokenAndNoOtherPage(t *testing.T) {
	t.Parallel()
	s := &steering{was: true, amend: scheduler.AmendResult{Code: scheduler.AmendDone}}
	d := open(t, steered(s), func(c *api.Config) { c.Token = "correct-horse-battery" })
	for _, c := range steerCalls {
		call(t, d, c.method, c.target, c.body).want(t, 401, "unauthorized")
		if c.method != "GET" {
			call(t, d, c.method, c.target, c.body, "Authorization", "Bearer correct-horse-battery", "Sec-Fetch-Site",
				"cross-site").want(t, 403, "cross_origin")
		}
		if asked := s.take(); len(asked) > 0 {
			t.Errorf("it asked for %+v", asked)
		}
		call(t, d, c.method, c.target, c.body, "Authorization", "Bearer correct-horse-battery").want(t, 200, "")
		s.take()
	}
}
