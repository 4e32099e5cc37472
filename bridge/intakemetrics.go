package bridge

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarry-mq/tarry/scheduler"
)

// intakeMetrics count the pushes by tag by what became of them.
type intakeMetrics struct {
	accepted, merged, repeated, retried, aside prometheus.Counter
	rejected                                   *prometheus.CounterVec
	renewed                                    prometheus.Counter
}

func newIntakeMetrics(reg prometheus.Registerer) intakeMetrics {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tarry_intake_pushes_total",
		Help: "Pushes by tag: accepted, merged (into a message that waited), repeated (seen before), retried (given " +
			"back to NATS for a while), " +
			"or aside (their bucket does not answer)."}, []string{"outcome"})
	m := intakeMetrics{
		accepted: vec.WithLabelValues("accepted"), merged: vec.WithLabelValues("merged"),
		repeated: vec.WithLabelValues("repeated"), retried: vec.WithLabelValues("retried"),
		aside: vec.WithLabelValues("aside"),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tarry_intake_rejected_total",
			Help: "Pushes by tag that went to the stream of rejects, by reason."}, []string{"reason"}),
		renewed: prometheus.NewCounter(prometheus.CounterOpts{Name: "tarry_intake_consumer_renewed_total",
			Help: "How often the intake's consumer was made anew, because NATS came back with a stream that is " +
				"older than it."}),
	}
	if reg != nil {
		reg.MustRegister(vec, m.rejected, m.renewed)
	}
	return m
}

// count counts a push that was accepted.
func (m *intakeMetrics) count(a scheduler.Accepted) {
	switch {
	case a.Duplicate:
		m.repeated.Inc()
	case a.Merged:
		m.merged.Inc()
	default:
		m.accepted.Inc()
	}
}
