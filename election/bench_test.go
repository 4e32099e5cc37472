package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// pollEvery is what polling instead of watching would take for a hand-over within 100 ms.
const pollEvery = 50 * time.Millisecond

// BenchmarkPollInstead is the price of polling for the leader znode, which standbys do not do: processor time of this
// process, the server's not included, and its share of a core.
func BenchmarkPollInstead(b *testing.B) {
	zoo := lab.SharedZooKeeper(b)
	cfg, err := NodeConfig{Servers: []string{zoo.Addr}, Namespace: "poll", Instance: "a"}.complete()
	if err != nil {
		b.Fatal(err)
	}
	news := make(chan struct{}, 1)
	s, err := openSession(realOpener(cfg, cfg.Log), timing(cfg.Session), 1, func() { raise(news) })
	if err != nil {
		b.Fatal(err)
	}
	defer s.close()
	for !s.up() {
		<-news
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	before := processorTime(b)
	b.ReportAllocs()
	for b.Loop() {
		<-tick.C
		if _, err := s.exists(b.Context(), "/tarry/poll/leader"); err != nil {
			b.Fatal(err)
		}
	}
	used := processorTime(b) - before
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(100*used.Seconds()/b.Elapsed().Seconds(), "core-%")
}

// BenchmarkIdleStandby is a second in the life of a standby that has nothing to do: its looks, its member znode, its
// health checks.
func BenchmarkIdleStandby(b *testing.B) {
	zoo := lab.SharedZooKeeper(b)
	z, err := NewNode(NodeConfig{
		Servers: []string{zoo.Addr}, Namespace: "idle", Instance: "a",
		Healthy: func() error { return errors.New("never stands") },
	})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := z.Race(RaceConfig{Lead: idle}); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- z.Run(ctx) }()
	defer func() {
		stop()
		if err := <-stopped; err != nil {
			b.Error(err)
		}
	}()
	lab.Eventually(b, 10*time.Second, func() error {
		_, err := z.Members(ctx)
		return err
	})
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	before := processorTime(b)
	for b.Loop() {
		<-tick.C
	}
	b.ReportMetric(100*(processorTime(b)-before).Seconds()/b.Elapsed().Seconds(), "core-%")
}

// BenchmarkHandOver is the time from Resign to the standby's lead being called, with the default session.
func BenchmarkHandOver(b *testing.B) {
	zoo := lab.SharedZooKeeper(b)
	type beginning struct {
		who int
		at  time.Time
	}
	began := make(chan beginning)
	var nodes [2]*Node
	var races [2]*Race
	ctx, stop := context.WithCancel(b.Context())
	stopped := make(chan error, len(nodes))
	for i := range nodes {
		z, err := NewNode(NodeConfig{
			Servers: []string{zoo.Addr}, Namespace: "handover", Instance: []string{"a", "b"}[i],
		})
		if err != nil {
			b.Fatal(err)
		}
		nodes[i] = z
		races[i], err = z.Race(RaceConfig{Lead: func(ctx context.Context, _ uint64) error {
			select {
			case began <- beginning{i, time.Now()}:
			case <-ctx.Done():
			}
			<-ctx.Done()
			return nil
		}})
		if err != nil {
			b.Fatal(err)
		}
		go func() { stopped <- z.Run(ctx) }()
	}
	defer func() {
		stop()
		for range nodes {
			if err := <-stopped; err != nil {
				b.Error(err)
			}
		}
	}()
	leads := (<-began).who
	lab.Eventually(b, 10*time.Second, func() error {
		_, err := nodes[1-leads].Members(ctx)
		return err
	})
	var took []time.Duration
	for b.Loop() {
		asked := time.Now()
		if err := races[leads].Resign(ctx, "benchmark"); err != nil {
			b.Fatal(err)
		}
		next := <-began
		leads = next.who
		took = append(took, next.at.Sub(asked))
		lab.Eventually(b, 10*time.Second, func() error { // else it still stays away, see backoff
			l := races[1-leads].lastKnown()
			if l.Instance != nodes[leads].cfg.Instance {
				return fmt.Errorf("knows leader %+v", l)
			}
			return nil
		})
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
