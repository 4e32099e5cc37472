package bridge

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarry-mq/tarry/scheduler"
)

// publishMetrics counts outcomes by kind; nothing is labeled by subject.
type publishMetrics struct {
	outcomes [scheduler.Unknown + 1]prometheus.Counter
	streams  prometheus.Gauge
}

func newPublishMetrics(reg prometheus.Registerer) publishMetrics {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tarry_publishes_total",
		Help: "Publishes to NATS by outcome; every attempt counts."}, []string{"outcome"})
	m := publishMetrics{streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tarry_streams",
		Help: "Streams that messages can be delivered to."})}
	for kind, word := range [...]string{"delivered", "not_sent", "unanswered", "no_listener", "refused", "unknown"} {
		m.outcomes[kind] = vec.WithLabelValues(word)
	}
	if reg != nil {
		reg.MustRegister(vec, m.streams)
	}
	return m
}

func (m *publishMetrics) count(kind scheduler.OutcomeKind, n int) { m.outcomes[kind].Add(float64(n)) }
