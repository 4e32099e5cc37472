package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/cmd/internal/config"
)

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
