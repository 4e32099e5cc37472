package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// The tokens of these tests: each is its own name, twice.
func token(name string, push []string, read, operate bool) api.Token {
	return api.Token{Name: name, Hash: sha256.Sum256([]byte(name + name)), Push: push, Read: read, Operate: operate}
}

func crowd() []api.Token {
	return []api.Token{
		token("shop", []string{"orders.>", "mail.*"}, false, false), token("watch", nil, true, false),
		token("ops", nil, false, true),
		token("all", []string{">"}, true, true),
		{Name: "puller", Hash: sha256.Sum256([]byte("pullerpuller")), Pull: []string{">"}},
	}
}

func as(name string) []string { return []string{"Authorization", "Bearer " + name + name} }

func letting(tokens ...api.Token) func(*api.Config) {
	return func(c *api.Config) { c.Tokens = tokens }
}

// counting is a scheduler that counts what would change anything, and finds one message.
type counting struct {
	*steering
	pullers
	mu      sync.Mutex
	found   map[scheduler.Ref]message.Info
	changes []string
	code    map[message.UID]scheduler.CancelCode
	failing map[message.UID]error
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
			changes = append(changes, "reschedule "+named(a.ref))
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
		results[i] = scheduler.Accepted{UID: uidA, State: message.StateWaiting, Due: later, Version: 1}
	}
	return results
}

func (c *counting) Get(_ context.Context, ref scheduler.Ref) (message.Info, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	viewer := ref.Viewer
	ref.Viewer = nil
	one, found := c.found[ref]
	if !found || !viewer.Sees(one.Topic) {
		return message.Info{}, scheduler.ErrUnknownID
	}
	return one, nil
}

func (c *counting) Resolve(ctx context.Context, ref scheduler.Ref) (message.Info, error) {
	return c.Get(ctx, ref)
}

// named is a reference but for who asks.
func named(ref scheduler.Ref) string {
	return fmt.Sprintf("{%s %s %s %s %t}", ref.UID, ref.ID, ref.Topic, ref.Key, ref.Keyed)
}

func (c *counting) Cancel(_ context.Context, ref scheduler.Ref) (scheduler.CancelResult, error) {
	c.change("cancel " + named(ref))
	return scheduler.CancelResult{Code: c.code[ref.UID], Info: message.Info{Message: message.Message{UID: ref.UID},
		State: message.StateCanceled}}, c.failing[ref.UID]
}

func info(uid message.UID, topic string, state message.State) message.Info {
	return message.Info{Message: message.Message{UID: uid, ID: "a", Topic: topic, Due: later},
		State: state, Version: 1}
}

// newCounting finds "a" on orders.x and "b" on bills.
func newCounting() *counting {
	return &counting{
		pullers: pullers{settled: scheduler.Settled{Code: scheduler.SettleDone}},
		steering: &steering{amend: scheduler.AmendResult{Code: scheduler.AmendDone,
			Info: info(uidA, "orders.x", message.StateWaiting)}, was: true},
		found: map[scheduler.Ref]message.Info{
			{ID: "a"}:   info(uidA, "orders.x", message.StateWaiting),
			{UID: uidA}: info(uidA, "orders.x", message.StateWaiting),
			{ID: "b"}:   info(uidB, "bills", message.StateWaiting),
			{UID: uidB}: info(uidB, "bills", message.StateWaiting),
		},
		code: map[message.UID]scheduler.CancelCode{uidA: scheduler.CancelDone, uidB: scheduler.CancelDone,
			"": scheduler.CancelDone},
	}
}

// hidden reports whether a request is for a message that is none of the caller's to see.
func (c *counting) hidden(who, method, target string) bool {
	return who == "shop" &&
		(strings.HasPrefix(target, "/v1/messages/b") && !strings.HasPrefix(target, "/v1/messages/batch") ||
			strings.HasSuffix(target, string(uidB)))
}

// askedRoute is a route with what it asks for and who may call it.
type askedRoute struct {
	method, target, body string
	may                  []string // of crowd
}

