package ops_test

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
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
	type named struct {
		ops.Named
		ops.Edit
	}
	type many struct {
		ops.Selection
		ops.Edit
	}
	reschedule := func(data []byte) (any, error) {
		n, e, err := ops.DecodeReschedule(data)
		return named{n, e}, err
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
		"name": {func(data []byte) (any, error) {
			return ops.DecodeRef(data)
		}, ops.Named{ID: "a", Topic: "mail.x", Key: "k", Keyed: true}},
		"reschedule by delay": {reschedule, named{ops.Named{ID: "a"},
			ops.Edit{Delay: 20 * time.Minute, HasDelay: true, Priority: 7, HasPriority: true,
				Headers: []wire.Header{{Name: "X", Value: "1"}, {Name: "X", Value: "2"}}, HasHeaders: true,
				Body: []byte("x"), HasBody: true, Version: 9}}},
		"reschedule by time": {reschedule, named{ops.Named{ID: "a"},
			ops.Edit{At: at2030, HasAt: true, HasHeaders: true, Body: []byte{}, HasBody: true}}},
		"reschedule by shift": {reschedule,
			named{ops.Named{ID: "a"}, ops.Edit{Shift: -10 * time.Minute, HasShift: true}}},
		"cancel many": {func(data []byte) (any, error) { return ops.DecodeSelection(data) },
			ops.Selection{Topic: "orders.>", Key: "k", HasKey: true,
				From: ops.When{At: at2030}, HasFrom: true,
				To: ops.When{At: at2030.Add(time.Millisecond)}, HasTo: true,
				DryRun: true}},
		"reschedule many": {func(data []byte) (any, error) {
			s, e, err := ops.DecodeRescheduleMany(data)
			return many{s, e}, err
		}, many{ops.Selection{All: true}, ops.Edit{Shift: time.Hour, HasShift: true}}},
		"requeue": {func(data []byte) (any, error) { return ops.DecodeDeadOrder(data) },
			ops.DeadOrder{One: ops.Named{ID: "a", Key: "k", Keyed: true},
				Delay: time.Minute, Headers: headers, HasHeaders: true, Body: []byte("x"), HasBody: true}},
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
