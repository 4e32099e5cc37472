package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestCalls_AreKeptForSomeMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := calls{limit: 2}
		c.keep(&message.Message{UID: "t-1", Call: "a"})
		time.Sleep(scheduler.CallKeep - time.Second) // of the bubble
		c.keep(&message.Message{UID: "t-2", Call: "b"})
		if c.room() {
			t.Error("there is room for a third call")
		}
		time.Sleep(2 * time.Second) // of the bubble
		if !c.room() || c.of("a") != "t-1" || c.of("b") != "t-2" || c.of("c") != "" || c.of("") != "" {
			t.Errorf("after two minutes: %+v", c)
		}
		c.keep(&message.Message{UID: "t-3", Call: "c"})
		time.Sleep(scheduler.CallKeep - 2*time.Second) // of the bubble
		if c.of("b") != "t-2" || c.of("c") != "t-3" {
			t.Errorf("two minutes after the second: %+v", c)
		}
		time.Sleep(3 * time.Second) // of the bubble
		if c.of("a") != "" || c.of("c") != "t-3" {
			t.Errorf("two minutes after the third: %+v", c)
		}
		time.Sleep(2 * scheduler.CallKeep) // of the bubble
		if c.of("c") != "" || len(c.now.uids)+len(c.before.uids) > 0 {
			t.Errorf("at the end: %+v", c)
		}
	})
}
