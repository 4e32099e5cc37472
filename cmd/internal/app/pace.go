package app

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// pace keeps how the last hour went, minute by minute, from the counters that the metrics of this instance have. It
// looks at them once a minute, and when somebody asks. Each minute it asks the others for all that they know, so that
// what an instance counted outlives it, but for its last minute.
type pace struct {
	a      *App
	gather prometheus.Gatherer // of what is in memory

	mu     sync.Mutex
	own    counted
	heard  map[counter]counted // what others counted, those that are gone too
	last   tally               // what the counters said
	minute int64               // of the last look
}

// counter is one run of an instance.
type counter struct {
	Instance string        `json:"instance"`
	Since    message.Milli `json:"since"`
}

// counted is what an instance counted until a time.
type counted struct {
	counter
	Until   message.Milli   `json:"until"`
	Minutes map[int64]tally `json:"minutes"` // by their number since 1970
	Bounds  []float64       `json:"bounds"`  // of lateness, in seconds
}

// tally is what was counted: what became of messages, as ops.Flows has it, and how late they left, by bucket.
type tally struct {
	Flows    [flows]uint64 `json:"flows"`
	Lateness []uint64      `json:"lateness"`
}

const (
	accepted = iota
	delivered
	canceled
	expired
	dead
	rejected
	rejectsDropped
	flows
)

// paceOf names the counters of each flow, and the value of their label where only one counts.
var paceOf = map[string]map[string]int{
	"tarry_accepted_total":        {"": accepted},
	"tarry_delivered_total":       {"": delivered},
	"tarry_leases_ended_total":    {"acked": delivered, "buried": dead, "used_up": dead},
	"tarry_cancels_total":         {"canceled": canceled, "maybe_delivered": canceled},
	"tarry_expired_total":         {"": expired},
	"tarry_dead_total":            {"": dead},
	"tarry_intake_rejected_total": {"": rejected},
	"tarry_rejects_dropped_total": {"": rejectsDropped},
}

// maxHeard bounds how many runs of other instances are kept: one that crashes again and again has many in an hour.
const maxHeard = 64

const (
	paceMinutes = 60
	paceStep    = int64(time.Minute / time.Millisecond)
)

// run looks at the end of each minute, and hears what the others counted.
func (p *pace) run(ctx context.Context) error {
	for {
		p.look()
		_, _ = p.hear(ctx) // who is silent has told it a minute ago
		left := paceStep - int64(p.a.clock.Milli())%paceStep
		if scheduler.Sleep(ctx, time.Duration(left)*time.Millisecond) != nil {
			return nil
		}
	}
}

// hear asks the others what they know, and returns whose counts are not all known by that.
func (p *pace) hear(ctx context.Context) (missing []string, err error) {
	return asked(ctx, p.a, askPace, func(_ string, told []counted) error { return p.learn(told) })
}

// learn keeps what is newer than what is known. It returns an error if it cannot compare all of it.
func (p *pace) learn(told []counted) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heard == nil {
		p.heard = map[counter]counted{}
	}
	for _, c := range told {
		if !slices.Equal(c.Bounds, p.own.Bounds) {
			err = errors.New("it counts lateness otherwise") // another version
		} else if c.counter != p.own.counter && c.Until > p.heard[c.counter].Until {
			p.heard[c.counter] = c
		}
	}
	maps.DeleteFunc(p.heard, func(_ counter, c counted) bool { return int64(c.Until)/paceStep <= p.minute-paceMinutes })
	for len(p.heard) > maxHeard {
		delete(p.heard, slices.MinFunc(slices.Collect(maps.Values(p.heard)), byUntil).counter)
	}
	return err
}

func byUntil(x, y counted) int { return cmp.Compare(x.Until, y.Until) }

// told returns all that this instance knows.
func (p *pace) told() []counted {
	own, _ := p.look()
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]counted{own}, slices.Collect(maps.Values(p.heard))...)
}

// look adds what was counted since the last look to the minute of that one. It returns all that was counted, and the
// minute in which it looked.
func (p *pace) look() (counted, int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	families, err := p.gather.Gather() // under the lock: counters never seem to go back
	at := p.a.clock.Milli()
	if p.own.Minutes == nil {
		p.own.counter = counter{p.a.cfg.Instance, at}
		p.own.Minutes, p.minute = map[int64]tally{}, int64(at)/paceStep
	}
	if now := (tally{}); err == nil { // else the next look has it
		p.own.Bounds = nil
		for _, f := range families {
			p.own.Bounds = append(p.own.Bounds, now.count(f)...)
		}
		p.own.Minutes[p.minute] = p.own.Minutes[p.minute].plus(&now, 1).plus(&p.last, -1)
		p.last = now
	}
	p.minute, p.own.Until = int64(at)/paceStep, at
	maps.DeleteFunc(p.own.Minutes, func(minute int64, _ tally) bool { return minute <= p.minute-paceMinutes })
	all := p.own
	all.Minutes = maps.Clone(all.Minutes)
	return all, p.minute
}

