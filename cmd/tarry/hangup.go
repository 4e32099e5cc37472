package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
)

// onHangup loads the settings again for each SIGHUP, until stop is called. What
// is refused changes nothing.
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
				log.Error().Err(err).Msg("settings were not loaded again; the old ones stand")
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		cancel()
		<-ended
	}
}
