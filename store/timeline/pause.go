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

// Pauses lists what is paused.
func (t *Redis) Pauses(ctx context.Context) ([]scheduler.Pause, error) {
	stored, err := t.rdb.HGetAll(ctx, pausedKey(t.cfg.Namespace)).Result()
	if err = translate(err); err != nil {
		return nil, fmt.Errorf("read pauses: %w", err)
	}
	pauses := make([]scheduler.Pause, 0, len(stored))
	for pattern, since := range stored {
		at, by, ok := strings.Cut(since, " ")
		ms, err := strconv.ParseInt(at, 10, 64)
		if err != nil || !ok {
			return nil, fmt.Errorf("%w: pause of %.60q", errDamaged, pattern)
		}
		pauses = append(pauses, scheduler.Pause{Pattern: pattern, By: by, At: scheduler.Milli(ms)})
	}
	slices.SortFunc(pauses, func(a, b scheduler.Pause) int { return cmp.Compare(a.Pattern, b.Pattern) })
	return pauses, nil
}

// Pause holds a pattern back.
func (t *Redis) Pause(ctx context.Context, p scheduler.Pause) error {
	_, err := t.scripts.pause.Run(ctx, t.rdb, []string{pausedKey(t.cfg.Namespace)},
		p.Pattern, strconv.FormatInt(int64(p.At), 10)+" "+p.By, scheduler.MaxPauses).Result()
	if err = translate(err); err != nil {
		return fmt.Errorf("write pause: %w", err)
	}
	return nil
}

// Resume lets a pattern go on.
func (t *Redis) Resume(ctx context.Context, pattern string) (bool, error) {
	n, err := t.rdb.HDel(ctx, pausedKey(t.cfg.Namespace), pattern).Result()
	if err = translate(err); err != nil {
		return false, fmt.Errorf("remove pause: %w", err)
	}
	return n > 0, nil
}
