package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
)

// raiseTerm notes the highest term.
func (s *SQL) raiseTerm(ctx context.Context, tx *sql.Tx, term uint64) error {
	in := s.kind.incoming("value")
	_, err := tx.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES ('term', ?)"+s.kind.conflict+
		"value = CASE WHEN CAST("+in+" AS DECIMAL(20)) > CAST(meta.value AS DECIMAL(20)) THEN "+in+
		" ELSE meta.value END",
		strconv.FormatUint(term, 10))
	if err != nil {
		return fmt.Errorf("raise the term: %w", err)
	}
	return nil
}

// MaxTerm is the highest term that any change carries, 0 when none does.
func (s *SQL) MaxTerm(ctx context.Context) (uint64, error) {
	var value string
	err := s.read.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'term'").Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	var term uint64
	if err == nil {
		term, err = strconv.ParseUint(value, 10, 64)
	}
	if err != nil {
		return 0, fmt.Errorf("read the term: %w", err)
	}
	return term, nil
}
