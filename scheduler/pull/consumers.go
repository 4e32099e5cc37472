package pull

import (
	"context"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Consumers serves consumers that pull, on any instance.
type Consumers struct {
	cfg     *scheduler.Core
	metrics *pulls
	pauses  knownPauses
	polls   polls
}

// NewConsumers returns Consumers. Serve must run for what is given back.
func NewConsumers(core *scheduler.Core) *Consumers {
	s := &Consumers{cfg: core, metrics: newPulls(core.Registerer)}
	s.pauses.turn = scheduler.NewTurn()
	s.polls = polls{s: s, lines: map[string]*line{}, undone: map[undoing]message.Milli{}}
	return s
}

// Serve undoes leases that were given back, and has polls look from time to time, until ctx ends.
func (s *Consumers) Serve(ctx context.Context) { s.polls.run(ctx) }

// pulls are the metrics of one instance.
type pulls struct {
	polls       prometheus.Gauge
	pulled      prometheus.Counter
	leasesEnded *prometheus.CounterVec
	wakeSeconds prometheus.Histogram
}

func newPulls(reg prometheus.Registerer) *pulls {
	auto := promauto.With(reg)
	m := &pulls{
		polls: auto.NewGauge(prometheus.GaugeOpts{Name: "tarry_polls",
			Help: "Polls of consumers that wait on this instance."}),
		pulled: auto.NewCounter(prometheus.CounterOpts{Name: "tarry_pulled_total",
			Help: "Messages leased to consumers that pull."}),
		leasesEnded: auto.NewCounterVec(prometheus.CounterOpts{Name: "tarry_leases_ended_total",
			Help: "Leases that consumers ended, by how."}, []string{"how"}),
		wakeSeconds: auto.NewHistogram(prometheus.HistogramOpts{Name: "tarry_wake_seconds",
			Help:    "Time from due until a message was leased to a poll that waited for it.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}),
	}
	// A series that exists from the start shows its first increase too.
	for _, how := range append(slices.Sorted(maps.Values(endedHow)), usedUp) {
		m.leasesEnded.WithLabelValues(how)
	}
	return m
}
