package api_test

import (
	"context"
	"strings"
	"testing"

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
