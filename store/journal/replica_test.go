package journal_test

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
	"github.com/tarry-mq/tarry/store/journal"
)

// replicated is a journal whose database may fail over to a replica that lacks the last commits.
type replicated struct {
	journal.Store
	open    func() journal.Store
	commits []func(context.Context, journal.Store) error
}

func (r *replicated) commit(ctx context.Context, do func(context.Context, journal.Store) error) error {
	err := do(ctx, r.Store)
	if err == nil {
		r.commits = append(r.commits, do)
	}
	return err
}

func (r *replicated) Write(ctx context.Context, fences map[message.Bucket]uint64, changes []record.Change) error {
	return r.commit(ctx, func(ctx context.Context, s journal.Store) error { return s.Write(ctx, fences, changes) })
}

func (r *replicated) Fence(ctx context.Context, bucket message.Bucket, number uint64) error {
	return r.commit(ctx, func(ctx context.Context, s journal.Store) error { return s.Fence(ctx, bucket, number) })
}

// failOver loses the last commits.
func (r *replicated) failOver(t *rapid.T, lost int) {
	r.commits = r.commits[:max(len(r.commits)-lost, 0)]
	r.Store = r.open()
	for _, do := range r.commits {
		if err := do(t.Context(), r.Store); err != nil {
			t.Fatalf("replay: %v", err)
		}
	}
}

// TestCrashes_OfADatabaseThatLosesItsLastCommits: the store is whole, the database fails over again and again, ends are
// forgotten, and audits run. What a caller was told to be canceled, and what was delivered, is never claimed again.
func TestCrashes_OfADatabaseThatLosesItsLastCommits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		db := &replicated{Store: memoryStore(t), open: func() journal.Store { return memoryStore(t) }}
		c := &crashes{T: rt, ctx: t.Context(), store: db, now: schedulertest.Start, term: 1,
			changes: map[message.UID][]record.Change{},
			durable: map[scheduler.Recorded]bool{}, answered: map[message.UID]bool{},
			canceled: map[message.UID]bool{}}
		c.clock = scheduler.NewClock(
			scheduler.Local{Wall: func() time.Time { return c.now.Time() }, Mono: func() time.Duration {
				return time.Duration(c.now) * time.Millisecond
			}})
		c.on = memoryLine(t, &record.Recording{Instance: "crash", Limit: 1 << 30, Wrote: c.wrote})
		c.tl = c.on.line
		c.recover()
		audit := func(rt *rapid.T) {
			c.T = rt
			c.drainAll()
			r := &journal.Reconciler{Store: db, Timeline: c.tl, Buckets: crashBuckets, Clock: c.clock, Instance: "a",
				Timeout: time.Minute, LookPause: time.Nanosecond, Log: zerolog.Nop()}
			_, err := r.Verify(c.ctx, record.VerifyRequest{Repair: true}, nil)
			c.must("audit", err)
		}
		deliver := func(rt *rapid.T) {
			c.finish(rt)
			for _, end := range c.outbox[len(c.outbox)-1].Changes {
				c.canceled[end.UID] = true // over, which is what a claim asks for
			}
		}
		failOver := func(rt *rapid.T) { db.failOver(rt, rapid.IntRange(1, 5).Draw(rt, "lost")) }
		forget := func(rt *rapid.T) {
			c.T = rt
			c.drainAll() // else what the journal does not have is kept
			c.now = c.now.Add(3 * time.Hour)
			for b := range crashBuckets {
				_, err := c.tl.Trim(c.ctx, b, c.term, c.now, 1000)
				c.must("trim", err)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"push": c.push, "push a name": c.pushNamed, "cancel": c.cancel, "cancel more": c.cancel, "amend": c.amend,
			"claim": c.claimSome, "claim more": c.claimSome, "deliver": deliver, "deliver more": deliver,
			"commit": c.commit, "drain": c.drain, "audit": audit, "audit again": audit,
			"fail over": failOver, "fail over again": failOver, "forget": forget, "forget more": forget,
			"": func(*rapid.T) { c.now += 7 },
		})
	})
}
