package bridge

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// rejectLog warns of refused pushes: their producers have long had the intake's
// acknowledgement. A producer that gets all of them wrong does not fill the log.
type rejectLog struct {
	log zerolog.Logger

	mu      sync.Mutex
	spoke   time.Time
	leftOut uint64 // since then
}

// rejectQuiet is how long nothing is said after a warning.
const rejectQuiet = time.Second

// say warns of one refused push, or counts it for the next warning.
func (l *rejectLog) say(now time.Time, subject, reason string, sequence uint64) {
	leftOut, loud := l.turn(now)
	if !loud {
		l.log.Debug().Str("subject", subject).Str("reason", reason).Uint64("sequence", sequence).Msg("push rejected")
		return
	}
	event := l.log.Warn().Str("subject", subject).Str("reason", reason).Uint64("sequence", sequence)
	if leftOut > 0 {
		event = event.Uint64("left_out", leftOut)
	}
	event.Msg("push rejected; it is in the stream of rejects")
}

// turn reports whether it is time to warn, and how many refusals had no warning.
func (l *rejectLog) turn(now time.Time) (leftOut uint64, loud bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.spoke) < rejectQuiet {
		l.leftOut++
		return 0, false
	}
	leftOut, l.leftOut, l.spoke = l.leftOut, 0, now
	return leftOut, true
}
