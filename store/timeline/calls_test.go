package timeline_test

import (
	"context"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/timeline"
)

// A call is kept for CallKeep at least, in two keys that take turns, and is gone after twice that.
func TestRedis_KeepsACallForSomeMinutes(t *testing.T) {
	t.Parallel()
	srv := lab.NewRedis(t)
	tl := open(t, srv, plain(1))
	rdb := timeline.Dial(timeline.DialConfig{Addrs: []string{srv.Addr}, CallTimeout: 10 * time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	n := 0
	uid := func(call string) message.UID {
		t.Helper()
		n++
		m := schedulertest.Message(n, schedulertest.On("mail.x"), schedulertest.Called(call))
		results, _, err := tl.Add(t.Context(), 0, []*message.Message{m}, schedulertest.Start)
		if err != nil {
			t.Fatal(err)
		}
		if results[0].Code == scheduler.AddDuplicate {
			return results[0].First.UID
		}
		return m.UID
	}
	// pass lets time pass for both keys.
	pass := func(d time.Duration) {
		t.Helper()
		keys, err := rdb.Keys(t.Context(), "*:call*").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			left, err := rdb.PTTL(t.Context(), key).Result()
			if err != nil || left < 0 {
				t.Fatalf("%s expires in %s, %v", key, left, err)
			}
			if err := rdb.PExpire(context.Background(), key, max(left-d, 0)).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	const keep = scheduler.CallKeep
	first := uid("a")
	pass(keep - time.Second)
	second := uid("b") // in the same key, for keep and a second
	pass(2 * time.Second)
	third := uid("c") // in the other key
	for call, want := range map[string]message.UID{"a": first, "b": second, "c": third} {
		if got := uid(call); got != want {
			t.Errorf("the call %s is that of %s, want %s", call, got, want)
		}
	}
	pass(keep - 3*time.Second)
	if got := uid("b"); got != second {
		t.Errorf("the second call is that of %s after two minutes, want %s", got, second)
	}
	pass(3 * time.Second)
	if got := uid("a"); got == first {
		t.Error("the first call is kept for longer than its key lives")
	}
	if got := uid("c"); got != third {
		t.Errorf("the third call is that of %s, want %s", got, third)
	}
	pass(2 * keep)
	if keys, err := rdb.Keys(t.Context(), "*:call*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("%v are left, %v", keys, err)
	}
}
