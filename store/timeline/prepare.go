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
	"github.com/tarry-mq/tarry/scheduler/message"
)

// ErrUnfit marks a Redis that must not hold messages in its current state. Retrying does not help: an operator must
// change Redis or the settings.
var ErrUnfit = errors.New("redis is not fit")

// Layout is the version of the keys and records. Prepare raises RaisedLayout to it, and refuses any other.
const (
	Layout       = "7"
	RaisedLayout = "6"
)

// Facts holds what Prepare learned for the start-up log.
type Facts struct {
	Version   string
	AOF       bool
	MaxMemory string
}

// Prepare checks that this Redis may hold messages (6.2 or later, never evicting) and that the namespace has this
// number of buckets; it records the number if the namespace is new. In a Redis Cluster, Prepare asks the nodes that
// answer; a new namespace needs all of them.
func (t *Redis) Prepare(ctx context.Context) (Facts, error) {
	texts, err := t.infos(ctx)
	if err != nil {
		return Facts{}, fmt.Errorf("read info: %w", err)
	}
	facts := Facts{AOF: true}
	for i, text := range texts {
		info := ParseInfo(text)
		if i == 0 {
			facts.Version, facts.MaxMemory = info["redis_version"], info["maxmemory"]
		}
		facts.AOF = facts.AOF && info["aof_enabled"] == "1"
		if version := info["redis_version"]; !AtLeast(version, 6, 2) {
			return facts, fmt.Errorf("%w: version %q, at least 6.2 is needed", ErrUnfit, version)
		}
		if policy := info["maxmemory_policy"]; policy != "noeviction" {
			return facts, fmt.Errorf("%w: maxmemory-policy is %q, which may evict waiting messages; the limit is "+
				"noeviction (redis.conf or CONFIG SET maxmemory-policy noeviction)", ErrUnfit, policy)
		}
	}
	return facts, t.begin(ctx)
}

// infos returns the INFO of one server, or of every master of a Cluster that answers.
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

