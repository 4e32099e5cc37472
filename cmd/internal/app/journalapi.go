package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/bridge/publish"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
	"github.com/tarry-mq/tarry/store/journal"
)

// journalAPI is the journal as the HTTP API uses it: for look-ups and for operators' operations.
type journalAPI struct {
	a      *App
	broker *publish.Broker
}

// away returns the caller's error for a journal that does not answer.
func (d *journalAPI) away(step string, err error) error { return d.silent("the journal", step, err) }

// silent returns the caller's error for a part that does not answer, or nil if it did. The cause is only logged, since
// it may name hosts and statements.
func (d *journalAPI) silent(part, step string, err error) error {
	if err == nil {
		return nil
	}
	d.a.log.Warn().Err(err).Str("step", step).Msg(part + " does not answer")
	return fmt.Errorf("%w: %s does not answer", scheduler.ErrUnavailable, part)
}

// History returns a message and its last changes. If it is requested by name, History also returns the other messages
// that have or had the name. The retries of a message without a name have its uid as their name.
//
// All messages share MaxChanges in their order, but each has at least its last change.
func (d *journalAPI) History(ctx context.Context, ref scheduler.Ref) ([]record.Life, error) {
	ctx, stop := d.a.silence.during(ctx)
	defer stop()
	db, byName := d.a.journal.store, ref.UID == ""
	if byName {
		// The timeline knows best which of several messages has the name now.
		info, err := d.a.instance.Get(ctx, ref)
		switch {
		case errors.Is(err, scheduler.ErrAmbiguousID):
			return nil, err
		case err == nil:
			ref = scheduler.Ref{UID: info.UID, Viewer: ref.Viewer}
		}
	}
	found, err := db.Find(ctx, ref, 1)
	if err != nil {
		return nil, d.away("find in the journal", err)
	}
	if len(found) == 0 && !byName { // the journal may have forgotten it, and still know its retries
		if found, err = db.Find(ctx, scheduler.Ref{ID: string(ref.UID), Topic: ref.Topic, Key: ref.Key, Keyed: ref.Keyed,
			Viewer: ref.Viewer}, 1); err != nil {
			return nil, d.away("find in the journal", err)
		}
		byName = true
	}
	if len(found) == 0 {
		rejects, err := d.Rejects(ctx, ref, 1)
		if err == nil && len(rejects) > 0 {
			err = &scheduler.RejectedError{Rejected: rejects[0]}
		}
		return nil, cmp.Or(err, scheduler.ErrUnknownID)
	}
	if one := found[0]; byName || one.ID == "" {
		name := scheduler.Ref{ID: cmp.Or(one.ID, string(one.UID)), Topic: one.Topic, Key: one.Key, Keyed: true,
			Viewer: ref.Viewer}
		all, err := db.Find(ctx, name, record.MaxLives+2)
		if err != nil {
			return nil, d.away("find in the journal", err)
		}
		all = slices.DeleteFunc(all, func(r record.Record) bool { return r.UID == one.UID })
		found = append(found, all[:min(len(all), record.MaxLives)]...)
	}
	lives, left := make([]record.Life, len(found)), record.MaxChanges
	for i, r := range found {
		room := max(left, 1)
		changes, err := db.History(ctx, r.UID, room+1) // one more shows that there are earlier ones
		if err != nil {
			return nil, d.away("read the history", err)
		}
		earlier := len(changes) > room
		if earlier {
			changes = changes[1:]
		}
		lives[i] = record.Life{Record: r, Changes: changes, Earlier: earlier}
		left -= len(changes)
	}
	return lives, nil
}

// Rejects returns rejected pushes, the latest first.
func (d *journalAPI) Rejects(ctx context.Context, ref scheduler.Ref, limit int) ([]scheduler.Rejected, error) {
	ctx, stop := d.a.silence.during(ctx)
	defer stop()
	found, err := d.a.journal.store.Rejects(ctx, ref, limit)
	return found, d.away("find rejects", err)
}

// Resolve returns the one message that a restore refers to: the one that the timeline finds by the name, else the one
// in the journal.
func (d *journalAPI) Resolve(ctx context.Context, ref scheduler.Ref) (message.UID, error) {
	info, err := d.a.instance.Resolve(ctx, ref)
	return info.UID, err
}

// Whole returns a message as the journal has it.
func (d *journalAPI) Whole(ctx context.Context, uid message.UID) (record.Record, error) {
	found, err := d.a.journal.store.Records(ctx, []message.UID{uid})
	switch {
	case err != nil:
		return record.Record{}, d.away("read a message", err)
	case len(found) == 0 || found[0].Content == 0: // its content may follow
		return record.Record{}, scheduler.ErrUnknownID
	}
	return found[0], nil
}

