package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/deploy/bench/internal/measure"
	"github.com/tarry-mq/tarry/deploy/bench/internal/report"
)

// options are the command line.
type options struct {
	plan   measure.Plan
	quick  bool
	reps   int
	only   []string
	tarry  string
	before string
	from   string
	json   string
	page   string
	soak   time.Duration
	rate   int
}

const (
	maxMessages = 5_000_000
	unset       = 0
)

func readOptions(args []string, log io.Writer) (options, error) {
	var (
		o        options
		only     string
		messages int
		fs       = flag.NewFlagSet("bench", flag.ContinueOnError)
	)
	fs.SetOutput(log)
	fs.BoolVar(&o.quick, "quick", false, "run every test once and small, in one or two minutes")
	fs.IntVar(&o.reps, "reps", unset, "repetitions of every test (default 3, with -quick 1)")
	fs.StringVar(&only, "only", "",
		"run these tests alone, a comma-separated list of "+strings.Join(testNames(measure.Full()), ", ")+
			"; the first word of several stands for all of them, as journal does")
	fs.IntVar(&messages, "messages", unset, "messages pushed, drained and pending (default 200000, with -quick 3000)")
	fs.StringVar(&o.tarry, "tarry", "", "the tarry program to measure (default: built from this checkout)")
	fs.StringVar(&o.before, "before", "", "another tarry program, whose plain path is measured beside (default: that "+
		"is left out; with -quick the same one)")
	fs.StringVar(&o.json, "json", "", "write all figures to this file, after each repetition")
	fs.StringVar(&o.from, "from", "", "measure nothing, and take the figures of an earlier run from this file")
	fs.StringVar(&o.page, "page", "", "put the tables into this file, between its marks")
	fs.DurationVar(&o.soak, "soak", 0, "run one load for so long and nothing else, and tell what grows (10s to 48h)")
	fs.IntVar(&o.rate, "rate", 1000, "messages a second of -soak")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.plan = measure.Full()
	standard := 3
	if o.quick {
		o.plan, standard = measure.Quick(), 1
	}
	if o.reps == unset {
		o.reps = standard
	}
	if messages != unset {
		o.plan.Messages = messages
	}
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	given := make(map[string]bool)
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return o, o.check(fs.Args(), given)
}

func (o options) check(rest []string, given map[string]bool) error {
	known := testNames(o.plan)
	for _, name := range o.only {
		if !slices.ContainsFunc(known, func(test string) bool { return among(test, name) }) {
			return fmt.Errorf("-only: there is no test %q, want some of %s", name, strings.Join(known, ", "))
		}
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("it takes flags alone, and got %q", rest[0])
	case o.reps < 1 || o.reps > 100:
		return fmt.Errorf("-reps is %d, want 1 to 100", o.reps)
	case o.plan.Messages < 1000 || o.plan.Messages > maxMessages:
		return fmt.Errorf("-messages is %d, want 1000 to %d", o.plan.Messages, maxMessages)
	case given["soak"] && (o.soak < 10*time.Second || o.soak > 48*time.Hour):
		return fmt.Errorf("-soak is %s, want 10s to 48h", o.soak)
	case o.rate < 1 || o.rate > 20_000:
		return fmt.Errorf("-rate is %d, want 1 to 20000", o.rate)
	case given["soak"] && (o.quick || len(o.only) > 0 || o.page != "" || o.json != "" || o.from != "" || o.before != ""):
		return errors.New("-soak goes with -rate and -tarry alone")
	case given["rate"] && !given["soak"]:
		return errors.New("-rate is that of -soak")
	case o.page != "" && (o.quick || len(o.only) > 0):
		return errors.New("-page wants a whole run: not -quick, not -only")
	case given["from"] && len(given) > 1 && (len(given) > 2 || !given["page"]):
		return errors.New("-from measures nothing: it goes with -page alone")
	}
	return nil
}

func testNames(plan measure.Plan) (names []string) {
	for _, test := range measure.All(plan, "", "") {
		names = append(names, test.Name)
	}
	return names
}

func (o options) wanted(test string) bool {
	return len(o.only) == 0 || slices.ContainsFunc(o.only, func(name string) bool { return among(test, name) })
}

// among reports whether a name is a test's, or that of several tests of which it is one.
func among(test, name string) bool { return test == name || strings.HasPrefix(test, name+"-") }

// keep writes what there is so far, so that an interrupted run is not lost.
func (o options) keep(book *report.Book, log io.Writer) {
	if o.json == "" {
		return
	}
	if err := book.Save(o.json); err != nil {
		fmt.Fprintln(log, "bench:", err)
	}
}

// write prints the tables, and writes them to the requested files.
func (o options) write(book *report.Book, out io.Writer) error {
	if _, err := fmt.Fprint(out, book.Markdown()); err != nil {
		return fmt.Errorf("print the tables: %w", err)
	}
	if o.json != "" {
		if err := book.Save(o.json); err != nil {
			return err
		}
	}
	if o.page != "" {
		return book.PutInto(o.page)
	}
	return nil
}
