package schedulertest

import (
	"testing"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

// CanceledBefore is the Reason of a message that a tombstone was waiting for.
const CanceledBefore = "canceled before it was accepted"

// Overhead is how much more than its body and headers a message may weigh in a store.
const Overhead = 512

// Options are what a test needs of the timeline that it opens.
type Options struct {
	Buckets int
	// EndedKeep is how long an end is remembered.
	EndedKeep time.Duration
	// TombstoneKeep is how long a tombstone stays, TombstoneLimit how many in a bucket.
	TombstoneKeep  time.Duration
	TombstoneLimit int
	// Record keeps the outbox, where the test looks at it.
	Record *scheduler.Recording
}

// Open makes an empty timeline, certified, that lasts for the test. It is called many times, at the same time too, and
// each result must stand for itself.
type Open func(t *testing.T, o Options) scheduler.Timeline

// promise is one thing that every timeline holds.
type promise struct {
	name  string // reads as a sentence
	tune  func(*Options)
	check func(*trial)
	// recorded keeps what the journal is given, for the test to look at.
	recorded bool
}

// Exercise tests every promise of package documentation on timelines that open makes.
func Exercise(t *testing.T, open Open) {
	for _, group := range [][]promise{
		orderPromises, claimPromises, settlePromises, termPromises, cancelPromises,
		namePromises, attemptPromises, memoryPromises, tombstonePromises, sizePromises, recoverPromises,
		amendPromises, mergePromises, meetPromises, deadPromises, browsePromises, countPromises, pausePromises,
		refusePromises,
		quarantinePromises,
	} {
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
