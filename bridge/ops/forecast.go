package ops

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

const (
	defaultStep  = time.Minute
	minStep      = time.Second
	defaultAhead = time.Hour
	MaxSteps     = 10_000
	// MaxFalls is how many steps the store counts.
	MaxFalls   = 720
	defaultTop = 6
	MaxTop     = 20
)

// firstDue is earlier than every due time: the start of the year 0.
const firstDue message.Milli = -62_167_219_200_000

// Forecast asks how many messages fall due when.
type Forecast struct {
	Topic string         `json:"topic" as:"pattern"` // empty: all
	Step  *time.Duration `json:"step"`               // nil is defaultStep
	Until *When          `json:"until"`              // nil is defaultAhead
	By    string         `json:"by"`                 // empty: no groups
	Top   int            `json:"top"`                // 0 is defaultTop
}

// query returns what to ask the journal for.
func (in *Forecast) query(now time.Time) (f record.ForecastQuery, err error) {
	step, until := defaultStep, now.Add(defaultAhead)
	if in.Step != nil {
		step = *in.Step
	}
	if in.Until != nil {
		until = in.Until.Ahead(now)
	}
	f = record.ForecastQuery{From: message.CeilMilli(now), Topic: in.Topic, Step: message.Milli(step / time.Millisecond),
		Until: message.CeilMilli(until)}
	if isPattern(in.Topic) {
		f.Topic, f.Pattern = "", in.Topic
	}
	switch {
	case step < minStep:
		return f, Refuse(http.StatusBadRequest, WordStep, "step %q is too short; the least is %s", step.String(), minStep)
	case !until.After(now):
		return f, Refuse(http.StatusBadRequest, WordUntil, "until %s is not after now", FormatTime(int64(f.Until)))
	}
	if n := steps(f); n > MaxSteps {
		return f, Refuse(http.StatusBadRequest, WordStep, "step of %s makes %d steps until %s, the limit is %d", step, n,
			FormatTime(int64(f.Until)), MaxSteps)
	}
	return f, nil
}

// steps returns the number of steps until the end; the last may be shorter.
func steps(f record.ForecastQuery) int { return int((f.Until - f.From + f.Step - 1) / f.Step) }

// parseBy reads what groups have in common.
func parseBy(text string) (string, error) {
	if text != scheduler.ByTopic && text != scheduler.ByPattern {
		return "", wire.Invalid(FieldBy, "is neither topic nor pattern")
	}
	return text, nil
}

// forecast counts the messages that fall due, step by step, including empty steps. The store knows those of all topics
// without a lag and without a journal, and tells groups apart by a sample. The journal counts a topic exactly.
func (o *Ops) forecast(ctx context.Context, _ *Caller, in *Forecast) (*scheduler.Outlook, error) {
	f, err := in.query(o.Now())
	if err != nil {
		return nil, err
	}
	n, recorded := steps(f), o.Journaled() == nil && in.By == ""
	if recorded && (in.Topic != "" || n > MaxFalls) {
		return o.journaledForecast(ctx, f)
	}
	if n > MaxFalls {
		limit := "without a journal"
		if in.By != "" {
			limit = "with " + FieldBy
		}
		return nil, Refuse(http.StatusBadRequest, WordStep, "step makes %d steps until %s, the limit %s is %d",
			n, FormatTime(int64(f.Until)), limit, MaxFalls)
	}
	// Who asks for the same span from about now shares a reading.
	type asked struct {
		topic, by  string
		top        int
		step, span message.Milli
	}
	q := scheduler.OutlookQuery{Topic: in.Topic, By: in.By, Top: cmp.Or(in.Top, defaultTop)}
	for i := range n {
		q.Times = append(q.Times, f.From+message.Milli(i)*f.Step)
	}
	q.Times = append(q.Times, f.Until)
	key := asked{q.Topic, q.By, q.Top, f.Step, f.Until - f.From}
	return o.outlooks.get(ctx, key, viewsKeep, o.Timeout, func(ctx context.Context) (*scheduler.Outlook, error) {
		return o.Service.Outlook(ctx, q)
	})
}

// journaledForecast counts messages that wait by the journal, of one topic or in more steps.
func (o *Ops) journaledForecast(ctx context.Context, f record.ForecastQuery) (*scheduler.Outlook, error) {
	a := &scheduler.Outlook{Source: "journal", Overdue: new(int), Steps: make([]scheduler.Fall, steps(f))}
	for i := range a.Steps {
		a.Steps[i].From = f.From + message.Milli(i)*f.Step
	}
	before := f
	before.From, before.Until, before.Step = firstDue, f.From, f.From-firstDue
	overdue, err := o.Journal.Forecast(ctx, before)
	if err != nil {
		return nil, err
	}
	for _, one := range overdue {
		*a.Overdue += one.Count
	}
	ahead, err := o.Journal.Forecast(ctx, f)
	for _, step := range ahead {
		if i := int((step.From - f.From) / f.Step); i >= 0 && i < len(a.Steps) {
			a.Steps[i].Count += step.Count
		}
	}
	return a, err
}
