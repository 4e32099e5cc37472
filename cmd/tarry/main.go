// Command tarry stores delayed messages and publishes them on their NATS subjects when they are due. tarry serve runs
// an instance; the other commands call one over HTTP.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/cmd/internal/config"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	// The capacity is two, so that a signal right after the first is not lost.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // lasts as long as the process
		<-signals
		stop()
		<-signals
		os.Exit(exitSecondSignal)
	}()
	os.Exit(run(ctx, os.Args[1:], outside{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ(),
		terminal: isatty.IsTerminal(os.Stderr.Fd()),
		piped:    isPiped(os.Stdin), now: time.Now, zone: time.Local,
		asks: isatty.IsTerminal(os.Stdin.Fd()) && isatty.IsTerminal(os.Stderr.Fd()),
	}))
}

// isPiped reports whether f is a pipe or a file, rather than a terminal or /dev/null.
func isPiped(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0)
}

// newLogger returns a logger of JSON lines, or of text for people if it writes to a terminal.
func newLogger(w io.Writer, cfg config.Log) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(cfg.Level)
	if err != nil {
		return zerolog.Logger{}, fmt.Errorf("log.level: %w", err)
	}
	f, isFile := w.(*os.File)
	terminal := isFile && isatty.IsTerminal(f.Fd())
	if cfg.Format == "console" || cfg.Format == "auto" && terminal {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000", NoColor: !terminal}
	}
	return zerolog.New(w).Level(level).Hook(stamp{}), nil
}

// stamp adds the time in UTC with milliseconds: leaderships and due times are compared at that precision. zerolog's own
// timestamp takes its form from a global.
type stamp struct{}

// Run is called for every line.
func (stamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
}
