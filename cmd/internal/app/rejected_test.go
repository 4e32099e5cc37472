package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// TestReject_StaysInTheJournal: what the stream of rejects had to drop is counted, and every push is found by its id.
func TestReject_StaysInTheJournal(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.NewNATS(t), lab.SharedRedis(t), lab.SharedZooKeeper(t)
	for _, mode := range []string{"sync", "async"} {
		with := journaled(settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "rejected"+mode, "a"), mode,
			"sqlite:"+t.TempDir()+"/journal.db")
		with.NATS.Prefix, with.NATS.Rejects.PerSubject = "later"+mode, 3
		a := start(t, with)
		a.ready()
		nc, err := nats.Connect(natsSrv.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		const all = 20
		for i := range all {
			msg := nats.NewMsg("later" + mode + ".orders.remind")
			msg.Header.Set(wire.HeaderID, fmt.Sprint("order-", i))
			msg.Header.Set(wire.HeaderDelay, "soon")
			msg.Data = []byte("body")
			if _, err := nc.RequestMsg(msg, 10*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		for i := range all {
			id := fmt.Sprint("order-", i)
			lab.Eventually(t, 10*time.Second, func() error {
				status, text := a.says("GET", "/v1/messages/"+id, "")
				if status != 404 || !strings.Contains(text, `"rejected"`) || !strings.Contains(text, "invalid_delay") {
					return fmt.Errorf("%d %s", status, text)
				}
				return nil
			})
			if status, text := a.says("GET", "/v1/messages/"+id+"/history", ""); status != 404 ||
				!strings.Contains(text, "invalid_delay") {
				t.Fatalf("the history of %s is %d %s", id, status, text)
			}
			var l ops.MessageList
			_, text := a.says("GET", "/v1/messages?id="+id, "")
			if err := json.Unmarshal([]byte(text), &l); err != nil || len(l.Messages) != 0 || len(l.Rejected) != 1 ||
				l.Rejected[0].Size != 4 || l.Rejected[0].Topic != "orders.remind" {
				t.Errorf("the list is %s", text)
			}
		}
		a.metric("tarry_rejects_dropped_total", exactly(all-3))
		a.has(ops.LevelWarn, ops.CondRejectsDropped, all-3)
		a.has(ops.LevelNote, ops.CondRejects, 3)
		if status, text := a.says("POST", "/v1/messages",
			`{"topic":"orders.remind","id":"order-1","delay":"1h"}`); status != 201 {
			t.Errorf("a push under the id is %d %s", status, text)
		}
		lab.Eventually(t, 10*time.Second, func() error {
			var h ops.History
			_, text := a.says("GET", "/v1/messages/order-1/history", "")
			if err := json.Unmarshal([]byte(text), &h); err != nil || len(h.History) != 1 || len(h.Rejected) != 1 {
				return fmt.Errorf("the history is %s", text)
			}
			return nil
		})
	}
}
