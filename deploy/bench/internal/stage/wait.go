package stage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errGivenUp in what a check returns ends Until at once.
var errGivenUp = errors.New("given up")

// Until calls check until it returns nil, the context ends, or waiting has no point. The error holds the last reason.
func Until(ctx context.Context, every time.Duration, check func(context.Context) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		reason := check(ctx)
		if reason == nil || errors.Is(reason, errGivenUp) {
			return reason
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), reason)
		}
	}
}
