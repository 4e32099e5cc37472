package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarry-mq/tarry/bridge/api"
)

// checks exports what /readyz says, and how far the clocks are apart.
type checks struct {
	h                     *health
	ready, check, spreads *prometheus.Desc
}

func newChecks(h *health) *checks {
	return &checks{h,
		prometheus.NewDesc("tarry_ready", "1 if this instance takes pushes, else 0.", nil, nil),
		prometheus.NewDesc("tarry_check", "1 if the check of /readyz finds nothing amiss, else 0.", []string{"check"}, nil),
		prometheus.NewDesc("tarry_clock_spread_seconds", "How far the clocks that decide what is due are apart.", nil, nil),
	}
}

func (c *checks) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, to) }

func (c *checks) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	one := map[bool]float64{true: 1}
	checks := c.h.checks(context.Background())
	for _, check := range checks {
		gauge(c.check, one[check.Err == nil], check.Name)
	}
	_, ready := api.Amiss(checks)
	gauge(c.ready, one[ready])
	gauge(c.spreads, c.h.a.clock.Spread().Seconds())
}
