package app

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/store/journal"
)

// Migrate brings the tables of the journal's database up to date, and returns the
// versions before and after.
func Migrate(ctx context.Context, cfg config.Migrate, log zerolog.Logger) (from, to int64, err error) {
	return journal.Migrate(ctx, journal.Config{
		DSN: cfg.Journal.DSN.Reveal(), Namespace: cfg.Namespace, Log: log.With().Str("ns", cfg.Namespace).Logger(),
	})
}