// askedOf is every route of this system.
var askedOf = []askedRoute{
	{"POST", "/v1/messages", `{"topic":"orders.x","delay":"1h"}`, []string{"shop", "all"}},
	{"POST", "/v1/messages", `{"topic":"bills","delay":"1h"}`, []string{"all"}},
	{"POST", "/v1/messages", `{"topic":"mail.a.b","delay":"1h"}`, []string{"all"}},
	{"POST", "/v1/messages/batch", `{"messages":[{"topic":"orders.x","delay":"1h"}]}`, []string{"shop", "all"}},
	{"GET", "/v1/topics/a/leases", "", []string{"watch", "ops", "all"}},
	{"POST", "/v1/messages/a/release", `{"reason":"stuck"}`, []string{"ops", "all"}},
	{"POST", "/v1/topics/a/pull", `{"max":2}`, []string{"puller"}},
	{"POST", "/v1/pull", `{"topics":["a"],"max":2}`, []string{"puller"}},
	{"POST", "/v1/leases/" + receiptA + "/ack", "", []string{"puller"}},
	{"POST", "/v1/leases/" + receiptA + "/nack", `{"delay":"1m"}`, []string{"puller"}},
	{"POST", "/v1/leases/" + receiptA + "/dead", `{"reason":"x"}`, []string{"puller"}},
	{"POST", "/v1/leases/" + receiptA + "/extend", `{"lease":"1m"}`, []string{"puller"}},
	{"POST", "/v1/leases/" + receiptA + "/release", "", []string{"puller"}},
	{"POST", "/v1/leases/ack", `{"receipts":["` + receiptA + `"]}`, []string{"puller"}},
	{"POST", "/v1/leases/nack", `{"receipts":["` + receiptA + `"]}`, []string{"puller"}},
	{"POST", "/v1/leases/dead", `{"receipts":["` + receiptA + `"]}`, []string{"puller"}},
	{"POST", "/v1/leases/extend", `{"receipts":["` + receiptA + `"],"lease":"1m"}`, []string{"puller"}},
	{"POST", "/v1/leases/release", `{"receipts":["` + receiptA + `"]}`, []string{"puller"}},
	{"GET", "/v1/messages/a", "", []string{"shop", "watch", "ops", "all"}},
	{"GET", "/v1/messages/" + string(uidA), "", []string{"shop", "watch", "ops", "all"}},
	{"GET", "/v1/messages/b", "", []string{"watch", "ops", "all"}},
	{"GET", "/v1/messages/" + string(uidB), "", []string{"watch", "ops", "all"}},
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
	{"GET", "/v1/messages/a/history", "", []string{"shop", "watch", "ops", "all"}},
	{"GET", "/v1/rejects", "", []string{"shop", "watch", "ops", "all"}},
	{"GET", "/v1/rejects/1", "", []string{"watch", "ops", "all"}},
	{"POST", "/v1/rejects/requeue", `{"sequence":1}`, []string{"shop", "ops", "all"}},
	{"GET", "/v1/forecast", "", []string{"watch", "ops", "all"}},
	{"GET", "/v1/why?topic=orders.x", "", []string{"shop", "watch", "ops", "all"}},
	{"POST", "/v1/messages/a/restore", "", []string{"ops", "all"}},
	{"POST", "/v1/restore", "", []string{"ops", "all"}},
	{"POST", "/v1/verify", "", []string{"ops", "all"}},
	{"POST", "/v1/redeliver", `{"since":"1h"}`, []string{"ops", "all"}},
	{"GET", "/v1/cluster", "", []string{"watch", "ops", "all"}},
	{"GET", "/v1/cluster?detail=true", "", []string{"watch", "ops", "all"}},
	{"GET", "/v1/overview", "", []string{"watch", "ops", "all"}},
	{"GET", "/v1/series", "", []string{"watch", "ops", "all"}},
	{"GET", "/v1/events", "", []string{"watch", "ops", "all"}},
	{"GET", "/v1/actions", "", []string{"watch", "ops", "all"}},
	{"GET", "/v1/held", "", []string{"watch", "ops", "all"}},
	{"GET", "/v1/dead/groups", "", []string{"watch", "ops", "all"}},
	{"GET", "/v1/me", "", []string{"shop", "watch", "ops", "all", "puller"}},
	{"POST", "/v1/cluster/resign", "", []string{"ops", "all"}},
	{"DELETE", "/v1/cluster/instances/t3", "", []string{"ops", "all"}},
	{"GET", "/metrics", "", []string{"watch", "ops", "all"}},
}

