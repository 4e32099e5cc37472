package api_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// overHTTPAlone are the routes without a call, and why.
var overHTTPAlone = map[string]string{
	"POST /v1/messages":              "the request API pushes, on api.push",
	"POST /v1/messages/batch":        "api.push",
	"GET /metrics":                   "of one instance, for a scraper",
	"/":                              "no route",
	"POST /v1/pull":                  "as a pull of one topic",
	"POST /v1/topics/{topic}/pull":   "who has NATS reads subjects, and rights by topic would be lost",
	"GET /v1/topics/{topic}/leases":  "of those who pull",
	"POST /v1/messages/{id}/release": "likewise",
	"GET /livez":                     "of one instance, for a probe",
	"GET /readyz":                    "likewise",
	"GET /v1/series":                 "who has NATS has Prometheus, or the sums of read.overview",
	"GET /v1/me":                     "of a token; on NATS the permissions of a user say what it may do",
}

func TestCalls_StandForEveryRouteOrAReason(t *testing.T) {
	t.Parallel()
	overHTTPAlone := maps.Clone(overHTTPAlone)
	for _, verb := range ops.Verbs() {
		overHTTPAlone["POST /v1/leases/"+verb] = "a receipt of a pull"
		overHTTPAlone["POST /v1/leases/{receipt}/"+verb] = "likewise"
	}
	d := open(t)
	var has []string
	for _, op := range d.Ops().Table() {
		if (op.Name == "") != (len(op.Groups) == 0) {
			t.Errorf("%s is called %q in the groups %q", op.Route, op.Name, op.Groups)
		}
		if len(op.Groups) > 0 {
			has = append(has, op.Route)
		}
	}
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

// calls are the operations of a group on NATS, by name.
type calls struct {
	d      *door
	byName map[string]*ops.Operation
	as     *ops.Token
}

func (d *door) calls(group ops.Group) calls {
	all := []string{">"}
	c := calls{d, map[string]*ops.Operation{}, &ops.Token{Name: ops.ByNATS, Push: all, Pull: all, Read: true,
		Operate: group != ops.GroupRead}}
	for _, op := range d.Ops().Table() {
		if slices.Contains(op.Groups, group) {
			c.byName[op.Name] = op
		}
	}
	return c
}

// do makes a call, and returns its answer as HTTP would have it.
func (c calls) do(t *testing.T, ctx context.Context, name, request string) reply {
	t.Helper()
	out, p := c.d.Ops().Call(ctx, c.byName[name], c.as, []byte(request))
	a := reply{status: 200}
	if p != nil {
		a.status, out = p.Status, p
	}
	body, err := ops.Encode(out)
	if err == nil {
		err = json.Unmarshal(body, &a.json)
	}
	if a.raw = string(body) + "\n"; err != nil {
		t.Fatalf("%s %s: %d %q: %v", name, request, a.status, body, err)
	}
	return a
}

func (c calls) ask(t *testing.T, name, request string) reply {
	t.Helper()
	return c.do(t, t.Context(), name, request)
}

func TestCalls_AnswerAsHTTPDoes(t *testing.T) {
	t.Parallel()
	w := full()
	d := open(t, w.config)
	reads, changes, admins := d.calls(ops.GroupRead), d.calls(ops.GroupAPI), d.calls(ops.GroupAdmin)
	for _, c := range []struct {
		name, request, method, target, body string
	}{
		{"list", `{"topic":"a.b","key":"k","state":"dead,waiting","limit":1}`, "GET",
			"/v1/messages?topic=a.b&key=k&state=dead,waiting&limit=1", ""},
		{"history", `{"id":"a b/..","key":""}`, "GET", "/v1/messages/a%20b%2F../history?key=", ""},
		{"history", `{"id":".."}`, "GET", "/v1/messages/%2E%2E/history", ""},
		{"forecast", ``, "GET", "/v1/forecast", ""},
		{"held", ``, "GET", "/v1/held", ""},
		{"dead_groups", `{"topic":"orders.>"}`, "GET", "/v1/dead/groups?topic=orders.%3E", ""},
		{"forecast", `{"step":"x"}`, "GET", "/v1/forecast?step=x", ""},
		{"topics", `{"limit":1,"cursor":null}`, "GET", "/v1/topics?limit=1", ""},
		{"topic", `{"topic":"orders.x"}`, "GET", "/v1/topics/orders.x", ""},
		{"history", `{"id":12}`, "GET", "/v1/messages/12/history", ""},
		{"rejects", `{"id":12,"limit":"1"}`, "GET", "/v1/rejects?id=12&limit=1", ""},
		{"topics", `{"limit":0}`, "GET", "/v1/topics?limit=0", ""},
		{"topics", `{"limit":"x"}`, "GET", "/v1/topics?limit=x", ""},
		{"list", `{"state":"nowhere"}`, "GET", "/v1/messages?state=nowhere", ""},
		{"list", `{"id":"t-0123456789abcdef"}`, "GET", "/v1/messages?id=t-0123456789abcdef", ""},
		{"list", `{"due_from":"2h","due_to":"1h"}`, "GET", "/v1/messages?due_from=2h&due_to=1h", ""},
		{"list", `{"cursor":"x"}`, "GET", "/v1/messages?cursor=x", ""},
		{"reject", `{"sequence":0}`, "GET", "/v1/rejects/0", ""},
		{"why", `{"key":""}`, "GET", "/v1/why?key=", ""},
		{"dead", `{"nonsense":1}`, "GET", "/v1/dead?nonsense=1", ""},
		{"rejects", `{"topic":"bills"}`, "GET", "/v1/rejects?topic=bills", ""},
		{"reject", `{"sequence":1}`, "GET", "/v1/rejects/1", ""},
		{"cluster", `{}`, "GET", "/v1/cluster", ""},
		{"why", `{"id":"a b"}`, "GET", "/v1/why?id=a%20b", ""},
	} {
		got, want := reads.ask(t, c.name, c.request), call(t, d, c.method, c.target, c.body)
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
		admins.ask(t, name, request).want(t, 200, "")
	}
	for name, request := range map[string]string{
		"cancel_many":     `{"topic":"orders.>","key":"k"}`,
		"reschedule_many": `{"topic":"orders.>","delay":"1h"}`,
		"dead_requeue":    `{"id":"a","key":"k","delay":"1m","body":"x"}`,
	} {
		_, path, _ := strings.Cut(changes.byName[name].Route, " ")
		got, want := changes.ask(t, name, request), call(t, d, "POST", path, request)
		if got.status != 200 || got.raw != want.raw {
			t.Errorf("%s: got %d %s, over HTTP %d %s", name, got.status, got.raw, want.status, want.raw)
		}
	}
	if len(changes.byName) != 7 || len(admins.byName) != 11 || len(reads.byName) != 15 || len(w.cluster.reasons) != 2 {
		t.Errorf("%d calls that change, %d of operators, %d that read; resigned for %q",
			len(changes.byName), len(admins.byName),
			len(reads.byName), w.cluster.reasons)
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
	call(t, d, "POST", "/v1/messages/a/release", "").want(t, 200, "")
	wantBegunAndEnded(t, w.journal)
}

// wantBegunAndEnded requires that the journal has each action of each audited operation twice: before it was done, with
// what it is on, and after.
func wantBegunAndEnded(t *testing.T, j *journal) {
	t.Helper()
	whats, begun := map[string]bool{}, map[string]record.Action{}
	for _, a := range j.acts {
		first, known := begun[a.ID]
		switch {
		case known == !a.Ended, a.ID == "", a.At == 0, a.Who == "", a.From == "":
			t.Errorf("%+v after %+v", a, first)
		case a.Ended:
			if delete(begun, a.ID); a.At != first.At || len(first.On) > len(a.On) || a.What == "pause" &&
				first.On["topic"] != "orders.>" {
				t.Errorf("began as %+v, and ended as %+v", first, a)
			}
		default:
			whats[a.What], begun[a.ID] = true, a
		}
	}
	want := "cancel forget pause purge redeliver release requeue requeue rejects reschedule resign restore resume verify"
	if got := strings.Join(slices.Sorted(maps.Keys(whats)), " "); got != want || len(begun) > 0 {
		t.Errorf("got %s, want %s; not ended: %v", got, want, begun)
	}
}

func TestCalls_RefuseWhatCannotBeMeant(t *testing.T) {
	t.Parallel()
	w := full()
	d := open(t, w.config)
	calls := d.calls(ops.GroupAdmin)
	for request, word := range map[string]string{
		`{`:                         "invalid_json",
		`[]`:                        "invalid_json",
		`{} {}`:                     "invalid_json",
		`{"topic":"a","topic":"b"}`: "repeated_field",
		`{"topic":{}}`:              "invalid_topic",
		`{}`:                        "invalid_topic",
		`{"topic":null}`:            "invalid_topic",
		`{"topic":"a..b"}`:          "invalid_topic",
		`{"topic":"a","x":1}`:       "unknown_field",
		`{"topic":"a","x":` + strings.Repeat("[", 20000) + `}`: "invalid_json",
	} {
		if a := calls.ask(t, "pause", request); a.status != 400 || a.word() != word || a.detail() == "" {
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
	d.calls(ops.GroupAdmin).ask(t, "rejects_requeue", `{"sequence":1}`).want(t, 500, "internal")
}

func TestCalls_ReadsChangeNothing(t *testing.T) {
	t.Parallel()
	for name, op := range open(t).calls(ops.GroupRead).byName {
		if !strings.HasPrefix(op.Route, "GET ") {
			t.Errorf("%s stands for %s", name, op.Route)
		}
	}
}

// What a group may do is asked of each call, whatever the table says of its groups.
func TestCalls_NeedTheirRight(t *testing.T) {
	t.Parallel()
	w := full()
	c := open(t, w.config).calls(ops.GroupAdmin)
	c.as = &ops.Token{Name: ops.ByNATS, Read: true}
	for name := range c.byName {
		c.ask(t, name, `{"topic":"a"}`).want(t, 403, "forbidden")
	}
	if asked := w.steering.take(); len(asked) > 0 {
		t.Errorf("refused, and asked for %v", asked)
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
	if a := d.calls(ops.GroupAdmin).do(t, ctx, "verify", ""); a.status != 504 {
		t.Errorf("got %d %s", a.status, a.raw)
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
			if a := d.calls(ops.GroupRead).ask(t, name, string(request)); a.status < 200 || a.status >= 500 {
				t.Fatalf("%s: %d %q", name, a.status, a.raw)
			}
		}
	})
}