// begin compares the recorded number of buckets and layout with the settings, and records them if the namespace is new.
func (t *Redis) begin(ctx context.Context) error {
	metas := t.metas()
	pipe := t.rdb.Pipeline()
	read := make([]*redis.SliceCmd, len(metas))
	for i, key := range metas {
		read[i] = pipe.HMGet(ctx, key, "buckets", "layout")
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
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
			if values[1] != Layout {
				missing = append(missing, key)
			}
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

// metas returns the keys that describe the namespace: one for all buckets, and a copy with each bucket.
func (t *Redis) metas() []string {
	all := []string{metaKey(t.cfg.Namespace)}
	for i := range t.keys {
		all = append(all, t.keys[i].of("meta"))
	}
	return all
}

// remember records the namespace's buckets and layout if they are missing, raises the layout, and refuses different
// ones.
func (t *Redis) remember(ctx context.Context, key string) error {
	pipe := t.rdb.Pipeline()
	pipe.HSetNX(ctx, key, "buckets", int(t.cfg.Buckets))
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
	if err := t.holds(stored.Val()); err != nil || stored.Val()[1] == Layout {
		return err
	}
	return t.raise(ctx, key)
}

// raise raises layout 6, which lacks only messages for pull, and with them the fifth word of a certification. A tarry
// of layout 6 that still runs refuses a certification of five words: it would put messages for pull into due.
func (t *Redis) raise(ctx context.Context, key string) error {
	for i, k := range t.keys {
		if k.of("meta") != key {
			continue
		}
		a := t.run(ctx, &call{bucket: message.Bucket(i), script: "raise"})
		if a.count("raised"); a.done() != nil {
			return fmt.Errorf("raise the layout of bucket %d: %w", i, a.done())
		}
	}
	err := translate(t.rdb.HSet(ctx, key, "layout", Layout).Err())
	if err != nil && !errors.Is(err, scheduler.ErrFull) { // a full Redis leaves it to the next start
		return fmt.Errorf("raise the layout in %s: %w", key, err)
	}
	return nil
}

// fits returns nil while the namespace has this number of buckets. A rebucket waits for the instances that ZooKeeper
// sees. One that was cut off from it, or suspended, finds a new certification when it comes back, or begins a term. It
// asks here before it uses either.
func (t *Redis) fits(ctx context.Context, bucket message.Bucket) error {
	values, err := t.rdb.HMGet(ctx, t.keys[bucket].of("meta"), "buckets", "layout").Result()
	if err != nil {
		return fmt.Errorf("%w: read the number of buckets: %v", scheduler.ErrUnavailable, err)
	}
	if values[0] == nil { // lost with the messages
		return nil
	}
	if err = t.holds(values); err != nil {
		if t.cfg.Unfit != nil {
			t.cfg.Unfit(err)
		}
		return fmt.Errorf("%w: %w", scheduler.ErrUnavailable, err)
	}
	return nil
}

// holds compares the recorded buckets and layout with the settings.
func (t *Redis) holds(values []any) error {
	if got, _ := values[1].(string); got != Layout && got != RaisedLayout && got != "" {
		return fmt.Errorf("%w: namespace %q has key layout %s, this tarry knows %s", ErrUnfit,
			t.cfg.Namespace, got, Layout)
	}
	got, _ := values[0].(string)
	var next [2]int
	if n, _ := fmt.Sscanf(got, rebucketing, &next[0], &next[1]); n == 2 {
		return fmt.Errorf("%w: tarry rebucket %d of namespace %q is under way or was interrupted: run it again, to that "+
			"number or another", ErrUnfit, next[1], t.cfg.Namespace)
	}
	if n, err := strconv.Atoi(got); err != nil || n != int(t.cfg.Buckets) {
		return fmt.Errorf(
			"%w: the setting buckets is %d, but namespace %q was begun with %s and its messages lie in those; "+
				"set buckets to %s; or stop every instance and run tarry rebucket %d", ErrUnfit, t.cfg.Buckets,
			t.cfg.Namespace, got, got, t.cfg.Buckets)
	}
	return nil
}

// Identity returns the name that the namespace received when it was begun here. It distinguishes one Redis from another
// regardless of their addresses, and replicas copy it with the data. It is empty if the server has lost everything.
func (t *Redis) Identity(ctx context.Context) (string, error) {
	id, err := t.rdb.HGet(ctx, metaKey(t.cfg.Namespace), "id").Result()
	if err = translate(err); err != nil {
		return "", fmt.Errorf("read the identity: %w", err)
	}
	return id, nil
}

// SampleClock asks Redis for its time. It asks the server of the bucket that answered last, or of the next bucket if
// that one did not answer, since the clocks of a Cluster differ.
func (t *Redis) SampleClock(ctx context.Context, clock *scheduler.Clock) error {
	bucket := message.Bucket(t.timed.Load()) % t.Buckets()
	sent := clock.Mono()
	a := t.run(ctx, &call{bucket: bucket, script: "time"})
	seconds, micros := a.number("seconds"), a.number("microseconds")
	if err := a.done(); err != nil {
		t.timed.CompareAndSwap(uint32(bucket), uint32((bucket+1)%t.Buckets()))
		return fmt.Errorf("read time: %w", err)
	}
	clock.Sample("redis", time.Unix(int64(seconds), int64(micros)*1000), sent, clock.Mono())
	return nil
}

// WatchClock samples Redis's time until ctx ends.
func (t *Redis) WatchClock(ctx context.Context, clock *scheduler.Clock, every, timeout time.Duration) {
	ticker := time.Tick(every)
	for {
		call, cancel := context.WithTimeout(ctx, timeout)
		_ = t.SampleClock(call, clock) // the median does without a missing sample
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-ticker:
		}
	}
}

// ParseInfo reads the output of INFO and texts in the same format.
func ParseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// AtLeast reports whether a version is at least major.minor.
func AtLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (a > major || a == major && b >= minor)
}
