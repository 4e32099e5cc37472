package ops_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
)

func TestDecodePush_ReadsEveryField(t *testing.T) {
	t.Parallel()
	item := ops.DecodePush([]byte(
		` {"topic":"orders.created","body":"h\u00e9llo \ud83d\ude00\n","headers":{"X-B":["2","1"],"x-a":"Zo\u00eb"},
		"delay":"20m","id":"order-7131","key":"customer 9","on_duplicate":"reject","deliver":"mq",
		"priority":255,"ttl":"3600000ms","attempt":2,
		"retry":"1m,10m*5~20%","reason":"it\nfailed"} `), "delayed")
	if item.Err != nil {
		t.Fatal(item.Err)
	}
	want := wire.Push{
		Topic: "orders.created", Delay: 20 * time.Minute, DelayText: "20m", ID: "order-7131", Key: "customer 9",
		OnDuplicate: "reject",
		Deliver:     "mq", Priority: 255, TTL: time.Hour, Attempt: 2, Reason: "it failed",
		Retry: wire.Retry{Delays: []time.Duration{time.Minute, 10 * time.Minute, 10 * time.Minute, 10 * time.Minute,
			10 * time.Minute, 10 * time.Minute}, Jitter: 20},
		Headers: []wire.Header{{Name: "x-a", Value: "Zoë"}, {Name: "X-B", Value: "2"}, {Name: "X-B", Value: "1"}},
	}
	if !reflect.DeepEqual(item.Push, want) {
		t.Errorf("got %+v\nwant %+v", item.Push, want)
	}
	if string(item.Body) != "héllo 😀\n" {
		t.Errorf("body %q", item.Body)
	}
}

func TestDecodePush_ReadsTimesAndDelaysInBothForms(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]wire.Push{
		`"delay":"1200000ms"`:           {Delay: 20 * time.Minute, DelayText: "1200000ms"},
		`"delay_ms":1200000`:            {Delay: 20 * time.Minute, DelayText: "1200000ms"},
		`"delay":"1d"`:                  {Delay: 24 * time.Hour, DelayText: "1d"},
		`"delay":0,"at":null`:           {Delay: 0, DelayText: "0"},
		`"at":1896076800000`:            {HasAt: true, At: at},
		`"at":"1896076800000"`:          {HasAt: true, At: at},
		`"at":"2030-01-31T09:00:00+01"`: {},
		`"at":"2030-01-31T08:00:00Z","body":null,"body_base64":"AP8="`: {HasAt: true, At: at},
		`"id":"i","uid":"t-0123456789abcdef","delay":"1s"`: {ID: "i", UID: "t-0123456789abcdef", Delay: time.Second,
			DelayText: "1s"},
		`"id":"i","attempt":2,"retry":[0,"2m","10m"]`: {ID: "i", Attempt: 2,
			Retry: wire.Retry{Delays: []time.Duration{0, 2 * time.Minute, 10 * time.Minute}}},
		`"delay":0,"on_duplicate":"debounce","max_wait":"60s"`: {DelayText: "0", OnDuplicate: "debounce",
			MaxWait: time.Minute},
	} {
		item := ops.DecodePush([]byte(`{"topic":"t",`+text+`}`), "delayed")
		if want.Topic = "t"; !want.HasAt && want.DelayText == "" && want.Attempt == 0 {
			wantRefusal(t, item.Err, wire.WordAt, wire.FieldAt)
			continue
		}
		if item.Err != nil || !reflect.DeepEqual(item.Push, want) {
			t.Errorf("%s: got %+v, %v", text, item.Push, item.Err)
		}
		if strings.Contains(text, "base64") && string(item.Body) != "\x00\xff" {
			t.Errorf("body %q", item.Body)
		}
	}
}

