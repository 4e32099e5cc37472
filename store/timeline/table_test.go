package timeline

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
)

// The scripts and Go know the same transitions: every step of every kind is asked of both.
func TestMay_AgreesWithTheTableOfGo(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: lab.SharedRedis(t).Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	lib, err := sources.ReadFile("lua/lib.lua")
	if err != nil {
		t.Fatal(err)
	}
	text := kindsInLua() + string(lib) + `
local answers = {}
for from = 0, 8 do
  for to = 0, 8 do
    for kind = 0, 20 do answers[#answers + 1] = may(from, to, kind) and 1 or 0 end
  end
end
return answers`
	answers, err := rdb.Eval(
		t.Context(), "local doubt, OUTBOX, OUTBOXED, CONTEXT = 0, '', '', ''\n"+text, nil).Int64Slice()
	if err != nil {
		t.Fatal(err)
	}
	i, allowed := 0, 0
	for from := range scheduler.State(9) {
		for to := range scheduler.State(9) {
			for kind := range scheduler.Kind(21) {
				if got, want := answers[i] == 1, from.Allows(to, kind); got != want {
					t.Errorf("%s to %s by %q: the scripts say %t, Go %t", from, to, kind, got, want)
				}
				if answers[i] == 1 {
					allowed++
				}
				i++
			}
		}
	}
	if allowed != len(scheduler.Transitions()) {
		t.Errorf("%d steps are allowed, the table has %d", allowed, len(scheduler.Transitions()))
	}
}
