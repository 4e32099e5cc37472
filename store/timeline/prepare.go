package timeline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
)

// ErrUnfit marks a Redis that must not hold messages as it is: retrying does
// not help, an operator must change it or the settings.
var ErrUnfit = errors.New("redis is not fit")

// Layout is the version of the keys and records; another one is refused.
const Layout = "6"

// Facts is what Prepare learned and a start-up log should say.
type Facts struct {
	Version   string
	AOF       bool
	MaxMemory string
}

// Prepare checks that this Redis may hold messages (6.2 or later, never
// evicting) and that the namespace has this number of buckets; it records the
// number when the namespace is new. Of a Redis Cluster the nodes that answer are
// asked; a new namespace needs them all.
func (t *Redis) Prepare(ctx context.Context) (Facts, error) {
	texts, err := t.infos(ctx)
	if err != nil {
		return Facts{}, fmt.Errorf("read info: %w", err)
	}
	facts := Facts{AOF: true}
	for i, text := range texts {
		info := parseInfo(text)
		if i == 0 {
			facts.Version, facts.MaxMemory = info["redis_version"], info["maxmemory"]
		}
		facts.AOF = facts.AOF && info["aof_enabled"] == "1"
		if version := info["redis_version"]; !atLeast(version, 6, 2) {
			return facts, fmt.Errorf("%w: version %q, at least 6.2 is needed", ErrUnfit, version)
		}
		if policy := info["maxmemory_policy"]; policy != "noeviction" {
			return facts, fmt.Errorf("%w: maxmemory-policy is %q, which may evict waiting messages; the limit is "+
				"noeviction (redis.conf or CONFIG SET maxmemory-policy noeviction)", ErrUnfit, policy)
		}
	}
	return facts, t.begin(ctx)
}

// infos are what the servers tell of themselves: one, or the masters of a Cluster
// that answer.
func (t *Redis) infos(ctx context.Context) ([]string, error) {
	cluster := clusterOf(t.rdb)
	if cluster == nil {
		text, err := t.rdb.Info(ctx, "everything").Result()
		return []string{text}, translate(err)
	}
	var mu sync.Mutex
	var texts []string
	failed := errNoMaster
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		text, err := node.Info(ctx, "everything").Result()
		mu.Lock()
		defer mu.Unlock()
		if err = translate(err); err != nil {
			failed = err
			return nil
		}
		texts = append(texts, text)
		return nil
	})
	if len(texts) == 0 && err == nil {
		err = failed
	}
	return texts, translate(err)
}

var errNoMaster = fmt.Errorf("%w: the cluster has no master", scheduler.ErrUnavailable)

// begin holds what is recorded of the namespace to the settings, and records it
// where it is new.
func (t *Redis) begin(ctx context.Context) error {
	metas := t.metas()
	pipe := t.rdb.Pipeline()
	read := make([]*redis.SliceCmd, len(metas))
	for i, key := range metas {
		read[i] = pipe.HMGet(ctx, key, "buckets", "layout")
	}
	_, _ = pipe.Exec(ctx) // each has its own error
	known := false
	var missing []string
	var away error
	for i, key := range metas {
		if err := translate(read[i].Err()); err != nil {
			away = fmt.Errorf("read %s: %w", key, err)
			continue
		}
		if values := read[i].Val(); values[0] == nil {
			missing = append(missing, key)
		} else if err := t.holds(values); err != nil {
			return err
		} else {
			known = true
		}
	}
	if away != nil && !known {
		return away
	}
	for _, key := range missing {
		if err := t.remember(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// metas are the keys that record the namespace: one for all, and a copy with each
// bucket.
func (t *Redis) metas() []string {
	all := []string{metaKey(t.cfg.Namespace)}
	for i := range t.keys {
		all = append(all, t.keys[i].meta)
	}
	return all
}

// remember records the namespace's buckets and layout where they are missing, and
// refuses others.
func (t *Redis) remember(ctx context.Context, key string) error {
	pipe := t.rdb.Pipeline()
	pipe.HSetNX(ctx, key, "buckets", t.cfg.Buckets)
	pipe.HSetNX(ctx, key, "layout", Layout)
	if key == metaKey(t.cfg.Namespace) {
		pipe.HSetNX(ctx, key, "id", rand.Text())
	}
	stored := pipe.HMGet(ctx, key, "buckets", "layout")
	if _, err := pipe.Exec(ctx); err != nil && stored.Err() != nil {
		return fmt.Errorf("read %s: %w", key, translate(err))
	}
	if stored.Val()[0] == nil {
		return fmt.Errorf("record buckets in %s: %w", key, scheduler.ErrFull)
	}
	return t.holds(stored.Val())
}

// holds compares what is recorded of the namespace.
func (t *Redis) holds(values []any) error {
	if got, _ := values[1].(string); got != Layout && got != "" {
		return fmt.Errorf("%w: namespace %q has key layout %s, this tarry knows %s", ErrUnfit,
			t.cfg.Namespace, got, Layout)
	}
	got, _ := values[0].(string)
	if n, err := strconv.Atoi(got); err != nil || n != t.cfg.Buckets {
		return fmt.Errorf(
			"%w: the setting buckets is %d, but namespace %q was begun with %s and its messages lie in those; "+
				"set buckets to %s; or, where a journal is kept, stop every instance and start them with an "+
				"empty Redis "+
				"and the new number: "+
				"the leader fills it from the journal", ErrUnfit, t.cfg.Buckets, t.cfg.Namespace, got, got)
	}
	return nil
}

// Identity returns the name that this namespace got when it was begun here. It
// distinguishes one Redis from another, whatever their addresses, and goes with the
// data to a replica. It is empty where the server has lost everything.
func (t *Redis) Identity(ctx context.Context) (string, error) {
	id, err := t.rdb.HGet(ctx, metaKey(t.cfg.Namespace), "id").Result()
	if err = translate(err); err != nil {
		return "", fmt.Errorf("read the identity: %w", err)
	}
	return id, nil
}

// SampleClock asks Redis for its time: the server of the bucket that answered last,
// or after it did not of the next one, for the clocks of a Cluster differ.
func (t *Redis) SampleClock(ctx context.Context, clock *scheduler.Clock) error {
	bucket := int(t.timed.Load()) % len(t.keys)
	sent := clock.Mono()
	v, err := t.scripts.time.Run(ctx, t.rdb, []string{t.keys[bucket].gen}).Result()
	if err = translate(err); err != nil {
		t.timed.CompareAndSwap(uint32(bucket), uint32((bucket+1)%len(t.keys)))
		return fmt.Errorf("read time: %w", err)
	}
	f, err := texts(v)
	if err != nil || len(f) != 2 {
		return errAnswer("time", len(f), err)
	}
	seconds, err1 := strconv.ParseInt(f[0], 10, 64)
	micros, err2 := strconv.ParseInt(f[1], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("read time: %w", err)
	}
	clock.Sample("redis", time.Unix(seconds, micros*1000), sent, clock.Mono())
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
