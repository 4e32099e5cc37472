package scheduler

import (
	"testing"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// hands are a machine's two clocks that a test moves by hand.
type hands struct {
	wall time.Time
	mono time.Duration
}

func (h *hands) local() Local {
	return Local{Wall: func() time.Time { return h.wall }, Mono: func() time.Duration { return h.mono }}
}

// pass lets real time go by.
func (h *hands) pass(d time.Duration) { h.wall, h.mono = h.wall.Add(d), h.mono+d }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// sampleAll gives the clock a fresh sample of each server's offset from true time.
func sampleAll(c *Clock, h *hands, truth time.Time, offsets map[string]time.Duration) {
	for source, offset := range offsets {
		c.Sample(source, truth.Add(offset), h.mono-2*time.Millisecond, h.mono)
	}
}

func TestClock_OneOfThreeMayJumpAndNothingIsEarly(t *testing.T) {
	for name, jump := range map[string]time.Duration{"ahead": time.Hour, "back": -time.Hour} {
		for _, who := range []string{"own", "redis", "nats"} {
			h := &hands{wall: noon}
			c := NewClock(h.local())
			offsets := map[string]time.Duration{"redis": -time.Millisecond, "nats": -time.Millisecond}
			sampleAll(c, h, noon, offsets)
			h.pass(time.Second)
			truth := noon.Add(time.Second)
			switch who {
			case "own":
				h.wall = h.wall.Add(jump)
			default:
				offsets[who] = jump
			}
			sampleAll(c, h, truth, offsets)
			got := c.Now()
			if late := truth.Sub(got); late < 0 || late > 5*time.Millisecond {
				t.Errorf("%s jumped %s: now is %s off the truth", who, name, -late)
			}
			if c.Spread() < 59*time.Minute {
				t.Errorf("%s jumped %s: spread %s raises no alarm", who, name, c.Spread())
			}
		}
	}
}

func TestClock_IsTheOwnClockWhereTheServersAgree(t *testing.T) {
	h := &hands{wall: noon}
	c := NewClock(h.local())
	// The servers' clocks are right, their answers took up to 40 ms.
	c.Sample("redis", noon.Add(-30*time.Millisecond), -40*time.Millisecond, 0)
	c.Sample("nats", noon.Add(-time.Millisecond), -5*time.Millisecond, 0)
	h.pass(3 * time.Second)
	if got := c.Now(); !got.Equal(h.wall) {
		t.Fatalf("now is %s off the wall clock", got.Sub(h.wall))
	}
}

// An answer that took long leaves room for a wall clock that is ahead. It counts only for what it tells for sure,
// beside what those before told.
func TestClock_MakesNothingEarlyByAnAnswerThatTookLong(t *testing.T) {
	for name, before := range map[string]time.Duration{"with one from before": time.Second, "alone": time.Hour} {
		h := &hands{wall: noon.Add(300 * time.Millisecond)}
		c := NewClock(h.local())
		sampleAll(c, h, noon, map[string]time.Duration{"redis": 0, "nats": 0})
		h.pass(before)
		truth := noon.Add(before)
		c.Sample("redis", truth, h.mono, h.mono)
		c.Sample("nats", truth.Add(-500*time.Millisecond), h.mono-time.Second, h.mono)
		if now := c.Now(); now.After(truth) || truth.Sub(now) > agreeRTT {
			t.Errorf("%s: now is %s off the truth", name, now.Sub(truth))
		}
		if vote, _ := c.Of("nats"); name == "alone" != (truth.Sub(vote) > agreeRTT) {
			t.Errorf("%s: nats's clock is taken for %s off the truth", name, vote.Sub(truth))
		}
		if name == "with one from before" { // however long one answer after the other takes
			for range 5 {
				h.pass(3 * time.Second)
				truth = truth.Add(3 * time.Second)
				c.Sample("redis", truth, h.mono, h.mono)
				c.Sample("nats", truth.Add(-1200*time.Millisecond), h.mono-1600*time.Millisecond, h.mono)
				if vote, ok := c.Of("nats"); !ok || truth.Sub(vote) > agreeRTT || c.Spread() > time.Second {
					t.Errorf("%s: nats's clock is taken for %s off the truth, all are %s apart", name, vote.Sub(truth), c.Spread())
				}
			}
		}
		h.pass(time.Second)
		c.Sample("nats", truth.Add(-time.Hour), h.mono-time.Second, h.mono)
		if vote, _ := c.Of("nats"); vote.After(truth.Add(-time.Minute)) {
			t.Errorf("%s: a step back by an hour is not seen: %s", name, vote.Sub(truth))
		}
	}
}

// A wall clock that is off by less than the slack agrees with the servers, and makes nothing early all the same.
func TestClock_MakesNothingEarlyByTheSlack(t *testing.T) {
	for _, off := range []time.Duration{clockSlack / 2, -clockSlack / 2} {
		h := &hands{wall: noon.Add(off)}
		c := NewClock(h.local())
		for _, source := range []string{"redis", "nats"} {
			c.Sample(source, noon, h.mono, h.mono)
		}
		if now, latest := c.Now(), c.Latest(); now.After(noon) || latest.Before(noon) {
			t.Errorf("%s off: now is %s off the servers' time, and the latest %s", off, now.Sub(noon), latest.Sub(noon))
		}
	}
}

// A process that was suspended has no fresh sample, and a wall clock that may be off.
func TestClock_MakesNothingEarlyAfterASuspension(t *testing.T) {
	for _, off := range []time.Duration{500 * time.Millisecond, -500 * time.Millisecond} {
		h := &hands{wall: noon.Add(off)}
		c := NewClock(h.local())
		sampleAll(c, h, noon, map[string]time.Duration{"redis": 0, "nats": 0})
		h.pass(time.Minute)
		truth := noon.Add(time.Minute)
		if now, latest := c.Now(), c.Latest(); now.After(truth) || latest.Before(truth) {
			t.Errorf("%s off: now is %s off the servers, and the latest %s", off, now.Sub(truth), latest.Sub(truth))
		}
		c.Forget("redis")
		c.Forget("nats")
		if now := c.Now(); !now.Equal(h.wall) {
			t.Errorf("without servers now is %s off the wall clock", now.Sub(h.wall))
		}
	}
}

func TestClock_CountsADelayFromNoEarlierThanTheTruth(t *testing.T) {
	for name, c := range map[string]struct {
		samples map[string]time.Duration // by how much a server's answer was on the way back; all of it, or none
		ahead   time.Duration            // the wall clock was read that much after the monotonic one
	}{
		"all agree": {
			map[string]time.Duration{"redis": 40 * time.Millisecond, "nats": 30 * time.Millisecond}, 0},
		"read in two steps": {map[string]time.Duration{"redis": 40 * time.Millisecond,
			"nats": 30 * time.Millisecond}, 70 * time.Millisecond},
		"with one server": {map[string]time.Duration{"redis": 40 * time.Millisecond}, 70 * time.Millisecond},
		"with none":       {nil, 70 * time.Millisecond},
		"one answer came at once": {map[string]time.Duration{"redis": 500 * time.Millisecond, "nats": 0},
			5 * time.Millisecond},
		"both answers came at once": {map[string]time.Duration{"redis": 0, "nats": 0}, 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hands{wall: noon}
			clock := NewClock(h.local())
			for source, back := range c.samples {
				clock.Sample(source, noon.Add(-back), -back, 0)
			}
			h.pass(3 * time.Second)
			truth := h.wall
			h.wall = h.wall.Add(c.ahead)
			latest, now := clock.Latest(), clock.Now()
			if early := truth.Sub(latest); early > 0 {
				t.Errorf("a delay would count from %s too early", early)
			}
			if ahead := latest.Sub(truth); ahead > max(c.ahead, 500*time.Millisecond) {
				t.Errorf("a delay would count from %s too late", ahead)
			}
			if now.After(latest) || now.After(truth.Add(c.ahead)) {
				t.Errorf("now is %s, latest %s, the truth %s", now, latest, truth)
			}
		})
	}
}

