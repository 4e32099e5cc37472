// Command bench measures the built tarry serve side by side with NATS's own message schedules (ADR-51), on this
// machine and in one run:
//
//	go run -C deploy/bench .                          the whole table, about an hour
//	go run -C deploy/bench . -quick                   each measure once and small, to see that it still works
//	go run -C deploy/bench . -readme ../../README.md  and put the table there
//	go run -C deploy/bench . -only journal-push,journal-drain,journal-restore
//	                                                  the journal alone, about half of that
//
// # What a figure rests on
//
//   - Every test gets its own servers with no data: redis-server with an append-only file fsynced each second,
//     ZooKeeper, the nats-server of go.mod with a file store and one replica, and a tarry serve that leads. All are the
//     real programs, over loopback. The peer's tests get a nats-server alone, and those of the journal a mariadbd too.
//   - Repetitions interleave: each repetition runs every test of every system once, so that a noisy minute hits all
//     alike, and the order within a test turns. A ratio is taken within each repetition; the table shows medians, with
//     the least and the greatest in brackets.
//   - Bodies are 256 bytes. The receiver counts losses and repeats and compares every byte. Times are of one clock.
//   - A test whose figures mean nothing is invalid, and the command then fails: a message lost, repeated, changed or
//     early, a load that ended after the messages were due, a pace that was not kept, a push that was refused.
//     A goal that is missed is a figure like another, and does not fail the command.
//
// Package measure says what each test does, and package report which goals its figures are held against.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/tarry-mq/tarry/deploy/bench/internal/measure"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// gcPercent keeps this process's own garbage collector from taking the processor of what it measures.
const gcPercent = 400

func main() {
	debug.SetGCPercent(gcPercent)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, log io.Writer) int {
	o, err := readOptions(args, log)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		fmt.Fprintln(log, "bench:", err)
		return exitUsage
	}
	book, err := o.book(ctx, log)
	if err == nil {
		err = o.write(book, out)
	}
	if err != nil {
		fmt.Fprintln(log, "bench:", err)
		return exitFailed
	}
	if faults := book.Faults(); len(faults) > 0 {
		fmt.Fprintf(log, "bench: invalid:\n  %s\n", strings.Join(faults, "\n  "))
		return exitFailed
	}
	return exitDone
}

// book measures, or reads what an earlier run has measured.
func (o options) book(ctx context.Context, log io.Writer) (*report.Book, error) {
	if o.from != "" {
		return report.Read(o.from)
	}
	program, err := stage.Program(ctx, o.tarry)
	if err != nil {
		return nil, fmt.Errorf("find the program to measure: %w", err)
	}
	book := &report.Book{Started: time.Now().UTC(), Quick: o.quick, Whole: len(o.only) == 0, Plan: o.plan.Words(),
		Rates: o.plan.Rates, Machine: stage.ThisMachine()}
	tests := measure.All(o.plan, program)
	for repetition := range o.reps {
		for _, test := range tests {
			if !o.wanted(test.Name) {
				continue
			}
			for i := range test.Systems {
				system := test.Systems[(i+repetition)%len(test.Systems)]
				sample, err := one(ctx, test.Name, system, book, log)
				if err != nil {
					return nil, err
				}
				sample.Repetition = repetition + 1
				book.Samples = append(book.Samples, sample)
			}
		}
		o.keep(book, log)
	}
	return book, nil
}

// one runs one test of one system. A test that broke is an invalid sample; only an interrupt ends the run.
func one(ctx context.Context, test string, system measure.System, book *report.Book, log io.Writer) (report.Sample, error) {
	sample := report.Sample{Test: test, System: system.Name}
	began := time.Now()
	failure := stage.Run(ctx, func(s *stage.Scope) {
		outcome, err := system.Run(ctx, s)
		if err != nil {
			s.Error(err)
		}
		for _, fault := range outcome.Faults {
			s.Error(fault)
		}
		sample.Values = outcome.Values
		book.Machine.Add(s.Versions())
	})
	if ctx.Err() != nil {
		return sample, context.Cause(ctx)
	}
	var output string
	if failure != nil {
		for _, reason := range failure.Reasons {
			sample.Faults = append(sample.Faults, reason.Error())
		}
		output = failure.Output
	}
	fmt.Fprintf(log, "%-15s %-10s %5.1fs  %s\n%s", test, system.Name, time.Since(began).Seconds(), sample, output)
	return sample, nil
}
