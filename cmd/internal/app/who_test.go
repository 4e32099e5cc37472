package app_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// TestHistory_SaysWhoChangedWhat: one token changes the amount, another the time, and the first one cancels.
func TestHistory_SaysWhoChangedWhat(t *testing.T) {
	t.Parallel()
	natsSrv, redisSrv, zkSrv := lab.SharedNATS(t), lab.SharedRedis(t), lab.SharedZooKeeper(t)
	with := journaled(settings(t, natsSrv.URL(), redisSrv.Addr, zkSrv.Addr, "who", "a"), "sync",
		"sqlite:"+t.TempDir()+"/journal.db")
	with.NATS.Prefix = "who"
	for name, token := range map[string]config.Token{"shop": {Push: []string{"pay.>"}},
		"on-call": {Push: []string{">"}, Read: true}} {
		token.Name, token.SHA256 = name, config.Secret(fmt.Sprintf("%x", sha256.Sum256([]byte(name))))
		token.Bodies = true
		with.HTTP.Tokens = append(with.HTTP.Tokens, token)
	}
	a := start(t, with)
	a.ready()
	did := func(who, method, path, body string) string {
		t.Helper()
		status, text := a.saysTo(who, method, path, body)
		if status/100 != 2 {
			t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
		return text
	}
	did("shop", "POST", "/v1/messages", `{"topic":"pay.x","id":"pay-1","delay":"1h","body":"100"}`)
	did("shop", "PATCH", "/v1/messages/pay-1", `{"body":"9000"}`)
	did("on-call", "PATCH", "/v1/messages/pay-1", `{"delay":"2h"}`)
	did("shop", "DELETE", "/v1/messages/pay-1", "")
	var h ops.History
	if err := json.Unmarshal([]byte(did("on-call", "GET", "/v1/messages/pay-1/history", "")), &h); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, c := range h.History {
		said = append(said, c.By+" "+c.Reason)
	}
	want := []string{"shop ", "shop edited: body; content ad57366865126e55649ecb23ae1d4888 → " +
		"c4fe6b6dbe94790f232013154cb80fc5", "on-call rescheduled: due", "shop "}
	if strings.Join(said, "\n") != strings.Join(want, "\n") {
		t.Errorf("the history says %q, want %q", said, want)
	}
	if text := did("shop", "GET", "/v1/messages/pay-1/history", ""); strings.Contains(text, "on-call") ||
		strings.Contains(text, "content") || !strings.Contains(text, "edited: body") {
		t.Errorf("who may only push sees who the others are, or digests: %s", text)
	}
	var l ops.MessageList
	if err := json.Unmarshal([]byte(did("on-call", "GET", "/v1/messages?id=pay-1", "")), &l); err != nil ||
		len(l.Messages) != 1 || l.Messages[0].By != "shop" {
		t.Errorf("the list says %+v, %v", l, err)
	}
}
