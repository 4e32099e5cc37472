package ops_test

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

var at2030 = time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)

// table has the operations by their names, and those without a name by their routes.
func table() map[string]*ops.Operation {
	o := ops.New(ops.Config{Journal: struct{ ops.Journal }{}, Rejects: struct{ ops.Rejects }{}})
	all := map[string]*ops.Operation{}
	for _, op := range o.Table() {
		all[cmp.Or(op.Name, op.Route)] = op
	}
	return all
}

// onNATS reads a request of an operation that is one JSON object.
func onNATS(name, text string) (any, error) { return table()[name].DecodeJSON([]byte(text)) }

// inBody reads a request about the message a, over HTTP, with a body alone.
func inBody(name, text string) (any, error) {
	return table()[name].Decode(&ops.Source{Path: func(string) string { return "a" },
		Header: func(string) []string { return nil }, Body: func() ([]byte, error) { return []byte(text), nil }})
}

func TestReschedule_ReadsEveryField(t *testing.T) {
	t.Parallel()
	zero := time.Duration(0)
	for text, want := range map[string]scheduler.Edit{
		`{"delay":"20m"}`:              {Delay: new(20 * time.Minute)},
		`{"delay":0}`:                  {Delay: &zero},
		`{"delay_ms":1500}`:            {Delay: new(1500 * time.Millisecond)},
		`{"at":1896076800000}`:         {At: new(message.CeilMilli(at2030))},
		`{"shift":"-10m"}`:             {Shift: new(-10 * time.Minute)},
		`{"shift":"+10m"}`:             {Shift: new(10 * time.Minute)},
		`{"shift":"-1500ms"}`:          {Shift: new(-1500 * time.Millisecond)},
		`{"priority":0,"delay":null}`:  {Priority: new(uint8(0))},
		`{"body":""}`:                  {Body: []byte{}},
		`{"body_base64":"AP8="}`:       {Body: []byte{0, 255}},
		`{"body_json":[1, {"a":"ä"}]}`: {Body: []byte(`[1, {"a":"ä"}]`)},
		`{"body_json": null}`:          {Body: []byte("null")},
		`{"headers":{}}`:               {Headers: []message.Header{}},
		`{"headers":{"b":"1","A":[]}}`: {Headers: []message.Header{{Name: "b", Value: "1"}}},
	} {
		got, err := inBody("reschedule", text)
		if err != nil || !reflect.DeepEqual(got, &ops.Reschedule{Named: ops.Named{ID: "a"}, Edit: want}) {
			t.Errorf("%s: got %+v, %v\nwant %+v", text, got, err, want)
		}
	}
	got, err := onNATS("reschedule",
		`{"id":"a","key":"","version":3,"shift":"1s","priority":9,"body":"x","headers":{"a":"b"}}`)
	want := &ops.Reschedule{Named: ops.Named{ID: "a", Key: new("")}, Version: 3,
		Edit: scheduler.Edit{Shift: new(time.Second), Priority: new(uint8(9)), Body: []byte("x"),
			Headers: []message.Header{{Name: "a", Value: "b"}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = table()["reschedule"].Decode(&ops.Source{Path: func(string) string { return "a" },
		Query:  map[string][]string{"topic": {"b"}, "key": {"k"}},
		Header: func(name string) []string { return map[string][]string{"If-Match": {`"7"`}}[name] },
		Body:   func() ([]byte, error) { return []byte(`{"delay":"1s"}`), nil }})
	want = &ops.Reschedule{Named: ops.Named{ID: "a", Topic: "b", Key: new("k")}, Version: 7,
		Edit: scheduler.Edit{Delay: new(time.Second)}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestReschedule_RefusesByFieldAndWord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ json, word, field string }{
		{``, ops.WordNoChange, "reschedule"},
		{`{}`, ops.WordNoChange, "reschedule"},
		{`{"delay":null}`, ops.WordNoChange, "reschedule"},
		{`{"delay":"1s","at":1896076800000}`, wire.WordDelayAndAt, "delay"},
		{`{"delay":"1s","shift":"1s"}`, wire.WordDelayAndAt, "delay"},
		{`{"delay":"1s","delay":"1s"}`, ops.WordRepeatedField, "delay"},
		{`{"delay":"-1s"}`, wire.WordDelay, "delay"},
		{`{"delay":true}`, wire.WordDelay, "delay"},
		{`{"at":1896076800}`, wire.WordAt, "at"},
		{`{"shift":"--1s"}`, "invalid_shift", "shift"},
		{`{"shift":"-+1s"}`, "invalid_shift", "shift"},
		{`{"shift":"-3654d"}`, "invalid_shift", "shift"},
		{`{"shift":[]}`, "invalid_shift", "shift"},
		{`{"priority":256}`, wire.WordPriority, "priority"},
		{`{"priority":"1"}`, wire.WordPriority, "priority"},
		{`{"body":1}`, ops.WordBody, "body"},
		{`{"body":"a","body_base64":"AA=="}`, ops.WordBody, "body"},
		{`{"headers":{"Tarry-Id":"a"}}`, wire.WordHeader, "Tarry-Id"},
		{`{"headers":{"Nats-TTL":"a"}}`, wire.WordHeader, "Nats-TTL"},
		{`{"version":3,"delay":"1ms"}`, ops.WordUnknownField, `"version"`},
		{`{"topic":"b","delay":"1ms"}`, ops.WordUnknownField, `"topic"`},
		{`[]`, ops.WordJSON, "request"},
		{`{"delay":1`, ops.WordJSON, "request"},
	} {
		_, err := inBody("reschedule", c.json)
		t.Run(c.json, func(t *testing.T) { wantRefusal(t, err, c.word, c.field) })
	}
	for _, c := range []struct{ json, word, field string }{
		{`{"delay":"1ms"}`, wire.WordID, "id"},
		{`{"id":"a"}`, ops.WordNoChange, "reschedule"},
		{`{"id":"a","version":0,"delay":"1ms"}`, "invalid_version", "version"},
		{`{"id":"a","version":-1,"delay":"1ms"}`, "invalid_version", "version"},
		{`{"id":"a","version":"1","delay":"1ms"}`, "invalid_version", "version"},
		{`{"id":7,"delay":"1ms"}`, wire.WordID, "id"},
	} {
		_, err := onNATS("reschedule", c.json)
		t.Run(c.json, func(t *testing.T) { wantRefusal(t, err, c.word, c.field) })
	}
}

func TestParseIfMatch_TakesAVersionOrAny(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{"*": 0, "3": 3, `"3"`: 3, " 12 ": 12,
		"18446744073709551615": 1<<64 - 1} {
		if got, err := ops.ParseIfMatch(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", " ", "0", `"0"`, "-1", "+1", "1.0", `"3`, `""`, `W/"3"`, `"1", "2"`, "x",
		"18446744073709551616"} {
		_, err := ops.ParseIfMatch(text)
		t.Run(text, func(t *testing.T) { wantRefusal(t, err, ops.WordIfMatch, "If-Match") })
	}
}

func TestSelection_NeedsABoundOrAll(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ops.Selection{
		`{"topic":"orders.>"}`:                   {Topic: "orders.>"},
		`{"topic":"orders.*.eu","dry_run":true}`: {Topic: "orders.*.eu", DryRun: true},
		`{"key":""}`:                             {Key: new("")},
		`{"key":"customer 9"}`:                   {Key: new("customer 9")},
		`{"due_from":"1h","due_to":"2030-01-31T08:00:00Z"}`: {DueFrom: &ops.When{Span: time.Hour, Relative: true},
			DueTo: &ops.When{At: at2030}},
		`{"due_to":1896076800000}`: {DueTo: &ops.When{At: at2030}},
		`{"all":true}`:             {All: true},
		`{"all":false,"topic":">","key":null,"dry_run":null}`: {Topic: ">"},
	} {
		got, err := onNATS("cancel_many", text)
		if err != nil || !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for _, c := range []struct{ json, word, field string }{
		{``, ops.WordSelection, "selection"},
		{`{}`, ops.WordSelection, "selection"},
		{`{"dry_run":true}`, ops.WordSelection, "selection"},
		{`{"all":false}`, ops.WordSelection, "selection"},
		{`{"all":"true"}`, "invalid_all", "all"},
		{`{"topic":""}`, wire.WordTopic, "topic"},
		{`{"topic":"a.>.b"}`, wire.WordTopic, "topic"},
		{`{"topic":"a*"}`, wire.WordTopic, "topic"},
		{`{"topic":7}`, wire.WordTopic, "topic"},
		{`{"key":"a\n"}`, wire.WordKey, "key"},
		{`{"key":7}`, wire.WordKey, "key"},
		{`{"due_from":"soon"}`, ops.WordDueFrom, "due_from"},
		{`{"due_to":true}`, "invalid_due_to", "due_to"},
		{`{"due_from":"2h","due_to":"1h"}`, ops.WordDueFrom, "due_from"},
		{`{"due_from":1896076800001,"due_to":1896076800000}`, ops.WordDueFrom, "due_from"},
		{`{"topic":"a","dry_run":1}`, "invalid_dry_run", "dry_run"},
		{`{"topic":"a","state":"dead"}`, ops.WordUnknownField, `"state"`},
	} {
		_, err := onNATS("cancel_many", c.json)
		t.Run(c.json, func(t *testing.T) { wantRefusal(t, err, c.word, c.field) })
	}
}

func TestRescheduleMany_NeedsOneOfDelayAtAndShift(t *testing.T) {
	t.Parallel()
	got, err := onNATS("reschedule_many", `{"topic":"a.>","shift":"-1h","dry_run":true}`)
	want := &ops.RescheduleMany{Selection: ops.Selection{Topic: "a.>", DryRun: true}, Shift: new(-time.Hour)}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, c := range []struct{ json, word, field string }{
		{`{"topic":"a"}`, ops.WordNoChange, "reschedule"},
		{`{"topic":"a","delay":"1ms","at":1896076800000}`, wire.WordDelayAndAt, "delay"},
		{`{"delay":"1ms"}`, ops.WordSelection, "selection"},
		{`{"topic":"a","delay":"1ms","priority":3}`, ops.WordUnknownField, `"priority"`},
		{`{"topic":"a","delay":"x"}`, wire.WordDelay, "delay"},
	} {
		_, err := onNATS("reschedule_many", c.json)
		t.Run(c.json, func(t *testing.T) { wantRefusal(t, err, c.word, c.field) })
	}
}

func TestRequeue_NamesOrPicks(t *testing.T) {
	t.Parallel()
	hour := &ops.When{Span: time.Hour, Relative: true}
	for text, want := range map[string]ops.Requeue{
		`{"id":"a"}`:                  {DeadOrder: ops.DeadOrder{ID: new("a")}},
		`{"id":"a","topic":"mail.x"}`: {DeadOrder: ops.DeadOrder{ID: new("a"), Topic: "mail.x"}},
		`{"id":"a","key":"k","delay":"1m","body":"x","headers":{"a":"b"}}`: {
			DeadOrder: ops.DeadOrder{ID: new("a"), Key: new("k")}, Requeue: scheduler.Requeue{Delay: time.Minute,
				Body: []byte("x"), Headers: []message.Header{{Name: "a", Value: "b"}}}},
		`{"ids":["a","b"],"delay":"5ms"}`: {DeadOrder: ops.DeadOrder{IDs: []string{"a", "b"}},
			Requeue: scheduler.Requeue{Delay: 5 * time.Millisecond}},
		`{"topic":"a.>","dry_run":true}`: {DeadOrder: ops.DeadOrder{Topic: "a.>", DryRun: true}},
		`{"from":"2h","to":"1h"}`: {DeadOrder: ops.DeadOrder{
			From: &ops.When{Span: 2 * time.Hour, Relative: true}, To: hour}},
		`{"older":"1d"}`:                              {DeadOrder: ops.DeadOrder{Older: new(24 * time.Hour)}},
		`{"older":0}`:                                 {DeadOrder: ops.DeadOrder{Older: new(time.Duration(0))}},
		`{"all":true,"delay":"0"}`:                    {DeadOrder: ops.DeadOrder{All: true}},
		`{"from":"1h","to":1896076800000}`:            {DeadOrder: ops.DeadOrder{From: hour, To: &ops.When{At: at2030}}},
		`{"topic":"a","older":"60000ms","from":null}`: {DeadOrder: ops.DeadOrder{Topic: "a", Older: new(time.Minute)}},
	} {
		if got, err := onNATS("dead_requeue", text); err != nil || !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	many := `{"ids":["a"` + strings.Repeat(`,"a"`, ops.MaxIDs-1)
	if _, err := onNATS("dead_requeue", many+"]}"); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ json, word, field string }{
		{``, ops.WordSelection, "order"},
		{`{}`, ops.WordSelection, "order"},
		{`{"delay":"1m"}`, ops.WordSelection, "order"},
		{`{"id":""}`, wire.WordID, "id"},
		{`{"ids":[]}`, "invalid_ids", "ids"},
		{`{"ids":"a"}`, "invalid_ids", "ids"},
		{`{"ids":["a",7]}`, "invalid_ids", "ids"},
		{`{"ids":["a",""]}`, "invalid_ids", "ids"},
		{many + `,"a"]}`, wire.WordTooLarge, "ids"},
		{`{"id":"a","ids":["b"]}`, "invalid_ids", "ids"},
		{`{"id":"a","topic":"b.*"}`, wire.WordTopic, "topic"},
		{`{"id":"a","topic":"b","older":"1h"}`, wire.WordID, "id"},
		{`{"ids":["a"],"topic":"b"}`, "invalid_ids", "ids"},
		{`{"ids":["a"],"older":"1h"}`, "invalid_ids", "ids"},
		{`{"id":"a","all":true}`, wire.WordID, "id"},
		{`{"key":"k"}`, wire.WordKey, "key"},
		{`{"topic":"a","key":"k"}`, wire.WordKey, "key"},
		{`{"topic":"a.*b"}`, wire.WordTopic, "topic"},
		{`{"older":"1h","from":"2h"}`, "invalid_older", "older"},
		{`{"from":"1h","to":"2h"}`, "invalid_from", "from"},
		{`{"older":"-1h"}`, "invalid_older", "older"},
		{`{"older":{}}`, "invalid_older", "older"},
		{`{"id":"a","delay":"x"}`, wire.WordDelay, "delay"},
		{`{"topic":"a","body":"x"}`, ops.WordBody, "body"},
		{`{"ids":["a"],"headers":{}}`, wire.WordHeader, "headers"},
		{`{"id":"a","at":1896076800000}`, ops.WordUnknownField, `"at"`},
	} {
		_, err := onNATS("dead_requeue", c.json)
		t.Run(fmt.Sprintf("%.40s", c.json), func(t *testing.T) { wantRefusal(t, err, c.word, c.field) })
	}
	_, err := onNATS("dead_purge", `{"id":"a","delay":"1m"}`)
	wantRefusal(t, err, ops.WordUnknownField, `"delay"`)
	if got, err := onNATS("dead_purge", `{"all":true}`); err != nil || !got.(*ops.DeadOrder).All {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestRun_HasAnEmptyBody(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "{}", " { } "} {
		if _, err := inBody("run", text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	_, err := inBody("run", `{"reason":"x"}`)
	wantRefusal(t, err, ops.WordUnknownField, `"reason"`)
	_, err = inBody("run", `x`)
	wantRefusal(t, err, ops.WordJSON, "request")
}

func TestRetry_HasOneText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"60s":                      "1m",
		"0,0":                      "0,0",
		"0,0,0":                    "0*3",
		"1m,1m,1m,2m":              "1m*3,2m",
		"exp(1s,1s,3)":             "1s*3",
		"25h,90m":                  "1d1h,1h30m",
		"1ms*5 ~1%":                "1ms*5~1%",
		"exp( 1m , 5m , 4 ) ~ 50%": "1m,2m,4m,5m~50%",
		"0.5ms":                    "1ms",
	} {
		r, err := wire.ParseRetry(text)
		if err != nil || r.String() != want {
			t.Errorf("%s: got %s, %v, want %s", text, r, err, want)
		}
	}
	long := wire.Retry{Jitter: 50}
	for i := range wire.MaxRetries { // the longest text of all
		long.Delays = append(long.Delays, wire.MaxDelay-time.Millisecond-time.Duration(i%2)*time.Millisecond)
	}
	if again, err := wire.ParseRetry(long.String()); err != nil || !reflect.DeepEqual(again, long) {
		t.Errorf("%d bytes: %v", len(long.String()), err)
	}
	if empty := (wire.Retry{Jitter: 5}); empty.String() != "" || !empty.Empty() {
		t.Error("no delays, no text")
	}
	for _, s := range []string{"0,2m,10m,10m", "exp(1s,1h,12)"} {
		r, _ := wire.ParseRetry(s)
		if again, err := wire.RetryOf(r.Delays); err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("got %+v, %v", again, err)
		}
	}
	_, err := wire.RetryOf(nil)
	wantRefusal(t, err, wire.WordRetry, "retry")
	_, err = wire.RetryOf(make([]time.Duration, wire.MaxRetries+1))
	wantRefusal(t, err, wire.WordRetry, "retry")
}

func TestCheckPattern_IsASubjectWithWildcards(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"a", "a.b", "*", ">", "a.*", "*.b", "a.>", "*.*.>"} {
		if err := wire.CheckPattern(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"", ".", "a.", "a..*", "a.>.b", ">.a", "a*", "*a", "a>", "$JS.>", "_INBOX.*", "a b",
		strings.Repeat("*.", 128) + "*"} {
		wantRefusal(t, wire.CheckPattern(s), wire.WordTopic, "topic")
	}
}
