package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// claimNamespace makes the database this namespace's if it belongs to no namespace
// yet, and refuses it if it belongs to another.
func (s *SQL) claimNamespace(ctx context.Context) error {
	_, err := s.write.ExecContext(ctx,
		"INSERT INTO meta (name, value) VALUES ('namespace', ?)"+s.kind.conflict+"name = meta.name", s.cfg.Namespace)
	if err != nil {
		return fmt.Errorf("claim the database for %q: %w", s.cfg.Namespace, err)
	}
	return s.checkNamespace(ctx)
}

// checkNamespace refuses another namespace's database.
func (s *SQL) checkNamespace(ctx context.Context) error {
	var owner string
	err := s.write.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'namespace'").Scan(&owner)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("read the namespace: %w", err)
	case owner != s.cfg.Namespace:
		return fmt.Errorf("%w: it belongs to namespace %q, not %q", ErrUnfit, owner, s.cfg.Namespace)
	}
	return nil
}
