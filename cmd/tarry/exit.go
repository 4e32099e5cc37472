package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/client"
	"github.com/tarry-mq/tarry/cmd/internal/config"
)

// The exit codes; scripts rely on them.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
	exitState    = 4 // in flight, already delivered, another version, the id taken, not the leader, already running

	exitSecondSignal = 130 // the shells' code for an interrupt: the command did not wait for anything
)

// failure is the error with which a command's own work ended. Other errors are cobra's, about the command line.
type failure struct {
	code int
	err  error
	// json is the JSON form of the error, printed to standard output with --json.
	json []byte
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// work wraps a command's function so that it ends with an exit code. newRoot wraps every command's RunE with it. This
// distinguishes a failure of the command itself from an error of the command line that cobra found.
func work(do func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := do(cmd, args)
		var known *failure
		switch {
		case err == nil || errors.As(err, &known):
			return err
		case errors.Is(err, config.ErrRefused):
			return &failure{code: exitUsage, err: err}
		}
		return &failure{code: exitFailed, err: err}
	}
}

// usage returns an error of the command line that cobra cannot detect.
func usage(format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...)}
}

func exitCode(err error) int {
	var known *failure
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &known):
		return known.code
	}
	return exitUsage
}

// report prints an error, for people on standard error or for programs on standard output.
func report(o outside, cmd *cobra.Command, err error) {
	if err == nil {
		return
	}
	var known *failure
	mine := errors.As(err, &known)
	if mine && known.json != nil {
		_, _ = fmt.Fprintln(o.out, strings.TrimSpace(string(known.json)))
		return
	}
	// settings are refused all at once, one a line
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		_, _ = fmt.Fprintln(o.err, "tarry: "+line)
	}
	if !mine {
		_, _ = fmt.Fprintf(o.err, "tarry: see %s --help\n", cmd.CommandPath())
	}
}

// answered converts the error of a call into a failure with the exit code for its answer.
func answered(err error, asJSON bool) error {
	if err == nil {
		return nil
	}
	f := &failure{code: exitFailed, err: err}
	var p *client.Problem
	switch {
	case errors.As(err, &p):
		f.code = codeOf(p)
		f.json = p.Raw
		for _, one := range p.Candidates {
			f.err = fmt.Errorf("%w\n  %s", f.err, candidateText(&one))
		}
		if p.Status == http.StatusUnauthorized {
			f.err = fmt.Errorf("%w; set it by --token or TARRY_TOKEN", err)
		}
	default:
		f.err = interrupted(err)
	}
	if !asJSON {
		f.json = nil
	} else if f.json == nil {
		f.json, _ = json.Marshal(ops.Problem{Word: "no_answer", Detail: f.err.Error()}) // strings alone: cannot fail
	}
	return f
}

// candidateText returns the command-line arguments for one of the messages that an id may refer to.
func candidateText(c *ops.Candidate) string {
	// Without --key the id alone would be meant, whatever the key.
	return "--topic " + printable(c.Topic, "") + " --key " + cmp.Or(printable(c.Key, ""), "''") + ": " + c.UID + ", " +
		c.State
}

// interrupted shortens the error of a command that a signal ended to one word.
func interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	return err
}

// unsure adds advice for the caller to an unknown outcome.
func unsure(err error, advice func(p *client.Problem) string) error {
	var p *client.Problem
	if errors.As(err, &p) && p.Word == wordOutcomeUnknown && p.ID != "" {
		return fmt.Errorf("%w; %s", err, advice(p))
	}
	return err
}

const (
	// wordUnknownID is the problem of an id that no message has.
	wordUnknownID = "unknown_id"
	// wordUnknownReject is the problem of a sequence that no reject has.
	wordUnknownReject = "unknown_reject"
	// wordOutcomeUnknown is the problem of an action that may or may not have been done.
	wordOutcomeUnknown = "outcome_unknown"
)

func codeOf(p *client.Problem) int {
	switch p.Status {
	case http.StatusConflict, http.StatusPreconditionFailed:
		return exitState
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return exitUsage
	case http.StatusNotFound:
		if p.Word == wordUnknownID || p.Word == "not_paused" || p.Word == wordUnknownReject {
			return exitNotFound
		}
	}
	return exitFailed
}