func TestDecodePush_RefusesByFieldAndWord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ json, word, field string }{
		{`{"topic":"a","delay":"1s","dealy":"2s"}`, ops.WordUnknownField, `"dealy"`},
		{`{"topic":"a","delay":"1s","delay":"1s"}`, ops.WordRepeatedField, "delay"},
		{`{"topic":"a"}`, wire.WordNoDelay, "delay"},
		{`{"topic":"a","delay":null}`, wire.WordNoDelay, "delay"},
		{`{"topic":"a","delay":"1s","at":1896076800000}`, wire.WordDelayAndAt, "delay"},
		{`{"delay":"1s"}`, wire.WordTopic, "topic"},
		{`{"topic":7,"delay":"1s"}`, wire.WordTopic, "topic"},
		{`{"topic":"delayed.a","delay":"1s"}`, wire.WordTopic, "topic"},
		{`{"topic":"a.*","delay":"1s"}`, wire.WordTopic, "topic"},
		{`{"topic":"a","delay":"-5ms"}`, wire.WordDelay, "delay"},
		{`{"topic":"a","delay":1.5}`, wire.WordDelay, "delay"},
		{`{"topic":"a","delay":1e3}`, wire.WordDelay, "delay"},
		{`{"topic":"a","delay":true}`, wire.WordDelay, "delay"},
		{`{"topic":"a","delay":"NaN"}`, wire.WordDelay, "delay"},
		{`{"topic":"a","at":1896076800}`, wire.WordAt, "at"},
		{`{"topic":"a","at":"9999-12-31T23:59:59Z"}`, wire.WordAt, "at"},
		{`{"topic":"a","delay":"1s","id":7131}`, wire.WordID, "id"},
		{`{"topic":"a","delay":"1s","id":""}`, wire.WordID, "id"},
		{`{"topic":"a","delay":"1s","key":["a"]}`, wire.WordKey, "key"},
		{`{"topic":"a","delay":"1s","priority":"5"}`, wire.WordPriority, "priority"},
		{`{"topic":"a","delay":"1s","priority":256}`, wire.WordPriority, "priority"},
		{`{"topic":"a","delay":"1s","priority":-1}`, wire.WordPriority, "priority"},
		{`{"topic":"a","delay":"1s","attempt":2}`, wire.WordAttempt, "attempt"},
		{`{"topic":"a","delay":"1s","ttl":0}`, wire.WordTTL, "ttl"},
		{`{"topic":"a","delay":"1s","ttl":{}}`, wire.WordTTL, "ttl"},
		{`{"topic":"a","delay":"1s","retry":[1,[2,{"a":3}]]}`, wire.WordRetry, "retry"},
		{`{"topic":"a","delay":"1s","retry":[]}`, wire.WordRetry, "retry"},
		{`{"topic":"a","delay":"1s","retry":["1m*2"]}`, wire.WordRetry, "retry"},
		{`{"topic":"a","delay":"1s","retry":[-1]}`, wire.WordRetry, "retry"},
		{`{"topic":"a","delay":"1s","retry":[` + strings.Repeat("1,", 100) + `1]}`, wire.WordRetry, "retry"},
		{`{"topic":"a","delay":"1s","retry":60000}`, wire.WordRetry, "retry"},
		{`{"topic":"a","delay":"1s","retry":"soon"}`, wire.WordRetry, "retry"},
		{`{"topic":"a","delay":"1s","max_wait":"1h"}`, wire.WordMaxWait, "max_wait"},
		{`{"topic":"a","delay":"1s","max_wait":0,"on_duplicate":"debounce"}`, wire.WordMaxWait, "max_wait"},
		{`{"topic":"a","delay":"1s","max_wait":true,"on_duplicate":"debounce"}`, wire.WordMaxWait, "max_wait"},
		{`{"topic":"a","delay":"1s","max_wait":"1h","on_duplicate":"keep"}`, wire.WordMaxWait, "max_wait"},
		{`{"topic":"a","delay":"1s","uid":"t-0123456789abcdeu"}`, wire.WordID, "uid"},
		{`{"topic":"a","delay":"1s","uid":"t-0123456789abcde"}`, wire.WordID, "uid"},
		{`{"topic":"a","delay":"1s","uid":"t-0123456789abcdef","id":"t-0123456789abcde0"}`, wire.WordID, "uid"},
		{`{"topic":"a","id":"i","attempt":1}`, wire.WordNoDelay, "delay"},
		{`{"topic":"a","attempt":2}`, wire.WordAttempt, "attempt"},
		{`{"topic":"a","id":"i","attempt":2,"on_duplicate":"keep"}`, wire.WordOnDuplicate, "on_duplicate"},
		{`{"topic":"a","delay":"1s","reason":"x"}`, wire.WordReason, "reason"},
		{`{"topic":"a","id":"i","attempt":2,"reason":7}`, wire.WordReason, "reason"},
		{`{"topic":"a","delay":"1s","deliver":"push"}`, wire.WordDeliver, "deliver"},
		{`{"topic":"a","delay":"1s","lease":"13h"}`, wire.WordLease, "lease"},
		{`{"topic":"a","delay":"1s","lease":"1m","deliver":"mq"}`, wire.WordLease, "lease"},
		{`{"topic":"a","delay":"1s","on_duplicate":"merge"}`, wire.WordOnDuplicate, "on_duplicate"},
		{`{"topic":"a","delay":"1s","on_duplicate":3}`, wire.WordOnDuplicate, "on_duplicate"},
		{`{"topic":"a","delay":"1s","body":{"a":1}}`, ops.WordBody, "body"},
		{`{"topic":"a","delay":"1s","body":"a","body_base64":"YQ=="}`, ops.WordBody, "body"},
		{`{"topic":"a","delay":"1s","body":"a","body_json":1}`, ops.WordBody, "body"},
		{`{"topic":"a","delay":"1s","body":"a","body_json":null}`, ops.WordBody, "body"},
		{`{"topic":"a","delay":"1s","body_json":1,"body_base64":"YQ=="}`, ops.WordBody, "body"},
		{`{"topic":"a","delay":"1s","body_json":1,"body_json":1}`, ops.WordRepeatedField, "body_json"},
		{`{"topic":"a","delay":"1s","body_json":{]}`, ops.WordJSON, "request"},
		{`{"topic":"a","delay":"1s","headers":{"Status":["paid"]},"body":null}`, wire.WordHeader, "Status"},
		{`{"topic":"a","delay":"1s","body_base64":"YQ"}`, ops.WordBody, "body_base64"},
		{`{"topic":"a","delay":"1s","body_base64":"Y\u0051=="}`, "", ""},
		{`{"topic":"a","delay":"1s","headers":[]}`, wire.WordHeader, "headers"},
		{`{"topic":"a","delay":"1s","headers":{"a":1}}`, wire.WordHeader, "a"},
		{`{"topic":"a","delay":"1s","headers":{"a":["1",["2"]]}}`, wire.WordHeader, "a"},
		{`{"topic":"a","delay":"1s","headers":{"a":"1","a":"2"}}`, ops.WordRepeatedField, "a"},
		{`{"topic":"a","delay":"1s","headers":{"a b":"1"}}`, wire.WordHeader, "headers"},
		{`{"topic":"a","delay":"1s","headers":{"a":"1\r\nb: 2"}}`, wire.WordHeader, "a"},
		{`{"topic":"a","delay":"1s","headers":{"Nats-Rollup":"sub"}}`, wire.WordHeader, "Nats-Rollup"},
		{`{"topic":"a","delay":"1s","headers":{"Nats-Pin-Id":"a"},"body":"x"}`, wire.WordHeader, "Nats-Pin-Id"},
		{`{"topic":"a","delay":"1s","headers":{"Status":"503"}}`, wire.WordHeader, "Status"},
		{`{"topic":"a","delay":"1s","headers":{"sTATUS":"paid"},"body":""}`, wire.WordHeader, "sTATUS"},
		{`{"topic":"a","delay":"1s","headers":{"Status":["paid"]},"body_base64":""}`, wire.WordHeader, "Status"},
		{`{"topic":"a","delay":"1s","headers":{"Status":"paid"},"body":"x"}`, "", ""},
		{`{"topic":"a","delay":"1s","headers":{"tarry-id":"1"}}`, wire.WordHeader, "tarry-id"},
		{`{"topic":"a","delay":"1s","headers":{"a":"` + strings.Repeat("v", wire.MaxHeaders) + `"}}`,
			wire.WordTooLarge, "headers"},
		{`{"topic":"a","delay":"1s","headers":{` + nulls(20_000) + `}}`, wire.WordTooLarge, "headers"},
		{`[]`, ops.WordJSON, "push"},
		{`null`, ops.WordJSON, "push"},
		{``, ops.WordJSON, "request"},
		{`{"topic":"a","delay":"1s"`, ops.WordJSON, "request"},
		{`{"topic":"a","delay":"1s"}}`, ops.WordJSON, "request"},
		{`{"topic":"a","delay":"1s",}`, ops.WordJSON, "request"},
		{`{"topic":"a","delay":01}`, ops.WordJSON, "request"},
		{`{"topic":"a","delay":nul}`, ops.WordJSON, "request"},
		{`{"topic":"a","delay":"1s","body":"\ud83d"}`, ops.WordJSON, "request"},
		{`{"topic":"a","delay":"1s","body":"\x"}`, ops.WordJSON, "request"},
		{"{\"topic\":\"a\",\"delay\":\"1s\",\"body\":\"\xff\"}", ops.WordJSON, "request"},
		{"{\"topic\":\"a\",\"delay\":\"1s\",\"body\":\"\n\"}", ops.WordJSON, "request"},
		{`{"topic":"a","delay":"1s","x":` + strings.Repeat("[", 100_000), ops.WordJSON, "request"},
	} {
		item := ops.DecodePush([]byte(c.json), "delayed")
		if c.word == "" {
			if item.Err != nil {
				t.Errorf("%.80s: %v", c.json, item.Err)
			}
			continue
		}
		if item.Err == nil {
			t.Errorf("%.80s: accepted", c.json)
			continue
		}
		t.Run(fmt.Sprintf("%.60s", c.json), func(t *testing.T) { wantRefusal(t, item.Err, c.word, c.field) })
	}
}

