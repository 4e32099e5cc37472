package bridge

import (
	"strconv"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

// stored is a push's place in the intake stream, from which its uid follows.
type stored struct {
	sequence uint64
	at       time.Time
}

// uid is the identity of the push there. Where the clock of NATS stood outside
// of what a uid can hold (before 2025, on a machine that lost its clock), the
// stored time counts within the first year of uids: the same push is the same
// message all the same, and another one another.
func (s stored) uid(id, key string) (scheduler.UID, error) {
	at := s.at
	if at.Before(scheduler.Epoch) || at.After(scheduler.Epoch.AddDate(uidYears, 0, 0)) {
		const year = 365 * 24 * 60 * 60 * 1000
		at = scheduler.Epoch.Add(time.Duration((s.at.UnixMilli()%year+year)%year) * time.Millisecond)
	}
	return scheduler.IntakeUID(s.sequence, at, id, key)
}

// uidYears is how long uids last, rounded down.
const uidYears = 69

// parseStored reads the reply subject under which a consumer's message comes:
//
//	$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
//	$JS.ACK.<domain>.<account>.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>.<…>
//
// Of all that only the place matters, and every push pays for what is read.
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
