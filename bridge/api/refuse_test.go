package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/api"
)

// badPushes is what no push may be, with the word and something of the sentence that refuses it.
var badPushes = []struct {
	name, body   string
	status       int
	word, detail string
}{
	{"no topic", `{"delay":"1s"}`, 400, "invalid_topic", "topic is empty; it needs 1 to 255 bytes"},
	{"empty topic", `{"topic":"","delay":"1s"}`, 400, "invalid_topic", "topic is empty"},
	{"wildcard *", `{"topic":"orders.*","delay":"1s"}`, 400, "invalid_topic", "wildcard"},
	{"wildcard >", `{"topic":"orders.>","delay":"1s"}`, 400, "invalid_topic", "wildcard"},
	{"empty token", `{"topic":"orders..a","delay":"1s"}`, 400, "invalid_topic", "empty token"},
	{"blank in the topic", `{"topic":"orders a","delay":"1s"}`, 400, "invalid_topic", "blank"},
	{"control in the topic", `{"topic":"orders\u0000a","delay":"1s"}`, 400, "invalid_topic", "control character"},
	{"long topic", `{"topic":"` + strings.Repeat("a", 256) + `","delay":"1s"}`, 400, "invalid_topic",
		"256 bytes, the limit is 255"},
	{"$ topic", `{"topic":"$JS.API.x","delay":"1s"}`, 400, "invalid_topic", `"$"`},
	{"inbox topic", `{"topic":"_INBOX.x","delay":"1s"}`, 400, "invalid_topic", "_INBOX"},
	{"intake topic", `{"topic":"delayed.a","delay":"1s"}`, 400, "invalid_topic", `"delayed."`},
	{"tarry's topic", `{"topic":"tarry.x.api","delay":"1s"}`, 400, "invalid_topic", `"tarry."`},
	{"topic of another type", `{"topic":["a"],"delay":"1s"}`, 400, "invalid_topic", "not a string"},
	{"neither delay nor at", `{"topic":"a"}`, 400, "missing_delay", "delay and at are both missing"},
	{"delay and at", `{"topic":"a","delay":"1ms","at":"2030-01-31T08:00:00Z"}`, 400, "delay_and_at", "both given"},
	{"negative delay", `{"topic":"a","delay":"-1ms"}`, 400, "invalid_delay", "the least is 0"},
	{"negative delay as text", `{"topic":"a","delay":"-5m"}`, 400, "invalid_delay", "negative"},
	{"NaN", `{"topic":"a","delay":"NaN"}`, 400, "invalid_delay", "NaN"},
	{"bare NaN", `{"topic":"a","delay":NaN}`, 400, "invalid_json", "unknown word"},
	{"infinite", `{"topic":"a","delay":"+Inf"}`, 400, "invalid_delay", "not a duration"},
	{"unparsable delay", `{"topic":"a","delay":"soon"}`, 400, "invalid_delay", "want a duration such as 20m"},
	{"empty delay", `{"topic":"a","delay":""}`, 400, "invalid_delay", "is empty"},
	{"overflowing delay", `{"topic":"a","delay_ms":99999999999999999999}`, 400, "invalid_delay", "the limit is 3653 days"},
	{"a delay without a unit", `{"topic":"a","delay":20}`, 400, "invalid_delay", "write 20ms for milliseconds"},
	{"a delay without a unit in text", `{"topic":"a","delay":"20"}`, 400, "invalid_delay", "has no unit"},
	{"a ttl without a unit", `{"topic":"a","delay":"1s","ttl":60}`, 400, "invalid_ttl", "has no unit"},
	{"two delays", `{"topic":"a","delay":"1s","delay_ms":1000}`, 400, "repeated_field", "delay_ms"},
	{"two delays, in the other order", `{"topic":"a","delay_ms":1000,"delay":"1s"}`, 400, "repeated_field", "delay_ms"},
	{"milliseconds in text", `{"topic":"a","delay_ms":"20m"}`, 400, "invalid_delay", "is not a number"},
	{"negative milliseconds", `{"topic":"a","delay_ms":-1}`, 400, "invalid_delay", "is negative"},
	{"overflowing duration", `{"topic":"a","delay":"9999999h"}`, 400, "invalid_delay", "the limit is 3653 days"},
	{"a billion digits' number", `{"topic":"a","delay":1e1000000000}`, 400, "invalid_delay", "delay"},
	{"eleven years", `{"topic":"a","delay":"4015d"}`, 400, "invalid_delay", "the limit is 3653 days"},
	{"delay as an object", `{"topic":"a","delay":{"ms":5}}`, 400, "invalid_delay", "delay"},
	{"seconds for milliseconds", `{"topic":"a","at":1896076800}`, 400, "invalid_at", "looks like seconds"},
	{"the zero time of Go", `{"topic":"a","at":"0001-01-01T00:00:00Z"}`, 400, "invalid_at",
		"the earliest time is 1973-03-03T09:46:40Z"},
	{"year 9999", `{"topic":"a","at":"9999-12-31T23:59:59Z"}`, 400, "invalid_at", "the limit is 3653 days"},
	{"eleven years ahead", `{"topic":"a","at":"2400-01-01T00:00:00Z"}`, 400, "too_far", "limit"},
	{"at without zone", `{"topic":"a","at":"2030-01-31T08:00:00"}`, 400, "invalid_at", "want RFC 3339"},
	{"empty id", hourly(`,"id":""`), 400, "invalid_id", "1 to 128 bytes"},
	{"long id", hourly(`,"id":"` + strings.Repeat("x", 129) + `"`), 400, "invalid_id", "the limit is 128"},
	{"control in the id", hourly(`,"id":"a\nb"`), 400, "invalid_id", "control character"},
	{"id as a number", hourly(`,"id":7131`), 400, "invalid_id", "not a string"},
	{"long key", hourly(`,"key":"` + strings.Repeat("x", 129) + `"`), 400, "invalid_key", "the limit is 128"},
	{"priority above", hourly(`,"priority":256`), 400, "invalid_priority", "0 to 255"},
	{"priority below", hourly(`,"priority":-1`), 400, "invalid_priority", "0 to 255"},
	{"priority as text", hourly(`,"priority":"high"`), 400, "invalid_priority", "not a number"},
	{"ttl zero", hourly(`,"ttl":0`), 400, "invalid_ttl", "the least is 1ms"},
	{"unknown merging", hourly(`,"on_duplicate":"merge"`), 400, "invalid_on_duplicate", `want "reject"`},
	{"merging of another type", hourly(`,"on_duplicate":true`), 400, "invalid_on_duplicate", "not a string"},
	{"a retry that merges", hourly(`,"id":"a","attempt":2,"on_duplicate":"replace"`), 400,
		"invalid_on_duplicate", "attempt"},
	{"max_wait without debounce", hourly(`,"max_wait":"1h"`), 400, "invalid_max_wait", "debounce"},
	{"max_wait with replace", hourly(`,"on_duplicate":"replace","max_wait":"1h"`), 400, "invalid_max_wait", "debounce"},
	{"max_wait that is none", hourly(`,"on_duplicate":"debounce","max_wait":"soon"`), 400,
		"invalid_max_wait", "max_wait"},
	{"retry that is none", hourly(`,"retry":"often"`), 400, "invalid_retry", "retry"},
	{"retry without delays", hourly(`,"retry":[]`), 400, "invalid_retry", "retry"},
	{"retry below", hourly(`,"retry":"-5m"`), 400, "invalid_retry", "retry"},
	{"retry without end", hourly(`,"retry":"1m*1000000"`), 400, "invalid_retry", "retry"},
	{"retry of another type", hourly(`,"retry":{"n":1}`), 400, "invalid_retry", "retry"},
	{"lease for NATS", hourly(`,"deliver":"mq","lease":"1m"`), 400, "invalid_lease", "pull"},
	{"lease below", hourly(`,"deliver":"pull","lease":"99ms"`), 400, "invalid_lease", "100ms"},
	{"lease beyond", hourly(`,"deliver":"pull","lease":"12h1ms"`), 400, "invalid_lease", "12h"},
	{"unknown field", hourly(`,"dely":5`), 400, "unknown_field", `"dely"`},
	{"repeated field", hourly(`,"delay":"2h"`), 400, "repeated_field", "delay"},
	{"Nats header", hourly(`,"headers":{"Nats-Rollup":"all"}`), 400, "invalid_header", "Nats-Rollup"},
	{"status without a body", `{"topic":"orders","delay":"1h","headers":{"Status":"paid"}}`, 400,
		"invalid_header", "Status"},
	{"Nats header in another case", hourly(`,"headers":{"nAtS-ttl":"1s"}`), 400, "invalid_header", "nAtS-ttl"},
	{"tag among the headers", hourly(`,"headers":{"Tarry-Delay":"1s"}`), 400, "invalid_header", "Tarry-Delay"},
	{"control in a header", hourly(`,"headers":{"X":"a\r\nNats-Rollup: all"}`), 400, "invalid_header",
		"control character"},
	{"blank in a header's name", hourly(`,"headers":{"X Y":"a"}`), 400, "invalid_header", "headers"},
	{"64 KiB of headers", hourly(`,"headers":{"X":"` + strings.Repeat("v", 64<<10) + `"}`), 413, "too_large",
		"the limit is 32768"},
	{"headers of another type", hourly(`,"headers":{"X":{"y":1}}`), 400, "invalid_header", "X"},
	{"body of another type", hourly(`,"body":{"a":1}`), 400, "invalid_body", "body"},
	{"two bodies", hourly(`,"body":"a","body_base64":"YQ=="`), 400, "invalid_body", "both given"},
	{"broken base64", hourly(`,"body_base64":"%%"`), 400, "invalid_body", "base64"},
	{"attempt without a name", hourly(`,"attempt":2`), 400, "invalid_attempt", "attempt"},
	{"no JSON", `topic=a&delay=1s`, 400, "invalid_json", "byte"},
	{"nothing", ``, 400, "invalid_json", "request"},
	{"a list", `[1]`, 400, "invalid_json", "object"},
	{"cut off", `{"topic":"a","delay":"1s"`, 400, "invalid_json", "byte"},
	{"two values", hourly("") + hourly(""), 400, "invalid_json", "more text"},
	{"deep nesting", hourly(`,"x":` + strings.Repeat(`[`, 200_000)), 400, "invalid_json", "32 levels"},
	{"not UTF-8", "{\"topic\":\"a\",\"delay\":\"1s\",\"body\":\"\xff\xfe\"}", 400, "invalid_json", "UTF-8"},
	{"a batch of its own", `{"messages":[` + hourly("") + `]}`, 400, "unknown_field", `"messages"`},
}

