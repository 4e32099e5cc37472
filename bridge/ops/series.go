package ops

import (
	"context"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Series is how the last hour went, minute by minute, the current one last. Each list has a number for each minute.
type Series struct {
	From   message.Milli `json:"from"` // when the first minute began
	StepMS int64         `json:"step_ms"`
	Flows
	// Late counts those of Delivered that left on NATS more than a second after they were due, and P50MS and P99MS are
	// within how long after that half and 99 of 100 left, in ms, 0 where none did.
	Late  []int     `json:"late"`
	P50MS []float64 `json:"p50_ms"`
	P99MS []float64 `json:"p99_ms"`

	Instances []SeriesOf `json:"instances"` // whose counts these are
	Missing   []string   `json:"missing"`   // instances that did not answer
}

// Flows count what became of messages.
type Flows struct {
	Accepted  []int `json:"accepted"`
	Delivered []int `json:"delivered"` // on NATS, or acknowledged by a consumer that pulled it
	Canceled  []int `json:"canceled"`
	Expired   []int `json:"expired"`
	Dead      []int `json:"dead"`
	Rejected  []int `json:"rejected"` // pushes by tag
}

// SeriesOf is an instance, and since when it counts.
type SeriesOf struct {
	Instance string        `json:"instance"`
	Since    message.Milli `json:"since"`
}

// LastHour sums a Series up.
type LastHour struct {
	Accepted  int     `json:"accepted"`
	Delivered int     `json:"delivered"`
	Late      int     `json:"late"`
	Canceled  int     `json:"canceled"`
	Expired   int     `json:"expired"`
	Dead      int     `json:"dead"`
	Rejected  int     `json:"rejected"`
	P50MS     float64 `json:"p50_ms"`
	P99MS     float64 `json:"p99_ms"`
}

// Hour is how the last hour went, and its sum.
type Hour struct {
	Series
	Sum LastHour
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