// List returns a page of records.
func (d *journalAPI) List(ctx context.Context, q record.RecordQuery) ([]record.Record, error) {
	ctx, stop := d.a.silence.during(ctx)
	defer stop()
	records, err := d.a.journal.store.List(ctx, q)
	return records, d.away("list", err)
}

// Forecast counts the messages that fall due, by step.
func (d *journalAPI) Forecast(ctx context.Context, q record.ForecastQuery) ([]record.Forecast, error) {
	ctx, stop := d.a.silence.during(ctx)
	defer stop()
	steps, err := d.a.journal.store.Forecast(ctx, q)
	return steps, d.away("forecast", err)
}

// Act records what an operator does.
func (d *journalAPI) Act(ctx context.Context, a *record.Action) {
	_ = d.away("write an action", d.a.journal.store.WriteAction(ctx, a)) // it is logged, as is the action
}

// Actions returns a page of what operators did.
func (d *journalAPI) Actions(ctx context.Context, q record.ActionQuery) ([]record.Action, error) {
	ctx, stop := d.a.silence.during(ctx)
	defer stop()
	found, err := d.a.journal.store.Actions(ctx, q)
	return found, d.away("read the actions", err)
}

// Lag returns the changes that are not in the journal yet, over all buckets.
func (d *journalAPI) Lag(ctx context.Context) (record.Lag, error) {
	lags, err := d.a.store.Lags(ctx)
	if err != nil {
		return record.Lag{}, fmt.Errorf("ask for the lag: %w", err)
	}
	return journal.TotalLag(lags), nil
}

// Restore brings messages back from the journal.
func (d *journalAPI) Restore(ctx context.Context, req record.RestoreRequest,
	progress func(record.RestoreReport)) (record.RestoreReport, error) {
	if err := d.drained(ctx); err != nil {
		return record.RestoreReport{}, err
	}
	report, err := d.a.reconciler.Restore(ctx, req, progress)
	return report, d.public("restore", err)
}

// public returns the error of a long operation in the form that its caller may see.
func (d *journalAPI) public(step string, err error) error {
	switch {
	case err == nil, errors.Is(err, scheduler.ErrUnknownID):
		return err
	case errors.Is(err, journal.ErrNoBroker):
		return d.silent("nats", step, err)
	case errors.Is(err, journal.ErrNoDatabase):
		return d.away(step, err)
	case errors.Is(err, scheduler.ErrUncertified), errors.Is(err, scheduler.ErrOutdated):
		return err // the journal answered, and the error says what to do
	case errors.Is(err, scheduler.ErrUnavailable), errors.Is(err, scheduler.ErrOutcomeUnknown):
		return d.silent("the store", step, err)
	case journal.Retryable(err):
		return d.away(step, err)
	}
	return err
}

// drained waits until the journal has the store's recent changes: before that, it may still show ended messages as
// waiting.
func (d *journalAPI) drained(ctx context.Context) error {
	if err := d.a.gate.admit(); err != nil {
		return err
	}
	for until := time.Now().Add(drainWait); ; {
		lags, err := d.a.store.Lags(ctx)
		for bucket := 0; err == nil && bucket < len(lags); bucket++ {
			err = lags[bucket].Err // its unwritten changes are unknown
		}
		if err != nil {
			return d.public("lag", fmt.Errorf("ask for the lag: %w", err))
		}
		lag := journal.TotalLag(lags)
		if lag.Oldest == 0 || d.a.clock.Milli().Add(-drainYoung) < lag.Oldest {
			return nil
		}
		if time.Now().After(until) || scheduler.Sleep(ctx, recoverPause) != nil {
			return fmt.Errorf("%w: %d changes are on their way to the journal, the oldest since %s",
				scheduler.ErrUnavailable, lag.Changes, lag.Oldest.Time().Format(time.RFC3339))
		}
	}
}

const (
	drainWait  = 20 * time.Second
	drainYoung = 5 * time.Second
)

// Verify compares the timeline with the journal.
func (d *journalAPI) Verify(ctx context.Context, req record.VerifyRequest,
	progress func(record.VerifyReport)) (record.VerifyReport, error) {
	if err := d.drained(ctx); err != nil {
		return record.VerifyReport{}, err
	}
	report, err := d.a.reconciler.Verify(ctx, req, progress)
	return report, d.public("verify", err)
}

// Redeliver publishes again the messages that a broker lost.
func (d *journalAPI) Redeliver(ctx context.Context, req record.RedeliverRequest,
	progress func(record.RedeliverReport)) (record.RedeliverReport, error) {
	report, err := d.a.reconciler.Redeliver(ctx, d.broker, req, progress)
	return report, d.public("redeliver", err)
}
