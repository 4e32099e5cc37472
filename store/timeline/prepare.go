package timeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

// ErrUnfit marks a Redis that must not hold messages as it is: retrying does
// not help, an operator must change it or the settings.
var ErrUnfit = errors.New("redis is not fit")

// Layout is the version of the keys and records; another one is refused.
const Layout = "5"

// Facts is what Prepare learned and a start-up log should say.
type Facts struct {
	Version   string
	AOF       bool
	MaxMemory string
}

// Prepare checks that this Redis may hold messages (6.2 or later, never
// evicting) and that the namespace has this number of buckets; it records the
// number when the namespace is new.
func (t *Redis) Prepare(ctx context.Context) (Facts, error) {
	infoText, err := t.rdb.Info(ctx, "everything").Result()
	if err = translate(err); err != nil {
		return Facts{}, fmt.Errorf("read info: %w", err)
	}
	info := parseInfo(infoText)
	facts := Facts{Version: info["redis_version"], AOF: info["aof_enabled"] == "1", MaxMemory: info["maxmemory"]}
	if !atLeast(facts.Version, 6, 2) {
		return facts, fmt.Errorf("%w: version %q, at least 6.2 is needed", ErrUnfit, facts.Version)
	}
	if policy := info["maxmemory_policy"]; policy != "noeviction" {
		return facts, fmt.Errorf("%w: maxmemory-policy is %q, which may evict waiting messages; the limit is noeviction (redis.conf or CONFIG SET maxmemory-policy noeviction)", ErrUnfit, policy)
	}
	return facts, t.remember(ctx)
}

// remember records the namespace's buckets and layout where they are missing, and
// refuses others.
func (t *Redis) remember(ctx context.Context) error {
	key := metaKey(t.cfg.Namespace)
	pipe := t.rdb.Pipeline()
	pipe.HSetNX(ctx, key, "buckets", t.cfg.Buckets)
	pipe.HSetNX(ctx, key, "layout", Layout)
	stored := pipe.HMGet(ctx, key, "buckets", "layout")
	if _, err := pipe.Exec(ctx); err != nil && stored.Err() != nil {
		return fmt.Errorf("read %s: %w", key, translate(err))
	}
	values := stored.Val()
	if got, _ := values[1].(string); got != Layout && got != "" {
		return fmt.Errorf("%w: namespace %q has key layout %s, this tarry knows %s", ErrUnfit, t.cfg.Namespace, got, Layout)
	}
	got, _ := values[0].(string)
	if got == "" {
		return fmt.Errorf("record buckets in %s: %w", key, scheduler.ErrFull)
	}
	if n, err := strconv.Atoi(got); err != nil || n != t.cfg.Buckets {
		return fmt.Errorf("%w: the setting buckets is %d, but namespace %q was begun with %s and its messages lie in those; set buckets to %s, or move them with tarry rebucket", ErrUnfit, t.cfg.Buckets, t.cfg.Namespace, got, got)
	}
	return nil
}

// Ping tells whether Redis answers.
func (t *Redis) Ping(ctx context.Context) error {
	if err := translate(t.rdb.Ping(ctx).Err()); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

// SampleClock asks Redis for its time.
func (t *Redis) SampleClock(ctx context.Context, clock *scheduler.Clock) error {
	sent := clock.Mono()
	now, err := t.rdb.Time(ctx).Result()
	if err = translate(err); err != nil {
		return fmt.Errorf("read time: %w", err)
	}
	clock.Sample("redis", now, sent, clock.Mono())
	return nil
}

// WatchClock samples Redis's time until ctx ends.
func (t *Redis) WatchClock(ctx context.Context, clock *scheduler.Clock, every, timeout time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		call, cancel := context.WithTimeout(ctx, timeout)
		_ = t.SampleClock(call, clock) // a missing sample drops out of the median by itself
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (a > major || a == major && b >= minor)
}
