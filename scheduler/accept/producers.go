package accept

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Producers serves producers: it accepts pushes, on any instance.
type Producers struct {
	cfg     *scheduler.Core
	log     zerolog.Logger
	metrics *accepting
	queues  *coalescer
	names   *names
	hasten  func(bucket message.Bucket, earlier []scheduler.Earlier)
}

// NewProducers returns Producers, which says by hasten which orders begin earlier. Serve must run for pushes to be
// answered.
func NewProducers(core *scheduler.Core, hasten func(bucket message.Bucket, earlier []scheduler.Earlier)) *Producers {
	s := &Producers{cfg: core, log: core.Log, metrics: newAccepting(core.Registerer), hasten: hasten}
	s.queues, s.names = newCoalescer(s), newNames(s)
	return s
}

// Serve flushes accepted pushes to the timeline until ctx ends; then it finishes what was queued and refuses the rest
// with ErrStopping.
func (s *Producers) Serve(ctx context.Context) {
	var group sync.WaitGroup
	if s.cfg.NamesKeep > 0 {
		for i := range s.names.queues {
			group.Go(func() { s.names.run(ctx, &s.names.queues[i]) })
		}
	}
	for bucket := range s.cfg.Timeline.Buckets() {
		group.Go(func() { s.queues.flush(ctx, bucket) })
	}
	group.Wait()
}

// accepting are the metrics of one instance: two in one process each register their own. Nothing is labeled by topic,
// since topics may be unique per message.
type accepting struct {
	accepted, duplicates, merged, refused, unjudged prometheus.Counter
	flushSeconds                                    prometheus.Histogram
}

func newAccepting(reg prometheus.Registerer) *accepting {
	auto := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: "tarry_" + name + "_total", Help: help})
	}
	return &accepting{
		accepted:   counter("accepted", "Messages accepted as new."),
		duplicates: counter("duplicates", "Pushes recognized as repeats of an accepted one."),
		merged:     counter("merged", "Pushes merged into a waiting message of the same name."),
		refused:    counter("refused", "Pushes that were refused or whose outcome is unknown."),
		unjudged: counter("names_unjudged",
			"Pushes that were accepted although the journal did not answer whether their name "+
				"was used before."),
		flushSeconds: auto.NewHistogram(prometheus.HistogramOpts{Name: "tarry_flush_seconds",
			Help:    "Duration of one call that stores a batch of pushes.",
			Buckets: prometheus.ExponentialBuckets(0.0002, 2, 14)}),
	}
}
