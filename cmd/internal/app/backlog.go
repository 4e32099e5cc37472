package app

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// backlog reports the waiting messages, in the store and before it, as metrics. It reads them at each scrape, so that
// it costs nothing without scrapes, and needs no leader: every instance reports the same figures. A figure that cannot
// be read is omitted, since an old figure would look like a current one.
type backlog struct {
	a *App

	mu   sync.Mutex
	at   time.Time // of the answers
	last []prometheus.Metric

	messages, leased, overdue, oldest, intake, aside, rejects *prometheus.Desc
}

// backlogKeep is how long scrapes share one reading.
const backlogKeep = time.Second

func newBacklog(a *App) *backlog {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tarry_"+name, help+" The same from every instance.", labels, nil)
	}
	return &backlog{
		a:        a,
		messages: desc("messages", "Messages by state: waiting, ready, in_flight or dead.", "state"),
		leased:   desc("leased", "Messages that consumers have leased. They are in_flight."),
		overdue: desc("overdue",
			"Messages that wait and are due, by what holds them: none, parked, paused, rate or pull, which is "+
				"that no consumer has pulled them yet.", "held"),
		oldest: desc("overdue_seconds",
			"For how long the oldest waiting message has been due, by what holds it (none, parked, paused, rate, pull, or a "+
				"clock that disagrees), however often it was tried "+
				"meanwhile. A message that NATS permanently refused and that will be retried counts from its next try "+
				"(none).", "held"),
		intake: desc("intake_backlog", "Pushes by tag that are stored in the intake stream and not accepted yet."),
		aside: desc("intake_aside",
			"Pushes of tarry_intake_backlog whose bucket does not answer, or did not a moment ago."),
		rejects: desc("rejects", "Pushes by tag in the stream of rejects."),
	}
}

// Describe describes the metrics.
func (b *backlog) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{b.messages, b.leased, b.overdue, b.oldest, b.intake, b.aside, b.rejects} {
		to <- d
	}
}

// Collect reads the figures, or reports those read a moment ago.
func (b *backlog) Collect(to chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.at) > backlogKeep {
		b.last, b.at = b.look(), time.Now()
	}
	for _, m := range b.last {
		to <- m
	}
}

// look reads the store and NATS concurrently.
func (b *backlog) look() (all []prometheus.Metric) {
	// A scrape has no context of its own; this bound is below the usual time-out of scrapers.
	ctx, cancel := context.WithTimeout(context.Background(), b.a.callTimeout())
	defer cancel()
	var streams []prometheus.Metric
	var wait sync.WaitGroup
	wait.Go(func() { streams = b.lookAtStreams(ctx) })
	all = b.lookAtStore(ctx)
	wait.Wait()
	return append(all, streams...)
}

func (b *backlog) lookAtStore(ctx context.Context) (all []prometheus.Metric) {
	if b.a.gate.admit() != nil {
		return nil
	}
	now := b.a.clock.Milli()
	totals, err := b.a.store.Totals(ctx, now)
	if err != nil {
		return nil
	}
	var sum scheduler.Total
	for _, t := range totals {
		sum.Add(t)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		all = append(all, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...))
	}
	waiting := 0
	for hold, w := range sum.Waiting {
		waiting += w.Count
		seconds := 0.0
		if w.Overdue > 0 {
			seconds = max(now.Time().Sub(w.Oldest.Time()).Seconds(), 0)
		}
		gauge(b.overdue, float64(w.Overdue), message.Hold(hold).String())
		gauge(b.oldest, seconds, message.Hold(hold).String())
	}
	gauge(b.oldest, b.disputed(ctx, now, &sum), "clock")
	ready := sum.Waiting[message.HoldPull].Overdue
	gauge(b.messages, float64(waiting-ready), message.StateWaiting.String())
	gauge(b.messages, float64(ready), message.StateReady.String())
	gauge(b.leased, float64(sum.Leased))
	gauge(b.messages, float64(sum.InFlight), message.StateInFlight.String())
	gauge(b.messages, float64(sum.Dead), message.StateDead.String())
	return all
}

// disputed returns for how long a message has been due by one clock and, because they disagree, not by the one that
// decides.
func (b *backlog) disputed(ctx context.Context, now message.Milli, due *scheduler.Total) float64 {
	latest := message.Milli(b.a.clock.Latest().UnixMilli())
	if latest-now < clockDispute {
		return 0
	}
	totals, err := b.a.store.Totals(ctx, latest)
	if err != nil {
		return 0
	}
	var sum scheduler.Total
	for _, t := range totals {
		sum.Add(t)
	}
	by := sum.Waiting[message.HoldNone]
	if by.Overdue <= due.Waiting[message.HoldNone].Overdue {
		return 0
	}
	return float64(latest-max(by.Oldest, now)) / 1000
}

// clockDispute is how far the clocks must be apart before messages count as held by them, in ms.
const clockDispute message.Milli = 100

func (b *backlog) lookAtStreams(ctx context.Context) []prometheus.Metric {
	held, err := b.a.contents.Held(ctx)
	if err != nil {
		return nil
	}
	return []prometheus.Metric{
		prometheus.MustNewConstMetric(b.intake, prometheus.GaugeValue, float64(held.Pushes)),
		prometheus.MustNewConstMetric(b.aside, prometheus.GaugeValue, float64(held.Aside)),
		prometheus.MustNewConstMetric(b.rejects, prometheus.GaugeValue, float64(held.Rejects)),
	}
}