// askedOfSeeds is the same for the routes of other systems.
var askedOfSeeds = []askedRoute{
	{"GET", "/camellia/health/status", "", []string{"shop", "watch", "ops", "all", "puller"}},
	{"GET", "/camellia/health/check", "", []string{"shop", "watch", "ops", "all", "puller"}},
	{"POST", "/camellia/delayQueue/sendMsg", "topic=orders.x&msg=a&delayMillis=1", []string{"shop", "all"}},
	{"POST", "/camellia/delayQueue/deleteMsg", "topic=orders.x&msgId=a", []string{"shop", "ops", "all"}},
	{"POST", "/camellia/delayQueue/getMsg", "topic=orders.x&msgId=a", []string{"shop", "watch", "ops", "all"}},
	{"POST", "/camellia/delayQueue/pullMsg", "topic=orders.x", []string{"puller"}},
	{"POST", "/camellia/delayQueue/longPollingMsg", "topic=orders.x", []string{"puller"}},
	{"POST", "/camellia/delayQueue/ackMsg", "topic=orders.x&msgId=a", []string{"puller"}},
	{"GET", "/camellia/delayQueue/getMonitorData", "", []string{"watch", "ops", "all"}},
	{"GET", "/camellia/delayQueue/getTopicInfo?topic=orders.x", "", []string{"watch", "ops", "all"}},
	{"GET", "/camellia/delayQueue/getTopicInfoList", "", []string{"watch", "ops", "all"}},
	{"POST", "/push", `{"topic":"orders.x","delay":1,"body":"a"}`, []string{"shop", "all"}},
	{"GET", "/delete?id=a", "", []string{"shop", "ops", "all"}},
	{"GET", "/delete?jobId=a", "", []string{"shop", "ops", "all"}},
	{"GET", "/reStore?expire=true", "", []string{"ops", "all"}},
	{"GET", "/reStore/a", "", []string{"ops", "all"}},
	{"GET", "/reStoreJob?JobId=a", "", []string{"ops", "all"}},
	{"GET", "/get/work", "", []string{"puller"}},
}

// Every route × every token: who may is answered; who may not gets 403, and nothing is asked of anything but a
// look-up.
func TestRights_HoldOnEveryRoute(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(askedOf, askedOfSeeds) {
		for _, token := range crowd() {
			j := &journal{records: []record.Record{recordOf(uidA, "a", 1, message.StateWaiting)}}
			s, nodes := newCounting(), &cluster{}
			topics := new(scheduler.Topics)
			topics.Set([]*scheduler.Topic{{Pattern: "work", Deliver: scheduler.DeliverPull}}, message.Retry{})
			d := openTopics(t, topics, keeping(j), with(s), rejecting(newRejects()), letting(crowd()...),
				func(c *api.Config) { c.Cluster = nodes })
			a := call(t, d, c.method, c.target, c.body, as(token.Name)...)
			changes := append(s.take(), nodes.reasons...)
			if slices.Contains(c.may, token.Name) {
				if a.status >= 300 {
					t.Errorf("%s %s as %s: got %d %s", c.method, c.target, token.Name, a.status, a.raw)
				}
				continue
			}
			if s.hidden(token.Name, c.method, c.target) {
				a.want(t, 404, "unknown_id")
			} else {
				a.want(t, 403, "forbidden")
			}
			if len(changes) > 0 || j.last() != nil {
				t.Errorf("%s %s as %s is forbidden and did %q, asked the journal for %v", c.method, c.target,
					token.Name, changes, j.last())
			}
		}
	}
}

