package link

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPulse_NoticesThatTheProcessStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPulse(30 * time.Second)
		for range 100 {
			time.Sleep(PulseEvery) // of the bubble
			if p.StoodStill() || !p.Beat() {
				t.Fatal("a process that runs stood still")
			}
		}
		time.Sleep(30*time.Second + 1) // of the bubble
		if !p.StoodStill() {
			t.Fatal("half a minute without a beat was not noticed")
		}
		for range 2 { // whoever comes first after the pause, nobody makes it good
			if p.Beat() || !p.StoodStill() {
				t.Fatal("a beat after the pause hid it")
			}
		}
	})
}
