package bridge_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestClockSampler_KeepsNATSClockAtHand(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, server *lab.NATS) {
		nc := connect(t, server.URL())
		taking(t, bridge.IntakeConfig{Conn: nc, Namespace: "ns", Prefix: "delayed", Accept: nothing()})
		log := &logBuffer{}
		clock := scheduler.NewClock(scheduler.System())
		sampler, err := bridge.NewClockSampler(
			bridge.ClockConfig{Conn: nc, Namespace: "ns", Clock: clock, Log: log.logger()})
		if err != nil {
			t.Fatal(err)
		}
		runFor(t, sampler.Run)
		lab.Eventually(t, 10*time.Second, func() error {
			at, ok := clock.Of(bridge.ClockSource)
			if !ok {
				if log.count("does not show its time") == 1 {
					return nil // 2.9
				}
				return fmt.Errorf("no sample, and no word about it: %s", log)
			}
			if off := time.Since(at).Abs(); off > time.Second {
				return fmt.Errorf("it is %s off", off)
			}
			return nil
		})
		if _, ok := clock.Of(bridge.ClockSource); ok == strings.HasPrefix(nc.ConnectedServerVersion(), "2.9.") {
			t.Errorf("server %s: sampled %v", nc.ConnectedServerVersion(), ok)
		}
	})
}

func TestNudge_ReachesEveryInstanceAndKeepsTheEarliest(t *testing.T) {
	t.Parallel()
	url, ns := lab.SharedNATS(t).URL(), newNamespace()
	type head struct {
		bucket message.Bucket
		due    message.Milli
	}
	var mu sync.Mutex
	heard := [2]map[head]bool{{}, {}}
	var nudges [2]*bridge.Nudge
	for i := range nudges {
		var err error
		nudges[i], err = bridge.NewNudge(
			bridge.NudgeConfig{Conn: connect(t, url), Namespace: ns,
				Heard: func(bucket message.Bucket, due message.Milli) {
					mu.Lock()
					defer mu.Unlock()
					heard[i][head{bucket, due}] = true
				}})
		if err != nil {
			t.Fatal(err)
		}
		runFor(t, nudges[i].Run)
	}
	// Somebody else's text on the subject changes nothing.
	stranger := connect(t, url)
	lab.Eventually(t, 10*time.Second, func() error {
		if err := stranger.Publish("tarry."+ns+".nudge", []byte("hello")); err != nil {
			t.Fatal(err)
		}
		nudges[0].Announce(3, 2000)
		nudges[0].Announce(3, 1000)
		nudges[1].Announce(0, 5)
		mu.Lock()
		defer mu.Unlock()
		for i := range heard {
			if !heard[i][head{3, 1000}] || !heard[i][head{0, 5}] {
				return fmt.Errorf("instance %d heard %v", i, heard[i])
			}
		}
		return nil
	})
}

func FuzzDecodeNudge(f *testing.F) {
	f.Add(bridge.EncodeNudge(0, 0))
	f.Add(bridge.EncodeNudge(65535, 1896076800000))
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, b []byte) {
		bucket, due, err := bridge.DecodeNudge(b)
		if err != nil {
			return
		}
		if bucket < 0 || bucket > 65535 || due < 0 {
			t.Fatalf("got %d, %d", bucket, due)
		}
		if again := bridge.EncodeNudge(bucket, due); string(again) != string(b) {
			t.Fatalf("%x reads as %d, %d, which is written %x", b, bucket, due, again)
		}
	})
}
