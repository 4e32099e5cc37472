package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/tarry-mq/tarry/scheduler"
)

// WritePause keeps a change of pauses, unless a later one of its pattern is there.
func (s *SQL) WritePause(ctx context.Context, c scheduler.PauseChange) error {
	at := s.kind.incoming("at")
	newer := func(column string) string {
		return column + " = CASE WHEN " + at + " >= pauses.at THEN " + s.kind.incoming(column) + " ELSE pauses." + column + " END, "
	}
	_, err := s.write.ExecContext(ctx, "INSERT INTO pauses (pattern, at, paused, who) VALUES (?, ?, ?, ?)"+s.kind.conflict+
		newer("paused")+newer("who")+"at = "+s.kind.greatest+"(pauses.at, "+at+")", // last: MySQL assigns one after the other
		name(c.Pattern), int64(c.At), bit(!c.Resumed), name(c.By))
	if err != nil {
		return fmt.Errorf("write a pause: %w", err)
	}
	return nil
}

// Pauses are the last changes, by time.
func (s *SQL) Pauses(ctx context.Context) (changes []scheduler.PauseChange, err error) {
	err = each(ctx, s.read, "SELECT pattern, at, paused, who FROM pauses ORDER BY at, pattern", nil, func(row scanner) error {
		var c scheduler.PauseChange
		var paused bool
		err := row.Scan(&c.Pattern, &c.At, &paused, &c.By)
		c.Resumed = !paused
		changes = append(changes, c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the pauses: %w", err)
	}
	return changes, nil
}

// prunePauses forgets what was resumed before a time.
func (s *SQL) prunePauses(ctx context.Context, before scheduler.Milli) error {
	if _, err := s.write.ExecContext(ctx, "DELETE FROM pauses WHERE paused = 0 AND at < ?", int64(before)); err != nil {
		return fmt.Errorf("prune the pauses: %w", err)
	}
	return nil
}

// meetPauses brings the timeline and the journal together: of each pattern the
// later change stands in both. Where the timeline's server is the one that was
// certified it lacks nothing, and only the journal is told: of what was paused
// while it was off or did not answer.
func (r *Recovery) meetPauses(ctx context.Context, tl scheduler.Recovering, lost bool) error {
	known, err := r.cfg.Store.Pauses(ctx)
	if err != nil {
		return err
	}
	list, err := tl.Pauses(ctx)
	if err != nil {
		return err
	}
	told, stands := map[string]scheduler.Milli{}, map[string]scheduler.Milli{}
	for _, c := range known {
		told[c.Pattern] = c.At
	}
	for _, p := range list {
		stands[p.Pattern] = p.At
		if at, is := told[p.Pattern]; !is || at < p.At {
			if err := r.cfg.Store.WritePause(ctx, scheduler.PauseChange{Pause: p}); err != nil {
				return err
			}
		}
	}
	if !lost {
		return nil
	}
	for _, c := range known { // in the order of time, so that they keep their times
		if at, is := stands[c.Pattern]; is && at >= c.At {
			continue
		}
		if err := r.bringPause(ctx, tl, c); err != nil {
			return err
		}
	}
	return nil
}

// bringPause makes a change of the journal in the timeline.
func (r *Recovery) bringPause(ctx context.Context, tl scheduler.Recovering, c scheduler.PauseChange) error {
	var at scheduler.Milli
	var err error
	if c.Resumed {
		_, at, err = tl.Resume(ctx, c.Pattern, c.At)
	} else {
		at, err = tl.Pause(ctx, c.Pause)
	}
	switch {
	case errors.Is(err, scheduler.ErrTooManyPauses):
		r.log.Error().Err(err).Str("pattern", c.Pattern).Msg("a pause of the journal is not restored")
		return nil
	case err != nil:
		return err
	}
	r.log.Info().Str("pattern", c.Pattern).Bool("paused", !c.Resumed).Msg("pause restored")
	if at == c.At {
		return nil
	}
	c.At = at
	return r.cfg.Store.WritePause(ctx, c)
}
