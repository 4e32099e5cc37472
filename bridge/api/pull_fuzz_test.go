package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// askedPull remembers what consumers and operators ask for, and refuses none.
type askedPull struct {
	service
	polls    []scheduler.Poll
	orders   []scheduler.Settlement
	released []scheduler.Ref
	pages    int
}

func (a *askedPull) Pull(_ context.Context, p scheduler.Poll) ([]scheduler.PulledMessage, error) {
	a.polls = append(a.polls, p)
	return nil, nil
}

func (a *askedPull) Settle(ctx context.Context, orders []scheduler.Settlement) ([]scheduler.Settled, []error) {
	a.orders = append(a.orders, orders...)
	return a.service.Settle(ctx, orders)
}

func (a *askedPull) Release(ctx context.Context, ref scheduler.Ref, reason string) (message.Info, error) {
	a.released = append(a.released, ref)
	return a.service.Release(ctx, ref, reason)
}

func (a *askedPull) LeasesOf(ctx context.Context, topic, after string, limit int) ([]scheduler.LeaseInfo, string,
	error) {
	a.pages++
	if limit < 1 || limit > 1000 {
		a.pages += 1000
	}
	return a.service.LeasesOf(ctx, topic, after, limit)
}

// FuzzPullRoutes holds that no path, query or body makes a route of pull panic or answer 5xx, that the scheduler is
// asked only for what it can do, and that a refused request asks for nothing.
func FuzzPullRoutes(f *testing.F) {
	f.Add(uint8(0), "orders.remind", "", `{"max":10,"wait":"60s","lease":"12h","consumer":"a","max_bytes":1}`)
	f.Add(uint8(0), "orders.remind", "", `{"attempt":"t","sending":2}`)
	f.Add(uint8(0), "orders.*", "", `{"max":1001}`)
	f.Add(uint8(0), "a", "max=1", `{"wait":"61s"}`)
	f.Add(uint8(1), "orders.remind", "limit=10&cursor=x", "")
	f.Add(uint8(2), "order-1", "key=k", `{"reason":"it hangs"}`)
	for i, verb := range ops.Verbs() {
		f.Add(uint8(3+2*i), receiptA, "", map[string]string{"nack": `{"delay":"1m"}`, "dead": `{"reason":"x"}`,
			"extend": `{"lease":"1m"}`}[verb])
		f.Add(uint8(4+2*i), "", "", `{"receipts":["`+receiptA+`","x"]}`)
	}
	asked := &askedPull{service: service{pullers: pullers{settled: scheduler.Settled{Code: scheduler.SettleDone,
		Info: message.Info{Message: message.Message{UID: uidA}, State: message.StateDelivered, Version: 2}}},
		get: func(context.Context, scheduler.Ref) (message.Info, error) {
			return info(uidA, "a", message.StateInFlight), nil
		}}}
	d := open(f, with(asked))
	f.Fuzz(func(t *testing.T, route uint8, name, query, body string) {
		method, path := "POST", "/v1/topics/"+url.PathEscape(name)+"/pull"
		verbs := ops.Verbs()
		switch n := int(route); {
		case n == 1:
			method, path = "GET", "/v1/topics/"+url.PathEscape(name)+"/leases"
		case n == 2:
			path = "/v1/messages/" + url.PathEscape(name) + "/release"
		case n > 2 && n%2 == 1:
			path = "/v1/leases/" + url.PathEscape(name) + "/" + verbs[n/2%len(verbs)]
		case n > 2:
			path = "/v1/leases/" + verbs[n/2%len(verbs)]
		}
		asked.polls, asked.orders, asked.released, asked.pages = nil, nil, nil, 0
		r := httptest.NewRequestWithContext(t.Context(), method, "/", strings.NewReader(body))
		r.URL.RawPath, r.URL.RawQuery = path, query
		r.URL.Path, _ = url.PathUnescape(path)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		if w.Code != 200 && (w.Code < 400 || w.Code > 499) || !json.Valid(w.Body.Bytes()) && w.Code != 404 {
			t.Fatalf("%s %s %q: %d %q", method, path, body, w.Code, w.Body)
		}
		if n := len(asked.polls) + len(asked.orders) + len(asked.released) + asked.pages; w.Code != 200 && n > 0 ||
			n > ops.MaxPull {
			t.Fatalf("%d %s, and it asked for %+v", w.Code, w.Body, asked)
		}
		for _, p := range asked.polls {
			if wire.CheckOneTopic(p.Topic) != nil || p.Max < 1 || p.Max > ops.MaxPull || p.Bytes < 1 || p.Wait < 0 ||
				p.Wait > time.Minute || p.Lease != 0 && (p.Lease < wire.LeastLease || p.Lease > wire.MostLease) ||
				len(p.Consumer) > 64 {
				t.Fatalf("%q asked for %+v", body, p)
			}
		}
		for _, o := range asked.orders {
			delay := *cmp.Or(o.Delay, new(time.Duration))
			if !message.IsUID(string(o.UID)) || o.Nonce == 0 || wire.CheckOneTopic(o.Topic) != nil || delay < 0 ||
				delay > wire.MaxDelay || o.Lease != 0 && (o.Lease < wire.LeastLease || o.Lease > wire.MostLease) ||
				(o.Verb == scheduler.Extend) != (o.Lease > 0) {
				t.Fatalf("%s %q asked for %+v", path, body, o)
			}
		}
	})
}
