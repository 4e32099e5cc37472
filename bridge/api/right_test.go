package api_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/scheduler"
)

// The tokens of these tests: each is its own name, twice.
func token(name string, push []string, read, operate bool) api.Token {
	return api.Token{Name: name, Hash: sha256.Sum256([]byte(name + name)), Push: push, Read: read, Operate: operate}
}

func crowd() []api.Token {
	return []api.Token{
		token("shop", []string{"orders.>", "mail.*"}, false, false), token("watch", nil, true, false), token("ops", nil, false, true),
		token("all", []string{">"}, true, true), {Name: "puller", Hash: sha256.Sum256([]byte("pullerpuller")), Pull: []string{">"}},
	}
}

func as(name string) []string { return []string{"Authorization", "Bearer " + name + name} }

func letting(tokens ...api.Token) func(*api.Config) {
	return func(c *api.Config) { c.Tokens = tokens }
}

// counting is a scheduler that counts what would change anything, and finds one message.
type counting struct {
	*steering
	mu      sync.Mutex
	found   map[scheduler.Ref][]scheduler.Info // taken in order, the last again and again
	changes []string
	code    map[scheduler.UID]scheduler.CancelCode
	failing map[scheduler.UID]error
}

func (c *counting) change(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes = append(c.changes, what)
}

func (c *counting) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	changes := c.changes
	c.changes = nil
	for _, asked := range c.steering.take() {
		switch a := asked.(type) {
		case deadAsked, countAsked, countsAsked: // questions
		case rescheduleAsked:
			changes = append(changes, "reschedule "+string(a.ref.UID)+a.ref.ID)
		default:
			changes = append(changes, fmt.Sprintf("%T", asked))
		}
	}
	return changes
}

func (c *counting) AcceptAll(_ context.Context, batch []*scheduler.Push) []scheduler.Accepted {
	results := make([]scheduler.Accepted, len(batch))
	for i, p := range batch {
		c.change("push " + p.Topic)
		results[i] = scheduler.Accepted{UID: uidA, State: scheduler.StateWaiting, Due: later, Version: 1}
	}
	return results
}

func (c *counting) Get(_ context.Context, ref scheduler.Ref) (scheduler.Info, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.found[ref]
	if len(list) == 0 {
		return scheduler.Info{}, scheduler.ErrUnknownID
	}
	if len(list) > 1 {
		c.found[ref] = list[1:]
	}
	return list[0], nil
}

func (c *counting) Cancel(_ context.Context, ref scheduler.Ref) (scheduler.CancelResult, error) {
	c.change("cancel " + string(ref.UID) + ref.ID)
	return scheduler.CancelResult{Code: c.code[ref.UID], Info: scheduler.Info{Message: scheduler.Message{UID: ref.UID}, State: scheduler.StateCanceled}}, c.failing[ref.UID]
}

func info(uid scheduler.UID, topic string, state scheduler.State) scheduler.Info {
	return scheduler.Info{Message: scheduler.Message{UID: uid, ID: "a", Topic: topic, Due: later}, State: state, Version: 1}
}

// newCounting finds "a" on orders.x and "b" on bills.
func newCounting() *counting {
	return &counting{
		steering: &steering{amend: scheduler.AmendResult{Code: scheduler.AmendDone, Info: info(uidA, "orders.x", scheduler.StateWaiting)}, was: true},
		found: map[scheduler.Ref][]scheduler.Info{
			{ID: "a"}: {info(uidA, "orders.x", scheduler.StateWaiting)}, {UID: uidA}: {info(uidA, "orders.x", scheduler.StateWaiting)},
			{ID: "b"}: {info(uidB, "bills", scheduler.StateWaiting)}, {UID: uidB}: {info(uidB, "bills", scheduler.StateWaiting)},
		},
		code: map[scheduler.UID]scheduler.CancelCode{uidA: scheduler.CancelDone, uidB: scheduler.CancelDone, "": scheduler.CancelDone},
	}
}

