package api_test

import (
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/api"
)

func TestRefusal_NamesWhatIsWanted(t *testing.T) {
	t.Parallel()
	d := open(t, func(cfg *api.Config) { cfg.Journal = &journal{} })
	for _, c := range []struct{ method, path, body, word, want string }{
		{"GET", "/", "", "unknown_route", "/docs"},
		{"POST", "/v1/messages/batch", `[{"topic":"a","delay":"1s"}]`, "invalid_json", `{"messages":[...]}`},
		{"POST", "/v1/messages/batch", ``, "invalid_json", `{"messages":[...]}`},
		{"GET", "/v1/messages?topic=orders.%3E.x", "", "invalid_topic", `has ">" before its end`},
		{"GET", "/v1/forecast?topic=orders.%3E.x", "", "invalid_topic", `has ">" before its end`},
		{"GET", "/v1/topics/orders.*", "", "invalid_topic", "this takes one topic, no pattern"},
	} {
		a := call(t, d, c.method, c.path, c.body)
		if a.json["error"] != c.word || !strings.Contains(a.detail(), c.want) {
			t.Errorf("%s %s: got %s, want %s", c.method, c.path, a.raw, c.want)
		}
	}
}
