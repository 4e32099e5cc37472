package memory

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Config configures a Timeline. A zero field takes its default.
type Config struct {
	// Buckets is the number of buckets, 4 by default, at most MaxBuckets.
	Buckets message.Bucket
	// EndedKeep is how long an end is remembered, 10 minutes by default.
	EndedKeep time.Duration
	// TombstoneKeep is how long the cancel of an unknown id waits for its push, 10 minutes by default. TombstoneLimit
	// is how many such cancels wait in a bucket, 10,000 by default.
	TombstoneKeep  time.Duration
	TombstoneLimit int
	// CallLimit bounds the calls of a bucket; 0 means scheduler.MaxCalls.
	CallLimit int
	// Record configures the outbox. With an outbox the timeline starts uncertified: it is as empty as a Redis that lost
	// its data. Record is nil if no journal is kept.
	Record *record.Recording
}

// MaxBuckets is the number of buckets that the 16 bits of a uid's hash can distinguish.
const MaxBuckets = 1 << 16

const (
	defaultBuckets        = 4
	defaultKeep           = 10 * time.Minute
	defaultTombstoneLimit = 10_000
)

// Timeline keeps messages in memory. It is safe for concurrent use.
type Timeline struct {
	cfg     Config
	buckets []*bucket
	paused  *pauses
	failing map[string][2]message.Milli // first and last, by webhooks' targets; guarded as paused
	// recovering is set in the view of the certifying leader, together with its term and the certification that it is
	// about to make.
	recovering     bool
	ruling, giving uint64
}

var (
	_ scheduler.Timeline = (*Timeline)(nil)
	_ record.Mending     = (*Timeline)(nil)
	_ record.Recoverable = (*Timeline)(nil)
)

// New validates the configuration and returns an empty timeline.
func New(cfg Config) (*Timeline, error) {
	cfg.Buckets = cmp.Or(cfg.Buckets, defaultBuckets)
	cfg.EndedKeep = cmp.Or(cfg.EndedKeep, defaultKeep)
	cfg.TombstoneKeep = cmp.Or(cfg.TombstoneKeep, defaultKeep)
	cfg.TombstoneLimit = cmp.Or(cfg.TombstoneLimit, defaultTombstoneLimit)
	switch {
	case cfg.Buckets < 1 || cfg.Buckets > MaxBuckets:
		return nil, fmt.Errorf("memory: %d buckets: want 1 to %d", cfg.Buckets, MaxBuckets)
	case cfg.EndedKeep < 0 || cfg.TombstoneKeep < 0:
		return nil, fmt.Errorf("memory: ended keep %s, tombstone keep %s: want positive times", cfg.EndedKeep,
			cfg.TombstoneKeep)
	case cfg.TombstoneLimit < 1:
		return nil, fmt.Errorf("memory: tombstone limit %d: want at least 1", cfg.TombstoneLimit)
	}
	t := &Timeline{cfg: cfg, buckets: make([]*bucket, cfg.Buckets), paused: newPauses(),
		failing: map[string][2]message.Milli{}}
	for i := range t.buckets {
		t.buckets[i] = newBucket(cfg.Record)
		t.buckets[i].calls.limit = cmp.Or(cfg.CallLimit, scheduler.MaxCalls)
	}
	return t, nil
}

// Buckets returns the number of buckets.
func (t *Timeline) Buckets() message.Bucket { return t.cfg.Buckets }

// in runs do on a locked bucket and records its changes for the journal. It does nothing if ctx has ended: a leader
// without a lease must not write.
func (t *Timeline) in(ctx context.Context, n message.Bucket, do func(*bucket) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", scheduler.ErrUnavailable, context.Cause(ctx))
	}
	if n < 0 || n >= t.Buckets() {
		return fmt.Errorf("bucket %d: want 0 to %d", n, t.Buckets()-1)
	}
	b := t.buckets[n]
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cert.Number == 0 && !t.recovering {
		return fmt.Errorf("bucket %d: %w", n, scheduler.ErrUncertified)
	}
	if t.recovering && t.ruling > 0 && b.term > t.ruling {
		return fmt.Errorf("bucket %d under term %d knows term %d: %w", n, t.ruling, b.term, scheduler.ErrStaleTerm)
	}
	b.by, b.hastened = scheduler.Caller(ctx), nil
	err := do(b)
	t.wrote(n, b)
	return err
}

