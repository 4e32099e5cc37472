package bridge

import "github.com/prometheus/client_golang/prometheus"

// intakeMetrics count the pushes by tag by what became of them.
type intakeMetrics struct {
	accepted, merged, repeated, retried prometheus.Counter
	rejected                            *prometheus.CounterVec
}

func newIntakeMetrics(reg prometheus.Registerer) intakeMetrics {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tarry_intake_pushes_total",
		Help: "Pushes by tag: accepted, merged (into a message that waited), repeated (seen before), or retried (given back to NATS for a while)."}, []string{"outcome"})
	m := intakeMetrics{
		accepted: vec.WithLabelValues("accepted"), merged: vec.WithLabelValues("merged"), repeated: vec.WithLabelValues("repeated"), retried: vec.WithLabelValues("retried"),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tarry_intake_rejected_total",
			Help: "Pushes by tag that went to the stream of rejects, by reason."}, []string{"reason"}),
	}
	if reg != nil {
		reg.MustRegister(vec, m.rejected)
	}
	return m
}
