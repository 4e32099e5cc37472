package journal

import "github.com/prometheus/client_golang/prometheus"

type writerMetrics struct {
	rows, left, failures prometheus.Counter
	seconds              prometheus.Histogram
}

func newWriterMetrics(r prometheus.Registerer) *writerMetrics {
	m := &writerMetrics{
		rows: prometheus.NewCounter(prometheus.CounterOpts{Name: "tarry_journal_changes_total",
			Help: "Changes that this instance committed to the journal from memory."}),
		left: prometheus.NewCounter(prometheus.CounterOpts{Name: "tarry_journal_left_total",
			Help: "Outbox entries that this instance did not commit in time and left to the drainer."}),
		failures: prometheus.NewCounter(
			prometheus.CounterOpts{Name: "tarry_journal_failures_total", Help: "Commits to the journal that failed."}),
		seconds: prometheus.NewHistogram(
			prometheus.HistogramOpts{Name: "tarry_journal_commit_seconds", Help: "Time of one commit to the journal.",
				Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}),
	}
	if r != nil {
		r.MustRegister(m.rows, m.left, m.failures, m.seconds)
	}
	return m
}

type drainMetrics struct {
	drained, refused                    prometheus.Counter
	changes, bytes, oldest, quarantined prometheus.Gauge
}

func newDrainMetrics(r prometheus.Registerer) *drainMetrics {
	m := &drainMetrics{
		drained: prometheus.NewCounter(prometheus.CounterOpts{Name: "tarry_journal_drained_total",
			Help: "Changes that this instance read back from the outbox and committed."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "tarry_journal_refused_total",
			Help: "Outbox entries with a change that the journal refuses for good: it got the bare state, " +
				"or the entry is quarantined."}),
		changes: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tarry_journal_lag_changes",
			Help: "Changes in the outbox that are not in the journal yet: what losing Redis now could lose."}),
		bytes: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tarry_journal_lag_bytes",
			Help: "Bytes of the outbox that are not in the journal yet."}),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tarry_journal_lag_seconds",
			Help: "Age of the oldest change that is not in the journal yet."}),
		quarantined: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tarry_journal_quarantined",
			Help: "Outbox entries that the journal could not hold and that stand apart in the store: tarry verify " +
				"lists them."}),
	}
	if r != nil {
		r.MustRegister(m.drained, m.refused, m.changes, m.bytes, m.oldest, m.quarantined)
	}
	return m
}