// see is in for a do that cannot fail.
func (t *Timeline) see(ctx context.Context, n message.Bucket, do func(*bucket)) error {
	return t.in(ctx, n, func(b *bucket) error {
		do(b)
		return nil
	})
}

// each calls do with every bucket in turn.
func (t *Timeline) each(ctx context.Context, do func(message.Bucket, *bucket)) error {
	for n := range t.Buckets() {
		if err := t.see(ctx, n, func(b *bucket) { do(n, b) }); err != nil {
			return err
		}
	}
	return nil
}

// under is in for a leader: it fails if the bucket's term is higher.
func (t *Timeline) under(ctx context.Context, n message.Bucket, term uint64, do func(*bucket) error) error {
	return t.in(ctx, n, func(b *bucket) error {
		if b.term > term {
			return fmt.Errorf("bucket %d under term %d knows term %d: %w", n, term, b.term, scheduler.ErrStaleTerm)
		}
		b.term = term
		return do(b)
	})
}

// bucket is one part of the messages, with its indexes.
type bucket struct {
	mu sync.Mutex

	term    uint64
	entries map[message.UID]*entry
	names   map[name]*called
	ids     map[string]map[name]struct{} // the names of each client id
	due     order
	lanes   map[message.Lane]*lane // only those that hold messages
	claimed order
	dead    order // by when they died
	ended   order
	ends    int64         // number of messages that have ever ended here
	trimmed message.Milli // ends up to this time may be forgotten
	topics  map[string]counts

	pulls    map[string]toPull
	lines    map[string]*line // by topic and key
	behind   map[string]int   // how many wait behind another one of their key, by topic
	aside    order            // past their time to live, by score
	leases   order            // by their end
	expiring order            // by the end of the time to live
	grants   map[scheduler.Nonce]*granted
	forgets  order               // grants by when they are forgotten
	hastened []scheduler.Earlier // by the call under way

	graves graveyard
	calls  calls

	refused map[message.UID]scheduler.Refusal

	cert    record.Certification
	outbox  []record.Entry
	entered uint64          // number of entries ever added to the outbox
	size    int64           // of the outbox, in bytes
	changes []record.Change // of the call under way, where a journal is kept
	by      string          // on whose behalf the call under way makes them
	records bool
	sync    bool // every answered change is in the journal

	quarantined []record.Quarantined
}

// thisRun is the server run of this timeline's buckets: the process itself.
const thisRun = "process"

func newBucket(r *record.Recording) *bucket {
	cert := record.Certification{Number: 1, Run: thisRun}
	if r != nil {
		cert = record.Certification{}
	}
	return &bucket{
		cert:    cert,
		records: r != nil,
		sync:    r != nil && r.Sync,
		entries: map[message.UID]*entry{},
		names:   map[name]*called{},
		ids:     map[string]map[name]struct{}{},
		lanes:   map[message.Lane]*lane{},
		topics:  map[string]counts{},
		pulls:   map[string]toPull{},
		lines:   map[string]*line{},
		behind:  map[string]int{},
		grants:  map[scheduler.Nonce]*granted{},
		graves:  newGraveyard(),
	}
}

// forgot records that ends up to a time may be forgotten.
func (b *bucket) forgot(until message.Milli) { b.trimmed = max(b.trimmed, until) }

// head returns the earliest due time in an order, or 0 if the order is empty.
func head(o order) message.Milli {
	if len(o) == 0 {
		return 0
	}
	return max(message.ScoreDue(o[0].rank), 1)
}
