package steer

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/accept"
	"github.com/tarry-mq/tarry/scheduler/pull"
)

// Scheduler accepts, hands out, looks up and steers messages, on any instance.
type Scheduler struct {
	*accept.Producers
	*pull.Consumers
	cfg             *scheduler.Core
	log             zerolog.Logger
	cancels, amends *prometheus.CounterVec
	burials         burials
}

// New checks the configuration and builds a Scheduler. Serve must run for pushes to be answered.
func New(cfg scheduler.Config) (*Scheduler, error) {
	core, err := scheduler.NewCore(cfg)
	if err != nil {
		return nil, err
	}
	consumers := pull.NewConsumers(core)
	s := &Scheduler{Producers: accept.NewProducers(core, consumers.Hasten), Consumers: consumers, cfg: core, log: core.Log}
	s.cancels = answers(core.Registerer, "cancels", "Cancels by answer.", scheduler.CancelUnknown, scheduler.CancelEnded)
	s.amends = answers(core.Registerer, "amends", "Reschedules, edits and runs by answer.", scheduler.AmendUnknown,
		scheduler.AmendTried)
	return s, nil
}

// code is the outcome of a change.
type code interface {
	~uint8
	String() string
}

// answers returns a counter for each of the codes. A series that exists from the start shows its first increase too.
func answers[C code](reg prometheus.Registerer, name, help string, first, last C) *prometheus.CounterVec {
	vec := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{Name: "tarry_" + name + "_total", Help: help},
		[]string{"answer"})
	for c := first; c <= last; c++ {
		vec.WithLabelValues(c.String())
	}
	return vec
}

// Serve flushes accepted pushes to the timeline until ctx ends; then it finishes what was queued and refuses the rest
// with ErrStopping.
func (s *Scheduler) Serve(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { s.cfg.Watch.Run(ctx) })
	group.Go(func() { s.Consumers.Serve(ctx) })
	group.Go(func() { s.Producers.Serve(ctx) })
	group.Wait()
	return nil
}