func TestPush_RefusesBadInputByFieldAndLimitAndWritesNothing(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, c := range badPushes {
		t.Run(c.name, func(t *testing.T) {
			a := call(t, d, "POST", "/v1/messages", c.body).want(t, c.status, c.word)
			if !strings.Contains(a.detail(), c.detail) {
				t.Errorf("got %q, want something of %q", a.detail(), c.detail)
			}
			if len(a.raw) > 600 {
				t.Errorf("the answer has %d bytes", len(a.raw))
			}
			if n := d.stored(t); n != 0 {
				t.Fatalf("%d messages were written", n)
			}
		})
	}
}

func TestBatch_RefusesEachBadPushInItsPlaceAndKeepsTheOthers(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, c := range badPushes {
		if c.word == "invalid_json" && c.name != "a list" || c.name == "bare NaN" {
			continue // these break the whole request
		}
		t.Run(c.name, func(t *testing.T) {
			before := d.stored(t)
			a := call(t, d, "POST", "/v1/messages/batch",
				`{"messages":[`+hourly("")+`,`+c.body+`,`+hourly("")+`]}`).want(t, 200, "")
			results, _ := a.json["results"].([]any)
			if len(results) != 3 {
				t.Fatalf("got %s", a.raw)
			}
			for i, r := range results {
				r, _ := r.(map[string]any)
				if i == 1 && (r["error"] != c.word || !strings.Contains(fmt.Sprint(r["detail"]), c.detail)) ||
					i != 1 && r["state"] != "waiting" {
					t.Errorf("%d: got %v", i, r)
				}
			}
			if n := d.stored(t) - before; n != 2 {
				t.Errorf("%d messages were written, want 2", n)
			}
		})
	}
}

