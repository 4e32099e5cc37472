package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The modes of the journal, as TARRY_JOURNAL_MODE has them.
const (
	JournalOff   = "off"
	JournalAsync = "async"
	JournalSync  = "sync"
)

// Journaled is Tarry with a journal in a MariaDB of its own; with the journal off it has none.
func (s *Scope) Journaled(program, mode string, settings ...string) *Tarry {
	if mode == JournalOff {
		return s.Tarry(program)
	}
	m := s.MariaDB()
	t := s.Tarry(program, append(settings, "TARRY_JOURNAL_MODE="+mode, "TARRY_JOURNAL_DSN="+m.journalDSN())...)
	t.MariaDB = m
	return t
}

// Rows is how many changes this tarry has committed to the journal, from memory and from the outbox.
func (t *Tarry) Rows(ctx context.Context) (float64, error) {
	page, err := t.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	written, err := parseMetric(page, "tarry_journal_changes_total")
	if err != nil {
		return 0, err
	}
	drained, err := parseMetric(page, "tarry_journal_drained_total")
	return written + drained, err
}

// lag is how many changes are in the outbox and not in the journal. It comes from /v1/cluster, which looks into Redis
// at that moment; the metric tarry_journal_lag_changes is up to a second old.
func (t *Tarry) lag(ctx context.Context) (int, error) {
	text, err := t.get(ctx, "/v1/cluster")
	if err != nil {
		return 0, err
	}
	return parseLag(text)
}

var errNoLag = errors.New("the journal's lag is not known")

func parseLag(text string) (int, error) {
	var answer struct {
		Journal struct {
			Lag *struct {
				Changes int `json:"changes"`
			} `json:"lag"`
		} `json:"journal"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return 0, fmt.Errorf("read the journal's lag: %w", err)
	}
	if answer.Journal.Lag == nil {
		return 0, errNoLag
	}
	return answer.Journal.Lag.Changes, nil
}

// CaughtUp returns when the journal holds every change, or with an error when its lag does not move for a while. at is
// the moment it was seen, at most one look late.
func (t *Tarry) CaughtUp(ctx context.Context) (at time.Time, err error) {
	last, moved := -1, time.Now()
	err = Until(ctx, metricEvery, func(ctx context.Context) error {
		lag, err := t.lag(ctx)
		at = time.Now()
		switch {
		case err != nil && !errors.Is(err, errNoLag):
			return fmt.Errorf("%w: %w", errGivenUp, err)
		case err == nil && lag == 0:
			return nil
		case err == nil && lag != last:
			last, moved = lag, at
		case time.Since(moved) > stall:
			return fmt.Errorf("%w: its lag stands still at %d changes", errGivenUp, last)
		}
		return fmt.Errorf("its lag is %d changes", last)
	})
	if err != nil {
		return at, fmt.Errorf("wait for the journal: %w", err)
	}
	return at, nil
}

const (
	auditBegins   = 9 * time.Second // after tarry has led, no later than its first audit begins, which is at 10 s
	auditEvery    = 100 * time.Millisecond
	auditPatience = 10 * time.Minute
)

// Audited waits for the end of the audit that tarry makes soon after it has certified a store, so that no figure is
// taken while it compares all of Redis with the journal. There is nothing to wait for when it begins after until.
func (t *Tarry) Audited(ctx context.Context, until time.Time) error {
	if until.Sub(t.led) < auditBegins {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, auditPatience)
	defer cancel()
	err := Until(ctx, auditEvery, func(context.Context) error {
		if strings.Contains(t.process.Log(), `"message":"audited"`) {
			return nil
		}
		return errors.New("it goes on")
	})
	if err != nil {
		return fmt.Errorf("wait for the end of the first audit: %w", err)
	}
	return nil
}
