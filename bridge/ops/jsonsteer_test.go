package ops_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
)

var at2030 = time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)

func TestDecodeEdit_ReadsEveryField(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ops.Edit{
		`{"delay":"20m"}`:              {Delay: 20 * time.Minute, HasDelay: true},
		`{"delay":0}`:                  {HasDelay: true},
		`{"at":1896076800000}`:         {At: at2030, HasAt: true},
		`{"shift":"-10m"}`:             {Shift: -10 * time.Minute, HasShift: true},
		`{"shift":"+10m"}`:             {Shift: 10 * time.Minute, HasShift: true},
		`{"shift":"-1500ms"}`:          {Shift: -1500 * time.Millisecond, HasShift: true},
		`{"priority":0,"delay":null}`:  {HasPriority: true},
		`{"body":""}`:                  {Body: []byte{}, HasBody: true},
		`{"body_base64":"AP8="}`:       {Body: []byte{0, 255}, HasBody: true},
		`{"body_json":[1, {"a":"ä"}]}`: {Body: []byte(`[1, {"a":"ä"}]`), HasBody: true},
		`{"body_json": null}`:          {Body: []byte("null"), HasBody: true},
		`{"headers":{}}`:               {HasHeaders: true},
		`{"headers":{"b":"1","A":[]}}`: {HasHeaders: true, Headers: []wire.Header{{Name: "b", Value: "1"}}},
	} {
		got, err := ops.DecodeEdit([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", text, got, err, want)
		}
	}
	named, got, err := ops.DecodeReschedule(
		[]byte(`{"id":"a","key":"","version":3,"shift":"1s","priority":9,"body":"x","headers":{"a":"b"}}`))
	want := ops.Edit{Shift: time.Second, HasShift: true, Priority: 9, HasPriority: true, Body: []byte("x"),
		HasBody: true, HasHeaders: true,
		Headers: []wire.Header{{Name: "a", Value: "b"}}, Version: 3}
	if err != nil || named != (ops.Named{ID: "a", Keyed: true}) || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v %+v, %v", named, got, err)
	}
}

