package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

// journaled starts a tarry with its journal in a mode, and the stream that messages are due on.
func (b bench) journaled(ctx context.Context, s *stage.Scope, mode string) (*stage.Tarry, *load.Client, error) {
	t := s.Journaled(b.program, mode)
	c, err := dial(s, t.NATS.URL(), inFlight)
	if err != nil {
		return nil, nil, err
	}
	return t, c, b.makeDueStream(ctx, c)
}

// journalPush is tarryBatches. With a journal, the processors' time and the journal's own rate are those until it has
// caught up: in async mode that is after the push.
func (b bench) journalPush(mode string) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		t, _, err := b.journaled(ctx, s, mode)
		if err != nil {
			return Outcome{}, err
		}
		cost, err := stage.Watch(t.Processes()...)
		if err != nil {
			return Outcome{}, err
		}
		began := time.Now()
		sent, err := b.batches(t, func(n int) time.Time { return began.Add(farOff(n)) }).Send(ctx,
			b.plan.Messages, b.plan.Limit)
		if err != nil {
			return Outcome{}, err
		}
		values := pushed(sent)
		if mode == stage.JournalOff {
			return Outcome{Values: values}, micros(values, cost, sent.Count)
		}
		at, err := t.CaughtUp(ctx)
		if err != nil {
			return Outcome{}, err
		}
		if err := micros(values, cost, sent.Count); err != nil {
			return Outcome{}, err
		}
		rows, err := t.Rows(ctx)
		if err != nil {
			return Outcome{}, err
		}
		values[report.Rows] = rows / at.Sub(sent.Began).Seconds()
		values[report.Behind] = at.Sub(sent.Began.Add(sent.Elapsed)).Seconds()
		return Outcome{Values: values, Faults: short(rows, sent.Count)}, journalBytes(values, t, sent.Count)
	}
}

// journalNames pushes under names of their own. keep is names.keep: for that long the journal is asked about each.
func (b bench) journalNames(mode, keep string) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		t := s.Journaled(b.program, mode, "TARRY_NAMES_KEEP="+keep)
		c, err := dial(s, t.NATS.URL(), inFlight)
		if err != nil {
			return Outcome{}, err
		}
		if err := b.makeDueStream(ctx, c); err != nil {
			return Outcome{}, err
		}
		cost, err := stage.Watch(t.Processes()...)
		if err != nil {
			return Outcome{}, err
		}
		began, options := time.Now(), named("")
		batches := load.Batches{URL: t.URL, Size: batchSize, Connections: connections,
			Item: func(to []byte, n int) []byte {
				return b.item(to, n, dueSubject, began.Add(farOff(n)), options)
			}}
		sent, err := batches.Send(ctx, b.plan.Messages, b.plan.Limit)
		if err != nil {
			return Outcome{}, err
		}
		values := pushed(sent)
		if _, err := t.CaughtUp(ctx); err != nil {
			return Outcome{}, err
		}
		return Outcome{Values: values}, micros(values, cost, sent.Count)
	}
}

// short says that the journal has caught up with less than there was.
func short(rows float64, want int) []string {
	if rows >= float64(want) {
		return nil
	}
	return []string{fmt.Sprintf("the journal has caught up with %.0f changes, and there were %d", rows, want)}
}

// journalBytes adds what the journal's tables take for each message.
func journalBytes(values report.Values, t *stage.Tarry, messages int) error {
	n, err := t.MariaDB.Bytes()
	if err != nil {
		return err
	}
	values[report.JournalBytes] = float64(n) / float64(messages)
	return nil
}

// journalDrain is tarryDrain, with time before the due instant for the journal to catch up with the loading.
func (b bench) journalDrain(mode string) run {
	return func(ctx context.Context, s *stage.Scope) (Outcome, error) {
		t, c, err := b.journaled(ctx, s, mode)
		if err != nil {
			return Outcome{}, err
		}
		due := time.UnixMilli(time.Now().Add(b.plan.journalLead()).UnixMilli())
		sent, err := b.batches(t, func(int) time.Time { return due }).Send(ctx, b.plan.Messages, b.plan.journalLead())
		if err != nil {
			return Outcome{}, err
		}
		ledger := b.ledger(due)
		if mode == stage.JournalOff {
			return b.drain(ctx, s, c, ledger, due, sent, t.Processes(), func() error {
				_, err := t.Delivered(ctx, b.plan.Messages)
				return err
			})
		}
		if fault, err := b.rested(ctx, t, due); fault != "" || err != nil {
			return Outcome{Faults: faults(fault)}, err
		}
		before, err := t.Rows(ctx)
		if err != nil {
			return Outcome{}, err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		caught := make(chan catch, 1)
		go func() { caught <- catchUp(ctx, t, ledger) }() // ends with ctx
		var end catch
		o, err := b.drain(ctx, s, c, ledger, due, sent, t.Processes(), func() error {
			if _, err := t.Delivered(ctx, b.plan.Messages); err != nil {
				return err
			}
			select {
			case <-ledger.All():
				end = <-caught
			default: // the ledger shows what is lost
			}
			return end.err
		})
		if err != nil || end.at.IsZero() {
			return o, err
		}
		_, last := ledger.Span()
		o.Values[report.Rows] = (end.rows - before) / last.Sub(due).Seconds()
		o.Values[report.Behind] = max(0, end.at.Sub(last).Seconds())
		o.Faults = append(o.Faults, short(end.all-before, b.plan.Messages)...)
		return o, journalBytes(o.Values, t, b.plan.Messages)
	}
}

// rested waits until the journal holds what was loaded and nobody audits it. The fault says that this was not in time.
func (b bench) rested(ctx context.Context, t *stage.Tarry, due time.Time) (fault string, err error) {
	if _, err := t.CaughtUp(ctx); err != nil {
		return "", err
	}
	if err := t.Audited(ctx, due.Add(time.Second)); err != nil {
		return "", err
	}
	if late := time.Since(due.Add(-ready - margin)); late > 0 {
		return fmt.Sprintf("the journal had caught up %s too late for the drain", late.Round(time.Millisecond)), nil
	}
	return "", nil
}

func faults(fault string) []string {
	if fault == "" {
		return nil
	}
	return []string{fault}
}

// catch is how far the journal was when the last message had arrived, and when it had the rest.
type catch struct {
	rows float64 // at the last message
	all  float64 // once it had caught up
	at   time.Time
	err  error
}

func catchUp(ctx context.Context, t *stage.Tarry, ledger *load.Ledger) (c catch) {
	select {
	case <-ledger.All():
	case <-ctx.Done():
		return catch{err: context.Cause(ctx)}
	}
	if c.rows, c.err = t.Rows(ctx); c.err != nil {
		return c
	}
	if c.at, c.err = t.CaughtUp(ctx); c.err != nil {
		return c
	}
	c.all, c.err = t.Rows(ctx)
	return c
}