func TestDecodeBatch_AnswersEachPushInItsPlace(t *testing.T) {
	t.Parallel()
	data := []byte(
		`{"messages":[{"topic":"a","delay":"1s","body":"1"},{"topic":"a..b","delay":"1s"},7,{"topic":"c","delay":"5ms"}]}`)
	if !ops.IsBatch(data) || ops.IsBatch([]byte(`{"topic":"messages"}`)) || ops.IsBatch(nil) ||
		ops.IsBatch([]byte(`{`)) {
		t.Error("a batch is recognized by its first field")
	}
	items, err := ops.DecodeBatch(data, "delayed")
	if err != nil || len(items) != 4 {
		t.Fatalf("got %d items, %v", len(items), err)
	}
	wantRefusal(t, items[1].Err, wire.WordTopic, wire.FieldTopic)
	wantRefusal(t, items[2].Err, ops.WordJSON, "push")
	if items[0].Err != nil || string(items[0].Body) != "1" || items[3].Err != nil || items[3].Push.Topic != "c" {
		t.Errorf("got %+v", items)
	}
}

func TestDecodeBatch_RefusesAsAWhole(t *testing.T) {
	t.Parallel()
	one := `{"topic":"a","delay":"1s"}`
	many := func(n int) string { return `{"messages":[` + strings.Repeat(one+",", n-1) + one + `]}` }
	if items, err := ops.DecodeBatch([]byte(many(ops.MaxBatch)), "delayed"); err != nil ||
		len(items) != ops.MaxBatch {
		t.Fatalf("%d are allowed: got %d, %v", ops.MaxBatch, len(items), err)
	}
	for _, c := range []struct{ json, word, field string }{
		{many(ops.MaxBatch + 1), wire.WordTooLarge, "messages"},
		{`{"messages":[]}`, ops.WordJSON, "messages"},
		{`{}`, ops.WordJSON, "messages"},
		{`{"messages":{}}`, ops.WordJSON, "messages"},
		{`{"messages":[` + one + `],"messages":[]}`, ops.WordRepeatedField, "messages"},
		{`{"messages":[` + one + `],"delay":"1ms"}`, ops.WordUnknownField, `"delay"`},
		{`{"messages":[` + one + `}`, ops.WordJSON, "request"},
		{`{"messages":[` + one + ` ` + one + `]}`, ops.WordJSON, "request"},
	} {
		_, err := ops.DecodeBatch([]byte(c.json), "delayed")
		wantRefusal(t, err, c.word, c.field)
	}
}

