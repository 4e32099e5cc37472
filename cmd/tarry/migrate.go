package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarry-mq/tarry/cmd/internal/app"
	"github.com/tarry-mq/tarry/cmd/internal/config"
)

// newMigrate returns the command that a deployment runs before its instances if journal.migrate is false: as a database
// user that may change tables, while the instances' user may not. With --from it migrates an instance on one machine to
// several instances.
func newMigrate(o outside) *cobra.Command {
	var from string
	var carry bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Update the tables of the journal's database, or move an instance on one machine into it",
		Long: `Update the tables of the journal's database.

With --from, it also copies the journal of an instance that ran with store: memory into that database: waiting, ended
and dead messages, their names and histories, pauses and terms. Stop the instance first. When the command has finished,
start the new instances on an empty Redis. You may run the command again. Until it has finished, instances cannot use
the database.

If the instance's NATS was embedded, the pushes that are still in its intake, and the rejects, would be lost, so the
command fails. Let the instance run until its intake is empty, or move these messages with --carry to the NATS that
nats.url names. The command does not move other streams of the embedded NATS.`,
		Example: `  tarry migrate --journal.dsn 'tarry:secret@tcp(db:3306)/tarry'
  tarry migrate --journal.dsn 'tarry:secret@tcp(db:3306)/tarry' --data /var/lib/tarry --from /var/lib/tarry/journal.db`,
		Args: noArgs,
		RunE: offline(o, config.LoadMigrate, func(cmd *cobra.Command, cfg config.Serve, log zerolog.Logger) (string, error) {
			if cmd.Flags().Changed("from") {
				return moved(cmd.Context(), o, cfg, strings.TrimPrefix(from, "sqlite:"), carry, log)
			}
			if carry {
				return "", usage("--carry needs --from")
			}
			return migrated(app.Migrate(cmd.Context(), cfg, log))
		}),
	}
	config.AddMigrateFlags(cmd.Flags())
	cmd.Flags().StringVar(&from, "from", "", "SQLite file of the journal to copy; needs --data")
	cmd.Flags().BoolVar(&carry, "carry", false,
		"with --from, move the messages in the intake and the rejects of the embedded NATS")
	return cmd
}

// offline returns what runs a command that works with the settings of an instance, without one: it prints what do
// returns.
func offline(o outside, load func(*pflag.FlagSet, []string) (config.Serve, error),
	do func(*cobra.Command, config.Serve, zerolog.Logger) (string, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		cfg, err := load(cmd.Flags(), o.environ)
		if err != nil {
			return err
		}
		log, err := newLogger(o.err, cfg.Log)
		if err != nil {
			return err
		}
		text, err := do(cmd, cfg, log)
		if errors.Is(err, context.Canceled) {
			return errors.New("interrupted")
		} else if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(o.out, text); err != nil {
			return fmt.Errorf("print what was done: %w", err)
		}
		return nil
	}
}

func migrated(from, to int64, err error) (string, error) {
	if from == to {
		return fmt.Sprintf("journal schema: already at version %d", to), err
	}
	return fmt.Sprintf("journal schema: version %d → %d", from, to), err
}

// moved migrates an instance and reports what was carried over.
func moved(ctx context.Context, o outside, cfg config.Serve, from string, carry bool,
	log zerolog.Logger) (string, error) {
	switch {
	case from == "":
		return "", usage("--from: names no file")
	case cfg.Data == "":
		return "", usage("--from needs --data, the directory of the instance to move")
	case strings.HasPrefix(cfg.Journal.DSN.Reveal(), "sqlite:"):
		return "", usage("journal.dsn names a file: several instances need MySQL or MariaDB")
	}
	progress, done := watched(caller{err: o.err, terminal: o.terminal}, func(r app.MoveReport) string {
		return fmt.Sprintf("%d messages, %d changes copied", r.Messages, r.Changes)
	})
	r, err := app.Move(ctx, cfg, from, carry, log, progress)
	done()
	if errors.Is(err, app.ErrLeftOver) {
		return "", fmt.Errorf("%w (--carry)", err)
	}
	if err != nil {
		return "", err
	}
	var parts []string
	for state, n := range r.States {
		parts = append(parts, fmt.Sprintf("%d %s", n, state))
	}
	slices.Sort(parts)
	text := fmt.Sprintf("copied and compared: %d messages (%s), %d changes, %d pauses, term %d", r.Messages,
		strings.Join(parts, ", "), r.Changes, r.Pauses, r.Term)
	switch {
	case !r.Embedded:
		text += "\nNATS was not embedded: do not change nats.url, the intake stays there"
	case carry:
		text += fmt.Sprintf("\nmoved: %d pushes of the intake (%d more had been accepted), %d rejects",
			r.Carried.Pushes, r.Carried.Known, r.Carried.Rejects)
	}
	return text + "\nstart the new instances on an empty Redis: they fill it from the journal", nil
}

func newRebucket(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rebucket N",
		Short: "Change the number of buckets of a namespace in Redis; every instance must be stopped",
		Long: `Change the number of buckets of a namespace in Redis, in place. It reads the settings of tarry serve, of which
the setting buckets does not count.

Stop every instance, run the command, set buckets to N, and start the instances. Meanwhile no instance starts. If the
command is interrupted or fails, run it again, to this number or another, also the old one. Nothing is lost, and nothing
is delivered twice.`,
		Example: `  tarry rebucket 16 --config /etc/tarry.yaml`,
		Args:    oneArg("N"),
	}
	cmd.RunE = offline(o, config.LoadServe, func(_ *cobra.Command, cfg config.Serve, log zerolog.Logger) (string, error) {
		n, err := strconv.Atoi(cmd.Flags().Arg(0))
		if err != nil || n < 1 || n > config.MaxBuckets {
			return "", usage("%q: want a number of buckets from 1 to %d", cmd.Flags().Arg(0), config.MaxBuckets)
		}
		moved, text := 0, func(moved int) string { return fmt.Sprintf("%d messages moved", moved) }
		show, done := watched(caller{err: o.err, terminal: o.terminal}, text)
		was, err := app.Rebucket(cmd.Context(), cfg, n, app.Options{Version: build().String(), Log: log}, func(m int) {
			if moved = m; show != nil {
				show(m)
			}
		})
		done()
		return fmt.Sprintf("%d → %d buckets: %s; set buckets to %[2]d and start the instances", was, n, text(moved)), err
	})
	config.AddServeFlags(cmd.Flags())
	return cmd
}
