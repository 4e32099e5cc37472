package timeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
)

// Pauses lists what is paused. A field that is damaged still pauses its pattern:
// what an operator holds back must not go out for it, nor all the rest stand.
func (t *Redis) Pauses(ctx context.Context) ([]scheduler.Pause, error) {
	_, stored, err := t.onPauses(ctx, t.scripts.pauses)
	if err != nil {
		return nil, fmt.Errorf("read pauses: %w", err)
	}
	if len(stored)%2 != 0 {
		return nil, errAnswer("pauses", len(stored), nil)
	}
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
	return pauses, nil
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

// onPauses runs a script on the pauses, and tells the certification that it ran
// under.
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
	return c.number, f, err
}

func readMilli(s string) (scheduler.Milli, error) {
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("time of a pause: %w", err)
	}
	return scheduler.Milli(ms), nil
}
