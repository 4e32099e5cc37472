// Command bench measures the built tarry serve side by side with NATS's own message schedules (ADR-51), on this
// machine and in one run:
//
//	go run -C deploy/bench .                          the whole table, about an hour and a half
//	go run -C deploy/bench . -quick                   each measure once and small, to see that it still works
//	go run -C deploy/bench . -page ../../docs/figures.md  and put the tables there
//	go run -C deploy/bench . -only journal            the journal alone, about a third of that
//	go run -C deploy/bench . -only plain -before PATH the plain path of another tarry and of this one, by turns
//	go run -C deploy/bench . -only features           what features cost where they are used
//	go run -C deploy/bench . -soak 4h                 what grows under one load of so long
//
// # What a figure rests on
//
//   - Every test gets its own servers with no data: redis-server with an append-only file fsynced each second,
//     ZooKeeper, the nats-server of go.mod with a file store and one replica, and a tarry serve that leads. All are the
//     real programs, over loopback. The peer's tests get a nats-server alone, and those of the journal a mariadbd too.
//   - Repetitions interleave: each repetition runs every test of every system once, so that a noisy minute hits all
//     alike, and the order within a test turns. A ratio is taken within each repetition; the table shows medians, with
//     the least and the greatest in brackets. Only with -quick do tests that are held to no time run
//     several at once.
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
	"sync"
	"syscall"
	"time"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
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
	if o.soak > 0 {
		if err := o.soaked(ctx, out, log); err != nil {
			fmt.Fprintln(log, "bench:", err)
			return exitFailed
		}
		return exitDone
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

// soaked runs one load for hours.
func (o options) soaked(ctx context.Context, out, log io.Writer) error {
	program, err := stage.Program(ctx, o.tarry)
	if err != nil {
		return fmt.Errorf("find the program to measure: %w", err)
	}
	failure := stage.Run(ctx, func(s *stage.Scope) {
		soak, err := measure.Soak(ctx, s, program, o.soak, o.rate, log)
		if len(soak.Looks) > 0 {
			fmt.Fprint(out, soak.Markdown())
		}
		if err != nil {
			s.Fatal(err)
		}
		for _, fault := range soak.Faults {
			s.Error(fault)
		}
	})
	if failure != nil {
		return fmt.Errorf("%w\n%s", failure, failure.Output)
	}
	return nil
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
	before := o.before
	if before == "" && o.quick {
		before = program // to see that it works
	}
	if before != "" {
		if before, err = stage.Program(ctx, before); err != nil {
			return nil, fmt.Errorf("find the program before: %w", err)
		}
	}
	r := recorder{book: book, log: log}
	tests := measure.All(o.plan, program, before)
	for repetition := range o.reps {
		var aside []job
		for _, test := range tests {
			switch {
			case !o.wanted(test.Name):
				continue
			case test.Skip != "":
				r.skip(test)
				continue
			}
			for i := range test.Systems {
				j := job{test.Name, test.Systems[(i+repetition)%len(test.Systems)], repetition + 1}
				if o.quick && !test.Alone {
					aside = append(aside, j)
				} else if err := r.one(ctx, j); err != nil {
					return nil, err
				}
			}
		}
		if err := r.together(ctx, aside); err != nil {
			return nil, err
		}
		o.keep(book, log)
	}
	return book, nil
}

// job is one test of one system, once.
type job struct {
	test       string
	system     measure.System
	repetition int
}

// recorder enters in the book what jobs give.
type recorder struct {
	mu   sync.Mutex
	book *report.Book
	log  io.Writer
}

// skip notes a test that cannot be run.
func (r *recorder) skip(test measure.Test) {
	if r.book.Skipped == nil {
		r.book.Skipped = make(map[string]string)
	}
	if r.book.Skipped[test.Name] == "" {
		fmt.Fprintf(r.log, "%-15s skipped: %s\n", test.Name, test.Skip)
	}
	r.book.Skipped[test.Name] = test.Skip
}

// atOnce is how many jobs run beside one another where their figures do not count. Most of their time is waiting.
const atOnce = 4

// together runs jobs beside one another.
func (r *recorder) together(ctx context.Context, jobs []job) error {
	var (
		group sync.WaitGroup
		errs  = make([]error, len(jobs))
		slots = make(chan struct{}, atOnce)
	)
	for i, j := range jobs {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			errs[i] = r.one(ctx, j)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// tries is how often a job runs while servers starve, where its figures do not count: beside all that continuous
// integration does, a database may be silent for a second, and tarry says so.
const tries = 3

// one runs a job. A test that broke is an invalid sample; only an interrupt ends the run.
func (r *recorder) one(ctx context.Context, j job) error {
	for try := 1; ; try++ {
		sample, starved, err := r.try(ctx, j)
		if err != nil {
			return err
		}
		if starved && r.book.Quick && try < tries {
			continue
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.book.Samples = append(r.book.Samples, sample)
		return nil
	}
}

// try runs a job once, and reports whether it broke because servers starved.
func (r *recorder) try(ctx context.Context, j job) (report.Sample, bool, error) {
	test, system := j.test, j.system
	sample := report.Sample{Test: test, System: system.Name, Repetition: j.repetition}
	var versions map[string]string
	starved := false
	began := time.Now()
	failure := stage.Run(ctx, func(s *stage.Scope) {
		outcome, err := system.Run(ctx, s)
		if err != nil {
			s.Error(err)
		}
		starved = errors.Is(err, load.ErrStarved)
		for _, fault := range outcome.Faults {
			s.Error(fault)
		}
		sample.Values = outcome.Values
		versions = s.Versions()
	})
	if ctx.Err() != nil {
		return report.Sample{}, false, context.Cause(ctx)
	}
	var output string
	if failure != nil {
		for _, reason := range failure.Reasons {
			sample.Faults = append(sample.Faults, reason.Error())
		}
		output = failure.Output
	}
	if version, known := versions["tarry"]; known && system.Name == report.Before {
		versions["tarry before"] = version
		delete(versions, "tarry")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.book.Machine.Add(versions)
	fmt.Fprintf(r.log, "%-15s %-10s %5.1fs  %s\n%s", test, system.Name, time.Since(began).Seconds(), sample, output)
	return sample, starved, nil
}
