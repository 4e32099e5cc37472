package ops_test

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// TestRequests_AreUnderstoodAsTheLibraryMeansThem reads the file that bridge/tarry holds its requests to.
func TestRequests_AreUnderstoodAsTheLibraryMeansThem(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/requests.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]json.RawMessage
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	delete(cases, "about")
	headers := []wire.Header{{Name: "X", Value: "1"}}
	push := func(p wire.Push) ops.PushItem { return ops.PushItem{Push: p, Body: []byte("body")} }
	decodePush := func(data []byte) (any, error) {
		item := ops.DecodePush(data, "delayed")
		return item, item.Err
	}
	on := func(name string) func([]byte) (any, error) {
		return func(data []byte) (any, error) { return onNATS(name, string(data)) }
	}
	name := ops.Named{ID: "a"}
	reschedule := func(e scheduler.Edit, version uint64) *ops.Reschedule {
		return &ops.Reschedule{Named: name, Version: version, Edit: e}
	}
	for name, c := range map[string]struct {
		decode func([]byte) (any, error)
		want   any
	}{
		"push a retry": {decodePush, push(
			wire.Push{Topic: "orders.created", ID: "order-1", Key: "k", Attempt: 2, Reason: "why", Headers: headers,
				Retry: wire.Retry{Delays: []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute},
					Jitter: 20}})},
		"push and merge": {decodePush, push(wire.Push{Topic: "orders", Delay: time.Second, DelayText: "1s",
			OnDuplicate: wire.Debounce, MaxWait: time.Minute})},
		"push a batch": {func(data []byte) (any, error) { return ops.DecodeBatch(data, "delayed") }, []ops.PushItem{
			push(wire.Push{Topic: "orders", Delay: time.Second, DelayText: "1s", ID: "a"}),
			push(wire.Push{Topic: "orders", At: at2030, HasAt: true, Retry: wire.Retry{
				Delays: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, Jitter: 20}}),
		}},
		"name": {on("get"), &ops.Named{ID: "a", Topic: "mail.x", Key: new("k")}},
		"reschedule by delay": {on("reschedule"), reschedule(scheduler.Edit{Delay: new(20 * time.Minute),
			Priority: new(uint8(7)), Headers: []message.Header{{Name: "X", Value: "1"}, {Name: "X", Value: "2"}},
			Body: []byte("x")}, 9)},
		"reschedule by time": {on("reschedule"), reschedule(scheduler.Edit{At: new(message.CeilMilli(at2030)),
			Headers: []message.Header{}, Body: []byte{}}, 0)},
		"reschedule by shift": {on("reschedule"), reschedule(scheduler.Edit{Shift: new(-10 * time.Minute)}, 0)},
		"cancel many": {on("cancel_many"), &ops.Selection{Topic: "orders.>", Key: new("k"),
			DueFrom: &ops.When{At: at2030}, DueTo: &ops.When{At: at2030.Add(time.Millisecond)}, DryRun: true}},
		"reschedule many": {on("reschedule_many"), &ops.RescheduleMany{Selection: ops.Selection{All: true},
			Shift: new(time.Hour)}},
		"requeue": {on("dead_requeue"), &ops.Requeue{DeadOrder: ops.DeadOrder{ID: new("a"), Key: new("k")},
			Requeue: scheduler.Requeue{Delay: time.Minute, Headers: []message.Header{{Name: "X", Value: "1"}},
				Body: []byte("x")}}},
	} {
		if got, err := c.decode(cases[name]); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", name, got, err, c.want)
		}
		delete(cases, name)
	}
	for name := range cases {
		t.Errorf("nothing reads %q", name)
	}
}
