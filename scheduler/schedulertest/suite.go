package schedulertest

import (
	"testing"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// CanceledBefore is the Reason of a message that a tombstone covered.
const CanceledBefore = "canceled before it was accepted"

// Overhead is how much a message may weigh in a store beyond its body and headers.
const Overhead = 512

// Options configure the timeline that a test opens.
type Options struct {
	Buckets message.Bucket
	// EndedKeep is how long an end is remembered.
	EndedKeep time.Duration
	// TombstoneKeep is how long a tombstone stays, TombstoneLimit how many in a bucket.
	TombstoneKeep  time.Duration
	TombstoneLimit int
	// CallLimit bounds the calls of a bucket; 0 is the store's own limit.
	CallLimit int
	// Record configures the outbox, for the tests that look at it.
	Record *record.Recording
}

// Open returns an empty, certified timeline that lasts for the test. It is called many times, also concurrently. The
// timelines must not share anything.
type Open func(t *testing.T, o Options) scheduler.Timeline

// promise is one check of the suite.
type promise struct {
	name  string // reads as a sentence
	tune  func(*Options)
	check func(*trial)
	// recorded keeps the changes reported for the journal, so that check can look at them.
	recorded bool
}

// Exercise tests every promise of the package documentation on timelines that open returns.
func Exercise(t *testing.T, open Open) {
	exercise(t, open,
		orderPromises, claimPromises, settlePromises, termPromises, cancelPromises,
		namePromises, callPromises, attemptPromises, memoryPromises, tombstonePromises, sizePromises, recoverPromises,
		amendPromises, mergePromises, meetPromises, deadPromises, browsePromises, countPromises, pausePromises,
		refusePromises,
		quarantinePromises, pullPromises, serialPromises,
	)
}

func exercise(t *testing.T, open Open, groups ...[]promise) {
	for _, group := range groups {
		for _, p := range group {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				o := Options{Buckets: 4, EndedKeep: 10 * time.Minute, TombstoneKeep: 10 * time.Minute,
					TombstoneLimit: 10_000}
				if p.tune != nil {
					p.tune(&o)
				}
				log := new(recordings)
				if p.recorded {
					o.Record = log.recording()
				}
				p.check(&trial{T: t, tl: open(t, o), o: o, now: Start, term: 1, log: log})
			})
		}
	}
}
