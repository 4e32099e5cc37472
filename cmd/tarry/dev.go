package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/app"
	"github.com/tarry-mq/tarry/cmd/internal/config"
)

// newDev is everything in one process.
func newDev(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process, with no server to install",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.LoadDev(cmd.Flags(), o.environ)
			if err != nil {
				return err
			}
			log, err := newLogger(o.err, cfg.Log)
			if err != nil {
				return err
			}
			dev, err := app.NewDev(cmd.Context(), cfg, app.Options{Version: build().Version, Log: log})
			if err != nil {
				return err
			}
			if err := dev.Watch(o.out); err != nil {
				return err
			}
			greet(o.out, dev, cfg.HTTP.Token != "")
			defer onHangup(cmd.Context(), log, func() error {
				next, err := cfg.Reload(cmd.Flags(), o.environ)
				if err != nil {
					return err
				}
				return dev.Reload(next)
			})()
			return dev.Run(cmd.Context())
		},
	}
	config.AddDevFlags(cmd.Flags())
	return cmd
}

// greet prints where things are and what to try.
func greet(w io.Writer, dev *app.Dev, token bool) {
	server := "http://" + dev.Addr().String()
	flags := ""
	if server != "http://127.0.0.1:7070" {
		flags += " --server " + server
	}
	if token {
		flags += " --token $TARRY_HTTP_TOKEN"
	}
	data := dev.Data
	kept := "Pending messages are kept in journal.db there, each push answered after its commit: kill this process " +
		"and start it again."
	if dev.Temporary {
		data += " (temporary, removed on stop)"
		kept = "Pending messages live in memory: they are gone when this process ends; --data DIR keeps them."
	}
	fmt.Fprintf(w, `tarry dev: HTTP %[1]s, NATS %[2]s, files in %[3]s
%[6]s

Try, in another terminal:
  tarry push demo.hello --delay 5s --body hello --id order-1%[4]s
  tarry get order-1%[4]s
  tarry cancel order-1%[4]s
What arrives on %[5]s is shown here; any NATS client can subscribe to it, too. Ctrl-C stops.

`, server, dev.NATS, data, flags, app.DemoSubjects, kept)
}
