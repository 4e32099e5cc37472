package bridge

import (
	"strconv"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// stored is a push's place in the intake stream, from which its uid is derived.
type stored struct {
	sequence uint64
	at       time.Time
}

// uid returns the uid of the push at that place. If NATS's clock was outside the range of a uid (before 2025, on a
// machine that lost its clock), the stored time is mapped into the first year of uids: the same push is still the same
// message, and another push another one.
func (s stored) uid(id, key string) (message.UID, error) {
	at := s.at
	if at.Before(message.Epoch) || at.After(message.Epoch.AddDate(uidYears, 0, 0)) {
		const year = 365 * 24 * 60 * 60 * 1000
		at = message.Epoch.Add(time.Duration((s.at.UnixMilli()%year+year)%year) * time.Millisecond)
	}
	return message.IntakeUID(s.sequence, at, id, key)
}

// uidYears is how long uids last, rounded down.
const uidYears = 69

// parseStored reads the reply subject of a consumer's message:
//
//	$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
//	$JS.ACK.<domain>.<account>.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>.<…>
//
// Only the place is read, to keep the cost per push low.
func parseStored(reply string) (s stored, ok bool) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return stored{}, false
	}
	skip := 3 // stream, consumer, delivered
	switch n := strings.Count(rest, "."); {
	case n == 6:
	case n >= 8:
		skip += 2
	default:
		return stored{}, false
	}
	for range skip {
		_, rest, _ = strings.Cut(rest, ".")
	}
	text, rest, _ := strings.Cut(rest, ".")
	sequence, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return stored{}, false
	}
	_, rest, _ = strings.Cut(rest, ".")
	text, _, _ = strings.Cut(rest, ".")
	nanos, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return stored{}, false
	}
	return stored{sequence: sequence, at: time.Unix(0, nanos)}, true
}