func TestClock_OneServerFarOffMovesNoDelay(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		h := &hands{wall: noon}
		c := NewClock(h.local())
		sampleAll(c, h, noon, map[string]time.Duration{"redis": off, "nats": 0})
		h.pass(time.Second)
		if got := c.Latest().Sub(h.wall); got < 0 || got > 5*time.Millisecond {
			t.Errorf("redis is %s off: a delay would count from %s off", off, got)
		}
	}
}

// Of two clocks nobody knows which is right. Whoever accepts may have the slow one, and whoever dispatches not.
func TestClock_OfTwoADelayCountsFromTheLater(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		h := &hands{wall: noon}
		c := NewClock(h.local())
		sampleAll(c, h, noon, map[string]time.Duration{"redis": off})
		h.pass(time.Second)
		if early := h.wall.Add(max(off, 0)).Sub(c.Latest()); early > 0 {
			t.Errorf("with a server %s off a delay would count from %s before the later clock", off, early)
		}
		if late := c.Now().Sub(h.wall.Add(min(off, 0))); late > 0 {
			t.Errorf("with a server %s off now is %s after the earlier clock", off, late)
		}
	}
}

func TestClock_DistrustsAStepWhileAlone(t *testing.T) {
	h := &hands{wall: noon}
	c := NewClock(h.local())
	h.pass(time.Second)
	h.wall = h.wall.Add(time.Hour)
	if got, want := c.Now(), noon.Add(time.Second); !got.Equal(want) {
		t.Fatalf("after a step: %s, want %s", got, want)
	}
	h.pass(time.Minute)
	if got, want := c.Now(), noon.Add(61*time.Second); !got.Equal(want) {
		t.Fatalf("a minute later: %s, want %s", got, want)
	}
	h.pass(stepTrust)
	if got := c.Now(); !got.Equal(h.wall) {
		t.Fatalf("the step was real and is never believed: %s, want %s", got, h.wall)
	}
}