// askedOf is every route with what it asks for and who may call it.
var askedOf = []struct {
	method, target, body string
	may                  []string // of crowd
}{
	{"POST", "/v1/messages", `{"topic":"orders.x","delay":"1h"}`, []string{"shop", "all"}},
	{"POST", "/v1/messages", `{"topic":"bills","delay":"1h"}`, []string{"all"}},
	{"POST", "/v1/messages", `{"topic":"mail.a.b","delay":"1h"}`, []string{"all"}},
	{"POST", "/v1/messages/batch", `{"messages":[{"topic":"orders.x","delay":"1h"}]}`, []string{"shop", "all"}},
	{"GET", "/v1/messages/a", "", []string{"watch", "ops", "all"}},
	{"DELETE", "/v1/messages/a", "", []string{"shop", "ops", "all"}},
	{"DELETE", "/v1/messages/" + string(uidA), "", []string{"shop", "ops", "all"}},
	{"DELETE", "/v1/messages/b", "", []string{"ops", "all"}},
	{"DELETE", "/v1/messages/" + string(uidB), "", []string{"ops", "all"}},
	{"PATCH", "/v1/messages/a", `{"delay":"1h"}`, []string{"shop", "ops", "all"}},
	{"PATCH", "/v1/messages/b", `{"delay":"1h"}`, []string{"ops", "all"}},
	{"POST", "/v1/messages/a/run", "", []string{"shop", "ops", "all"}},
	{"POST", "/v1/messages/b/run", "", []string{"ops", "all"}},
	{"POST", "/v1/messages/cancel", `{"topic":"orders.x"}`, []string{"ops", "all"}},
	{"POST", "/v1/messages/reschedule", `{"topic":"orders.x","delay":"1h"}`, []string{"ops", "all"}},
	{"GET", "/v1/dead", "", []string{"watch", "ops", "all"}},
	{"POST", "/v1/dead/requeue", `{"topic":"orders.x"}`, []string{"ops", "all"}},
	{"POST", "/v1/dead/purge", `{"id":"a"}`, []string{"ops", "all"}},
	{"GET", "/v1/topics", "", []string{"watch", "ops", "all"}},
	{"GET", "/v1/topics/orders.x", "", []string{"watch", "ops", "all"}},
	{"POST", "/v1/topics/orders.x/pause", "", []string{"ops", "all"}},
	{"POST", "/v1/topics/orders.x/resume", "", []string{"ops", "all"}},
	{"GET", "/v1/messages?topic=orders.x", "", []string{"watch", "ops", "all"}},
	{"GET", "/v1/messages/a/history", "", []string{"watch", "ops", "all"}},
	{"GET", "/v1/forecast", "", []string{"watch", "ops", "all"}},
	{"POST", "/v1/messages/a/restore", "", []string{"ops", "all"}},
	{"POST", "/v1/restore", "", []string{"ops", "all"}},
	{"POST", "/v1/verify", "", []string{"ops", "all"}},
	{"POST", "/v1/redeliver", `{"since":"1h"}`, []string{"ops", "all"}},
	{"GET", "/v1/cluster", "", []string{"watch", "ops", "all"}},
	{"POST", "/v1/cluster/resign", "", []string{"ops", "all"}},
	{"GET", "/metrics", "", []string{"watch", "ops", "all"}},
}

// Every route × every token: who may is answered, who may not is told 403 and nothing is asked of anything but a look-up.
func TestRights_HoldOnEveryRoute(t *testing.T) {
	t.Parallel()
	for _, c := range askedOf {
		for _, token := range crowd() {
			j := &journal{records: []scheduler.Record{record(uidA, "a", 1, scheduler.StateWaiting)}}
			s, nodes := newCounting(), &cluster{}
			d := open(t, keeping(j), with(s), letting(crowd()...), func(c *api.Config) { c.Cluster = nodes })
			a := call(t, d, c.method, c.target, c.body, as(token.Name)...)
			changes := append(s.take(), nodes.reasons...)
			if slices.Contains(c.may, token.Name) {
				if a.status >= 300 {
					t.Errorf("%s %s as %s: got %d %s", c.method, c.target, token.Name, a.status, a.raw)
				}
				continue
			}
			a.want(t, 403, "forbidden")
			if len(changes) > 0 || j.last() != nil {
				t.Errorf("%s %s as %s is forbidden and did %q, asked the journal for %v", c.method, c.target, token.Name, changes, j.last())
			}
		}
	}
}

