package lead

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tarry-mq/tarry/scheduler"
)

// metrics belong to one instance. Nothing is labeled by topic, since topics may be unique per message.
type metrics struct {
	claimed, delivered, expired, dead prometheus.Counter
	returned, swept, missing          prometheus.Counter
	barred, early, lapsed             prometheus.Counter
	copies                            *prometheus.CounterVec
	failures                          *prometheus.CounterVec
	lateness                          prometheus.Histogram
	inFlight, parkedLanes             prometheus.Gauge
	stepSeconds                       prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	auto := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: "tarry_" + name + "_total", Help: help})
	}
	m := &metrics{
		claimed:   counter("claimed", "Messages claimed by this instance as leader."),
		delivered: counter("delivered", "Messages that NATS accepted."),
		expired:   counter("expired", "Messages that expired because their time to live had ended."),
		dead:      counter("dead", "Messages that NATS refused too often, or consumers sent back too often."),
		returned:  counter("returned", "Claimed messages that were returned to waiting."),
		swept:     counter("swept", "Messages claimed by an earlier leader that were swept back to waiting."),
		missing:   counter("missing", "Entries in a bucket's order that have no message."),
		barred: counter("transitions_refused",
			"Messages with a transition that a store refused, or with a damaged record, "+
				"found by this instance as leader."),
		early: counter("ends_forgotten_early",
			"Ends that were forgotten after a day although NATS or the journal was away."),
		lapsed: counter("leases_lapsed", "Leases that this instance as leader ended: their consumers did not answer."),
		copies: auto.NewCounterVec(prometheus.CounterOpts{Name: "tarry_copies_total",
			Help: "Copies of expired and dead messages to the subjects set for them, by outcome."}, []string{"kind"}),
		failures: auto.NewCounterVec(prometheus.CounterOpts{Name: "tarry_publish_failures_total",
			Help: "Publishes that did not succeed, by kind."}, []string{"kind"}),
		lateness: auto.NewHistogram(prometheus.HistogramOpts{Name: "tarry_lateness_seconds",
			Help: "Time from the due time to NATS's answer.", Buckets: []float64{.0005, .001, .0015, .002, .003, .005,
				.01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600}}),
		inFlight: auto.NewGauge(
			prometheus.GaugeOpts{Name: "tarry_in_flight", Help: "Messages in flight on this instance."}),
		parkedLanes: auto.NewGauge(
			prometheus.GaugeOpts{Name: "tarry_parked_lanes", Help: "Parked lanes, summed over buckets."}),
		stepSeconds: auto.NewHistogram(prometheus.HistogramOpts{Name: "tarry_step_seconds",
			Help: "Duration of one claim of the leader.", Buckets: prometheus.ExponentialBuckets(0.0002, 2, 14)}),
	}
	// A series that exists from the start shows its first increase too.
	for kind := scheduler.Delivered; kind <= scheduler.Unknown; kind++ {
		m.copies.WithLabelValues(kind.String())
		if kind != scheduler.Delivered {
			m.failures.WithLabelValues(kind.String())
		}
	}
	return m
}
