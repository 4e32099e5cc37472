package app

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestClose_NamesWhatHangsAndWhatItLeavesOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		var c closers
		c.onClose("the first", func() { t.Error("it was closed after one that hangs") })
		c.onClose("the one that hangs", func() { <-release })
		broken := errors.New("broken")
		c.onStop("the last", func() error { return broken })
		began := time.Now()
		err := c.Close()
		if took := time.Since(began); took != closeLimit {
			t.Errorf("it took %s", took)
		}
		want := "close the last: broken\nclose the one that hangs: it has not ended within 10s; not closed: the first"
		if err == nil || err.Error() != want || !errors.Is(err, broken) {
			t.Errorf("got %v, want %s", err, want)
		}
		if err := c.Close(); err != nil {
			t.Errorf("again: %v", err)
		}
	})
}