// Every route of the server is in the table above: a new one cannot be forgotten there.
func TestRights_TheTableHasEveryRoute(t *testing.T) {
	t.Parallel()
	d := open(t, keeping(&journal{}))
	seen := map[string]bool{}
	for _, c := range askedOf {
		r, err := http.NewRequestWithContext(t.Context(), c.method, c.target, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen[d.Pattern(r)] = true
	}
	for _, pattern := range d.Patterns() {
		if !seen[pattern] && pattern != "GET /livez" && pattern != "GET /readyz" && pattern != "/" {
			t.Errorf("%s is a route without a line in the table of rights", pattern)
		}
	}
}

func TestRights_ABatchIsJudgedItemByItem(t *testing.T) {
	t.Parallel()
	s := newCounting()
	d := open(t, with(s), letting(crowd()...))
	a := call(t, d, "POST", "/v1/messages/batch", `{"messages":[{"topic":"orders.x","delay":"1h"},{"topic":"bills","delay":"1h"},{"topic":"bills"},{"topic":"mail.a","delay":"1h"}]}`, as("shop")...).want(t, 200, "")
	var words []string
	for _, one := range a.json["results"].([]any) {
		word, _ := one.(map[string]any)["error"].(string)
		words = append(words, word)
	}
	if want := []string{"", "forbidden", "missing_delay", ""}; !slices.Equal(words, want) {
		t.Errorf("got %q, want %q", words, want)
	}
	if want := []string{"push orders.x", "push mail.a"}; !slices.Equal(s.take(), want) {
		t.Errorf("pushed other than %q", want)
	}
	if !strings.Contains(a.raw, `this needs the right push on the topic \"bills\", which the token does not have`) {
		t.Errorf("got %s", a.raw)
	}
	for _, name := range []string{"watch", "ops", "puller"} {
		a := call(t, d, "POST", "/v1/messages/batch", `{"messages":[]}`, as(name)...).want(t, 403, "forbidden")
		if a.detail() != "this needs the right push, which the token does not have" {
			t.Errorf("got %q", a.detail())
		}
	}
}

// Names are shared by all topics: a push that would take the place of another topic's message is none of this caller's.
func TestRights_AMergeIsAChangeOfWhatWaits(t *testing.T) {
	t.Parallel()
	named := func(id string, info scheduler.Info) *counting {
		s := newCounting()
		s.found[scheduler.Ref{ID: id, Key: "k", Keyed: true}] = []scheduler.Info{info}
		return s
	}
	push := func(how, id string) string {
		return `{"topic":"orders.x","delay":"1h","key":"k","on_duplicate":"` + how + `","id":"` + id + `"}`
	}
	for _, c := range []struct {
		who, how, id string
		found        scheduler.Info
		status       int
	}{
		{"shop", "replace", "a", info(uidA, "orders.y", scheduler.StateWaiting), 201},
		{"shop", "replace", "a", info(uidA, "bills", scheduler.StateWaiting), 403},
		{"shop", "keep", "a", info(uidA, "bills", scheduler.StateWaiting), 403},
		{"shop", "debounce", "a", info(uidA, "bills", scheduler.StateInFlight), 403},
		{"shop", "replace", "a", info(uidA, "bills", scheduler.StateDelivered), 201},
		{"shop", "replace", "other", info(uidA, "bills", scheduler.StateWaiting), 201},
		{"shop", "reject", "a", info(uidA, "bills", scheduler.StateWaiting), 201}, // the scheduler tells the duplicate
		{"all", "replace", "a", info(uidA, "bills", scheduler.StateWaiting), 201},
	} {
		s := named("a", c.found)
		a := call(t, open(t, with(s), letting(crowd()...)), "POST", "/v1/messages", push(c.how, c.id), as(c.who)...)
		if a.status != c.status || (len(s.take()) > 0) != (c.status == 201) {
			t.Errorf("%s, %s of %s %s: got %d %s", c.who, c.how, c.found.Topic, c.found.State, a.status, a.raw)
		}
	}
}

// What is judged is what is changed: by its uid, however the name is used meanwhile.
func TestRights_ALimitedCallerActsOnWhatWasJudged(t *testing.T) {
	t.Parallel()
	waiting, ended := scheduler.StateWaiting, scheduler.StateCanceled
	ref := scheduler.Ref{ID: "a"}
	for name, c := range map[string]struct {
		found   []scheduler.Info
		code    map[scheduler.UID]scheduler.CancelCode
		failing map[scheduler.UID]error
		status  int
		word    string
		changes []string
	}{
		"one":     {found: []scheduler.Info{info(uidA, "orders.x", waiting), info(uidA, "orders.x", ended)}, status: 200, changes: []string{"cancel " + string(uidA)}},
		"unknown": {status: 404, word: "unknown_id"},
		"two attempts": {
			found:  []scheduler.Info{info(uidB, "orders.x", waiting), info(uidA, "orders.x", waiting), info(uidB, "orders.x", ended)},
			status: 200, changes: []string{"cancel " + string(uidB), "cancel " + string(uidA)},
		},
		"an uncertain earlier one": {
			found:  []scheduler.Info{info(uidB, "orders.x", waiting), info(uidA, "orders.x", waiting), info(uidB, "orders.x", ended)},
			code:   map[scheduler.UID]scheduler.CancelCode{uidA: scheduler.CancelMaybe, uidB: scheduler.CancelDone},
			status: 409, word: "maybe_delivered", changes: []string{"cancel " + string(uidB), "cancel " + string(uidA)},
		},
		"an earlier one in flight": {
			found:  []scheduler.Info{info(uidB, "orders.x", waiting), info(uidA, "orders.x", scheduler.StateInFlight)},
			code:   map[scheduler.UID]scheduler.CancelCode{uidA: scheduler.CancelInFlight, uidB: scheduler.CancelDone},
			status: 409, word: "in_flight", changes: []string{"cancel " + string(uidB), "cancel " + string(uidA)},
		},
		"an earlier one of another topic": {
			found:  []scheduler.Info{info(uidB, "orders.x", waiting), info(uidA, "bills", waiting)},
			status: 403, word: "forbidden", changes: []string{"cancel " + string(uidB)},
		},
		"an earlier one that nobody can tell of": {
			found:   []scheduler.Info{info(uidB, "orders.x", waiting), info(uidA, "orders.x", waiting)},
			failing: map[scheduler.UID]error{uidA: scheduler.ErrUnavailable},
			status:  504, word: "outcome_unknown", changes: []string{"cancel " + string(uidB), "cancel " + string(uidA)},
		},
		"in flight": {
			found:  []scheduler.Info{info(uidA, "orders.x", scheduler.StateInFlight)},
			code:   map[scheduler.UID]scheduler.CancelCode{uidA: scheduler.CancelInFlight},
			status: 409, word: "in_flight", changes: []string{"cancel " + string(uidA)},
		},
	} {
		s := newCounting()
		s.found[ref], s.failing = c.found, c.failing
		if c.code != nil {
			s.code = c.code
		}
		a := call(t, open(t, with(s), letting(crowd()...)), "DELETE", "/v1/messages/a", "", as("shop")...)
		if got := s.take(); a.status != c.status || a.word() != c.word || !slices.Equal(got, c.changes) {
			t.Errorf("%s: got %d %s and %q", name, a.status, a.raw, got)
		}
	}
	s := newCounting()
	call(t, open(t, with(s), letting(crowd()...)), "PATCH", "/v1/messages/a", `{"delay":"1h"}`, as("shop")...).want(t, 200, "")
	call(t, open(t, with(s), letting(crowd()...)), "DELETE", "/v1/messages/a", "", as("ops")...).want(t, 200, "")
	if got, want := s.take(), []string{"cancel a", "reschedule " + string(uidA)}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A refusal changes nothing, whatever is asked by whom: every route with every body and every sender; what was answered
// with 4xx left the scheduler, the journal and the cluster alone.
func TestRights_ARefusalChangesNothing(t *testing.T) {
	t.Parallel()
	bodies := []string{"", `{"topic":"orders.x"}`, `{"topic":"bills","delay":"1h"}`, `{"delay":"1h"}`, `[`, `{"id":"b"}`, `{"messages":[{"topic":"a"}]}`}
	senders := [][]string{nil, {"Authorization", "Bearer wrong"}, as("shop"), as("watch"), as("puller"), append(as("all"), "Sec-Fetch-Site", "cross-site"),
		append(as("ops"), "Content-Type", "text/plain")}
	for _, c := range askedOf {
		j, s, nodes := &journal{}, newCounting(), &cluster{}
		s.found = nil // nothing that a change could be answered 409 for
		d := open(t, keeping(j), with(s), letting(crowd()...), func(c *api.Config) { c.Cluster = nodes })
		for _, body := range bodies {
			for _, header := range senders {
				j.asked, nodes.reasons = nil, nil
				a := call(t, d, c.method, c.target, body, header...)
				asked := j.last()
				switch asked.(type) { // questions
				case scheduler.Ref, scheduler.RecordQuery, forecastRequest:
					asked = nil
				}
				if changes := append(s.take(), nodes.reasons...); a.status >= 400 && a.status < 500 && (len(changes) > 0 || asked != nil) {
					t.Fatalf("%s %s %s %v: %d %s, and did %q %v", c.method, c.target, body, header, a.status, a.raw, changes, asked)
				}
			}
		}
	}
}

func TestTokens_OnlyKnownOnesOpenAndTheyCanBeReplaced(t *testing.T) {
	t.Parallel()
	var many []api.Token
	for i := range 1000 {
		many = append(many, token(fmt.Sprint("t", i), nil, true, false))
	}
	d := open(t, letting(many...), func(c *api.Config) { c.Token = "correct-horse-battery" })
	status := func(name string) int { return call(t, d, "GET", "/v1/cluster", "", as(name)...).status }
	for name, want := range map[string]int{"t0": 200, "t500": 200, "t999": 200, "t1000": 401, "": 401, "T0": 401} {
		if got := status(name); got != want {
			t.Errorf("%q: got %d, want %d", name, got, want)
		}
	}
	own := []string{"Authorization", "Bearer correct-horse-battery"}
	call(t, d, "POST", "/v1/cluster/resign", "", own...).want(t, 200, "")
	hash := sha256.Sum256([]byte("t0t0"))
	call(t, d, "GET", "/v1/cluster", "", "Authorization", fmt.Sprintf("Bearer %x", hash)).want(t, 401, "unauthorized")
	d.SetTokens([]api.Token{token("new", nil, true, false)})
	if status("new") != 200 || status("t0") != 401 {
		t.Error("the tokens were not replaced")
	}
	call(t, d, "GET", "/v1/cluster", "", own...).want(t, 200, "")

	// Taking all away closes the door.
	d = open(t, letting(token("only", nil, true, false)))
	d.SetTokens(nil)
	for _, name := range []string{"only", "x"} {
		call(t, d, "GET", "/v1/cluster", "", as(name)...).want(t, 401, "unauthorized")
	}
	call(t, d, "GET", "/v1/cluster", "").want(t, 401, "unauthorized")
	// A server without any is open until it gets one.
	d = open(t)
	d.SetTokens(nil)
	call(t, d, "POST", "/v1/cluster/resign", "").want(t, 200, "")
	d.SetTokens([]api.Token{token("first", nil, true, false)})
	call(t, d, "POST", "/v1/cluster/resign", "").want(t, 401, "unauthorized")
	call(t, d, "POST", "/v1/cluster/resign", "", as("first")...).want(t, 403, "forbidden")
}

func TestTokens_MayBeReplacedWhileTheyAreUsed(t *testing.T) {
	t.Parallel()
	d := open(t, letting(crowd()...))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				if a := call(t, d, "GET", "/v1/cluster", "", as("watch")...); a.status != 200 {
					t.Errorf("got %d", a.status)
				}
			}
		})
	}
	for range 200 {
		d.SetTokens(crowd())
	}
	all.Wait()
}

