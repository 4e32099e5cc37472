package api_test

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// A caller that may only push learns what became of a message, by sendMsg of its msgId too, and not what is in it.
func TestCamellia_ShowsNoContentToWhoMayOnlyPush(t *testing.T) {
	t.Parallel()
	d := open(t, letting(crowd()...), with(service{get: func(context.Context, scheduler.Ref) (message.Info, error) {
		one := info(uidA, "orders.x", message.StateWaiting)
		one.Body = []byte("secret")
		return one, nil
	}}))
	for route, sees := range map[string]bool{"sendMsg shop": false, "getMsg shop": false, "sendMsg all": true,
		"getMsg all": true} {
		route, who, _ := strings.Cut(route, " ")
		a := call(t, d, "POST", "/camellia/delayQueue/"+route, "topic=orders.x&msgId=a&msg=other&delayMillis=1", as(who)...)
		if a.json["code"] != 200.0 || strings.Contains(a.raw, "secret") != sees {
			t.Errorf("%s as %s: %s", route, who, a.raw)
		}
	}
}

// Without a journal the memory of an end has no schedule and content, and after a retry not when the message was due
// first: what is not known is not told.
func TestCamellia_MakesUpNoNumber(t *testing.T) {
	t.Parallel()
	all := []string{"retry", "maxRetry", "triggerTime", "expireTime"}
	for _, c := range []struct {
		state    message.State
		refusals uint32
		retry    float64
		none     []string
	}{
		{message.StateDelivered, 0, 1, all[1:2]}, {message.StateDelivered, 2, 3, all[1:]},
		{message.StateCanceled, 0, 0, all[1:2]}, {message.StateExpired, 2, 2, all[1:]},
		{message.StateDead, 2, 2, nil}, {message.StateWaiting, 0, 0, nil}, {message.StateInFlight, 1, 2, nil},
	} {
		d := open(t, with(service{get: func(context.Context, scheduler.Ref) (message.Info, error) {
			one := info(uidA, "orders.x", c.state)
			one.Pull, one.Mark.Refusals = true, c.refusals
			return one, nil
		}}))
		a := call(t, d, "POST", "/camellia/delayQueue/getMsg", "topic=orders.x&msgId=a")
		told, _ := a.json["delayMsg"].(map[string]any)
		for _, name := range all {
			if _, is := told[name]; is == slices.Contains(c.none, name) || told["retry"] != c.retry {
				t.Errorf("%s after %d tells %v", c.state, c.refusals, told)
			}
		}
	}
}

// A poll's times of 0 are those that camellia's server takes for none: its wait is 10 s, and its lease the topic's.
func TestCamellia_TakesZeroForNone(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]scheduler.Poll{
		"":   {Wait: 10 * time.Second},
		"0":  {Wait: 10 * time.Second},
		"-1": {Wait: 10 * time.Second},
		"7":  {Wait: 7 * time.Millisecond, Lease: 100 * time.Millisecond},
	} {
		var got scheduler.Poll
		d := open(t, with(service{pullers: pullers{polled: func(p scheduler.Poll) { got = p }}}))
		call(t, d, "POST", "/camellia/delayQueue/longPollingMsg",
			"topic=orders.x&longPollingTimeoutMillis="+query+"&ackTimeoutMillis="+query)
		if got.Wait != want.Wait || got.Lease != want.Lease {
			t.Errorf("%q: waits %s, leases for %s", query, got.Wait, got.Lease)
		}
	}
}

// A probe of its status fails while no push can be accepted, one that checks never.
func TestCamellia_TellsItsHealth(t *testing.T) {
	t.Parallel()
	for want, check := range map[int]api.Check{200: {Name: "nats", Err: errElse}, 500: {Name: "redis", Needed: true,
		Err: errElse}} {
		d := open(t, func(c *api.Config) {
			c.Ready = func(context.Context) []api.Check { return []api.Check{check} }
		})
		for path, want := range map[string]int{"status": want, "check": 200} {
			a := httptest.NewRecorder()
			d.ServeHTTP(a, httptest.NewRequest("GET", "http://localhost/camellia/health/"+path, nil))
			if text := strings.TrimSpace(a.Body.String()); a.Code != want || text != fmt.Sprintf(`{"code":%d}`, want) {
				t.Errorf("%s without %s: %d %s", path, check.Name, a.Code, text)
			}
		}
	}
}

// What was sent back comes back for a poll of its topic that begins, and for all when the instance stops.
func TestCamellia_ReturnsWhatWasSentBackInTime(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	nacks := 0
	did := scheduler.Settled{Code: scheduler.SettleDone}
	d := open(t, with(service{pullers: pullers{settled: did, ordered: func(orders []scheduler.Settlement) {
		mu.Lock()
		defer mu.Unlock()
		for _, o := range orders {
			if o.Verb == scheduler.Nack && o.UID == uidA && o.Nonce == 1 && o.Topic == "a" {
				nacks++
			}
		}
	}}}))
	wants := func(want int, after string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if nacks != want {
			t.Errorf("after %s %d came back, want %d", after, nacks, want)
		}
	}
	back := func() {
		call(t, d, "POST", "/camellia/delayQueue/ackMsg", "topic=a&msgId=a&ack=false").want(t, 200, "")
	}
	back()
	back()
	call(t, d, "POST", "/camellia/delayQueue/pullMsg", "topic=b")
	wants(0, "a poll of another topic")
	call(t, d, "POST", "/camellia/delayQueue/pullMsg", "topic=a")
	wants(2, "a poll")
	call(t, d, "POST", "/camellia/delayQueue/pullMsg", "topic=a")
	wants(2, "another poll")
	back()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := d.Run(ctx, listener); err != nil {
		t.Error(err)
	}
	wants(3, "its stop")
	back()
	wants(4, "a request beside its stop")
}
