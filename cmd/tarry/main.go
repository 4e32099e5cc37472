// Command tarry stores delayed messages and publishes them on their NATS subjects when they are due. tarry serve runs
// an instance; the other commands call one over HTTP.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
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
	}))
}

// isPiped reports whether f is a pipe or a file, rather than a terminal or /dev/null.
func isPiped(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0)
}
