package ops

import (
	"context"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Series is how the last hour went, minute by minute, the current one last. Each list has a number for each minute.
type Series struct {
	From   message.Milli `json:"from"` // when the first minute began
	StepMS int64         `json:"step_ms"`
	Flows[[]int]
	// Late counts those of Delivered that left on NATS more than a second after they were due, and P50MS and P99MS are
	// within how long after that half and 99 of 100 left, in ms, 0 where none did.
	Late  []int     `json:"late"`
	P50MS []float64 `json:"p50_ms"`
	P99MS []float64 `json:"p99_ms"`

	Instances []SeriesOf `json:"instances"` // whose counts these are
	Missing   []string   `json:"missing"`   // instances that did not answer
}

// Flows count what became of messages: minute by minute, or in sum.
type Flows[N any] struct {
	Accepted  N `json:"accepted"`
	Delivered N `json:"delivered"` // on NATS, or acknowledged by a consumer that pulled it
	Canceled  N `json:"canceled"`
	Expired   N `json:"expired"`
	Dead      N `json:"dead"`
	Rejected  N `json:"rejected"` // pushes by tag
	// RejectsDropped counts rejects that made room for newer ones.
	RejectsDropped N `json:"rejects_dropped"`
}

// All returns the counts, in the order of their names.
func (f *Flows[N]) All() []*N {
	return []*N{&f.Accepted, &f.Delivered, &f.Canceled, &f.Expired, &f.Dead, &f.Rejected, &f.RejectsDropped}
}

// SeriesOf is an instance, and since when it counts.
type SeriesOf struct {
	Instance string        `json:"instance"`
	Since    message.Milli `json:"since"`
}

// LastHour sums a Series up.
type LastHour struct {
	Flows[int]
	Late  int     `json:"late"`
	P50MS float64 `json:"p50_ms"`
	P99MS float64 `json:"p99_ms"`
}

// Hour is how the last hour went, and its sum.
type Hour struct {
	Series
	Sum LastHour
}

// recent is how long what happened a moment ago stays a condition.
const recent = 10 * time.Minute

// conditions returns what the last minutes say is not as it should be.
func (h *Hour) conditions() (all []Condition) {
	add := func(level Level, word, detail string, counts []int) {
		c := Condition{Level: level, Word: word, Detail: detail}
		for i := max(len(counts)-int(recent.Milliseconds()/h.StepMS), 0); i < len(counts); i++ {
			if c.Count += counts[i]; c.Count > 0 && c.Since == 0 {
				c.Since = h.From + message.Milli(int64(i)*h.StepMS)
			}
		}
		if c.Count > 0 {
			all = append(all, c)
		}
	}
	add(LevelWarn, CondRejectsDropped,
		"refused pushes made room for newer ones: a journal has them, and without one nobody can mend them", h.RejectsDropped)
	add(LevelNote, CondDying, "messages died in the last 10 minutes; tarry dead groups says of what", h.Dead)
	return all
}

// hour returns how the last hour went on all instances.
func (o *Ops) hour(ctx context.Context) (*Hour, error) {
	return o.hours.get(ctx, nil, viewsKeep, o.Timeout, func(ctx context.Context) (*Hour, error) {
		h, err := o.Hour(ctx)
		if err != nil {
			return nil, err
		}
		h.Missing = append([]string{}, h.Missing...) // none is a list too
		return &h, nil
	})
}

func (o *Ops) series(ctx context.Context, _ *Caller, _ *Nothing) (*Series, error) {
	h, err := o.hour(ctx)
	if err != nil {
		return nil, err
	}
	return &h.Series, nil
}
