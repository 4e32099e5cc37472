package intake_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/bridgetest"
	"github.com/tarry-mq/tarry/bridge/intake"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
)

func TestClockSampler_KeepsNATSClockAtHand(t *testing.T) {
	t.Parallel()
	bridgetest.Servers(t, func(t *testing.T, server *lab.NATS) {
		nc := bridgetest.Connect(t, server.URL())
		bridgetest.Taking(t, intake.Config{Conn: nc, Namespace: "ns", Prefix: "delayed", Accept: nothing()})
		log := &bridgetest.LogBuffer{}
		clock := scheduler.NewClock(scheduler.System())
		sampler := intake.NewClockSampler(
			intake.ClockConfig{Conn: nc, Namespace: "ns", Clock: clock, Log: log.Logger()})
		bridgetest.RunFor(t, sampler.Run)
		lab.Eventually(t, 10*time.Second, func() error {
			at, ok := clock.Of(intake.ClockSource)
			if !ok {
				if log.Count("does not show its time") == 1 {
					return nil // 2.9
				}
				return fmt.Errorf("no sample, and no word about it: %s", log)
			}
			if off := time.Since(at).Abs(); off > time.Second {
				return fmt.Errorf("it is %s off", off)
			}
			return nil
		})
		if _, ok := clock.Of(intake.ClockSource); ok == strings.HasPrefix(nc.ConnectedServerVersion(), "2.9.") {
			t.Errorf("server %s: sampled %v", nc.ConnectedServerVersion(), ok)
		}
	})
}
