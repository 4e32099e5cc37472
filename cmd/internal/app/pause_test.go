package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestServe_APauseAtAStandbyIsTrueWhenItIsAnswered(t *testing.T) {
	t.Parallel()
	natsURL, redisAddr, zkAddr := lab.NewNATS(t).URL(), lab.SharedRedis(t).Addr, lab.SharedZooKeeper(t).Addr
	nc, err := nats.Connect(natsURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	got := make(chan *nats.Msg, 10_000)
	if _, err := nc.ChanSubscribe("held.>", got); err != nil {
		t.Fatal(err)
	}
	a := start(t, settings(t, natsURL, redisAddr, zkAddr, "pausing", "a"))
	a.ready()
	if leader := a.cluster().Leader.Instance; leader != "a" {
		t.Fatalf("leader %q, want a", leader)
	}
	b := start(t, settings(t, natsURL, redisAddr, zkAddr, "pausing", "b"))
	b.ready()

	var batch []string
	for i := range 1000 { // one in 5 ms
		batch = append(batch, fmt.Sprintf(`{"topic":"held.a","delay_ms":%d,"body":"x"}`, 500+5*i))
	}
	await := func(topic string) {
		t.Helper()
		for {
			select {
			case m := <-got:
				if m.Subject == topic {
					return
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("nothing arrives on %s", topic)
			}
		}
	}
	for range 2 {
		// Each round has messages of its own: on a busy machine those of the first are all out before the second ends.
		b.post("/v1/messages/batch", `{"messages":[`+strings.Join(batch, ",")+`]}`)
		await("held.a")
		if answer := b.post("/v1/topics/held.a/pause", ""); answer["in_effect"] != true {
			t.Fatalf("pause: %v", answer)
		}
		if err := nc.Flush(); err != nil { // what had left is here by now
			t.Fatal(err)
		}
		for len(got) > 0 {
			<-got
		}
		b.push(`{"topic":"held.marker","delay":"1200ms"}`)
		if m := <-got; m.Subject != "held.marker" {
			t.Errorf("a message on %s came after the pause was answered", m.Subject)
			await("held.marker")
		}
		if answer := b.post("/v1/topics/held.a/resume", ""); answer["in_effect"] != true {
			t.Fatalf("resume: %v", answer)
		}
	}
	await("held.a")
}

// post asks and wants a success.
func (i *instance) post(path, body string) map[string]any {
	i.t.Helper()
	status, text := i.says(http.MethodPost, path, body)
	var answer map[string]any
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		i.t.Fatal(err)
	}
	if status != http.StatusOK {
		i.t.Fatalf("%s: %d %v", path, status, answer)
	}
	return answer
}
