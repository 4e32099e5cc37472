package api_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// overHTTPAlone are the routes without a call, and why.
var overHTTPAlone = map[string]string{
	"POST /v1/messages":              "the request API pushes, on api.push",
	"POST /v1/messages/batch":        "api.push",
	"GET /v1/messages/{id}":          "api.get",
	"DELETE /v1/messages/{id}":       "api.cancel",
	"PATCH /v1/messages/{id}":        "api.reschedule",
	"POST /v1/messages/{id}/run":     "api.run",
	"GET /metrics":                   "of one instance, for a scraper",
	"/":                              "no route",
	"POST /v1/pull":                  "as a pull of one topic",
	"POST /v1/topics/{topic}/pull":   "who has NATS reads subjects, and rights by topic would be lost",
	"GET /v1/topics/{topic}/leases":  "of those who pull",
	"POST /v1/messages/{id}/release": "likewise",
	"GET /livez":                     "of one instance, for a probe",
	"GET /readyz":                    "likewise",
}

func TestCalls_StandForEveryRouteOrAReason(t *testing.T) {
	t.Parallel()
	overHTTPAlone := maps.Clone(overHTTPAlone)
	for _, verb := range ops.Verbs() {
		overHTTPAlone["POST /v1/leases/"+verb] = "a receipt of a pull"
		overHTTPAlone["POST /v1/leases/{receipt}/"+verb] = "likewise"
	}
	d := open(t)
	has := api.CallPatterns()
	for _, pattern := range d.Patterns() {
		if ofSeeds(pattern) {
			overHTTPAlone[pattern] = "for the clients of other systems"
		}
		if reason := overHTTPAlone[pattern]; (reason == "") != slices.Contains(has, pattern) {
			t.Errorf("%s: reason %q, and a call is there: %v", pattern, reason, slices.Contains(has, pattern))
		}
	}
	for _, pattern := range has {
		if !slices.Contains(d.Patterns(), pattern) {
			t.Errorf("a call stands for %s, which is no route", pattern)
		}
	}
}

// askCall makes a call.
func askCall(t *testing.T, calls map[string]api.Call, name, request string) reply {
	t.Helper()
	status, body := calls[name](t.Context(), []byte(request))
	a := reply{status: status, raw: string(body)}
	if err := json.Unmarshal(body, &a.json); err != nil {
		t.Fatalf("%s %s: %d %q: %v", name, request, status, body, err)
	}
	return a
}

func TestCalls_AnswerAsHTTPDoes(t *testing.T) {
	t.Parallel()
	w := full()
	d := open(t, w.config)
	reads, changes, admins := d.Reads(), d.Changes(), d.Admins()
	for _, c := range []struct {
		name, request, method, target, body string
	}{
		{"list", `{"topic":"a.b","key":"k","state":"dead,waiting","limit":1}`, "GET",
			"/v1/messages?topic=a.b&key=k&state=dead,waiting&limit=1", ""},
		{"history", `{"id":"a b/..","key":""}`, "GET", "/v1/messages/a%20b%2F../history?key=", ""},
		{"history", `{"id":".."}`, "GET", "/v1/messages/%2E%2E/history", ""},
		{"forecast", ``, "GET", "/v1/forecast", ""},
		{"forecast", `{"step":"x"}`, "GET", "/v1/forecast?step=x", ""},
		{"topics", `{"limit":1,"cursor":null}`, "GET", "/v1/topics?limit=1", ""},
		{"topic", `{"topic":"orders.x"}`, "GET", "/v1/topics/orders.x", ""},
		{"dead", `{"nonsense":1}`, "GET", "/v1/dead?nonsense=1", ""},
		{"rejects", `{"topic":"bills"}`, "GET", "/v1/rejects?topic=bills", ""},
		{"reject", `{"sequence":1}`, "GET", "/v1/rejects/1", ""},
		{"cluster", `{}`, "GET", "/v1/cluster", ""},
		{"why", `{"id":"a b"}`, "GET", "/v1/why?id=a%20b", ""},
	} {
		got, want := askCall(t, reads, c.name, c.request), call(t, d, c.method, c.target, c.body)
		if got.status != want.status || got.raw != want.raw {
			t.Errorf("%s %s: got %d %s, over HTTP %d %s", c.name, c.request, got.status, got.raw, want.status, want.raw)
		}
	}
	for name, request := range map[string]string{
		"resume":          `{"topic":"orders.>"}`,
		"dead_requeue":    `{"topic":"orders.>","dry_run":true}`,
		"dead_purge":      `{"ids":["a"]}`,
		"rejects_requeue": `{"sequence":1}`,
		"restore":         `{"overdue":true}`,
		"restore_one":     `{"id":"a","key":"k","dry_run":true}`,
		"verify":          ``,
		"redeliver":       `{"since":"1h"}`,
		"resign":          `{"reason":"new kernel"}`,
		"forget":          `{"instance":"t3"}`,
		"pause":           `{"topic":"orders.>"}`,
	} {
		askCall(t, admins, name, request).want(t, 200, "")
	}
	for name, request := range map[string]string{
		"cancel_many":     `{"topic":"orders.>","key":"k"}`,
		"reschedule_many": `{"topic":"orders.>","delay":"1h"}`,
		"dead_requeue":    `{"id":"a","key":"k","delay":"1m","body":"x"}`,
	} {
		_, path, _ := strings.Cut(api.CallPattern(name), " ")
		got, want := askCall(t, changes, name, request), call(t, d, "POST", path, request)
		if got.status != 200 || got.raw != want.raw {
			t.Errorf("%s: got %d %s, over HTTP %d %s", name, got.status, got.raw, want.status, want.raw)
		}
	}
	if len(changes) != 3 || len(admins) != 11 || len(reads) != 10 || len(w.cluster.reasons) != 2 {
		t.Errorf("%d calls that change, %d of operators, %d that read; resigned for %q", len(changes), len(admins),
			len(reads), w.cluster.reasons)
	}
	for _, word := range []string{`"who":"nats"`, `"operation":"pause"`, `"operation":"resign"`, `"operation":"verify"`,
		`"operation":"purge"`} {
		if !strings.Contains(d.log.String(), word) {
			t.Errorf("the log lacks %s", word)
		}
	}
	if lines := strings.Count(d.log.String(), "operator action"); lines != 11+2*3 {
		t.Errorf("%d lines in the log, want one a call, and one for each over HTTP", lines)
	}
}

