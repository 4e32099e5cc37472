package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarry-mq/tarry/cmd/internal/app"
	"github.com/tarry-mq/tarry/cmd/internal/config"
)

// gcPercent lets the heap grow to five times the live data before it is collected. The live data is small, since
// messages wait in Redis, so this takes little memory and saves a fifth of the processor time per drained message. GOGC
// overrides it.
const gcPercent = 400

// newServe returns the command that runs a production instance.
func newServe(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run an instance for production: ZooKeeper, Redis and NATS from settings",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return instance(cmd, o, config.LoadServe, func(*app.App, config.Serve) error {
				if _, set := os.LookupEnv("GOGC"); !set {
					debug.SetGCPercent(gcPercent)
				}
				return nil
			})
		},
	}
	config.AddServeFlags(cmd.Flags())
	return cmd
}

// newDev returns the command that runs everything in one process.
func newDev(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process, with no server to install",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return instance(cmd, o, config.LoadDev, func(dev *app.App, cfg config.Serve) error {
				if err := dev.Watch(o.out); err != nil {
					return err
				}
				greet(o.out, dev, cfg.HTTP)
				return nil
			})
		},
	}
	config.AddDevFlags(cmd.Flags())
	return cmd
}

// instance runs an instance until the command ends; begin is called before.
func instance(cmd *cobra.Command, o outside, load func(*pflag.FlagSet, []string) (config.Serve, error),
	begin func(*app.App, config.Serve) error) error {
	cfg, err := load(cmd.Flags(), o.environ)
	if err != nil {
		return err
	}
	log, err := newLogger(o.err, cfg.Log)
	if err != nil {
		return err
	}
	if text := strange(o.environ); text != "" {
		log.Warn().Msg(text)
	}
	a, err := app.New(cmd.Context(), cfg, app.Options{Version: build().Version, Log: log})
	if err != nil {
		return err
	}
	if err := begin(a, cfg); err != nil {
		return errors.Join(err, a.Close())
	}
	defer onHangup(cmd.Context(), log, func() error {
		return a.Reload(func() (config.Serve, error) { return load(cmd.Flags(), o.environ) })
	})()
	return a.Run(cmd.Context())
}

// onHangup reloads the settings on each SIGHUP, until stop is called. Refused settings change nothing.
func onHangup(ctx context.Context, log zerolog.Logger, reload func() error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	hangups, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() { // until stop
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
			}
			if err := reload(); err != nil {
				log.Error().Err(err).Msg("settings were not reloaded; the old ones stay in effect")
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		cancel()
		<-ended
	}
}

// greet prints the addresses and some commands to try.
func greet(w io.Writer, dev *app.App, http config.HTTP) {
	server, name := "http://"+dev.Addr().String(), typed(os.Args[0])
	flags := ""
	if server != "http://127.0.0.1:7070" {
		flags += " --server " + server
	}
	if http.Token != "" {
		flags += " --token $TARRY_HTTP_TOKEN"
	}
	data, temporary := dev.Data()
	kept := "Pending messages are kept in journal.db there; each push is answered after its commit. You can kill " +
		"this process and start it again."
	if temporary {
		data += " (temporary, removed on stop)"
		kept = "Pending messages are kept in memory and lost when this process ends; --data DIR keeps them."
	}
	console := "\n"
	if http.Console {
		console = fmt.Sprintf("A browser shows at %s/console what it holds, and what falls due.\n\n", server)
	}
	fmt.Fprintf(w, `tarry dev: HTTP %[1]s, NATS %[2]s, files in %[3]s
%[6]s
%[8]sTry, in another terminal:
  %[7]s push demo.hello --delay 5s --body hello --id demo-1%[4]s
  %[7]s get demo-1%[4]s
  %[7]s cancel demo-1%[4]s
Messages that arrive on %[5]s are shown here; any NATS client can subscribe to them too. Press Ctrl-C to stop.

`, server, dev.NATS(), data, flags, app.DemoSubjects, kept, name, console)
}

// typed returns what to type for this program: go run puts it on no path.
func typed(program string) string {
	if strings.Contains(program, "go-build") {
		return "go run ./cmd/tarry"
	}
	return "tarry"
}
