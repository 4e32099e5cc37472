package election

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics belong to one elector, so that two can run in one process with a registry each.
type metrics struct {
	leader        prometheus.Gauge
	term          prometheus.Gauge
	races         *prometheus.CounterVec
	ends          *prometheus.CounterVec
	sessionLosses prometheus.Counter
	renewal       prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tarry_leader", Help: "1 while this instance leads, else 0."}),
		term: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tarry_term", Help: "The last term this instance led under."}),
		races: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tarry_election_races_total", Help: "Attempts to become leader, by result: won, lost, failed."},
			[]string{"result"}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tarry_leadership_ends_total", Help: "Leaderships of this instance that ended, by reason."},
			[]string{"reason"}),
		sessionLosses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tarry_election_session_losses_total", Help: "ZooKeeper sessions or locks lost while running."}),
		renewal: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tarry_lease_renewal_seconds", Help: "Time for ZooKeeper to acknowledge a renewal of the lease.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 13)}),
	}
	for _, result := range []string{"won", "lost", "failed"} {
		m.races.WithLabelValues(result)
	}
	for _, why := range []ending{
		endDeadline, endExpired, endFenced, endResigned, endUnhealthy, endReturned, endStopped,
	} {
		m.ends.WithLabelValues(string(why))
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.leader, m.term, m.races, m.ends, m.sessionLosses, m.renewal} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) lead(term uint64) {
	m.leader.Set(1)
	m.term.Set(float64(term))
}

func (m *metrics) end(why ending) {
	m.leader.Set(0)
	m.ends.WithLabelValues(string(why)).Inc()
}