func TestDecodeEdit_RefusesByFieldAndWord(t *testing.T) {
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
		{`{"shift":"--1s"}`, ops.WordShift, "shift"},
		{`{"shift":"-+1s"}`, ops.WordShift, "shift"},
		{`{"shift":"-3654d"}`, ops.WordShift, "shift"},
		{`{"shift":[]}`, ops.WordShift, "shift"},
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
		_, err := ops.DecodeEdit([]byte(c.json))
		t.Run(c.json, func(t *testing.T) { wantRefusal(t, err, c.word, c.field) })
	}
	for _, c := range []struct{ json, word, field string }{
		{`{"delay":"1ms"}`, wire.WordID, "id"},
		{`{"id":"a"}`, ops.WordNoChange, "reschedule"},
		{`{"id":"a","version":0,"delay":"1ms"}`, ops.WordBadVersion, "version"},
		{`{"id":"a","version":-1,"delay":"1ms"}`, ops.WordBadVersion, "version"},
		{`{"id":"a","version":"1","delay":"1ms"}`, ops.WordBadVersion, "version"},
		{`{"id":7,"delay":"1ms"}`, wire.WordID, "id"},
	} {
		_, _, err := ops.DecodeReschedule([]byte(c.json))
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

func TestDecodeSelection_NeedsABoundOrAll(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ops.Selection{
		`{"topic":"orders.>"}`:                   {Topic: "orders.>"},
		`{"topic":"orders.*.eu","dry_run":true}`: {Topic: "orders.*.eu", DryRun: true},
		`{"key":""}`:                             {HasKey: true},
		`{"key":"customer 9"}`:                   {Key: "customer 9", HasKey: true},
		`{"due_from":"1h","due_to":"2030-01-31T08:00:00Z"}`: {From: ops.When{Span: time.Hour, Relative: true},
			HasFrom: true, To: ops.When{At: at2030}, HasTo: true},
		`{"due_to":1896076800000}`: {To: ops.When{At: at2030}, HasTo: true},
		`{"all":true}`:             {All: true},
		`{"all":false,"topic":">","key":null,"dry_run":null}`: {Topic: ">"},
	} {
		got, err := ops.DecodeSelection([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
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
		{`{"due_to":true}`, ops.WordDueTo, "due_to"},
		{`{"due_from":"2h","due_to":"1h"}`, ops.WordDueFrom, "due_from"},
		{`{"due_from":1896076800001,"due_to":1896076800000}`, ops.WordDueFrom, "due_from"},
		{`{"topic":"a","dry_run":1}`, ops.WordDryRun, "dry_run"},
		{`{"topic":"a","state":"dead"}`, ops.WordUnknownField, `"state"`},
	} {
		_, err := ops.DecodeSelection([]byte(c.json))
		t.Run(c.json, func(t *testing.T) { wantRefusal(t, err, c.word, c.field) })
	}
}

func TestDecodeRescheduleMany_NeedsOneOfDelayAtAndShift(t *testing.T) {
	t.Parallel()
	sel, edit, err := ops.DecodeRescheduleMany([]byte(`{"topic":"a.>","shift":"-1h","dry_run":true}`))
	if err != nil || !reflect.DeepEqual(sel, ops.Selection{Topic: "a.>", DryRun: true}) ||
		!reflect.DeepEqual(edit, ops.Edit{Shift: -time.Hour, HasShift: true}) {
		t.Errorf("got %+v %+v, %v", sel, edit, err)
	}
	for _, c := range []struct{ json, word, field string }{
		{`{"topic":"a"}`, ops.WordNoChange, "reschedule"},
		{`{"topic":"a","delay":"1ms","at":1896076800000}`, wire.WordDelayAndAt, "delay"},
		{`{"delay":"1ms"}`, ops.WordSelection, "selection"},
		{`{"topic":"a","delay":"1ms","priority":3}`, ops.WordUnknownField, `"priority"`},
		{`{"topic":"a","delay":"x"}`, wire.WordDelay, "delay"},
	} {
		_, _, err := ops.DecodeRescheduleMany([]byte(c.json))
		t.Run(c.json, func(t *testing.T) { wantRefusal(t, err, c.word, c.field) })
	}
}

func TestDecodeDeadOrder_NamesOrPicks(t *testing.T) {
	t.Parallel()
	hour := ops.When{Span: time.Hour, Relative: true}
	for text, want := range map[string]ops.DeadOrder{
		`{"id":"a"}`:                  {One: ops.Named{ID: "a"}},
		`{"id":"a","topic":"mail.x"}`: {One: ops.Named{ID: "a", Topic: "mail.x"}},
		`{"id":"a","key":"k","delay":"1m","body":"x","headers":{"a":"b"}}`: {
			One: ops.Named{ID: "a", Key: "k", Keyed: true}, Delay: time.Minute,
			Body: []byte("x"), HasBody: true, HasHeaders: true, Headers: []wire.Header{{Name: "a", Value: "b"}}},
		`{"ids":["a","b"],"delay":"5ms"}`: {IDs: []string{"a", "b"}, Delay: 5 * time.Millisecond},
		`{"topic":"a.>","dry_run":true}`:  {Topic: "a.>", DryRun: true},
		`{"from":"2h","to":"1h"}`: {From: ops.When{Span: 2 * time.Hour, Relative: true}, To: hour,
			HasFrom: true, HasTo: true},
		`{"older":"1d"}`:                              {Older: 24 * time.Hour, HasOlder: true},
		`{"older":0}`:                                 {HasOlder: true},
		`{"all":true,"delay":"0"}`:                    {All: true},
		`{"from":"1h","to":1896076800000}`:            {From: hour, To: ops.When{At: at2030}, HasFrom: true, HasTo: true},
		`{"topic":"a","older":"60000ms","from":null}`: {Topic: "a", Older: time.Minute, HasOlder: true},
	} {
		got, err := ops.DecodeDeadOrder([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
		if got.Selects() != (got.One.ID == "" && got.IDs == nil) {
			t.Errorf("%s: selects %v", text, got.Selects())
		}
	}
	many := `{"ids":["a"` + strings.Repeat(`,"a"`, ops.MaxIDs-1)
	if o, err := ops.DecodeDeadOrder([]byte(many + "]}")); err != nil || len(o.IDs) != ops.MaxIDs {
		t.Errorf("got %d, %v", len(o.IDs), err)
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
		_, err := ops.DecodeDeadOrder([]byte(c.json))
		t.Run(fmt.Sprintf("%.40s", c.json), func(t *testing.T) { wantRefusal(t, err, c.word, c.field) })
	}
	_, err := ops.DecodePurge([]byte(`{"id":"a","delay":"1m"}`))
	wantRefusal(t, err, ops.WordUnknownField, `"delay"`)
	if o, err := ops.DecodePurge([]byte(`{"all":true}`)); err != nil || !o.All {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestDecodeEmpty_HasNoFields(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "{}", " { } "} {
		if err := ops.DecodeEmpty([]byte(text), "a run"); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	wantRefusal(t, ops.DecodeEmpty([]byte(`{"reason":"x"}`), "a run"), ops.WordUnknownField, `"reason"`)
	wantRefusal(t, ops.DecodeEmpty([]byte(`x`), "a run"), ops.WordJSON, "request")
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
