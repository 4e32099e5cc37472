package election

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics belong to one race, so that two nodes can run in one process with a registry each.
type metrics struct {
	leader  prometheus.Gauge
	term    prometheus.Gauge
	races   *prometheus.CounterVec
	ends    *prometheus.CounterVec
	renewal prometheus.Histogram
	deposed prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	auto := promauto.With(r)
	m := &metrics{
		leader: auto.NewGauge(prometheus.GaugeOpts{
			Name: "tarry_leader", Help: "1 while this instance leads, else 0."}),
		term: auto.NewGauge(prometheus.GaugeOpts{
			Name: "tarry_term", Help: "The last term under which this instance led."}),
		races: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "tarry_election_races_total", Help: "Attempts to become leader, by result: won, lost, failed."},
			[]string{"result"}),
		ends: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "tarry_leadership_ends_total", Help: "Leaderships of this instance that ended, by reason."},
			[]string{"reason"}),
		renewal: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "tarry_lease_renewal_seconds", Help: "Time until ZooKeeper acknowledged a renewal of the lease.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 13)}),
	}
	m.deposed = auto.NewCounter(prometheus.CounterOpts{
		Name: "tarry_takeovers_total", Help: "Leaders whose place this instance opened because their link was cut."})
	for _, result := range []string{"won", "lost", "failed"} {
		m.races.WithLabelValues(result)
	}
	for _, why := range []ending{
		endDeadline, endExpired, endFenced, endResigned, endUnhealthy, endReturned, endStopped,
	} {
		m.ends.WithLabelValues(string(why))
	}
	return m
}

// newLosses returns the node's only metric.
func newLosses(r prometheus.Registerer) prometheus.Counter {
	return promauto.With(r).NewCounter(prometheus.CounterOpts{
		Name: "tarry_election_session_losses_total", Help: "ZooKeeper sessions lost while running."})
}

func newRefused(r prometheus.Registerer) prometheus.Counter {
	return promauto.With(r).NewCounter(prometheus.CounterOpts{
		Name: "tarry_peer_refused_total", Help: "Connections to the peer port that were refused: not a registered " +
			"instance's, or of one that does not know the present leadership."})
}

func (m *metrics) lead(term uint64) {
	m.leader.Set(1)
	m.term.Set(float64(term))
}

func (m *metrics) end(why ending) {
	m.leader.Set(0)
	m.ends.WithLabelValues(string(why)).Inc()
}
