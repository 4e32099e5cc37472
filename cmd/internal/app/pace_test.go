package app_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// pair starts a leader and a standby whose connection to NATS may be cut.
func pair(t *testing.T, namespace string) (nc *nats.Conn, link *lab.Proxy, a, b *instance) {
	t.Helper()
	natsURL, redisAddr, zkAddr := lab.NewNATS(t).URL(), lab.SharedRedis(t).Addr, lab.SharedZooKeeper(t).Addr
	link = lab.NewProxy(t, strings.TrimPrefix(natsURL, "nats://"))
	nc, err := nats.Connect(natsURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	a = start(t, settings(t, natsURL, redisAddr, zkAddr, namespace, "a"))
	a.ready()
	b = start(t, settings(t, "nats://"+link.Addr, redisAddr, zkAddr, namespace, "b"))
	b.ready()
	return nc, link, a, b
}

// Either instance tells what both counted, also when one does not answer, or is gone.
func TestSeries_SumsWhatAllInstancesCounted(t *testing.T) {
	t.Parallel()
	nc, link, a, b := pair(t, "paced")
	if _, err := nc.Subscribe("paced.>", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	type pair struct {
		accepted, delivered, canceled int
		instances, missing            []string
	}
	told := func(i *instance, want pair) {
		t.Helper()
		lab.Eventually(t, 30*time.Second, func() error {
			var s ops.Series
			var o ops.Overview
			for path, into := range map[string]any{"/v1/series": &s, "/v1/overview": &o} {
				if status, err := i.get(path, into); err != nil || status != http.StatusOK {
					return fmt.Errorf("%s: %d, %w", path, status, err)
				}
			}
			got := pair{missing: s.Missing}
			for minute := range s.Accepted {
				got.accepted, got.delivered = got.accepted+s.Accepted[minute], got.delivered+s.Delivered[minute]
				got.canceled += s.Canceled[minute]
			}
			for _, one := range s.Instances {
				got.instances = append(got.instances, one.Instance)
			}
			h := o.LastHour
			sum := pair{h.Accepted, h.Delivered, h.Canceled, got.instances, got.missing}
			if len(s.Accepted) != 60 || len(s.P99MS) != 60 || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(sum, want) {
				return fmt.Errorf("got %+v, and in the overview %+v, want %+v", got, sum, want)
			}
			if want.delivered > 0 && (h.P50MS <= 0 || h.P99MS < h.P50MS || h.P99MS > 60_000) {
				return fmt.Errorf("half within %v ms, 99 of 100 within %v", h.P50MS, h.P99MS)
			}
			return nil
		})
	}
	told(a, pair{instances: []string{"a", "b"}, missing: []string{}})
	b.push(`{"topic":"paced.x","delay":"50ms","id":"leaves"}`)
	a.push(`{"topic":"paced.x","delay":"1h","id":"canceled"}`)
	a.cancel("/v1/messages/canceled")
	told(a, pair{2, 1, 1, []string{"a", "b"}, []string{}})
	told(b, pair{2, 1, 1, []string{"b", "a"}, []string{}})
	link.Cut()
	link.Stall()
	told(a, pair{2, 1, 1, []string{"a", "b"}, []string{"b"}}) // what it told before
	b.stop()
	told(a, pair{2, 1, 1, []string{"a", "b"}, []string{}})
}
