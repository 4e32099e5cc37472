package accept

import (
	"testing"

	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestPut_ARefusalLeavesTheBoundsAsTheyWere(t *testing.T) {
	c := &coalescer{s: &Producers{}, queues: []*pushQueue{{ready: make(chan struct{}, 1)}}}
	c.size.Store(maxQueued)
	for range 1000 {
		if err := c.put(0, &queued{message: &message.Message{Body: make([]byte, 1<<20)}}); err == nil {
			t.Fatal("a push beyond the bound was taken")
		}
	}
	if got := c.bytes.Load(); got != 0 {
		t.Fatalf("%d bytes counted after refusals alone", got)
	}
}
