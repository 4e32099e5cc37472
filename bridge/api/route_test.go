package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestRoutes_AnswerInJSONAlsoWhereThereIsNone(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, c := range []struct {
		method, target, word, allow string
		status                      int
	}{
		{"GET", "/", "unknown_route", "", 404},
		{"GET", "/v1", "unknown_route", "", 404},
		{"GET", "/v2/messages", "unknown_route", "", 404},
		{"POST", "/v1/messages/", "unknown_route", "", 404},
		{"POST", "//v1/messages", "unknown_route", "", 404},
		{"POST", "/v1/../v1/messages", "unknown_route", "", 404},
		{"GET", "/v1/messages/a/past", "unknown_route", "", 404},
		{"GET", "/livez/", "unknown_route", "", 404},
		{"PUT", "/v1/messages", "method_not_allowed", "GET, HEAD, POST", 405},
		{"POST", "/v1/messages/a/history", "method_not_allowed", "GET, HEAD", 405},
		{"GET", "/v1/messages/a/restore", "method_not_allowed", "POST", 405},
		{"GET", "/v1/restore", "method_not_allowed", "POST", 405},
		{"DELETE", "/v1/verify", "method_not_allowed", "POST", 405},
		{"POST", "/v1/forecast", "method_not_allowed", "GET, HEAD", 405},
		{"PUT", "/v1/messages/a", "method_not_allowed", "DELETE, GET, HEAD, PATCH", 405},
		{"POST", "/v1/messages/a", "method_not_allowed", "DELETE, GET, HEAD, PATCH", 405},
		{"GET", "/v1/messages/a/run", "method_not_allowed", "POST", 405},
		{"PUT", "/v1/messages/cancel", "method_not_allowed", "DELETE, GET, HEAD, PATCH, POST", 405},
		{"PUT", "/v1/messages/reschedule", "method_not_allowed", "DELETE, GET, HEAD, PATCH, POST", 405},
		{"DELETE", "/v1/dead", "method_not_allowed", "GET, HEAD", 405},
		{"GET", "/v1/dead/requeue", "method_not_allowed", "POST", 405},
		{"GET", "/v1/dead/purge", "method_not_allowed", "POST", 405},
		{"POST", "/v1/topics", "method_not_allowed", "GET, HEAD", 405},
		{"DELETE", "/v1/topics/a", "method_not_allowed", "GET, HEAD", 405},
		{"GET", "/v1/topics/a/pause", "method_not_allowed", "POST", 405},
		{"DELETE", "/v1/topics/a/resume", "method_not_allowed", "POST", 405},
		{"POST", "/v1/topics//pause", "unknown_route", "", 404},
		{"POST", "/v1/cluster", "method_not_allowed", "GET, HEAD", 405},
		{"GET", "/v1/cluster/resign", "method_not_allowed", "POST", 405},
		{"OPTIONS", "/v1/messages", "method_not_allowed", "GET, HEAD, POST", 405},
		{"BREW", "/readyz", "method_not_allowed", "GET, HEAD", 405},
	} {
		a := call(t, d, c.method, c.target, "").want(t, c.status, c.word)
		if a.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.target, a.header.Get("Allow"), c.allow)
		}
	}
}

func TestToken_OpensEverythingButHealth(t *testing.T) {
	t.Parallel()
	const token = "correct-horse-battery"
	d := open(t, func(c *api.Config) { c.Token = token })
	closed := [][2]string{{"POST", "/v1/messages"}, {"POST", "/v1/messages/batch"}, {"GET", "/v1/messages/a"},
		{"DELETE", "/v1/messages/a"},
		{"GET", "/v1/cluster"}, {"POST", "/v1/cluster/resign"}, {"GET", "/metrics"}, {"GET", "/v1/messages"},
		{"GET", "/v1/messages/a/history"}, {"POST", "/v1/messages/a/restore"}, {"GET", "/v1/forecast"},
		{"POST", "/v1/restore"}, {"POST", "/v1/verify"}, {"POST", "/v1/redeliver"}, {"GET", "/nowhere"},
		{"PUT", "/v1/messages"}, {"GET", "/x/"}}
	for _, c := range closed {
		for _, header := range [][]string{
			{}, {"Authorization", ""}, {"Authorization", token}, {"Authorization", "Basic " + token},
			{"Authorization", "Bearer"}, {"Authorization", "Bearer "},
			{"Authorization", "Bearer " + token + "x"}, {"Authorization", "Bearer " + token[1:]},
			{"Authorization", "Bearer " + strings.ToUpper(token)},
			{"Authorization", "Bearer wrong", "Authorization", "Bearer " + token},
		} {
			a := call(t, d, c[0], c[1], hourly(""), header...).want(t, 401, "unauthorized")
			if a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("no WWW-Authenticate")
			}
		}
		for _, scheme := range []string{"Bearer ", "bearer  "} {
			if a := call(t, d, c[0], c[1], hourly(""), "Authorization", scheme+token); a.status == 401 {
				t.Errorf("%v: refused with the token", c)
			}
		}
	}
	if n := d.stored(t); n != 2 {
		t.Errorf("%d messages wait, want the two that had the token", n)
	}
	for _, path := range []string{"/livez", "/readyz"} {
		call(t, d, "GET", path, "").want(t, 200, "")
	}
	if log := d.log.String(); strings.Contains(log, token) {
		t.Errorf("the token is in the log: %s", log)
	}
}

