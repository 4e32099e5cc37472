package timeline

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Config configures a Redis timeline.
type Config struct {
	// Client is the connection to Redis; Dial makes one with the right options.
	Client redis.UniversalClient
	// Namespace prefixes every key.
	Namespace string
	// Buckets must be the number that the namespace was begun with.
	Buckets message.Bucket
	// EndedKeep is how long ends are remembered.
	EndedKeep time.Duration
	// TombstoneKeep and TombstoneLimit bound the tombstones of a bucket.
	TombstoneKeep  time.Duration
	TombstoneLimit int
	// CallLimit bounds the calls of a bucket; 0 means scheduler.MaxCalls.
	CallLimit int
	// Record describes the outbox; it is nil if no journal is kept.
	Record *record.Recording
	// Unfit, which may be nil, is called when the namespace turns out to have another number of buckets by now. All
	// that this instance would still do goes to wrong places: it must end.
	Unfit func(error)
}

// Redis keeps waiting messages in Redis. It is safe for concurrent use.
type Redis struct {
	cfg     Config
	rdb     redis.UniversalClient
	scripts map[string]*script
	keys    []keys
	certs   []certificate // of each bucket
	timed   atomic.Uint32 // the bucket whose server is asked for the time
	home    *Redis        // in a view made by Recovering, the original; else nil
	term    uint64        // in a view, the leader's term
	giving  uint64        // in a view, the certification that the leader is about to give
}

var (
	_ scheduler.Timeline = (*Redis)(nil)
	_ record.Mending     = (*Redis)(nil)
	_ record.Recoverable = (*Redis)(nil)
)

// New builds the timeline. It does not connect to Redis; Prepare does.
func New(cfg Config) (*Redis, error) {
	switch {
	case cfg.Client == nil:
		return nil, errors.New("timeline: a client is needed")
	case cfg.Namespace == "" || cfg.Buckets < 1 || cfg.EndedKeep <= 0 || cfg.TombstoneKeep <= 0 ||
		cfg.TombstoneLimit < 1:
		return nil, errors.New("timeline: namespace, buckets, ended keep and tombstones must be set")
	}
	if r := cfg.Record; r != nil &&
		(r.Instance == "" || len(r.Instance) > maxText || r.Limit < 1 || r.Wrote == nil) {
		return nil, errors.New("timeline: a recording needs instance, address, limit and a receiver")
	}
	t := &Redis{cfg: cfg, rdb: cfg.Client, certs: make([]certificate, cfg.Buckets)}
	for bucket := range cfg.Buckets {
		t.keys = append(t.keys, bucketKeys(cfg.Namespace, bucket))
	}
	var err error
	if t.scripts, err = loadScripts(t.keys); err != nil {
		return nil, err
	}
	return t, nil
}

// Buckets returns the number of buckets.
func (t *Redis) Buckets() message.Bucket { return t.cfg.Buckets }

// has returns an error if this timeline does not have the bucket.
func (t *Redis) has(bucket message.Bucket) error {
	if bucket < 0 || bucket >= t.Buckets() {
		return fmt.Errorf("timeline: bucket %d of %d", bucket, t.Buckets())
	}
	return nil
}
