package bridge

import (
	"testing"
	"time"
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

func TestAck_OnlySaysDoneWhenToldSo(t *testing.T) {
	t.Parallel()
	for later, want := range map[time.Duration]string{
		0: "-NAK", -time.Hour: "-NAK", time.Millisecond: `-NAK {"delay":1000000}`,
	} {
		if got := string((&ack{later: later}).again()); got != want {
			t.Errorf("later %s: got %s, want %s", later, got, want)
		}
	}
}