func TestBrowsers_CannotBeMadeToWriteFromOtherPages(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://elsewhere.example"},
		{"Origin", "null"}} {
		call(t, d, "POST", "/v1/messages", hourly(""), header...).want(t, 403, "cross_origin")
		call(t, d, "DELETE", "/v1/messages/a", "", header...).want(t, 403, "cross_origin")
		call(t, d, "POST", "/v1/cluster/resign", "", header...).want(t, 403, "cross_origin")
		call(t, d, "POST", "/v1/restore", "", header...).want(t, 403, "cross_origin")
	}
	// httptest's own host
	call(t, d, "POST", "/v1/messages", hourly(""), "Origin", "http://example.com").want(t, 201, "")
	if n := d.stored(t); n != 1 {
		t.Errorf("%d messages wait", n)
	}
}

func TestReadyz_ListsWhatIsMissing(t *testing.T) {
	t.Parallel()
	checks := []api.Check{{Name: "redis", Needed: true}, {Name: "nats"}}
	d := open(t, func(c *api.Config) { c.Ready = func(context.Context) []api.Check { return checks } })
	if a := call(t, d, "GET", "/readyz", "").want(
		t, 200, ""); a.raw != `{"ready":true,"checks":[{"name":"redis","ok":true},{"name":"nats","ok":true}]}`+"\n" {
		t.Errorf("got %s", a.raw)
	}
	// What lets pushes through leaves it ready. Who asks may be anybody: no hosts, no errors.
	checks[1].Err = errors.New("dial 10.0.0.9:4222")
	if a := call(t, d, "GET", "/readyz", "").want(t, 200, ""); a.raw !=
		`{"ready":true,"degraded":["nats"],"checks":[{"name":"redis","ok":true},{"name":"nats","ok":false}]}`+"\n" {
		t.Errorf("got %s", a.raw)
	}
	checks[0].Err, checks[0].Buckets = errors.New("dial 10.0.0.8:6379"), []message.Bucket{1, 2}
	if a := call(t, d, "GET", "/readyz", ""); a.status != 503 || a.raw !=
		`{"ready":false,"checks":[{"name":"redis","ok":false,"buckets":[1,2]},{"name":"nats","ok":false}]}`+"\n" {
		t.Errorf("got %d %s", a.status, a.raw)
	}
	if a := call(t, d, "GET", "/v1/cluster", "").want(t, 200, ""); !strings.Contains(a.raw,
		`"checks":[{"name":"redis","ok":false,"buckets":[1,2],"detail":"dial 10.0.0.8:6379"},{"name":"nats",`+
			`"ok":false,"detail":"dial 10.0.0.9:4222"}]`) {
		t.Errorf("got %s", a.raw)
	}
	if a := call(t, open(t), "GET", "/readyz", "").want(t, 200, ""); a.raw != `{"ready":true,"checks":[]}`+"\n" {
		t.Errorf("got %s", a.raw)
	}
	if a := call(t, d, "GET", "/livez", "").want(t, 200, ""); a.json["live"] != true {
		t.Errorf("got %s", a.raw)
	}
}

