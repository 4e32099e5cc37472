package timeline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
)

// refusals are the first words of Redis's answers that say the command did not
// run at all.
var refusals = []string{"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOAUTH", "NOPERM",
	"BUSY", "NOREPLICAS", "MOVED", "ASK", "WRONGPASS", "NOSCRIPT", "UNBLOCKED"}

// translate turns go-redis's errors into the scheduler's. A connection that broke or
// fell silent leaves the outcome unknown. An answer that is none of these is a mistake
// of ours, and stays as it is.
func translate(err error) error {
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	var answer redis.Error
	if errors.As(err, &answer) {
		text := answer.Error()
		switch word, _, _ := strings.Cut(text, " "); {
		case word == "UNCERTIFIED":
			return fmt.Errorf("%w (%s)", scheduler.ErrUncertified, text)
		case word == "BEHIND":
			return fmt.Errorf("%w (%s)", scheduler.ErrBehind, text)
		case word == "OUTDATED":
			return fmt.Errorf("%w (%s)", scheduler.ErrOutdated, text)
		case word == "QUARANTINED":
			return fmt.Errorf("%w (%s)", scheduler.ErrQuarantineFull, text)
		case word == "UNREADABLE":
			return fmt.Errorf("%w (%s)", scheduler.ErrUnreadable, text)
		case word == "NEWER":
			return fmt.Errorf("%w (%s)", scheduler.ErrNewer, text)
		case word == "PAUSES":
			return scheduler.ErrTooManyPauses
		case word == "STALE":
			return fmt.Errorf("%w (%s)", scheduler.ErrStaleTerm, text)
		case word == "OOM" || strings.Contains(text, "OOM command not allowed"):
			return fmt.Errorf("%w: Redis is at maxmemory", scheduler.ErrFull)
		default:
			for _, refusal := range refusals {
				if word == refusal {
					return fmt.Errorf("%w: redis: %s", scheduler.ErrUnavailable, text)
				}
			}
			return fmt.Errorf("redis: %w", err)
		}
	}
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial",
		errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: redis: %w", scheduler.ErrUnavailable, err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: redis did not answer: %w", scheduler.ErrOutcomeUnknown, err)
	}
	return fmt.Errorf("%w: redis: %w", scheduler.ErrOutcomeUnknown, err)
}