func TestAudit_TellsWhoDidWhatAndHowItWent(t *testing.T) {
	t.Parallel()
	nodes := &cluster{}
	d := open(t, keeping(&journal{}), with(newCounting()), letting(crowd()...), func(c *api.Config) { c.Cluster, c.Token = nodes, "correct-horse-battery" })
	own := []string{"Authorization", "Bearer correct-horse-battery"}
	actions := func() []map[string]any { return linesOf(t, d.log.String(), "operator action") }
	call(t, d, "POST", "/v1/cluster/resign", `{"reason":"new kernel"}`, as("ops")...)
	call(t, d, "POST", "/v1/topics/mail.*/pause", "", own...)
	call(t, d, "POST", "/v1/restore", `{"topic":5}`, as("all")...)
	call(t, d, "POST", "/v1/messages/cancel", `{"topic":"mail.a"}`, as("shop")...)
	call(t, d, "POST", "/v1/dead/purge", `{"ids":["x","y"]}`, as("ops")...)
	nodes.refusal = api.ErrNoStandby
	call(t, d, "POST", "/v1/cluster/resign", "", as("ops")...)
	// None of these is an operator's action.
	call(t, d, "POST", "/v1/restore", "")
	call(t, d, "POST", "/v1/restore", "", "Authorization", "Bearer wrong")
	call(t, d, "DELETE", "/v1/messages/a", "", as("ops")...)
	call(t, d, "PATCH", "/v1/messages/a", `{"delay":"1h"}`, as("ops")...)
	call(t, d, "GET", "/v1/topics", "", as("ops")...)
	got := actions()
	want := []map[string]any{
		{"who": "ops", "operation": "resign", "dry_run": false, "reason": "new kernel", "status": 200.0, "route": "POST /v1/cluster/resign"},
		{"who": "token", "operation": "pause", "dry_run": false, "topic": "mail.*", "status": 200.0, "route": "POST /v1/topics/{topic}/pause"},
		{"who": "all", "problem": "invalid_topic", "status": 400.0, "route": "POST /v1/restore"},
		{"who": "shop", "problem": "forbidden", "status": 403.0, "route": "POST /v1/messages/cancel"},
		{"who": "ops", "operation": "purge", "dry_run": false, "ids": 2.0, "status": 200.0, "route": "POST /v1/dead/purge"},
		{"who": "ops", "operation": "resign", "dry_run": false, "reason": "", "problem": "no_standby", "status": 409.0, "route": "POST /v1/cluster/resign"},
	}
	if len(got) != len(want) {
		t.Fatalf("got %d lines: %v", len(got), got)
	}
	for i := range want {
		if took, ok := got[i]["took"].(float64); !ok || took < 0 || got[i]["remote"] != "192.0.2.1:1234" || got[i]["level"] != "info" {
			t.Errorf("got %v", got[i])
		}
		for _, name := range []string{"took", "remote", "level", "message"} {
			delete(got[i], name)
		}
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("line %d: got %v\nwant %v", i, got[i], want[i])
		}
	}
	for _, secret := range []string{"correct-horse", "opsops", "shopshop"} {
		if strings.Contains(d.log.String(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}

	// Where nobody is asked for a token, nobody has a name.
	// A long operation that fails when its status is out has the problem in its line all the same.
	j := &journal{restore: func(context.Context, func(scheduler.RestoreReport)) (scheduler.RestoreReport, error) {
		<-time.After(50 * time.Millisecond)
		return scheduler.RestoreReport{}, scheduler.ErrUnavailable
	}}
	d = open(t, keeping(j), func(c *api.Config) { c.ProgressEvery = 5 * time.Millisecond })
	if status, lines := inLines(t, d, "/v1/restore", ""); status != 200 {
		t.Errorf("got %d %q", status, lines)
	}
	if got := actions(); len(got) != 1 || got[0]["who"] != "anonymous" || got[0]["problem"] != "unavailable" || got[0]["status"] != 200.0 || got[0]["took"].(float64) < 50 {
		t.Errorf("got %v", got)
	}
}
