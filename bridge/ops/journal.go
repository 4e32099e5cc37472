package ops

import (
	"cmp"
	"context"
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
	o.Begin(ctx, by.Audit("restore", in.DryRun).Bool("overdue", request.Overdue).Str("topic", in.Topic).Int("rate",
		in.Rate))
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
	o.Begin(ctx, by.Audit("verify", *in == Verify{}).Bool("revive", in.Revive))
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
	o.Begin(ctx, by.Audit("redeliver", in.DryRun).Str("since", FormatTime(int64(request.Since))).Str("topic", in.Topic))
	return long(ctx, by, o.redelivering, func(r *record.RedeliverReport) any { r.DryRun = in.DryRun; return r },
		func(ctx context.Context, progress func(record.RedeliverReport)) (record.RedeliverReport, error) {
			return o.Journal.Redeliver(ctx, request, progress)
		})
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
