package timeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
)

// Pauses lists what is paused. A field that is damaged still pauses its pattern:
// what an operator holds back must not go out for it, nor all the rest stand.
func (t *Redis) Pauses(ctx context.Context) ([]scheduler.Pause, error) {
	stored, err := t.rdb.HGetAll(ctx, pausedKey(t.cfg.Namespace)).Result()
	if err = translate(err); err != nil {
		return nil, fmt.Errorf("read pauses: %w", err)
	}
	pauses := make([]scheduler.Pause, 0, len(stored))
	for pattern, since := range stored {
		if pattern == "" { // when the last change was
			continue
		}
		p := scheduler.Pause{Pattern: pattern}
		at, by, ok := strings.Cut(since, " ")
		if ms, err := strconv.ParseInt(at, 10, 64); err == nil && ok {
			p.By, p.At = by, scheduler.Milli(ms)
		}
		pauses = append(pauses, p)
	}
	slices.SortFunc(pauses, func(a, b scheduler.Pause) int { return cmp.Compare(a.Pattern, b.Pattern) })
	return pauses, nil
}

// Pause holds a pattern back.
func (t *Redis) Pause(ctx context.Context, p scheduler.Pause) (scheduler.Milli, error) {
	at, err := t.scripts.pause.Run(ctx, t.rdb, []string{pausedKey(t.cfg.Namespace)}, p.Pattern, int64(p.At), p.By, scheduler.MaxPauses).Int64()
	if err = translate(err); err != nil {
		return 0, fmt.Errorf("write pause: %w", err)
	}
	return scheduler.Milli(at), nil
}

// Resume lets a pattern go on.
func (t *Redis) Resume(ctx context.Context, pattern string, now scheduler.Milli) (bool, scheduler.Milli, error) {
	f, err := t.scripts.resume.Run(ctx, t.rdb, []string{pausedKey(t.cfg.Namespace)}, pattern, int64(now)).Int64Slice()
	if err = translate(err); err != nil {
		return false, 0, fmt.Errorf("remove pause: %w", err)
	}
	if len(f) != 2 {
		return false, 0, errAnswer("resume", len(f), nil)
	}
	return f[0] > 0, scheduler.Milli(f[1]), nil
}
