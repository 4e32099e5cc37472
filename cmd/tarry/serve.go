package main

import (
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/app"
	"github.com/tarry-mq/tarry/cmd/internal/config"
)

// gcPercent lets the heap grow to five times what lives before it is collected.
// What lives is small, messages wait in Redis, so the memory is little, and a
// drained message costs a fifth less processor time. GOGC overrides it.
const gcPercent = 400

// newServe is the production instance.
func newServe(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run an instance for production: ZooKeeper, Redis and NATS from settings",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.LoadServe(cmd.Flags(), o.environ)
			if err != nil {
				return err
			}
			log, err := newLogger(o.err, cfg.Log)
			if err != nil {
				return err
			}
			if _, set := os.LookupEnv("GOGC"); !set {
				debug.SetGCPercent(gcPercent)
			}
			instance, err := app.NewServe(cmd.Context(), cfg, app.Options{Version: build().Version, Log: log})
			if err != nil {
				return err
			}
			defer onHangup(cmd.Context(), log, func() error {
				next, err := cfg.Reload(cmd.Flags(), o.environ)
				if err != nil {
					return err
				}
				return instance.Reload(next)
			})()
			return instance.Run(cmd.Context())
		},
	}
	config.AddServeFlags(cmd.Flags())
	return cmd
}
