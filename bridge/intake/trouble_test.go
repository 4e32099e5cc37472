package intake

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
)

func TestTrouble_AFailureRightAfterASuccessStillKeepsThePushAway(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	var away trouble
	if pause := away.failed(now); pause < firstPause {
		t.Errorf("the first failure pauses for %s", pause)
	}
	away.worked() // another push of the same moment was accepted
	if pause := away.failed(now.Add(time.Millisecond)); pause < firstPause || pause > maxPause+firstPause {
		t.Errorf("a failure after a success pauses for %s", pause)
	}
	if left := away.wait(now.Add(time.Millisecond)); left <= 0 {
		t.Errorf("nothing is held back: %s", left)
	}
	// One that is judged long after the pause was set.
	if pause := away.failed(now.Add(-time.Hour)); pause < firstPause {
		t.Errorf("with an earlier time it pauses for %s", pause)
	}
	if pause := away.failed(now.Add(firstPause + time.Millisecond)); pause < firstPause {
		t.Errorf("after the pause it pauses for %s", pause)
	}
}

func TestAck_AsksForTheMessageAgain(t *testing.T) {
	t.Parallel()
	for later, want := range map[time.Duration]string{
		0: "-NAK", -time.Hour: "-NAK", time.Millisecond: `-NAK {"delay":1000000}`,
	} {
		if got := string((&ack{later: later}).again()); got != want {
			t.Errorf("later %s: got %s, want %s", later, got, want)
		}
	}
}

func TestTrouble_OfOneBucketHoldsBackNoOther(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	var in Intake
	lost := fmt.Errorf("push: %w", &scheduler.BucketError{Bucket: 3})
	first := in.pauseAfter(lost, now)
	last := first
	for range 10 {
		now = now.Add(last + time.Millisecond)
		last = in.pauseAfter(lost, now)
	}
	if first < firstPause || last <= first || last > maxPause+firstPause {
		t.Errorf("a push of the bucket stays away for %s, later for %s", first, last)
	}
	if left := in.trouble.wait(now); left > 0 {
		t.Errorf("all pushes are held back for %s", left)
	}
	if other := in.pauseAfter(&scheduler.BucketError{Bucket: 4}, now); other != 2*firstPause {
		t.Errorf("a push of another bucket stays away for %s", other)
	}
	if again := in.pauseAfter(lost, now.Add(time.Hour)); again != first {
		t.Errorf("an hour later one stays away for %s, want %s", again, first)
	}
	in.pauseAfter(errors.New("the store is away"), now)
	if in.trouble.wait(now) <= 0 {
		t.Error("trouble of the whole store holds nothing back")
	}
}
