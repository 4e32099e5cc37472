package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
)

// Pauses lists what is paused: as it stands with the bucket, of those that answer,
// which knows of the latest change. The others are brought up to it. So a pause
// holds while the bucket that keeps it is away. A field that is damaged still pauses
// its pattern: what an operator holds back must not go out for it, nor all the rest
// stand.
func (t *Redis) Pauses(ctx context.Context) ([]scheduler.Pause, error) {
	stored := make([][]string, len(t.keys))
	// when the last change was that a bucket knows of, -1 where it does not answer
	changed := make([]int64, len(t.keys))
	args := func(k *keys) ([]string, []any) { return []string{k.paused}, nil }
	failed := t.askEach(ctx, t.allBuckets(), t.scripts.pauses, args, func(bucket int, v any) (err error) {
		if stored[bucket], err = texts(v); err != nil || len(stored[bucket])%2 != 0 {
			return errAnswer("pauses", len(stored[bucket]), err)
		}
		changed[bucket] = lastChange(stored[bucket])
		return nil
	}, false)
	if err := nobody(failed); err != nil {
		return nil, fmt.Errorf("read pauses: %w", err)
	}
	latest := -1
	for bucket, err := range failed {
		if errors.Is(err, scheduler.ErrStaleTerm) { // of a recovery
			return nil, fmt.Errorf("read pauses: %w", err)
		}
		if err != nil {
			changed[bucket] = -1
		} else if latest < 0 || changed[bucket] > changed[latest] {
			latest = bucket
		}
	}
	t.mirror(ctx, stored[latest], changed, changed[latest])
	return readPauses(stored[latest]), nil
}

// mirror brings buckets that answer up to the latest change. What fails is brought
// by the next look.
func (t *Redis) mirror(ctx context.Context, pauses []string, changed []int64, latest int64) {
	var behind []int
	for bucket, at := range changed {
		if at >= 0 && at < latest {
			behind = append(behind, bucket)
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
	t.askEach(ctx, behind, t.scripts.mirror, func(k *keys) ([]string, []any) { return []string{k.paused}, args },
		func(int, any) error { return nil }, false)
}

// lastChange is when the last change was, 0 where none ever was.
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
		if stored[0] == "" { // when the last change was
			continue
		}
		p := scheduler.Pause{Pattern: stored[0]}
		at, by, ok := strings.Cut(stored[1], " ")
		if ms, err := strconv.ParseInt(at, 10, 64); err == nil && ok {
			p.By, p.At = by, scheduler.Milli(ms)
		}
		pauses = append(pauses, p)
	}
	slices.SortFunc(pauses, func(a, b scheduler.Pause) int { return cmp.Compare(a.Pattern, b.Pattern) })
	return pauses
}

// Pause holds a pattern back.
func (t *Redis) Pause(ctx context.Context, p scheduler.Pause) (scheduler.PauseChange, error) {
	number, f, err := t.onPauses(ctx, t.scripts.pause, p.Pattern, int64(p.At), p.By, scheduler.MaxPauses)
	if err != nil {
		return scheduler.PauseChange{}, fmt.Errorf("write pause: %w", err)
	}
	c := scheduler.PauseChange{Pause: p, Number: number}
	if len(f) != 1 {
		return c, errAnswer("pause", len(f), nil)
	}
	c.At, err = readMilli(f[0])
	return c, err
}

// Resume lets a pattern go on.
func (t *Redis) Resume(ctx context.Context, pattern string, now scheduler.Milli) (bool, scheduler.PauseChange, error) {
	number, f, err := t.onPauses(ctx, t.scripts.resume, pattern, int64(now))
	if err != nil {
		return false, scheduler.PauseChange{}, fmt.Errorf("remove pause: %w", err)
	}
	c := scheduler.PauseChange{Pause: scheduler.Pause{Pattern: pattern}, Resumed: true, Number: number}
	if len(f) != 2 {
		return false, c, errAnswer("resume", len(f), nil)
	}
	c.At, err = readMilli(f[1])
	return f[0] != "0", c, err
}

// onPauses changes the pauses where they are kept, and then in the other buckets
// that answer. It returns the certification that the change was made under.
func (t *Redis) onPauses(ctx context.Context, script *redis.Script, args ...any) (uint64, []string, error) {
	k, err := t.place(scheduler.PausesBucket)
	if err != nil {
		return 0, nil, err
	}
	c := &call{bucket: scheduler.PausesBucket, script: script, keys: []string{k.paused}, args: args}
	v, err := t.run(ctx, c)
	if err != nil {
		return 0, nil, err
	}
	f, err := texts(v)
	if err == nil && len(t.keys) > 1 {
		_, _ = t.Pauses(ctx) // a bucket that this misses the leader's next look brings up to it
	}
	return c.number, f, err
}

func readMilli(s string) (scheduler.Milli, error) {
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("time of a pause: %w", err)
	}
	return scheduler.Milli(ms), nil
}