func TestClock_OfTwoTheEarlierCounts(t *testing.T) {
	h := &hands{wall: noon}
	c := NewClock(h.local())
	c.Sample("redis", noon.Add(-10*time.Second), 0, 0)
	if got, want := c.Now(), noon.Add(-10*time.Second); !got.Equal(want) {
		t.Fatalf("got %s, want %s", got, want)
	}
	h.pass(sampleLife + time.Millisecond) // an old sample does not vote, and the own clock is not ahead of it
	if got, want := c.Now(), h.wall.Add(-10*time.Second); !got.Equal(want) || c.Votes() != 1 {
		t.Fatalf("got %s by %d votes, want %s", got, c.Votes(), want)
	}
	if _, fresh := c.Of("redis"); fresh {
		t.Fatal("an old sample is called fresh")
	}
}

func TestMilli_RoundsDueUp(t *testing.T) {
	at := noon.Add(time.Microsecond)
	if got, want := message.CeilMilli(at), message.Milli(noon.UnixMilli()+1); got != want {
		t.Fatalf("CeilMilli: %d, want %d", got, want)
	}
	if got := message.CeilMilli(noon); got != message.Milli(noon.UnixMilli()) {
		t.Fatalf("CeilMilli of a whole millisecond: %d", got)
	}
	if got := message.Milli(5).Add(1500 * time.Microsecond); got != 7 {
		t.Fatalf("Add: %d, want 7", got)
	}
}

func TestClock_KnowsWhichServersReportedTheTime(t *testing.T) {
	mono := time.Duration(0)
	c := NewClock(Local{Wall: time.Now, Mono: func() time.Duration { return mono }})
	if c.Knew("nats") {
		t.Error("no server has reported the time yet")
	}
	c.Sample("nats", time.Now(), 0, 0)
	mono = time.Hour
	if _, fresh := c.Of("nats"); fresh || !c.Knew("nats") {
		t.Error("an old sample is fresh, or was forgotten with its clock")
	}
	if c.Forget("nats"); c.Knew("nats") {
		t.Error("the clock still waits for a server that reports no time")
	}
}

func TestClock_TellsHowManyVoteAndWhatTheyDispute(t *testing.T) {
	h := &hands{wall: noon}
	c := NewClock(h.local())
	if n := c.Votes(); n != 1 {
		t.Errorf("alone, %d vote", n)
	}
	c.Sample("redis", noon.Add(-time.Hour), 0, 0)
	due := message.CeilMilli(noon.Add(-time.Minute))
	if n := c.Votes(); n != 2 || !c.Disputes(due) || c.Disputes(due.Add(-time.Hour)) || c.Disputes(due.Add(time.Hour)) {
		t.Errorf("%d vote; a minute ago is disputed: %v", n, c.Disputes(due))
	}
	c.Sample("nats", noon, 0, 0)
	if n := c.Votes(); n != Voters || c.Disputes(due) {
		t.Errorf("%d vote; a minute ago is disputed: %v", n, c.Disputes(due))
	}
}
