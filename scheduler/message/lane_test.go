package message

import "testing"

func TestLane_TellsItsKindAndName(t *testing.T) {
	for lane, want := range map[Lane]struct {
		kind LaneKind
		name string
		hold Hold
	}{
		"":                {LaneNone, "", HoldNone},
		"js:ORDERS":       {LaneStream, "ORDERS", HoldParked},
		"ORDERS":          {LaneStream, "ORDERS", HoldParked},
		"core:orders.7":   {LaneCore, "orders.7", HoldParked},
		"core:*":          {LaneShared, "", HoldParked},
		"paused.orders.>": {LanePaused, "orders.>", HoldPaused},
		"rate.orders.>":   {LaneRate, "orders.>", HoldRate},
		"late.orders.>":   {LaneLate, "orders.>", HoldRate},
	} {
		if lane.Kind() != want.kind || lane.Name() != want.name || lane.Kind().Hold() != want.hold {
			t.Errorf("%q is of kind %d, named %q, held %s", lane, lane.Kind(), lane.Name(), lane.Kind().Hold())
		}
		if want.kind != LaneNone && lane != "ORDERS" && want.kind.Lane(want.name) != lane {
			t.Errorf("%q is made as %q", lane, want.kind.Lane(want.name))
		}
	}
}