// count adds what a metric counts. It returns the bounds of lateness if it is that.
func (t *tally) count(f *dto.MetricFamily) (bounds []float64) {
	of := paceOf[f.GetName()]
	for _, m := range f.GetMetric() {
		if h := m.GetHistogram(); f.GetName() == "tarry_lateness_seconds" {
			below := uint64(0)
			for _, b := range h.GetBucket() {
				t.Lateness = append(t.Lateness, b.GetCumulativeCount()-below)
				bounds = append(bounds, b.GetUpperBound())
				below = b.GetCumulativeCount()
			}
			t.Lateness = append(t.Lateness, h.GetSampleCount()-below)
		}
		flow, counts := of[""]
		for _, label := range m.GetLabel() {
			if one, is := of[label.GetValue()]; is {
				flow, counts = one, true
			}
		}
		if counts {
			t.Flows[flow] += uint64(m.GetCounter().GetValue())
		}
	}
	return bounds
}

// plus returns the sum of two tallies or, with -1, their difference.
func (t tally) plus(other *tally, sign int) tally {
	for i, n := range other.Flows {
		t.Flows[i] += uint64(sign) * n
	}
	t.Lateness = append(slices.Clone(t.Lateness), make([]uint64, max(len(other.Lateness)-len(t.Lateness), 0))...)
	for i, n := range other.Lateness {
		t.Lateness[i] += uint64(sign) * n
	}
	return t
}

// hour tells how the last hour went on all instances.
func (p *pace) hour(ctx context.Context) (h ops.Hour, err error) {
	own, last := p.look()
	if h.Missing, err = p.hear(ctx); err != nil {
		return h, err
	}
	minutes, begin := make([]tally, paceMinutes), last-paceMinutes+1
	all := p.told()[1:]
	slices.SortFunc(all, func(x, y counted) int {
		return cmp.Or(cmp.Compare(x.Instance, y.Instance), cmp.Compare(x.Since, y.Since))
	})
	for _, c := range append([]counted{own}, all...) {
		for minute, t := range c.Minutes {
			if at := minute - begin; at >= 0 && at < paceMinutes {
				minutes[at] = minutes[at].plus(&t, 1)
			}
		}
		h.Instances = append(h.Instances, ops.SeriesOf{Instance: c.Instance, Since: c.Since})
	}
	h.From, h.StepMS = message.Milli(begin*paceStep), paceStep
	total := tally{}
	for _, t := range minutes {
		total = total.plus(&t, 1)
		for flow, list := range h.All() {
			*list = append(*list, int(t.Flows[flow]))
		}
		n, p50, p99 := t.late(own.Bounds)
		h.Late, h.P50MS, h.P99MS = append(h.Late, n), append(h.P50MS, p50), append(h.P99MS, p99)
	}
	for flow, n := range h.Sum.All() {
		*n = int(total.Flows[flow])
	}
	h.Sum.Late, h.Sum.P50MS, h.Sum.P99MS = total.late(own.Bounds)
	return h, nil
}

// late returns how many left late, and within how many ms half and 99 of 100 left.
func (t *tally) late(bounds []float64) (n int, p50, p99 float64) {
	all := uint64(0)
	for i, count := range t.Lateness {
		all += count
		if i >= len(bounds) || bounds[i] > scheduler.LateEvent.Seconds() {
			n += int(count)
		}
	}
	return n, t.within(bounds, float64(all)*.5), t.within(bounds, float64(all)*.99)
}

// within returns within how many ms so many left, as if those of a bucket were spread evenly in it, as Prometheus does.
// What is later than the last bound counts as at it.
func (t *tally) within(bounds []float64, wanted float64) float64 {
	low := 0.0
	for i, count := range t.Lateness {
		n := float64(count)
		switch {
		case wanted == 0:
			return 0
		case i == len(bounds):
			return low * 1000
		case n >= wanted:
			return math.Round((low+(bounds[i]-low)*wanted/n)*1e4) / 10
		}
		wanted, low = wanted-n, bounds[i]
	}
	return 0
}
