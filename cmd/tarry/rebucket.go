package main

import (
	"fmt"
	"strconv"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/app"
	"github.com/tarry-mq/tarry/cmd/internal/config"
)

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