func TestBatch_RefusesAsAWholeOnlyWhatItCannotRead(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, c := range []struct{ body, word, detail string }{
		{`{"messages":[` + strings.Repeat(hourly("")+",", 1000) + hourly("") + `]}`, "too_large",
			"more than the limit of 1000"},
		{`{"messages":[]}`, "invalid_json", "1 to 1000"},
		{`{}`, "invalid_json", "1 to 1000"},
		{`[` + hourly("") + `]`, "invalid_json", "byte"},
		{hourly(""), "unknown_field", `"topic"`},
		{`{"messages":[` + hourly("") + `],"more":1}`, "unknown_field", `"more"`},
		{`{"messages":[` + hourly(""), "invalid_json", "byte"},
		{``, "invalid_json", "byte"},
	} {
		status := 400
		if c.word == "too_large" {
			status = 413
		}
		a := call(t, d, "POST", "/v1/messages/batch", c.body).want(t, status, c.word)
		if !strings.Contains(a.detail(), c.detail) {
			t.Errorf("%.40s: got %q", c.body, a.detail())
		}
	}
	if n := d.stored(t); n != 0 {
		t.Errorf("%d messages were written", n)
	}
}

func TestBatch_AnswersAThousandInOrder(t *testing.T) {
	t.Parallel()
	d := open(t)
	var b strings.Builder
	b.WriteString(`{"messages":[`)
	for i := range 1000 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(hourly(fmt.Sprintf(`,"id":"m%d"`, i)))
	}
	b.WriteString(`]}`)
	for round, duplicate := range []any{nil, true} {
		results, _ := call(t, d, "POST", "/v1/messages/batch", b.String()).want(t, 200, "").json["results"].([]any)
		if len(results) != 1000 {
			t.Fatalf("round %d: %d results", round, len(results))
		}
		for i, r := range results {
			r, _ := r.(map[string]any)
			if r["id"] != fmt.Sprintf("m%d", i) || r["duplicate"] != duplicate {
				t.Fatalf("round %d, %d: got %v", round, i, r)
			}
		}
	}
	if n := d.stored(t); n != 1000 {
		t.Errorf("%d messages wait", n)
	}
}

