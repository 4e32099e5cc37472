package timeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
)

// Config is what a Redis timeline is made of.
type Config struct {
	// Client talks to Redis; Dial makes one with the right options.
	Client redis.UniversalClient
	// Namespace prefixes every key.
	Namespace string
	// Buckets must be the number the namespace was begun with.
	Buckets int
	// EndedKeep is how long ends are remembered.
	EndedKeep time.Duration
	// TombstoneKeep and TombstoneLimit bound the tombstones of a bucket.
	TombstoneKeep  time.Duration
	TombstoneLimit int
}

// Redis keeps waiting messages in Redis. It is safe for any number of
// goroutines.
type Redis struct {
	cfg     Config
	rdb     redis.UniversalClient
	scripts *scripts
	keys    []keys
}

var _ scheduler.Timeline = (*Redis)(nil)

// New builds the timeline. It does not talk to Redis: Prepare does.
func New(cfg Config) (*Redis, error) {
	switch {
	case cfg.Client == nil:
		return nil, errors.New("timeline: a client is needed")
	case cfg.Namespace == "" || cfg.Buckets < 1 || cfg.EndedKeep <= 0 || cfg.TombstoneKeep <= 0 || cfg.TombstoneLimit < 1:
		return nil, errors.New("timeline: namespace, buckets, ended keep and tombstones must be set")
	}
	s, err := loadScripts()
	if err != nil {
		return nil, err
	}
	t := &Redis{cfg: cfg, rdb: cfg.Client, scripts: s}
	for bucket := range cfg.Buckets {
		t.keys = append(t.keys, bucketKeys(cfg.Namespace, bucket))
	}
	return t, nil
}

// Buckets is the number of buckets.
func (t *Redis) Buckets() int { return t.cfg.Buckets }

// run runs one script by its hash, or by its text where Redis has lost it.
func (t *Redis) run(ctx context.Context, s *redis.Script, keys []string, args ...any) (any, error) {
	v, err := s.Run(ctx, t.rdb, keys, args...).Result()
	return v, translate(err)
}

// place names a bucket of this timeline.
func (t *Redis) place(bucket int) (*keys, error) {
	if bucket < 0 || bucket >= len(t.keys) {
		return nil, fmt.Errorf("timeline: bucket %d of %d", bucket, len(t.keys))
	}
	return &t.keys[bucket], nil
}
