package ops

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// lagWithin bounds reading the lag, which accompanies other answers and must not delay them.
const lagWithin = 3 * time.Second

// lag returns nil while the lag cannot be read.
func (o *Ops) lag(ctx context.Context) *record.Lag {
	ctx, stop := context.WithTimeout(ctx, lagWithin)
	defer stop()
	lag, err := o.Journal.Lag(ctx)
	if err != nil {
		o.Log.Debug().Err(err).Msg("the journal's lag is not known")
		return nil
	}
	return &lag
}

// Restore asks to restore messages that the journal has and the store lacks.
type Restore struct {
	Overdue *bool  `json:"overdue"`            // also the messages that are due already; nil is true
	Topic   string `json:"topic" as:"pattern"` // empty: all
	DryRun  bool   `json:"dry_run"`
	Rate    int    `json:"rate"` // messages a second, 0 for no bound
}

// restore restores the messages that the journal has and the store lacks.
func (o *Ops) restore(ctx context.Context, by *Caller, in *Restore) (any, error) {
	request := record.RestoreRequest{Topic: in.Topic, Overdue: in.Overdue == nil || *in.Overdue, DryRun: in.DryRun,
		Rate: in.Rate}
	by.Audit("restore", in.DryRun).Bool("overdue", request.Overdue).Str("topic", in.Topic).Int("rate", in.Rate)
	return long(ctx, by, o.restoring, func(r *record.RestoreReport) any { r.DryRun = in.DryRun; return r },
		func(ctx context.Context, progress func(record.RestoreReport)) (record.RestoreReport, error) {
			return o.Journal.Restore(ctx, request, progress)
		})
}

// Verify asks to compare the store with the journal.
type Verify struct {
	Repair bool `json:"repair"` // bring both to the higher version
	Revive bool `json:"revive"` // also bring back what ended according to the store alone
}

// verify compares the store with the journal, and repairs or revives if requested.
func (o *Ops) verify(ctx context.Context, by *Caller, in *Verify) (any, error) {
	by.Audit("verify", *in == Verify{}).Bool("revive", in.Revive)
	return long(ctx, by, o.verifying, verified,
		func(ctx context.Context, progress func(record.VerifyReport)) (record.VerifyReport, error) {
			counts := progress
			if progress != nil { // only the report lists the differences
				counts = func(r record.VerifyReport) { r.Differences = nil; progress(r) }
			}
			return o.Journal.Verify(ctx, record.VerifyRequest{Repair: in.Repair, Revive: in.Revive}, counts)
		})
}

// verified has an empty list where there is none.
func verified(r *record.VerifyReport) any {
	if r.Found == nil {
		r.Found = map[string]int{}
	}
	if r.Differences == nil {
		r.Differences = []record.Difference{}
	}
	for i := range r.Quarantined {
		if q := &r.Quarantined[i]; q.UIDs == nil {
			q.UIDs = []message.UID{}
		}
	}
	return r
}

// Redeliver asks to publish again the messages that a broker lost.
type Redeliver struct {
	Since  *When  `json:"since"`              // needed; a duration counts back from now
	Topic  string `json:"topic" as:"pattern"` // empty: all
	DryRun bool   `json:"dry_run"`
}

func (in *Redeliver) check() error {
	if in.Since == nil {
		return wire.Invalid(FieldSince, "is missing; "+wantWhen)
	}
	return nil
}

// redeliver publishes again the messages that NATS stored since a given moment and has lost.
func (o *Ops) redeliver(ctx context.Context, by *Caller, in *Redeliver) (any, error) {
	now := o.Now()
	since := in.Since.Ago(now)
	if since.After(now) {
		return nil, wire.Invalid(FieldSince, "lies in the future; it is the time of the first delivery to check")
	}
	// rounded down, because the range begins there
	request := record.RedeliverRequest{Since: message.Milli(since.UnixMilli()), Topic: in.Topic, DryRun: in.DryRun}
	by.Audit("redeliver", in.DryRun).Str("since", FormatTime(int64(request.Since))).Str("topic", in.Topic)
	return long(ctx, by, o.redelivering, func(r *record.RedeliverReport) any { r.DryRun = in.DryRun; return r },
		func(ctx context.Context, progress func(record.RedeliverReport)) (record.RedeliverReport, error) {
			return o.Journal.Redeliver(ctx, request, progress)
		})
}

const (
	defaultStep  = time.Minute
	minStep      = time.Second
	defaultAhead = time.Hour
	MaxSteps     = 10_000
)

// firstDue is earlier than every due time: the start of the year 0.
const firstDue message.Milli = -62_167_219_200_000