func TestPush_HoldsNATSsLimitWithHeadersCounted(t *testing.T) {
	t.Parallel()
	limit := int64(0)
	d := open(t, func(c *api.Config) { c.MaxPayload = func() int64 { return limit } })
	limit = 2048
	refused := call(t, d, "POST", "/v1/messages", hourly(`,"body":"`+strings.Repeat("x", 2048)+`"`)).want(t,
		413, "too_large")
	if !strings.Contains(refused.detail(), "body") || !strings.Contains(refused.detail(), "max_payload is 2048") {
		t.Errorf("got %q", refused.detail())
	}
	most := 0
	for n := 1024; n <= 2048; n++ {
		if a := call(t, d, "POST", "/v1/messages", hourly(`,"body":"`+strings.Repeat("x", n)+`"`)); a.status == 201 {
			most = n
		}
	}
	if most < 1024 || most > 2048-100 {
		t.Errorf("the largest body that passes has %d bytes", most)
	}
	call(t, d, "POST", "/v1/messages",
		hourly(fmt.Sprintf(`,"body":"%s","headers":{"X":"y"}`, strings.Repeat("x", most)))).want(t, 413, "too_large")
	limit = 0
	call(t, d, "POST", "/v1/messages", hourly(`,"body":"`+strings.Repeat("x", 4096)+`"`)).want(t, 201, "")
}
