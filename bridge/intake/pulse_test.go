package intake

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPulse_NoticesThatTheProcessStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(30 * time.Second)
		for range 100 {
			time.Sleep(pulseEvery) // of the bubble
			if p.stoodStill() || !p.beat() {
				t.Fatal("a process that runs stood still")
			}
		}
		time.Sleep(30*time.Second + 1) // of the bubble
		if !p.stoodStill() {
			t.Fatal("half a minute without a beat was not noticed")
		}
		for range 2 { // whoever comes first after the pause, nobody makes it good
			if p.beat() || !p.stoodStill() {
				t.Fatal("a beat after the pause hid it")
			}
		}
	})
}
