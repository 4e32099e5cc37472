package link

import (
	"testing"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Consumers implement the rule in their own programs, so it never changes.
func TestPartitionOf_IsFixed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, id string
		n       int
		want    string
	}{
		{"123456789", "", 1024, "orders.294"}, // CRC-32 of it is cbf43926, the check value of the standard
		{"123456789", "x", 8, "orders.6"}, {"", "123456789", 8, "orders.6"}, {"", "", 1, "orders.0"},
		{"", "", 1024, "orders.184"},
	} {
		m := &message.Message{UID: "t-000000000000000a", Key: c.key, ID: c.id, Topic: "orders"}
		if got := PartitionOf(m, c.n); got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}
