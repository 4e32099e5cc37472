package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// WritePause records a change of a pause, unless a later one of its pattern is recorded.
func (s *SQL) WritePause(ctx context.Context, c scheduler.PauseChange) error {
	fences := map[message.Bucket]uint64{}
	if c.Number > 0 {
		fences[scheduler.PausesBucket] = c.Number
	}
	if err := s.makeFences(ctx, fences); err != nil {
		return err
	}
	at := s.kind.incoming("at")
	newer := func(column string) string {
		return column + " = CASE WHEN " + at + " >= pauses.at THEN " + s.kind.incoming(column) + " ELSE pauses." +
			column + " END, "
	}
	err := s.write.transaction(ctx, nil, func(tx *sql.Tx) error {
		if err := s.checkFences(ctx, tx, fences); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx,
			"INSERT INTO pauses (pattern, at, paused, who) VALUES (?, ?, ?, ?)"+s.kind.conflict+
				// last: MySQL assigns one after the other
				newer("paused")+newer("who")+"at = "+s.kind.greatest+"(pauses.at, "+at+")",
			name(c.Pattern), int64(c.At), bit(!c.Resumed), name(c.By))
		return err
	})
	return wrap(err, "write a pause")
}

// Pauses returns the last change of each pattern, by time.
func (s *SQL) Pauses(ctx context.Context) (changes []scheduler.PauseChange, err error) {
	changes, err = collect(ctx, s.read, "SELECT pattern, at, paused, who FROM pauses ORDER BY at, pattern", nil,
		func(row scanner) (c scheduler.PauseChange, err error) {
			var paused bool
			err = row.Scan(&c.Pattern, &c.At, &paused, &c.By)
			c.Resumed = !paused
			return c, err
		})
	return changes, wrap(err, "read the pauses")
}

// prunePauses forgets patterns that were resumed before a time.
func (s *SQL) prunePauses(ctx context.Context, before message.Milli) error {
	_, err := s.write.ExecContext(ctx, "DELETE FROM pauses WHERE paused = 0 AND at < ?", int64(before))
	return wrap(err, "prune the pauses")
}

// writePauses writes the pauses of a whole store that the journal lacks: those made while the journal was off or did
// not answer. An unreachable journal must not delay a leader.
func (r *Recovery) writePauses(ctx context.Context, tl record.Recovering) {
	ctx, cancel := context.WithTimeout(ctx, min(r.cfg.Timeout, fencesWithin))
	defer cancel()
	if err := r.meetPauses(ctx, tl, false); err != nil {
		r.log.Warn().Err(err).Msg("the journal lacks pauses of the store")
	}
}

// meetPauses reconciles the pauses of the timeline and the journal: the later change of each pattern ends up in both.
// If the timeline has lost nothing, only the journal is written.
func (r *Recovery) meetPauses(ctx context.Context, tl record.Recovering, lost bool) error {
	var known []scheduler.PauseChange
	var list []scheduler.Pause
	if err := within(ctx, r.cfg.Timeout, func(ctx context.Context) (err error) {
		if known, err = r.cfg.Store.Pauses(ctx); err == nil {
			list, _, err = tl.Pauses(ctx)
		}
		return err
	}); err != nil {
		return fmt.Errorf("read the pauses: %w", err)
	}
	written, stands := map[string]message.Milli{}, map[string]message.Milli{}
	for _, c := range known {
		written[c.Pattern] = c.At
	}
	for _, p := range list {
		stands[p.Pattern] = p.At
		if at, is := written[p.Pattern]; !is || at < p.At {
			if err := r.writePause(ctx, scheduler.PauseChange{Pause: p}); err != nil {
				return err
			}
		}
	}
	if !lost {
		return nil
	}
	for _, resumed := range []bool{true, false} { // first the changes that make room
		for _, c := range known { // in the order of time, so that an empty timeline keeps the times
			if at, is := stands[c.Pattern]; c.Resumed != resumed || is && at >= c.At || resumed && !is {
				continue
			}
			if err := r.bringPause(ctx, tl, c); err != nil {
				return err
			}
		}
	}
	if len(known) == 0 {
		return nil
	}
	// Changes from now on must be later than all before, whatever the clock says by then.
	if last := known[len(known)-1]; last.Resumed && stands[last.Pattern] == 0 {
		return within(ctx, r.cfg.Timeout, func(ctx context.Context) error {
			_, _, err := tl.Resume(ctx, last.Pattern, last.At)
			return err
		})
	}
	return nil
}

// bringPause repeats a change of the journal in the timeline.
func (r *Recovery) bringPause(ctx context.Context, tl record.Recovering, c scheduler.PauseChange) error {
	made := c
	err := within(ctx, r.cfg.Timeout, func(ctx context.Context) (err error) {
		if c.Resumed {
			_, made, err = tl.Resume(ctx, c.Pattern, c.At)
		} else {
			made, err = tl.Pause(ctx, c.Pause)
		}
		return err
	})
	switch {
	case errors.Is(err, scheduler.ErrTooManyPauses):
		r.log.Error().Err(err).Str("pattern", c.Pattern).Msg("a pause of the journal is not restored")
		return nil
	case err != nil:
		return fmt.Errorf("restore the pause of %s: %w", c.Pattern, err)
	}
	r.log.Info().Str("pattern", c.Pattern).Bool("paused", !c.Resumed).Msg("pause restored")
	if made.At == c.At {
		return nil
	}
	return r.writePause(ctx, made)
}

func (r *Recovery) writePause(ctx context.Context, c scheduler.PauseChange) error {
	c.Number = 0 // the leader writes it, under any certification
	return within(ctx, r.cfg.Timeout, func(ctx context.Context) error { return r.cfg.Store.WritePause(ctx, c) })
}
