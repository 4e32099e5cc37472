package link

import (
	"math"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestParseStored_ReadsBothForms(t *testing.T) {
	t.Parallel()
	want := Place{Sequence: 71, At: time.Unix(0, 1896076800123456789)}
	for _, reply := range []string{
		"$JS.ACK.TARRY_ns.tarry.1.71.5.1896076800123456789.0",
		"$JS.ACK.hub.ACCHASH.TARRY_ns.tarry.1.71.5.1896076800123456789.0",
		"$JS.ACK._.ACCHASH.TARRY_ns.tarry.1.71.5.1896076800123456789.0.aGVsbG8",
	} {
		if got, ok := ParsePlace(reply); !ok || got != want {
			t.Errorf("%s: got %+v, %v", reply, got, ok)
		}
	}
	for _, reply := range []string{"", "_INBOX.a.b.c.d.e.f.g", "$JS.ACK.TARRY_ns.tarry.1.x.5.1.0",
		"$JS.ACK.TARRY_ns.tarry.1.71.5.x.0", "$JS.ACK.a", "$JS.ACK.......", "$JS.FC.TARRY_ns.tarry.1.71.5.1.0"} {
		if got, ok := ParsePlace(reply); ok {
			t.Errorf("%q: got %+v", reply, got)
		}
	}
}

// A server whose clock stands before 2025 stores pushes all the same.
func TestStored_HasAUIDUnderEveryClock(t *testing.T) {
	t.Parallel()
	seen := map[message.UID]bool{}
	for _, at := range []time.Time{
		time.Unix(0, 0), time.Unix(0, 1e6), time.Unix(-1, 0), time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64),
		message.Epoch.Add(-1), message.Epoch.AddDate(1, 0, 1), message.Epoch.AddDate(69, 0, 0),
		message.Epoch.AddDate(69, 0, 1), message.Epoch.AddDate(80, 0, 0),
	} {
		for _, sequence := range []uint64{1, 2, 1 << 21} {
			place := Place{Sequence: sequence, At: at}
			uid, err := place.UID("", "")
			if again, _ := place.UID("", ""); err != nil || again != uid || seen[uid] {
				t.Errorf("%d at %s: %s, then %s, %v; seen before: %v", sequence, at, uid, again, err, seen[uid])
			}
			seen[uid] = true
			if inside := !at.Before(message.Epoch) && at.Year() < 2094; inside &&
				!uid.Time().Equal(at.Truncate(time.Millisecond)) {
				t.Errorf("%s: the uid says %s", at, uid.Time())
			}
		}
	}
}