// Forecast asks how many messages fall due when.
type Forecast struct {
	Topic string         `json:"topic" as:"pattern"` // empty: all
	Step  *time.Duration `json:"step"`               // nil is defaultStep
	Until *When          `json:"until"`              // nil is defaultAhead
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

// forecast counts the messages that fall due, step by step, including empty steps. Those of all topics the store
// counts, which knows them without a lag and without a journal.
func (o *Ops) forecast(ctx context.Context, _ *Caller, in *Forecast) (*record.Outlook, error) {
	f, err := in.query(o.Now())
	if err != nil {
		return nil, err
	}
	n := steps(f)
	if in.Topic == "" && n <= MaxFalls {
		return o.falls(ctx, f, n)
	}
	if err := o.Journaled(); err != nil {
		if in.Topic != "" {
			return nil, err
		}
		return nil, Refuse(http.StatusBadRequest, WordStep, "step makes %d steps until %s, the limit without a journal is %d",
			n, FormatTime(int64(f.Until)), MaxFalls)
	}
	return o.journaledForecast(ctx, f)
}

// MaxFalls is how many steps of a forecast the store counts.
const MaxFalls = 720

// falls counts in the store the messages of all topics, in n steps.
func (o *Ops) falls(ctx context.Context, f record.ForecastQuery, n int) (*record.Outlook, error) {
	a := &record.Outlook{Source: "store", Steps: make([]record.Forecast, n)}
	times := make([]message.Milli, 0, n+1)
	for i := range a.Steps {
		a.Steps[i].From = f.From + message.Milli(i)*f.Step
		times = append(times, a.Steps[i].From)
	}
	overdue, counts, err := o.Service.Falls(ctx, append(times, f.Until))
	a.Overdue = overdue
	for i, count := range counts {
		a.Steps[i].Count = count
	}
	return a, err
}

// journaledForecast counts messages that wait by the journal, of one topic or in more steps.
func (o *Ops) journaledForecast(ctx context.Context, f record.ForecastQuery) (*record.Outlook, error) {
	a := &record.Outlook{Source: "journal", Steps: make([]record.Forecast, steps(f))}
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
		a.Overdue += one.Count
	}
	ahead, err := o.Journal.Forecast(ctx, f)
	for _, step := range ahead {
		if i := int((step.From - f.From) / f.Step); i >= 0 && i < len(a.Steps) {
			a.Steps[i].Count += step.Count
		}
	}
	return a, err
}

// history answers with the last changes of a message, by version, and of every other message of its name.
func (o *Ops) history(ctx context.Context, by *Caller, in *Named) (*History, error) {
	ref, err := by.Ref(in)
	if err != nil {
		return nil, err
	}
	lives, err := o.Journal.History(ctx, ref)
	if err != nil {
		return nil, err
	}
	a := &History{More: len(lives) > record.MaxLives}
	if a.More {
		lives = lives[:record.MaxLives]
	}
	for i := range lives {
		l := &lives[i]
		one := Life{UID: l.UID, State: l.State, Due: l.Due, Kind: l.Kind, Other: l.Other, Reason: l.Reason,
			History: changeAnswers(l, by, message.CeilMilli(o.Now())), Earlier: l.Earlier}
		if i > 0 {
			a.Others = append(a.Others, one)
			continue
		}
		a.ID, a.UID, a.History, a.Earlier = cmp.Or(l.ID, string(l.UID)), l.UID, one.History, one.Earlier
	}
	if ref.ID != "" {
		a.Rejected, err = o.Journal.Rejects(ctx, ref, record.MaxLives)
	}
	return a, err
}

// changeAnswers returns changes as the caller may see them. A caller that may only push sees the outcome of its message
// and the time, but not where tarry runs, nor who else changed it. That a message which consumers pull became ready is
// no change: it shows between those before and after.
func changeAnswers(l *record.Life, by *Caller, now message.Milli) []record.Change {
	all := make([]record.Change, 0, len(l.Changes))
	for i, c := range l.Changes {
		if !by.MaySee() {
			c.Reason, _, _ = strings.Cut(c.Reason, "; content ") // a digest could confirm a guess
		}
		if !by.MayRead() {
			c.Instance, c.Address, c.Term, c.By, c.Stream, c.Sequence = "", "", 0, "", "", 0
		}
		all = append(all, c)
		until := now
		if i+1 < len(l.Changes) {
			until = l.Changes[i+1].At
		}
		if ready := max(c.Due, c.At); l.Pull && c.State == message.StateWaiting && ready <= until {
			all = append(all, record.Change{Version: c.Version, State: message.StateReady, At: ready, Due: c.Due,
				Bucket: c.Bucket})
		}
	}
	return all
}