func TestGet_TellsAnEmptyKeyFromNone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ops.Named{
		`{"id":"a","key":""}`:                   {ID: "a", Key: new("")},
		`{"id":"a"}`:                            {ID: "a"},
		`{"id":"a","topic":"mail.x","key":"k"}`: {ID: "a", Topic: "mail.x", Key: new("k")},
		`{"topic":null,"id":"a"}`:               {ID: "a"},
	} {
		if got, err := onNATS("get", text); err != nil || !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string][2]string{
		``:                            {wire.WordID, "id"},
		`{}`:                          {wire.WordID, "id"},
		`{"id":7}`:                    {wire.WordID, "id"},
		`{"id":"a","id":""}`:          {ops.WordRepeatedField, "id"},
		`{"id":"a","x":{}}`:           {ops.WordUnknownField, `"x"`},
		`{"id":"a","topic":""}`:       {wire.WordTopic, "topic"},
		`{"id":"a","topic":"mail.*"}`: {wire.WordTopic, "topic"},
		`{"id":"a","topic":7}`:        {wire.WordTopic, "topic"},
		`{"id":"a"`:                   {ops.WordJSON, "request"},
		`"a"`:                         {ops.WordJSON, "request"},
	} {
		_, err := onNATS("get", text)
		wantRefusal(t, err, want[0], want[1])
	}
}

