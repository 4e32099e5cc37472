package app_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// TestBuckets_ANewNumberWithAnEmptyRedisAndTheJournal does what the refusal of
// another number of buckets says.
func TestBuckets_ANewNumberWithAnEmptyRedisAndTheJournal(t *testing.T) {
	t.Parallel()
	natsSrv, zkSrv := lab.NewNATS(t), lab.SharedZooKeeper(t)
	journal := "sqlite:" + filepath.Join(t.TempDir(), "journal.db")
	of := func(redis string, buckets int) *instance {
		cfg := journaled(settings(t, natsSrv.URL(), redis, zkSrv.Addr, "newbuckets", "only"), "sync", journal)
		cfg.Buckets = buckets
		return start(t, cfg)
	}
	nc, err := nats.Connect(natsSrv.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	got := make(chan *nats.Msg, 100)
	if _, err := nc.ChanSubscribe("newbuckets.orders", got); err != nil {
		t.Fatal(err)
	}
	first := of(lab.NewRedis(t).Addr, 4)
	first.ready()
	first.cluster()
	const many = 40
	due := time.Now().Add(6 * time.Second)
	waiting := map[string]bool{}
	for i := range many {
		a := first.push(
			fmt.Sprintf(`{"topic":"newbuckets.orders","id":"order-%d","key":"k%d","at":%d}`, i, i%7, due.UnixMilli()))
		waiting[a["uid"].(string)] = true
		if i == 0 {
			first.cancel("/v1/messages/order-0?key=k0")
		}
	}
	first.stop()

	second := of(lab.NewRedis(t).Addr, 7)
	second.ready()
	second.metric(`tarry_messages{state="waiting"}`, func(v float64) bool {
		return v == many-1 || time.Now().After(due)
	})
	for range many - 1 {
		select {
		case m := <-got:
			uid, _, _ := strings.Cut(m.Header.Get("Nats-Msg-Id"), "@")
			if !waiting[uid] {
				t.Errorf("%s came twice, or is not ours", uid)
			}
			delete(waiting, uid)
			if time.Now().Before(due.Add(-time.Millisecond)) {
				t.Errorf("%s came %s early", uid, time.Until(due))
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%d have not come", len(waiting)-1)
		}
	}
	if status, text := second.says(http.MethodGet, "/v1/messages/order-0?key=k0", ""); status != http.StatusOK {
		t.Errorf("the canceled one is not known: %d %s", status, text)
	}
	select {
	case m := <-got:
		t.Errorf("%s came, which is canceled", m.Header.Get("Nats-Msg-Id"))
	case <-time.After(200 * time.Millisecond):
	}
}
