package steer

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Outlook counts what falls due in each step: exactly, from the orders of the store. What it says of topics and groups
// comes from a sample, which is all of them where they are few.
func (s *Scheduler) Outlook(ctx context.Context, q scheduler.OutlookQuery) (*scheduler.Outlook, error) {
	if err := s.cfg.Admit(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	from, until := q.Times[0], q.Times[len(q.Times)-1]
	counts, err := s.cfg.Timeline.Falls(ctx, q.Times)
	if err != nil {
		return nil, scheduler.Looked("count what falls due", err)
	}
	o := &scheduler.Outlook{Source: "store", Steps: make([]scheduler.Fall, len(counts))}
	for i, n := range counts {
		o.Steps[i] = scheduler.Fall{From: q.Times[i], Count: n}
	}
	if q.Topic == "" {
		if err := s.overdue(ctx, o, from-1); err != nil {
			return nil, err
		}
		if q.By == "" {
			return o, nil
		}
	}
	samples, err := s.cfg.Timeline.Sample(ctx, from, until, scheduler.MaxSample)
	if err != nil {
		return nil, scheduler.Looked("sample what falls due", err)
	}
	pauses, _, err := s.cfg.Timeline.Pauses(ctx)
	if err != nil {
		return nil, scheduler.Looked("list pauses", err)
	}
	late, err := s.limited(ctx)
	if err != nil {
		return nil, err
	}
	split(o, q, samples, s.cfg.Topics, pauses, late)
	return o, nil
}

// limited counts by pattern the messages that a rate holds back already, if any topic has a rate.
func (s *Scheduler) limited(ctx context.Context) (map[string]int, error) {
	late := map[string]int{}
	if !slices.ContainsFunc(s.cfg.Topics.All(), func(t *scheduler.Topic) bool { return t.Rate > 0 }) {
		return late, nil
	}
	for bucket := range s.cfg.Timeline.Buckets() {
		lanes, err := s.cfg.Timeline.Lanes(ctx, bucket)
		if err != nil {
			return nil, scheduler.Looked("list lanes", err)
		}
		for _, l := range lanes {
			if l.Lane.Kind() == message.LaneRate {
				late[l.Lane.Name()] += l.Count
			}
		}
	}
	return late, nil
}

// overdue counts what is due at a time and waits, whatever holds it back.
func (s *Scheduler) overdue(ctx context.Context, o *scheduler.Outlook, at message.Milli) error {
	totals, err := s.cfg.Timeline.Totals(ctx, at)
	o.Overdue, o.Held = new(int), map[string]int{}
	for _, t := range totals {
		for hold, w := range t.Waiting {
			if w.Overdue > 0 {
				*o.Overdue += w.Overdue
				o.Held[message.Hold(hold).String()] += w.Overdue
			}
		}
	}
	return scheduler.Looked("count what is due", err)
}

// sampled is a message of a sample that stands for others too, weight in all.
type sampled struct {
	due    message.Milli
	weight float64
	*kind
}

// kind is what the messages of a topic have in common.
type kind struct {
	topic string
	fits  bool             // it is asked for
	group string           // empty: none
	rated *scheduler.Topic // whose rate its messages wait for when they are due; nil: none
}

// split divides the counts of an outlook by a sample.
func split(o *scheduler.Outlook, q scheduler.OutlookQuery, samples []scheduler.Sample, topics *scheduler.Topics,
	pauses []scheduler.Pause, late map[string]int) {
	kinds := map[string]*kind{}
	kindOf := func(topic string) *kind {
		k := kinds[topic]
		if k == nil {
			t := topics.Of(topic)
			k = &kind{topic: topic, fits: q.Topic == "" || scheduler.Matches(q.Topic, topic), group: topic}
			if q.By == scheduler.ByPattern {
				k.group = cmp.Or(t, &scheduler.Topic{}).Pattern
			}
			if t != nil && t.Rate > 0 && scheduler.PauseOf(pauses, topic) == nil {
				k.rated = t // what is paused does not come
			}
			kinds[topic] = k
		}
		return k
	}
	steps, size := make([][]sampled, len(o.Steps)), scheduler.SampleSize{}
	for _, s := range samples {
		size.Read, size.Of = size.Read+len(s.Read), size.Of+s.Of
		for _, one := range s.Read {
			at, found := slices.BinarySearch(q.Times, one.Due)
			if !found {
				at--
			}
			steps[at] = append(steps[at], sampled{one.Due, float64(s.Of) / float64(len(s.Read)), kindOf(one.Topic)})
		}
	}
	size.Exact = size.Read >= size.Of
	o.Sample = &size
	weigh(o, steps)
	for _, t := range topics.All() {
		if slices.ContainsFunc(slices.Collect(maps.Values(kinds)), func(k *kind) bool { return k.fits && k.rated == t }) {
			lag(o, t, q.Times, steps, late[t.Pattern])
		}
	}
	if q.By == "" {
		return
	}
	o.Groups = largest(steps, q.Top)
	for i := range o.Steps {
		apportion(&o.Steps[i], o.Groups, steps[i])
	}
}

// weigh makes the weights of each step add up to its count, and leaves as the count those of what is asked for. Of a
// step of which nothing was read it takes the share of all steps.
func weigh(o *scheduler.Outlook, steps [][]sampled) {
	fits := func(all []sampled) (sum, fit float64) {
		for _, m := range all {
			sum += m.weight
			if m.fits {
				fit += m.weight
			}
		}
		return sum, fit
	}
	read, fit := fits(slices.Concat(steps...))
	for i, all := range steps {
		sum, part := fits(all)
		if sum == 0 {
			sum, part = read, fit
		}
		scale := float64(o.Steps[i].Count) / max(sum, 1)
		for n := range all {
			all[n].weight *= scale
		}
		o.Steps[i].Count = int(math.Round(part * scale))
		slices.SortFunc(all, func(x, y sampled) int {
			return cmp.Or(cmp.Compare(x.due, y.due), strings.Compare(x.topic, y.topic))
		})
	}
}

// largest returns the names of the largest groups, the largest first.
func largest(steps [][]sampled, top int) []string {
	sizes := map[string]float64{}
	for _, all := range steps {
		for _, m := range all {
			if m.fits && m.group != "" {
				sizes[m.group] += m.weight
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(sizes), func(x, y string) int {
		return cmp.Or(cmp.Compare(sizes[y], sizes[x]), strings.Compare(x, y))
	})
	return names[:min(len(names), top)]
}

// apportion divides a step's count among groups and others by their weights, with the largest remainders rounded up, so
// that the parts add up.
func apportion(step *scheduler.Fall, groups []string, all []sampled) {
	weights := make([]float64, len(groups)+1)
	for _, m := range all {
		if at := slices.Index(groups, m.group); m.fits && at >= 0 {
			weights[at] += m.weight
		} else if m.fits {
			weights[len(groups)] += m.weight
		}
	}
	parts, left := make([]int, len(weights)), step.Count
	order := make([]int, len(weights))
	for i, w := range weights {
		order[i], parts[i] = i, int(w)
		left -= parts[i]
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Compare(weights[y]-float64(parts[y]), weights[x]-float64(parts[x]))
	})
	if len(all) == 0 {
		order = order[len(groups):] // nothing of the step was read
	}
	for i := 0; left > 0; i++ {
		parts[order[i%len(order)]]++
		left--
	}
	step.Groups, step.Others = parts[:len(groups)], parts[len(groups)]
}

// lag says of the steps how far the rate of a pattern falls behind. The rate lets messages through as lead's pace does:
// a tenth of a second's at once, at least one. It begins with the messages that it holds back already, late. The
// messages of a sample that stand for others do not say when those are due, so they are spread over their step.
func lag(o *scheduler.Outlook, t *scheduler.Topic, times []message.Milli, steps [][]sampled, late int) {
	came, at := float64(late), times[0]
	if late > 0 {
		came += max(1, t.Rate/10) // it has nothing saved up
	}
	left := func(to message.Milli) float64 { // how many wait
		came = max(0, came-t.Rate*to.Time().Sub(at.Time()).Seconds())
		at = to
		return max(0, came-max(1, t.Rate/10))
	}
	wait := 0.0
	for i, all := range steps {
		most, any := wait, false
		for _, m := range all {
			if m.rated != t {
				continue
			}
			if any = true; o.Sample.Exact {
				left(m.due)
			}
			if came += m.weight; o.Sample.Exact {
				most = max(most, left(m.due))
			}
		}
		wait = left(times[i+1])
		if most = max(most, wait); !any {
			most = 0 // nothing of the step is late
		}
		if max(most, wait)/t.Rate >= lateFrom.Seconds() {
			o.Steps[i].Behind = append(o.Steps[i].Behind,
				scheduler.Behind{Name: t.Pattern, Left: int(math.Ceil(wait)), LateMS: int64(most / t.Rate * 1000)})
		}
	}
}

// lateFrom is how late messages must be for an outlook to say so.
const lateFrom = time.Second
