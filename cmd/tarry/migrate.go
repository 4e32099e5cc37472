package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/app"
	"github.com/tarry-mq/tarry/cmd/internal/config"
)

// newMigrate is what a deployment runs before its instances where journal.migrate is false: as a user who may change
// tables, while theirs may not.
func newMigrate(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the tables of the journal's database up to date",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.LoadMigrate(cmd.Flags(), o.environ)
			if err != nil {
				return err
			}
			log, err := newLogger(o.err, cfg.Log)
			if err != nil {
				return err
			}
			from, to, err := app.Migrate(cmd.Context(), cfg, log)
			switch {
			case errors.Is(err, context.Canceled):
				return errors.New("interrupted")
			case err != nil:
				return err
			}
			text := fmt.Sprintf("version %d → %d", from, to)
			if from == to {
				text = fmt.Sprintf("already at version %d", to)
			}
			if _, err := fmt.Fprintln(o.out, "journal schema: "+text); err != nil {
				return fmt.Errorf("print the version: %w", err)
			}
			return nil
		},
	}
	config.AddMigrateFlags(cmd.Flags())
	return cmd
}