// Who may push sees what became of his messages, and neither what is in them nor where tarry runs. What is on a topic
// that is not his answers as if it did not exist.
func TestRights_PushSeesWhatBecameOfItsMessages(t *testing.T) {
	t.Parallel()
	found := newCounting()
	mine := info(uidA, "orders.x", message.StateDead)
	mine.Body, mine.Headers, mine.Reason, mine.Attempt = []byte("secret"),
		[]message.Header{{Name: "X-Secret", Value: "1"}}, "no listener", 3
	found.found[scheduler.Ref{ID: "a"}], found.found[scheduler.Ref{UID: uidA}] = mine, mine
	j := &journal{
		records: []record.Record{recordOf(uidA, "a", 1, message.StateDead),
			recordOf(uidB, "a", 1, message.StateCanceled)},
		changes: []record.Change{{UID: uidA, Version: 1, State: message.StateDead, At: 1, Instance: "secret-1",
			Address: "secret:7070", Term: 42,
			Attempt: 2, Claimed: 1, Reason: "no listener", Stream: "secret", Sequence: 7}},
	}
	j.records[1].Kind, j.records[1].Other = message.KindRequeued, uidA
	d := open(t, keeping(j), with(found), letting(crowd()...))
	for who, sees := range map[string]bool{"shop": false, "watch": true, "ops": true, "all": true} {
		for _, target := range []string{"/v1/messages/a", "/v1/messages/" + string(uidA), "/v1/messages/a/history"} {
			a := call(t, d, "GET", target, "", as(who)...).want(t, 200, "")
			if strings.Contains(strings.ToLower(a.raw), "secret") != sees ||
				!strings.Contains(a.raw, `"reason":"no listener"`) ||
				!strings.Contains(a.raw, `"attempt":2`) || !strings.Contains(a.raw, `"state":"dead"`) {
				t.Errorf("%s as %s: got %s", target, who, a.raw)
			}
			history := strings.HasSuffix(target, "history")
			if history != strings.Contains(a.raw, `"others":[{"uid":"`+string(uidB)+`","state":"canceled"`) {
				t.Errorf("%s as %s: got %s", target, who, a.raw)
			}
		}
	}
	j.records = []record.Record{recordOf(uidB, "b", 1, message.StateDead)}
	j.records[0].Topic = "bills"
	for _, target := range []string{"/v1/messages/%s", "/v1/messages/%s?topic=bills", "/v1/messages/%s/history"} {
		for _, id := range []string{"b", string(uidB)} {
			hidden := call(t, d, "GET", fmt.Sprintf(target, id), "", as("shop")...).want(t, 404, "unknown_id")
			j.err = scheduler.ErrUnknownID
			unknown := call(t, d, "GET", fmt.Sprintf(target, "c"), "", as("shop")...).want(t, 404, "unknown_id")
			j.err = nil
			if hidden.raw != unknown.raw {
				t.Errorf("%s: hidden %s, unknown %s", target, hidden.raw, unknown.raw)
			}
		}
	}
}

