package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/client"
)

// selecting are the flags that select many waiting messages. Topic and key are not among them, although they narrow the
// selection: with an id they are part of the name, and a script that loses the id must not change everything of the
// topic or the key. A pattern of topics names no message, so it selects many by itself.
var selecting = []string{"due-from", "due-to", "all"}

func addSelection(cmd *cobra.Command, does string) {
	flags := cmd.Flags()
	flags.String("key", "",
		"with an ID: the key of the id, if several keys have it; otherwise only messages of this key")
	flags.String("topic", "", "with an ID: the topic of the id, if several topics have it; otherwise "+does+
		" many, of all topics that match a pattern such as orders.> or, with --all, of this topic")
	flags.String("due-from", "", does+" many: those due at this time or later: RFC 3339, unix milliseconds, or how "+
		"long from now")
	flags.String("due-to", "", does+" many: those due at this time or earlier")
	flags.Bool("all", false, does+" many: all that match the other flags, or all if there are none")
	flags.Bool("dry-run", false, "with many: only count them")
}

// idOrSelection requires one ID, or flags that select many messages.
func idOrSelection(cmd *cobra.Command, args []string) error {
	narrow := changed(cmd, "topic", "key")
	many := changed(cmd, selecting...) != "" || patternGiven(cmd) || narrow != "" && isSet(cmd, "dry-run")
	switch err := idsOrMany(cmd, args, many, narrow, selecting, "by --due-from, --due-to or --all"); {
	case len(args) > 1:
		return fmt.Errorf("want one ID, got %d", len(args))
	case err == nil && len(args) == 1 && cmd.Flags().Changed("dry-run"):
		return errors.New("--dry-run cannot be combined with an ID")
	default:
		return err
	}
}

// idsOrMany requires either IDs without a selecting flag, or flags that select many messages. narrow is a flag that was
// set but does not select by itself.
func idsOrMany(cmd *cobra.Command, args []string, many bool, narrow string, selects []string, how string) error {
	switch one := changed(cmd, selects...); {
	case slices.Contains(args, ""): // a script whose variable is unset
		return errors.New("ID is empty")
	case len(args) > 0 && one != "":
		return fmt.Errorf("--%s cannot be combined with an ID", one)
	case len(args) > 0 || many:
		return nil
	case narrow != "":
		return fmt.Errorf(
			"ID is missing; --%s alone selects none: add --all for all that match it, or --dry-run to count them",
			narrow)
	}
	return errors.New("ID is missing; select many by --topic with a pattern, " + how)
}

// patternGiven reports whether --topic is a pattern. The server refuses an empty one.
func patternGiven(cmd *cobra.Command) bool {
	flag := cmd.Flags().Lookup("topic")
	tokens := strings.Split(flag.Value.String(), ".")
	return flag.Changed && (flag.Value.String() == "" || slices.Contains(tokens, "*") || slices.Contains(tokens, ">"))
}

// changed returns the first of these flags that was set.
func changed(cmd *cobra.Command, names ...string) string {
	if i := slices.IndexFunc(names, cmd.Flags().Changed); i >= 0 {
		return names[i]
	}
	return ""
}

// optional returns the value of a flag that was set, else nil. The value may be empty, which the server refuses: a
// script whose variable is unset must not change everything.
func optional(cmd *cobra.Command, name string) *string {
	flag := cmd.Flags().Lookup(name)
	if !flag.Changed {
		return nil
	}
	value := flag.Value.String()
	return &value
}

func isSet(cmd *cobra.Command, name string) bool {
	return cmd.Flags().Lookup(name).Value.String() == "true"
}

// selectionFlags are the flags that are fields of a selection.
func selectionFlags() []string {
	return []string{"topic", "key", "due-from", "due-to", "all", "dry-run"}
}

// many runs an operation on many messages, whose selection is in the flags with these names, and shows its report; done
// is the participle for one message, as in "canceled".
func (c caller) many(cmd *cobra.Command, path, done string, names ...string) error {
	order, err := fields(cmd, nil, names...)
	if err != nil {
		return err
	}
	progress, end := watched(c, func(r wire.Report) string {
		return fmt.Sprintf("%d examined, %d match, %d %s", r.Looked, r.Matched, r.Done, done)
	})
	r, raw, err := client.Long(cmd.Context(), c.Client, path, order, progress)
	if end(); err != nil {
		return answered(before(err, r.Done, done), c.json)
	}
	text := fmt.Sprintf("%d examined, %d match", r.Looked, r.Matched)
	if r.Intake != "" {
		text += " (the intake may hold more)"
	}
	if r.Leased > 0 {
		text += fmt.Sprintf(" (consumers hold %d more)", r.Leased)
	}
	if r.DryRun {
		return c.show(raw, "dry run, nothing was changed; "+text)
	}
	others := fmt.Sprintf("%d in flight, %d maybe delivered, %d already ended", r.InFlight, r.Maybe, r.Ended)
	if strings.HasPrefix(path, "/v1/dead/") {
		others = fmt.Sprintf("%d no longer dead", r.Ended)
	}
	text += fmt.Sprintf(": %d %s, %s, %d failed", r.Done, done, others, r.Failed)
	switch left := r.InFlight + r.Maybe + r.Ended; {
	case r.Failed > 0:
		return c.showAs(exitFailed, raw, text, fmt.Sprintf("%d could not be %s", r.Failed, done))
	case left > 0:
		return c.showAs(exitState, raw, text, fmt.Sprintf("%d were not %s", left, done))
	}
	return c.show(raw, text)
}

// before adds the work done to the error of an operation on many messages. If the answer was cut off, that is the last
// progress received.
func before(err error, n int, done string) error {
	var p *client.Problem
	switch {
	case n == 0:
		return err
	case errors.As(err, &p):
		return fmt.Errorf("%w; %d were %s before that", err, n, done)
	}
	return fmt.Errorf("%w; at least %d were %s before that", interrupted(err), n, done)
}