func TestCluster_AnswersInTheFormOfTheContract(t *testing.T) {
	t.Parallel()
	c := &cluster{}
	d := open(t, func(cfg *api.Config) { cfg.Cluster = c })
	if a := call(t, d, "GET", "/v1/cluster", "").want(
		t, 200, ""); a.raw != `{"namespace":"test","term":0,"leader":null,"instances":[]}`+"\n" {
		t.Errorf("got %s", a.raw)
	}
	c.info = ops.Cluster{
		Term: 42, Leader: &ops.Leader{Instance: "t1", Address: "10.0.0.1:7070", Since: ops.FormatTime(1896076800123)},
		Instances: []ops.Instance{
			{Instance: "t1", Address: "10.0.0.1:7070", Role: ops.RoleLeader, Ready: true, CanLead: true,
				Version: "v1"},
			{Instance: "t2", Address: "10.0.0.2:7070", Role: ops.RoleStandby, Version: "v2"}},
	}
	want := `{"namespace":"test","term":42,"leader":{"instance":"t1","address":"10.0.0.1:7070",` +
		`"since":"2030-01-31T08:00:00.123Z"},"instances":[` +
		`{"instance":"t1","address":"10.0.0.1:7070","role":"leader","ready":true,"can_lead":true,"version":"v1"},` +
		`{"instance":"t2","address":"10.0.0.2:7070","role":"standby","ready":false,"can_lead":false,"version":"v2"}]}` + "\n"
	if a := call(t, d, "GET", "/v1/cluster", "").want(t, 200, ""); a.raw != want {
		t.Errorf("got %s\nwant %s", a.raw, want)
	}
	c.err = fmt.Errorf("%w: zk: could not connect to 10.0.0.7:2181", ops.ErrUnreachable)
	if a := call(t, d, "GET", "/v1/cluster", "").want(
		t, 503, "unavailable"); a.detail() != ops.ErrUnreachable.Error() {
		t.Errorf("it says %q", a.detail())
	}
	c.err = errors.New("something else")
	call(t, d, "GET", "/v1/cluster", "").want(t, 500, "internal")
	call(t, d, "GET", "/v1/cluster?x=y", "").want(t, 400, "unknown_parameter")
}

func TestResign_CarriesTheReasonAndSaysWhyNot(t *testing.T) {
	t.Parallel()
	c := &cluster{info: ops.Cluster{Leader: &ops.Leader{Instance: "t9", Address: "10.0.0.9:7070"}}}
	d := open(t, func(cfg *api.Config) { cfg.Cluster = c })
	long := strings.Repeat("x", 300)
	for _, body := range []string{"", " \n", "{}", `{"reason":null}`, `{"reason":"new kernel"}`, `{"reason":"a\nb"}`,
		`{"reason":"` + long + `"}`} {
		if a := call(t, d, "POST", "/v1/cluster/resign", body).want(t, 200, ""); a.raw != `{"resigned":true}`+"\n" {
			t.Errorf("got %s", a.raw)
		}
	}
	if got := strings.Join(c.reasons, "|"); got != "||||new kernel|a b|"+long[:255] {
		t.Errorf("reasons %q", got)
	}
	for body, word := range map[string]string{
		`[]`:                          "invalid_json",
		`{"reason":5}`:                "invalid_reason",
		`{"raeson":"x"}`:              "unknown_field",
		`{"reason":"a","reason":"b"}`: "repeated_field",
		`{"Reason":"a"}`:              "unknown_field",
		`{} {}`:                       "invalid_json",
		`{`:                           "invalid_json",
	} {
		call(t, d, "POST", "/v1/cluster/resign", body).want(t, 400, word)
	}
	if len(c.reasons) != 7 {
		t.Errorf("a bad request made the leader resign: %q", c.reasons)
	}
	for _, r := range []struct {
		err    error
		status int
		word   string
	}{{ops.ErrNoLeader, 409, "no_leader"}, {ops.ErrNotLeader, 409, "not_leader"},
		{ops.ErrNoStandby, 409, "no_standby"},
		{ops.ErrUnreachable, 503, "unavailable"}, {errors.New("else"), 500, "internal"}} {
		c.refusal = fmt.Errorf("resign: %w", r.err)
		a := call(t, d, "POST", "/v1/cluster/resign", "").want(t, r.status, r.word)
		if r.word == "not_leader" && !strings.Contains(a.detail(), "t9 at 10.0.0.9:7070") {
			t.Errorf("it does not say who leads: %s", a.raw)
		}
	}
}

func TestMetrics_CountByRouteAndStatusAndNeverByID(t *testing.T) {
	t.Parallel()
	d := open(t)
	for i := range 20 {
		call(t, d, "GET", fmt.Sprintf("/v1/messages/m%d", i), "")
		call(t, d, "GET", fmt.Sprintf("/scan/%d.php", i), "")
		call(t, d, "BREW", fmt.Sprintf("/x%d/", i), "")
	}
	call(t, d, "POST", "/v1/messages", hourly("")).want(t, 201, "")
	a := call(t, d, "GET", "/metrics", "")
	if a.status != 200 {
		t.Fatalf("got %d %s", a.status, a.raw)
	}
	for _, line := range []string{
		`tarry_http_requests_total{route="GET /v1/messages/{id}",status="404"} 20`,
		`tarry_http_requests_total{route="other",status="404"} 40`,
		`tarry_http_requests_total{route="POST /v1/messages",status="201"} 1`,
		`tarry_http_request_seconds_count{route="POST /v1/messages"} 1`,
		`tarry_build_info{go="`, `version="v1.2.3"} 1`, `tarry_accepted_total 1`,
	} {
		if !strings.Contains(a.raw, line) {
			t.Errorf("no %s in\n%s", line, a.raw)
		}
	}
	if strings.Contains(a.raw, "php") || strings.Contains(a.raw, "m7") {
		t.Error("a path is a label")
	}
}

