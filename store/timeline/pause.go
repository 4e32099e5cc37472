package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Pauses lists the paused patterns. It reads them from the answering bucket that has the latest change, and updates the
// other buckets. So a pause holds while the bucket that keeps it is unreachable. A damaged field still pauses its
// pattern: damage must neither release messages that an operator holds back, nor stop all others.
func (t *Redis) Pauses(ctx context.Context) ([]scheduler.Pause, message.Milli, error) {
	stored := make([][]string, len(t.keys))
	// the time of the last change that a bucket knows, or -1 if it did not answer
	changed := make([]int64, len(t.keys))
	failed := t.askEach(ctx, t.allBuckets(), "pauses", nil, func(bucket message.Bucket, a *answer) error {
		stored[bucket] = a.pairs()
		changed[bucket] = lastChange(stored[bucket])
		return a.done()
	}, false)
	if err := nobody(failed); err != nil {
		return nil, 0, fmt.Errorf("read pauses: %w", err)
	}
	latest := -1
	for bucket, err := range failed {
		if errors.Is(err, scheduler.ErrStaleTerm) { // during a recovery
			return nil, 0, fmt.Errorf("read pauses: %w", err)
		}
		if err != nil {
			changed[bucket] = -1
		} else if latest < 0 || changed[bucket] > changed[latest] {
			latest = bucket
		}
	}
	t.mirror(ctx, stored[latest], changed, changed[latest])
	return readPauses(stored[latest]), message.Milli(changed[latest]), nil
}

// mirror copies the latest pauses to the answering buckets that lack them. If a copy fails, the next read of the pauses
// repeats it.
func (t *Redis) mirror(ctx context.Context, pauses []string, changed []int64, latest int64) {
	var behind []message.Bucket
	for bucket, at := range changed {
		if at >= 0 && at < latest {
			behind = append(behind, message.Bucket(bucket))
		}
	}
	if len(behind) == 0 {
		return
	}
	args := make([]any, 1, 1+len(pauses))
	args[0] = latest
	for ; len(pauses) > 0; pauses = pauses[2:] {
		if pauses[0] != "" {
			args = append(args, pauses[0], pauses[1])
		}
	}
	t.askEach(ctx, behind, "mirror", args, func(message.Bucket, *answer) error { return nil }, false)
}

// lastChange returns the time of the last change, or 0 if there was none.
func lastChange(stored []string) int64 {
	for ; len(stored) > 0; stored = stored[2:] {
		if stored[0] == "" {
			at, _ := strconv.ParseInt(stored[1], 10, 64)
			return at
		}
	}
	return 0
}

func readPauses(stored []string) []scheduler.Pause {
	pauses := make([]scheduler.Pause, 0, len(stored)/2)
	for ; len(stored) > 0; stored = stored[2:] {
		if stored[0] == "" { // the time of the last change
			continue
		}
		p := scheduler.Pause{Pattern: stored[0]}
		at, by, ok := strings.Cut(stored[1], " ")
		if ms, err := strconv.ParseInt(at, 10, 64); err == nil && ok {
			p.By, p.At = by, message.Milli(ms)
		}
		pauses = append(pauses, p)
	}
	slices.SortFunc(pauses, func(a, b scheduler.Pause) int { return cmp.Compare(a.Pattern, b.Pattern) })
	return pauses
}

// Pause holds back the messages of a pattern.
func (t *Redis) Pause(ctx context.Context, p scheduler.Pause) (scheduler.PauseChange, error) {
	number, a := t.onPauses(ctx, "pause", p.Pattern, int64(p.At), p.By, scheduler.MaxPauses)
	c := scheduler.PauseChange{Pause: p, Number: number}
	c.At = a.milli("since")
	if err := a.done(); err != nil {
		return scheduler.PauseChange{}, fmt.Errorf("write pause: %w", err)
	}
	return c, nil
}

// Resume lets the messages of a pattern be delivered again.
func (t *Redis) Resume(ctx context.Context, pattern string, now message.Milli) (bool, scheduler.PauseChange, error) {
	number, a := t.onPauses(ctx, "resume", pattern, int64(now))
	c := scheduler.PauseChange{Pause: scheduler.Pause{Pattern: pattern}, Resumed: true, Number: number}
	ended := a.count("ended")
	c.At = a.milli("at")
	if err := a.done(); err != nil {
		return false, scheduler.PauseChange{}, fmt.Errorf("remove pause: %w", err)
	}
	return ended > 0, c, nil
}

// onPauses changes the pauses in the bucket that keeps them, then copies them to the other buckets that answer. It
// returns the certification under which the change was made.
func (t *Redis) onPauses(ctx context.Context, script string, args ...any) (uint64, *answer) {
	c := &call{bucket: scheduler.PausesBucket, script: script, args: args}
	a := t.run(ctx, c)
	if *a.err == nil && len(t.keys) > 1 {
		_, _, _ = t.Pauses(ctx) // the leader's next read updates a bucket that this misses
	}
	return c.number, a
}
