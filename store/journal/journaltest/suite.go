package journaltest

import (
	"testing"

	"github.com/tarry-mq/tarry/store/journal"
)

// Open makes an empty journal that lasts for the test. It is called many times, also concurrently, and the journals
// must be independent.
type Open func(t *testing.T) journal.Store

// promise is one promise of every journal.
type promise struct {
	name  string // reads as a sentence
	check func(*trial)
}

// Exercise tests every promise on journals that open makes.
func Exercise(t *testing.T, open Open) {
	for _, group := range [][]promise{
		writePromises, textPromises, fencePromises, findPromises, namesPromises, listPromises, changePromises,
		forecastPromises, prunePromises, rejectPromises, pausePromises, actionPromises, sizePromises,
	} {
		for _, p := range group {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				p.check(&trial{T: t, j: open(t)})
			})
		}
	}
}
