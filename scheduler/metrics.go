package scheduler

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics belong to one instance: two instances in one process each register their own. Nothing is labeled by topic,
// since topics may be unique per message.
type metrics struct {
	accepted, duplicates, merged, refused prometheus.Counter
	unjudged                              prometheus.Counter
	flushSeconds                          prometheus.Histogram
	cancels, amends                       *prometheus.CounterVec

	polls       prometheus.Gauge
	pulled      prometheus.Counter
	leasesEnded *prometheus.CounterVec
	wakeSeconds prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	auto := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: "tarry_" + name + "_total", Help: help})
	}
	m := &metrics{
		accepted:   counter("accepted", "Messages accepted as new."),
		duplicates: counter("duplicates", "Pushes recognized as repeats of an accepted one."),
		merged:     counter("merged", "Pushes merged into a waiting message of the same name."),
		refused:    counter("refused", "Pushes that were refused or whose outcome is unknown."),
		unjudged: counter("names_unjudged",
			"Pushes that were accepted although the journal did not answer whether their name "+
				"was used before."),
		flushSeconds: auto.NewHistogram(prometheus.HistogramOpts{Name: "tarry_flush_seconds",
			Help:    "Duration of one call that stores a batch of pushes.",
			Buckets: prometheus.ExponentialBuckets(0.0002, 2, 14)}),
		polls: auto.NewGauge(prometheus.GaugeOpts{Name: "tarry_polls",
			Help: "Polls of consumers that wait on this instance."}),
		pulled: counter("pulled", "Messages leased to consumers that pull."),
		leasesEnded: auto.NewCounterVec(prometheus.CounterOpts{Name: "tarry_leases_ended_total",
			Help: "Leases that consumers ended, by how."}, []string{"how"}),
		wakeSeconds: auto.NewHistogram(prometheus.HistogramOpts{Name: "tarry_wake_seconds",
			Help:    "Time from due until a message was leased to a poll that waited for it.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}),
		cancels: auto.NewCounterVec(
			prometheus.CounterOpts{Name: "tarry_cancels_total", Help: "Cancels by answer."}, []string{"answer"}),
		amends: auto.NewCounterVec(prometheus.CounterOpts{Name: "tarry_amends_total",
			Help: "Reschedules, edits and runs by answer."}, []string{"answer"}),
	}
	// A series that exists from the start shows its first increase too.
	for vec, words := range map[*prometheus.CounterVec][]string{m.cancels: cancelWords, m.amends: amendWords,
		m.leasesEnded: slices.Sorted(maps.Values(endedHow))} {
		for _, word := range words {
			vec.WithLabelValues(word)
		}
	}
	return m
}

// word returns the word of a code or a kind.
func word[C ~uint8](words []string, c C) string {
	if int(c) < len(words) {
		return words[c]
	}
	return "invalid"
}