func TestPanics_BecomeAnAnswerAndALogLineWithoutTheirData(t *testing.T) {
	t.Parallel()
	d := open(t, with(service{
		accept: func(_ context.Context, batch []*scheduler.Push) []scheduler.Accepted {
			panic("cannot take " + string(batch[0].Body))
		},
		get: func(context.Context, scheduler.Ref) (message.Info, error) {
			var none []int
			return message.Info{Version: uint64(none[len(none)])}, nil
		},
	}))
	call(t, d, "POST", "/v1/messages", hourly(`,"body":"in-the-body"`)).want(t, 500, "internal")
	call(t, d, "GET", "/v1/messages/a", "").want(t, 500, "internal")
	log := d.log.String()
	if strings.Contains(log, "in-the-body") || !strings.Contains(log, "index out of range") ||
		!strings.Contains(log, `"route":"POST /v1/messages"`) ||
		strings.Count(log, "request panicked") != 2 {
		t.Errorf("log: %s", log)
	}
	a := call(t, d, "GET", "/metrics", "")
	if !strings.Contains(a.raw, `tarry_http_requests_total{route="POST /v1/messages",status="500"} 1`) {
		t.Errorf("not counted: %s", a.raw)
	}
}

// broken panics in the middle of an answer.
type broken struct{ http.ResponseWriter }

func (b broken) Write([]byte) (int, error) { panic("half an answer is out") }

func TestPanics_InTheMiddleOfAnAnswerBreakOff(t *testing.T) {
	t.Parallel()
	d := open(t)
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("got %v", v)
		}
	}()
	d.ServeHTTP(broken{httptest.NewRecorder()}, httptest.NewRequestWithContext(t.Context(), "GET", "/livez", nil))
	t.Error("it went on")
}

func TestLog_TellsEveryRequestAtDebugWithoutBodies(t *testing.T) {
	t.Parallel()
	d := open(t)
	// The marks are words: a log has durations, whose digits may be any.
	call(t, d, "POST", "/v1/messages", hourly(`,"id":"a","body":"in-the-body"`), "Authorization",
		"Bearer hidden").want(t, 201, "")
	call(t, d, "POST", "/v1/messages", `{"topic":"a","delay":"1s","body":["in-the-body"]}`).want(t, 400, "invalid_body")
	lines := strings.Split(strings.TrimSpace(d.log.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("got %q", lines)
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &line); err != nil {
		t.Fatal(err)
	}
	if line["level"] != "debug" || line["message"] != "request served" || line["route"] != "POST /v1/messages" ||
		line["status"] != float64(201) || line["method"] != "POST" {
		t.Errorf("got %v", line)
	}
	if log := d.log.String(); strings.Contains(log, "in-the-body") || strings.Contains(log, "hidden") {
		t.Errorf("a body or a credential is in the log: %s", log)
	}
	quiet := open(t, func(c *api.Config) { c.Log = zerolog.New(os.Stderr).Level(zerolog.InfoLevel) })
	call(t, quiet, "POST", "/v1/messages", hourly("")).want(t, 201, "")
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	good := api.Config{Config: ops.Config{Service: service{}, Cluster: &cluster{}},
		Gatherer: prometheus.NewRegistry()}
	for name, change := range map[string]func(*api.Config){
		"no service":  func(c *api.Config) { c.Service = nil },
		"no cluster":  func(c *api.Config) { c.Cluster = nil },
		"no gatherer": func(c *api.Config) { c.Gatherer = nil },
		"negative body": func(c *api.Config) {
			c.MaxBody = -1
		},
		"negative time-out": func(c *api.Config) { c.Timeout = -1 },
		"negative progress": func(c *api.Config) {
			c.ProgressEvery = -1
		},
		"unknown journal mode": func(c *api.Config) { c.JournalMode = "semisync" },
		"a mode without a journal": func(c *api.Config) {
			c.JournalMode = "async"
		},
	} {
		cfg := good
		change(&cfg)
		if _, err := api.New(cfg); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := api.New(good); err != nil {
		t.Error(err)
	}
}

// The routes of another system that need the journal say so, whatever the store remembers.
func TestSdmq_NeedsTheJournalToRestore(t *testing.T) {
	t.Parallel()
	d := open(t, with(service{get: func(context.Context, scheduler.Ref) (message.Info, error) {
		return message.Info{Message: message.Message{UID: uidA, ID: "a"}, State: message.StateCanceled}, nil
	}}))
	for _, target := range []string{"/reStore/a", "/reStoreJob?id=a", "/reStore"} {
		if a := call(t, d, "GET", target, ""); a.status != 200 || a.word() != "needs_journal" {
			t.Errorf("%s: got %d %s", target, a.status, a.raw)
		}
	}
}
