package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// backlog reports the waiting messages, in the store and before it, as metrics. A figure that cannot be read is
// omitted, since an old figure would look like a current one.
type backlog struct {
	figures *figures

	messages, leased, overdue, oldest, intake, aside, rejects *prometheus.Desc
}

func newBacklog(f *figures) *backlog {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tarry_"+name, help+" The same from every instance.", labels, nil)
	}
	return &backlog{
		figures:  f,
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

// Collect reports the figures of the last second.
func (b *backlog) Collect(to chan<- prometheus.Metric) {
	// A scrape has no context of its own.
	read := b.figures.read(context.Background())
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if sum := read.sum; sum != nil {
		waiting := 0
		for hold, w := range sum.Waiting {
			waiting += w.Count
			seconds := 0.0
			if w.Overdue > 0 {
				seconds = max(read.at.Time().Sub(w.Oldest.Time()).Seconds(), 0)
			}
			gauge(b.overdue, float64(w.Overdue), message.Hold(hold).String())
			gauge(b.oldest, seconds, message.Hold(hold).String())
		}
		gauge(b.oldest, read.disputed, "clock")
		ready := sum.Waiting[message.HoldPull].Overdue
		gauge(b.messages, float64(waiting-ready), message.StateWaiting.String())
		gauge(b.messages, float64(ready), message.StateReady.String())
		gauge(b.leased, float64(sum.Leased))
		gauge(b.messages, float64(sum.InFlight), message.StateInFlight.String())
		gauge(b.messages, float64(sum.Dead), message.StateDead.String())
	}
	if held := read.held; held != nil {
		gauge(b.intake, float64(held.Pushes))
		gauge(b.aside, float64(held.Aside))
		gauge(b.rejects, float64(held.Rejects))
	}
}
