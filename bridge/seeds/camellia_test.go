package seeds_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// A caller that may only push learns what became of a message, by sendMsg of its msgId too, and not what is in it.
func TestCamellia_ShowsNoContentToWhoMayOnlyPush(t *testing.T) {
	t.Parallel()
	one := info(message.StateWaiting)
	one.Body = []byte("secret")
	d := open(t, &service{info: one}, func(c *api.Config) {
		c.Tokens = []api.Token{{Name: "shop", Hash: hash("shop"), Push: []string{"orders.>"}},
			{Name: "all", Hash: hash("all"), Push: []string{">"}, Read: true}}
	})
	for route, sees := range map[string]bool{"sendMsg shop": false, "getMsg shop": false, "sendMsg all": true,
		"getMsg all": true} {
		route, token, _ := strings.Cut(route, " ")
		raw, _ := d.post(t, route, "topic=orders.x&msgId=a&msg=other&delayMillis=1", token)
		if strings.Contains(raw, "secret") != sees {
			t.Errorf("%s as %s: %s", route, token, raw)
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
		one := info(c.state)
		one.Pull, one.Mark.Refusals = true, c.refusals
		_, a := open(t, &service{info: one}).post(t, "getMsg", "topic=orders.x&msgId=a", "")
		told, _ := a["delayMsg"].(map[string]any)
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
		d := open(t, &service{polled: func(p scheduler.Poll) { got = p }})
		d.post(t, "longPollingMsg", "topic=orders.x&longPollingTimeoutMillis="+query+"&ackTimeoutMillis="+query, "")
		if got.Wait != want.Wait || got.Lease != want.Lease {
			t.Errorf("%q: waits %s, leases for %s", query, got.Wait, got.Lease)
		}
	}
}

// A probe of its status fails while no push can be accepted, one that checks never.
func TestCamellia_TellsItsHealth(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	for want, check := range map[int]api.Check{200: {Name: "nats", Err: down}, 500: {Name: "redis", Needed: true,
		Err: down}} {
		d := open(t, &service{}, func(c *api.Config) {
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
	nacks, held := 0, info(message.StateInFlight)
	held.Topic = "a"
	d := open(t, &service{info: held, settled: func(orders []scheduler.Settlement) {
		for _, o := range orders {
			if o.Verb == scheduler.Nack && o.UID == held.UID && o.Nonce == 1 && o.Topic == "a" {
				nacks++
			}
		}
	}})
	wants := func(want int, after string) {
		t.Helper()
		if nacks != want {
			t.Errorf("after %s %d came back, want %d", after, nacks, want)
		}
	}
	back := func() { d.post(t, "ackMsg", "topic=a&msgId=a&ack=false", "") }
	back()
	back()
	d.post(t, "pullMsg", "topic=b", "")
	wants(0, "a poll of another topic")
	d.post(t, "pullMsg", "topic=a", "")
	wants(2, "a poll")
	d.post(t, "pullMsg", "topic=a", "")
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
	d.Close()
	wants(3, "its stop")
	back()
	wants(4, "a request beside its stop")
}

// A long poll that is refused as a whole, or that panics, is answered late, since its SDK repeats it at once. What
// pulls at once is not.
func TestCamellia_RefusesALongPollLate(t *testing.T) {
	t.Parallel()
	shut := open(t, &service{}, func(c *api.Config) {
		c.Tokens = []api.Token{{Name: "all", Hash: hash("all"), Pull: []string{">"}}}
	})
	broken := open(t, &service{polled: func(scheduler.Poll) { panic("a fault") }})
	for name, least := range map[string]time.Duration{"longPollingMsg": time.Second, "pullMsg": 0} {
		for want, d := range map[int]*served{401: shut, 500: broken} {
			began, w := time.Now(), httptest.NewRecorder()
			d.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/camellia/delayQueue/"+name,
				strings.NewReader("topic=a")))
			if took := time.Since(began); w.Code != want || took < least {
				t.Errorf("%s: %d after %s, want %d after %s", name, w.Code, took, want, least)
			}
		}
	}
}
