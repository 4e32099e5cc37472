package accept

import (
	"testing"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestUID_CheckRepeatAllowsForTheClockOfAnotherInstance(t *testing.T) {
	now := message.Epoch.AddDate(1, 10, 0)
	at := func(d time.Duration) message.UID {
		return message.GeneratedUID(now.Add(d).Sub(message.Epoch).Milliseconds()<<22|1<<10|3, 99)
	}
	for ahead, ok := range map[time.Duration]bool{
		-time.Hour: true, 0: true, uidAhead: true, uidAhead + time.Millisecond: false, 24 * time.Hour: false,
	} {
		if err := checkRepeat(at(ahead), now, ""); (err == nil) != ok {
			t.Errorf("%s ahead: %v", ahead, err)
		}
	}
}
