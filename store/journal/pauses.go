package journal

import (
	"context"
	"fmt"

	"github.com/tarry-mq/tarry/scheduler"
)

// WritePause keeps a change of pauses, unless a later one of its pattern is there.
func (s *SQL) WritePause(ctx context.Context, c scheduler.PauseChange) error {
	fences := map[int]uint64{}
	if c.Number > 0 {
		fences[scheduler.PausesBucket] = c.Number
	}
	if err := s.makeFences(ctx, fences); err != nil {
		return err
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin to write a pause: %w", err)
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := s.checkFences(ctx, tx, fences); err != nil {
		return err
	}
	at := s.kind.incoming("at")
	newer := func(column string) string {
		return column + " = CASE WHEN " + at + " >= pauses.at THEN " + s.kind.incoming(column) + " ELSE pauses." +
			column + " END, "
	}
	if _, err := tx.ExecContext(ctx,
		"INSERT INTO pauses (pattern, at, paused, who) VALUES (?, ?, ?, ?)"+s.kind.conflict+
			// last: MySQL assigns one after the other
			newer("paused")+newer("who")+"at = "+s.kind.greatest+"(pauses.at, "+at+")",
		name(c.Pattern), int64(c.At), bit(!c.Resumed), name(c.By)); err != nil {
		return fmt.Errorf("write a pause: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit a pause: %w", err)
	}
	return nil
}

// Pauses are the last changes, by time.
func (s *SQL) Pauses(ctx context.Context) (changes []scheduler.PauseChange, err error) {
	err = each(ctx, s.read, "SELECT pattern, at, paused, who FROM pauses ORDER BY at, pattern", nil,
		func(row scanner) error {
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
