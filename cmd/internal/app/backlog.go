package app

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarry-mq/tarry/scheduler"
)

// backlog shows what waits, in the store and before it, to whoever scrapes the
// metrics. It asks when it is scraped, so that it costs nothing where nobody
// looks, and needs no leader: every instance shows the same figures. What gives
// no answer is left out, since an old figure would look like a good one.
type backlog struct {
	a *App

	mu   sync.Mutex
	at   time.Time // of the answers
	last []prometheus.Metric

	messages, overdue, oldest, intake, aside, rejects *prometheus.Desc
}

// backlogKeep is for how long scrapes share one look.
const backlogKeep = time.Second

func newBacklog(a *App) *backlog {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tarry_"+name, help+" The same from every instance.", labels, nil)
	}
	return &backlog{
		a:        a,
		messages: desc("messages", "Messages by state: waiting, in_flight or dead.", "state"),
		overdue: desc("overdue",
			"Messages that wait and are due, by what holds them: none, parked, paused or rate.", "held"),
		oldest: desc("overdue_seconds",
			"For how long the oldest message that waits has been due, by what holds it, however often it was tried "+
				"meanwhile; "+
				"one that NATS refused for good and that has a retry left counts from its next try (none).", "held"),
		intake: desc("intake_backlog", "Pushes by tag that are stored in the intake stream and not accepted yet."),
		aside: desc("intake_aside",
			"Of tarry_intake_backlog, the pushes whose bucket does not answer, or did not a moment ago."),
		rejects: desc("rejects", "Pushes by tag that stand in the stream of rejects."),
	}
}

// Describe says which metrics there are.
func (b *backlog) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{b.messages, b.overdue, b.oldest, b.intake, b.aside, b.rejects} {
		to <- d
	}
}

// Collect looks, or shows what was seen a moment ago.
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

// look asks the store and NATS at once.
func (b *backlog) look() (all []prometheus.Metric) {
	// A scrape has no context of its own; this bound is below what scrapers wait.
	ctx, cancel := context.WithTimeout(context.Background(), b.a.p.callTimeout)
	defer cancel()
	var streams []prometheus.Metric
	var wait sync.WaitGroup
	wait.Go(func() { streams = b.lookAtStreams(ctx) })
	all = b.lookAtStore(ctx)
	wait.Wait()
	return append(all, streams...)
}

func (b *backlog) lookAtStore(ctx context.Context) (all []prometheus.Metric) {
	if b.a.gate.isClosed() {
		return nil
	}
	now := b.a.clock.Milli()
	totals, err := b.a.p.store.Totals(ctx, now)
	if err != nil {
		return nil
	}
	var sum scheduler.Total
	for _, t := range totals {
		sum.Add(t)
	}
	gauge := func(d *prometheus.Desc, v float64, label string) {
		all = append(all, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, label))
	}
	waiting := 0
	for hold, w := range sum.Waiting {
		waiting += w.Count
		seconds := 0.0
		if w.Overdue > 0 {
			seconds = max(now.Time().Sub(w.Oldest.Time()).Seconds(), 0)
		}
		gauge(b.overdue, float64(w.Overdue), scheduler.Hold(hold).String())
		gauge(b.oldest, seconds, scheduler.Hold(hold).String())
	}
	gauge(b.messages, float64(waiting), scheduler.StateWaiting.String())
	gauge(b.messages, float64(sum.InFlight), scheduler.StateInFlight.String())
	gauge(b.messages, float64(sum.Dead), scheduler.StateDead.String())
	return all
}

func (b *backlog) lookAtStreams(ctx context.Context) []prometheus.Metric {
	held, err := b.a.intake.Held(ctx)
	if err != nil {
		return nil
	}
	return []prometheus.Metric{
		prometheus.MustNewConstMetric(b.intake, prometheus.GaugeValue, float64(held.Pushes)),
		prometheus.MustNewConstMetric(b.aside, prometheus.GaugeValue, float64(held.Aside)),
		prometheus.MustNewConstMetric(b.rejects, prometheus.GaugeValue, float64(held.Rejects)),
	}
}
