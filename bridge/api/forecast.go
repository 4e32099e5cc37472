package api

import (
	"context"
	"net/http"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

const (
	defaultStep  = time.Minute
	minStep      = time.Second
	defaultAhead = time.Hour
	maxSteps     = 10_000
)

// firstDue is earlier than every due time: the start of the year 0.
const firstDue message.Milli = -62_167_219_200_000

// forecast counts the messages that fall due, step by step, including empty steps.
func (s *Server) forecast(w http.ResponseWriter, r *http.Request) error {
	f, err := forecastQuery(r, s.cfg.Now())
	if err != nil {
		return err
	}
	a := wire.Forecast{Steps: make([]wire.ForecastStep, steps(f))}
	for i := range a.Steps {
		a.Steps[i].From = wire.FormatTime(int64(f.From + message.Milli(i)*f.Step))
	}
	return s.show(w, r, "journal", &a, func(ctx context.Context) error {
		before := f
		before.From, before.Until, before.Step = firstDue, f.From, f.From-firstDue
		overdue, err := s.cfg.Journal.Forecast(ctx, before)
		if err != nil {
			return err
		}
		for _, o := range overdue {
			a.Overdue += o.Count
		}
		ahead, err := s.cfg.Journal.Forecast(ctx, f)
		for _, step := range ahead {
			if i := int((step.From - f.From) / f.Step); i >= 0 && i < len(a.Steps) {
				a.Steps[i].Count += step.Count
			}
		}
		return err
	})
}

// steps returns the number of steps until the end; the last may be shorter.
func steps(f record.ForecastQuery) int { return int((f.Until - f.From + f.Step - 1) / f.Step) }

// forecastQuery reads ?topic=&step=&until=.
func forecastQuery(r *http.Request, now time.Time) (record.ForecastQuery, error) {
	step, until := defaultStep, now.Add(defaultAhead)
	f := record.ForecastQuery{From: message.CeilMilli(now)}
	values, err := query(r, "topic", "step", "until")
	p := params{values, err}
	p.read("topic", func(text string) error {
		if f.Topic = text; isPattern(text) {
			f.Topic, f.Pattern = "", text
		}
		return wire.CheckPattern(text)
	})
	p.read("step", func(text string) (err error) {
		if step, err = wire.ParseSpan(text, "step"); err == nil && step < minStep {
			return refusal(http.StatusBadRequest, WordStep, "step %.40q is too short; the least is %s", text, minStep)
		}
		return err
	})
	p.read("until", func(text string) error {
		when, err := wire.ParseWhen(text, "until")
		if until = when.Ahead(now); err == nil && !until.After(now) {
			return refusal(http.StatusBadRequest, WordUntil, "until %.40q is not after now", text)
		}
		return err
	})
	if p.err != nil {
		return f, p.err
	}
	f.Step, f.Until = message.Milli(step/time.Millisecond), message.CeilMilli(until)
	if n := steps(f); n > maxSteps {
		return f, refusal(http.StatusBadRequest, WordStep, "step of %s makes %d steps until %s, the limit is %d",
			step, n, wire.FormatTime(int64(f.Until)), maxSteps)
	}
	return f, nil
}