// Every route of the server is in the table above: a new one cannot be forgotten there.
func TestRights_TheTableHasEveryRoute(t *testing.T) {
	t.Parallel()
	d := open(t, keeping(&journal{}))
	seen := map[string]bool{}
	for _, c := range slices.Concat(askedOf, askedOfSeeds) {
		r, err := http.NewRequestWithContext(t.Context(), c.method, c.target, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen[d.Pattern(r)] = true
	}
	for _, pattern := range d.Patterns() {
		if !seen[pattern] && pattern != "GET /livez" && pattern != "GET /readyz" && pattern != "/" &&
			pattern != "GET /clearAll" {
			t.Errorf("%s is a route without a line in the table of rights", pattern)
		}
	}
}

func TestRights_ABatchIsJudgedItemByItem(t *testing.T) {
	t.Parallel()
	s := newCounting()
	d := open(t, with(s), letting(crowd()...))
	a := call(t, d, "POST", "/v1/messages/batch", `{"messages":[{"topic":"orders.x","delay":"1h"},{"topic":"bills",`+
		`"delay":"1h"},{"topic":"bills"},{"topic":"mail.a","delay":"1h"}]}`, as("shop")...).want(t, 200, "")
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

// A name belongs to its topic: what a caller does by a name is nothing to the messages of topics that are none of his,
// nor does any answer reveal them.
func TestRights_AnotherTopicsNameIsNothingToACaller(t *testing.T) {
	t.Parallel()
	d := open(t, letting(crowd()...))
	push := func(topic, rest string) string { return `{"topic":"` + topic + `","delay":"1h","id":"a"` + rest + `}` }
	call(t, d, "POST", "/v1/messages", push("bills", ""), as("all")...).want(t, 201, "")
	bill := call(t, d, "GET", "/v1/messages/a", "", as("watch")...).want(t, 200, "").raw
	for _, path := range []string{"/v1/messages/a", "/v1/messages/a?key=", "/v1/messages/" + uidOf(t, bill)} {
		unknown := "/v1/messages/b" + strings.TrimPrefix(path, "/v1/messages/a")
		if strings.Contains(path, "t-") {
			unknown = "/v1/messages/t-0000000000000000"
		}
		for method, body := range map[string]string{"DELETE": "", "PATCH": `{"delay":"2h"}`} {
			got, want := call(t, d, method, path, body, as("shop")...), call(t, d, method, unknown, body, as("shop")...)
			if got.status != 404 || want.status != 404 || got.detail() != want.detail() {
				t.Errorf("%s %s reveals what exists: got %d %s, want %d %s", method, path, got.status, got.raw,
					want.status, want.raw)
			}
		}
	}
	for _, id := range []string{"a", "b"} {
		call(t, d, "DELETE", "/v1/messages/"+id+"?topic=bills", "", as("shop")...).want(t, 403, "forbidden")
	}
	// Whatever he pushes under the name is his own.
	for i, rest := range []string{`,"attempt":2`, ``, `,"on_duplicate":"replace"`, `,"on_duplicate":"keep"`,
		`,"on_duplicate":"debounce"`} {
		call(t, d, "POST", "/v1/messages", push(fmt.Sprint("orders.", i), rest), as("shop")...).want(t, 201, "")
	}
	if now := call(t, d, "GET", "/v1/messages/a?topic=bills", "", as("watch")...).want(t, 200, "").raw; now != bill {
		t.Errorf("the other topic's message was %s, and is %s", bill, now)
	}
	refused := call(t, d, "POST", "/v1/messages", strings.Replace(push("orders.x", ""), `"a"`, `"`+uidOf(t, bill)+`"`,
		1), as("shop")...).want(t, 409, "duplicate_id")
	if _, told := refused.json["state"]; told && refused.json["state"] != "waiting" ||
		strings.Contains(refused.raw, "bills") {
		t.Errorf("another topic's message shows: %s", refused.raw)
	}
	// An ambiguous name is judged by the messages that the caller may see, and the answer names only those.
	ambiguous := call(t, d, "DELETE", "/v1/messages/a", "", as("shop")...).want(t, 409, "ambiguous_id")
	if list, _ := ambiguous.json["candidates"].([]any); len(list) != 5 || strings.Contains(ambiguous.raw, "bills") {
		t.Errorf("got %s", ambiguous.raw)
	}
	if list, _ := call(t, d, "DELETE", "/v1/messages/a", "", as("ops")...).want(
		t, 409, "ambiguous_id").json["candidates"].([]any); len(list) != 6 {
		t.Errorf("got %v", list)
	}
	for i := range 4 {
		call(t, d, "DELETE", fmt.Sprint("/v1/messages/a?topic=orders.", i), "", as("shop")...).want(t, 200, "")
	}
	// Ended ones count too for a change; a read prefers the one that lives.
	call(t, d, "DELETE", "/v1/messages/a", "", as("shop")...).want(t, 409, "ambiguous_id")
	call(t, d, "DELETE", "/v1/messages/a?topic=orders.4", "", as("shop")...).want(t, 200, "")
	if now := call(t, d, "GET", "/v1/messages/a", "", as("watch")...).want(t, 200, "").raw; now != bill {
		t.Errorf("read %s, want the one that lives", now)
	}
	for _, c := range [][3]string{{"PATCH", "", `{"delay":"2h"}`}, {"POST", "/run", ""}} {
		call(t, d, c[0], "/v1/messages/a"+c[1], c[2], as("ops")...).want(t, 409, "ambiguous_id")
		call(t, d, c[0], "/v1/messages/a"+c[1]+"?topic=bills", c[2], as("ops")...).want(t, 200, "")
	}
	call(t, d, "POST", "/v1/dead/requeue", `{"id":"a"}`, as("ops")...).want(t, 409, "ambiguous_id")
	call(t, d, "POST", "/v1/dead/requeue", `{"id":"a","topic":"bills"}`, as("ops")...).want(t, 409, "not_dead")
	// Topic and key together are always one message.
	call(t, d, "POST", "/v1/messages", push("orders.4", `,"key":"k"`), as("shop")...).want(t, 201, "")
	call(t, d, "DELETE", "/v1/messages/a?topic=orders.4", "", as("shop")...).want(t, 409, "ambiguous_id")
	call(t, d, "DELETE", "/v1/messages/a?topic=orders.4&key=k", "", as("shop")...).want(t, 200, "")
}

// A cancel that finds nothing is remembered for its topic, and says so; without a topic none is.
func TestCancel_SaysWhetherItIsRemembered(t *testing.T) {
	t.Parallel()
	d := open(t, letting(crowd()...))
	for _, who := range []string{"shop", "ops"} {
		with := call(t, d, "DELETE", "/v1/messages/a?topic=orders.x", "", as(who)...).want(
			t, 404, "unknown_id").detail()
		without := call(t, d, "DELETE", "/v1/messages/a", "", as(who)...).want(t, 404, "unknown_id").detail()
		if !strings.Contains(with, "will be accepted as canceled") ||
			!strings.Contains(without, "only a cancel with its topic is remembered") {
			t.Errorf("%s: got %q and %q", who, with, without)
		}
	}
	for _, target := range []string{"/v1/messages/a?topic=", "/v1/messages/a?topic=orders.*",
		"/v1/messages/a?topic=a..b"} {
		call(t, d, "DELETE", target, "", as("ops")...).want(t, 400, "invalid_topic")
	}
}

func uidOf(t *testing.T, text string) string {
	t.Helper()
	var a struct{ UID string }
	if err := json.Unmarshal([]byte(text), &a); err != nil || a.UID == "" {
		t.Fatalf("%s: %v", text, err)
	}
	return a.UID
}

// What is judged is what is changed: on the topic that was judged, however the name is used meanwhile.
func TestRights_ALimitedCallerActsOnWhatWasJudged(t *testing.T) {
	t.Parallel()
	s := newCounting()
	d := open(t, with(s), letting(crowd()...))
	shop := "{ a orders.x  true}"
	for _, c := range []struct{ method, target, who, want string }{
		{"DELETE", "/v1/messages/a", "shop", "cancel " + shop},
		{"PATCH", "/v1/messages/a", "shop", "reschedule " + shop},
		{"DELETE", "/v1/messages/a?topic=orders.y", "shop", "cancel { a orders.y  false}"},
		{"DELETE", "/v1/messages/" + string(uidA), "shop", "cancel {" + string(uidA) + "  orders.x  false}"},
		{"DELETE", "/v1/messages/a", "ops", "cancel { a   false}"},
	} {
		call(t, d, c.method, c.target, `{"delay":"1h"}`, as(c.who)...).want(t, 200, "")
		if got := s.take(); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s %s as %s: got %q, want %q", c.method, c.target, c.who, got, c.want)
		}
	}
}

// A refusal changes nothing, whatever is asked by whom: every route with every body and every sender; what was answered
// with 4xx left the scheduler, the journal and the cluster alone.
func TestRights_ARefusalChangesNothing(t *testing.T) {
	t.Parallel()
	bodies := []string{"", `{"topic":"orders.x"}`, `{"topic":"bills","delay":"1h"}`, `{"delay":"1h"}`, `[`,
		`{"id":"b"}`, `{"messages":[{"topic":"a"}]}`}
	senders := [][]string{nil, {"Authorization", "Bearer wrong"}, as("shop"), as("watch"), as("puller"),
		append(as("all"), "Sec-Fetch-Site", "cross-site"),
		append(as("ops"), "Content-Type", "text/plain")}
	for _, c := range slices.Concat(askedOf, askedOfSeeds) {
		j, s, nodes := &journal{}, newCounting(), &cluster{}
		s.found = nil // nothing that a change could be answered 409 for
		d := open(t, keeping(j), with(s), letting(crowd()...), func(c *api.Config) { c.Cluster = nodes })
		for at, body := range bodies {
			if at > 0 && strings.HasSuffix(c.target, "longPollingMsg") {
				break // a refusal takes a second
			}
			for _, header := range senders {
				j.asked, nodes.reasons = nil, nil
				a := call(t, d, c.method, c.target, body, header...)
				asked := j.last()
				switch asked.(type) { // questions
				case scheduler.Ref, record.RecordQuery, record.ForecastQuery:
					asked = nil
				}
				if changes := append(s.take(), nodes.reasons...); a.status >= 400 && a.status < 500 &&
					(len(changes) > 0 || asked != nil) {
					t.Fatalf("%s %s %s %v: %d %s, and did %q %v", c.method, c.target, body, header, a.status, a.raw,
						changes, asked)
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
	d := open(t, keeping(&journal{}), with(newCounting()), letting(crowd()...), func(c *api.Config) {
		c.Cluster, c.Token = nodes, "correct-horse-battery"
	})
	own := []string{"Authorization", "Bearer correct-horse-battery"}
	actions := func() []map[string]any { return linesOf(t, d.log.String(), "operator action") }
	call(t, d, "POST", "/v1/cluster/resign", `{"reason":"new kernel"}`, as("ops")...)
	call(t, d, "POST", "/v1/topics/mail.*/pause", "", own...)
	call(t, d, "POST", "/v1/restore", `{"topic":5}`, as("all")...)
	call(t, d, "POST", "/v1/messages/cancel", `{"topic":"mail.a"}`, as("shop")...)
	call(t, d, "POST", "/v1/dead/purge", `{"ids":["x","y"]}`, as("ops")...)
	nodes.refusal = ops.ErrNoStandby
	call(t, d, "POST", "/v1/cluster/resign", "", as("ops")...)
	// None of these is an operator's action.
	call(t, d, "POST", "/v1/restore", "")
	call(t, d, "POST", "/v1/restore", "", "Authorization", "Bearer wrong")
	call(t, d, "DELETE", "/v1/messages/a", "", as("ops")...)
	call(t, d, "PATCH", "/v1/messages/a", `{"delay":"1h"}`, as("ops")...)
	call(t, d, "GET", "/v1/topics", "", as("ops")...)
	got := actions()
	want := []map[string]any{
		{"who": "ops", "operation": "resign", "dry_run": false, "reason": "new kernel", "status": 200.0,
			"route": "POST /v1/cluster/resign"},
		{"who": "token", "operation": "pause", "dry_run": false, "topic": "mail.*", "status": 200.0,
			"route": "POST /v1/topics/{topic}/pause"},
		{"who": "all", "problem": "invalid_topic", "status": 400.0, "route": "POST /v1/restore"},
		{"who": "shop", "problem": "forbidden", "status": 403.0, "route": "POST /v1/messages/cancel"},
		{"who": "ops", "operation": "purge", "dry_run": false, "ids": 2.0, "status": 200.0,
			"route": "POST /v1/dead/purge"},
		{"who": "ops", "operation": "resign", "dry_run": false, "reason": "", "problem": "no_standby", "status": 409.0,
			"route": "POST /v1/cluster/resign"},
	}
	if len(got) != len(want) {
		t.Fatalf("got %d lines: %v", len(got), got)
	}
	for i := range want {
		if took, ok := got[i]["took"].(float64); !ok || took < 0 || got[i]["remote"] != "192.0.2.1:1234" ||
			got[i]["level"] != "info" {
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

	// Where nobody is asked for a token, nobody has a name. A long operation that fails when its status is out has the
	// problem in its line all the same.
	synctest.Test(t, func(t *testing.T) {
		j := &journal{restore: func(context.Context, func(record.RestoreReport)) (record.RestoreReport, error) {
			time.Sleep(50 * time.Millisecond) // of the bubble
			return record.RestoreReport{}, scheduler.ErrUnavailable
		}}
		d = open(t, keeping(j), func(c *api.Config) { c.ProgressEvery = 5 * time.Millisecond })
		if status, lines := inLines(t, d, "/v1/restore", ""); status != 200 {
			t.Errorf("got %d %q", status, lines)
		}
	})
	if got := actions(); len(got) != 1 || got[0]["who"] != "anonymous" || got[0]["problem"] != "unavailable" ||
		got[0]["status"] != 200.0 || got[0]["took"].(float64) < 50 {
		t.Errorf("got %v", got)
	}
}