func TestAppendResults_IsJSONInTheFormOfTheContract(t *testing.T) {
	t.Parallel()
	text := ops.AppendResults(nil, []ops.Result{
		{Answer: ops.Answer{ID: "a \"b\" é\x01", UID: "t-1", Due: 1896076800001, State: "waiting", Version: 1,
			Durable: ops.DurableRedis}},
		{Problem: &ops.Problem{Status: 409, Word: "duplicate_id", Detail: "taken", UID: "t-2"}},
		{Answer: ops.Answer{ID: "b", UID: "t-3", Due: 1896076800000, State: "delivered", Version: 3,
			Durable: ops.DurableRedis, Duplicate: true}},
		{Answer: ops.Answer{ID: "c", UID: "t-4", Due: 1896076800000, State: "waiting", Version: 2,
			Durable: ops.DurableRedis, Merged: true}},
	})
	var got, want any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	_ = json.Unmarshal([]byte(`{"failed":1,"results":[
		{"id":"a \"b\" é\u0001","uid":"t-1","due":"2030-01-31T08:00:00.001Z","state":"waiting","version":1,
			"durable":"redis"},
		{"error":"duplicate_id","detail":"taken","uid":"t-2"},
		{"id":"b","uid":"t-3","due":"2030-01-31T08:00:00.000Z","state":"delivered","version":3,
			"durable":"redis","duplicate":true},
		{"id":"c","uid":"t-4","due":"2030-01-31T08:00:00.000Z","state":"waiting","version":2,
			"durable":"redis","merged":true}]}`), &want)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %s", text)
	}
}

func TestCheckLimit_CountsHeadersAndBody(t *testing.T) {
	t.Parallel()
	p := wire.Push{Headers: []wire.Header{{Name: "ab", Value: "cde"}}} // 9 bytes with ": " and the line end
	if err := p.CheckLimit(91, 100); err != nil {
		t.Error(err)
	}
	wantRefusal(t, p.CheckLimit(92, 100), wire.WordTooLarge, wire.FieldBody)
}

func TestOptions_DifferWhereThePushesDo(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1896076800000)
	seen := map[string]int{}
	for i, p := range []wire.Push{
		{DelayText: "20m"}, {DelayText: "1200000"}, {HasAt: true, At: at}, {DelayText: "20m", Priority: 1},
		{DelayText: "20m", TTL: time.Second},
		{DelayText: "20m", Deliver: "mq"},
	} {
		if j, ok := seen[p.Options()]; ok {
			t.Errorf("pushes %d and %d read the same: %q", i, j, p.Options())
		}
		seen[p.Options()] = i
	}
	a, b := wire.Push{DelayText: "20m"},
		wire.Push{DelayText: "20m", OnDuplicate: wire.Reject, ID: "a", Attempt: 3, Delay: 1}
	if a.Options() != b.Options() {
		t.Errorf("%q and %q mean the same", a.Options(), b.Options())
	}
}

func BenchmarkDecodeBatch(b *testing.B) {
	one := `{"topic":"orders.created","delay":"20m","body":"` + strings.Repeat("x", 256) + `"}`
	data := []byte(`{"messages":[` + strings.Repeat(one+",", 999) + one + `]}`)
	b.ReportAllocs()
	for b.Loop() {
		if items, err := ops.DecodeBatch(data, "delayed"); err != nil || items[999].Err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/push")
}

// nulls are names without a value.
func nulls(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"a%d":null,`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

func wantRefusal(t *testing.T, err error, word, field string) {
	t.Helper()
	var refused *wire.Error
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a refusal %s", err, word)
	}
	if refused.Word != word || refused.Field != field {
		t.Fatalf("got %s of %s (%v), want %s of %s", refused.Word, refused.Field, err, word, field)
	}
}

func TestDecodePush_RefusesTagsAndTheServersOwnAsHeaders(t *testing.T) {
	t.Parallel()
	refused := func(name, value, word, field string) {
		t.Helper()
		text := fmt.Sprintf(`{"topic":"orders","delay":"1s","headers":{%q:%q}}`, name, value)
		item := ops.DecodePush([]byte(text), "delayed")
		wantRefusal(t, item.Err, word, field)
	}
	for name, field := range map[string]string{"Tarry-Id": "Tarry-Id", "tarry-due": "tarry-due",
		"Nats-Msg-Id": "Nats-Msg-Id", "nats-ttl": "nats-ttl", "a b": "headers"} {
		refused(name, "1", wire.WordHeader, field)
	}
	refused("X", strings.Repeat("v", wire.MaxHeaders), wire.WordTooLarge, "headers")
	_, err := wire.Decode("delayed.orders", "delayed", map[string][]string{"Tarry-Delay": {"1s"}, "X": {"\xff"}}, 0)
	wantRefusal(t, err, wire.WordHeader, "X")
}