func TestCalls_RefuseWhatCannotBeMeant(t *testing.T) {
	t.Parallel()
	w := full()
	d := open(t, w.config)
	calls := d.Admins()
	for request, word := range map[string]string{
		`{`:                         "invalid_json",
		`[]`:                        "invalid_json",
		`{} {}`:                     "invalid_json",
		`{"topic":"a","topic":"b"}`: "repeated_field",
		`{"topic":{}}`:              "invalid_json",
		`{}`:                        "invalid_topic",
		`{"topic":null}`:            "invalid_topic",
		`{"topic":"a..b"}`:          "invalid_topic",
		`{"topic":"a","x":1}`:       "unknown_field",
		`{"topic":"a","x":` + strings.Repeat("[", 20000) + `}`: "invalid_json",
	} {
		if a := askCall(t, calls, "pause", request); a.status != 400 || a.word() != word || a.detail() == "" {
			t.Errorf("%.60s: got %d %.200s, want %s", request, a.status, a.raw, word)
		}
	}
	if asked := w.steering.take(); len(asked) > 0 {
		t.Errorf("refused, and asked for %v", asked)
	}
	panicking := full()
	panicking.panics = true
	panicking.rejects = newRejects()
	d = open(t, panicking.config)
	askCall(t, d.Admins(), "rejects_requeue", `{"sequence":1}`).want(t, 500, "internal")
}

func TestCalls_ReadsChangeNothing(t *testing.T) {
	t.Parallel()
	for name := range open(t).Reads() {
		if !strings.HasPrefix(api.CallPattern(name), "GET ") {
			t.Errorf("%s stands for %s", name, api.CallPattern(name))
		}
	}
}

func TestCalls_EndWithTheirContext(t *testing.T) {
	t.Parallel()
	w := full()
	w.journal.verify = func(ctx context.Context, _ func(record.VerifyReport)) (record.VerifyReport, error) {
		<-ctx.Done()
		return record.VerifyReport{}, ctx.Err()
	}
	d := open(t, w.config)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if status, body := d.Admins()["verify"](ctx, nil); status != 504 {
		t.Errorf("got %d %s", status, body)
	}
}

func FuzzCall(f *testing.F) {
	for _, s := range []string{`{"id":"a","key":"k"}`, `{"id":".."}`, `{"id":"a","id":"b"}`, `{"topic":1,"limit":"x"}`,
		`[]`, ``, `{"id":"\ud800"}`, `{"a":{"b":[1]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, request []byte) {
		d := open(t, full().config)
		for _, name := range []string{"history", "list", "topic", "reject"} {
			status, body := d.Reads()[name](t.Context(), request)
			if !json.Valid(body) || status < 200 || status >= 500 {
				t.Fatalf("%s: %d %q", name, status, body)
			}
		}
	})
}
