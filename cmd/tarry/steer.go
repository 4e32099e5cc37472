package main

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newReschedule(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use: "reschedule ID [--delay D | --at T | --shift D] [--priority N] [--body TEXT | --body-file FILE] " +
			"[--header H]",
		Short: "Change a waiting message, or when many are due",
		Long: `Change a waiting message: when it is due, its priority, its body or its headers. Nothing else changes.
Or change when many messages are due: select them by --topic with a pattern, --due-from, --due-to or --all.

Exit code 4 means that the message is being delivered, was delivered, may have been delivered, or has another version;
for many, that this is so for at least one. Such a message is not changed. Exit code 3 means that no message has this
id.`,
		Example: `  tarry reschedule order-7131 --delay 2h
  tarry reschedule order-7131 --if-version 3 --body-file order.json
  tarry reschedule --topic 'orders.>' --shift 30m --dry-run`,
		Args: idOrSelection,
	}
	flags := cmd.Flags()
	flags.String("delay", "", "due this long from now: 20m, 1d12h, 2w")
	flags.String("at", "", "due at this time: RFC 3339, or unix milliseconds")
	flags.String("shift", "", "move the due time this much later, or with - earlier: 30m, -1h")
	addPriority(cmd, "default unchanged")
	addContent(cmd)
	addVersion(cmd)
	addSelection(cmd, "reschedule")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			if one := changed(cmd, append([]string{"priority", "if-version"}, contentFlags...)...); one != "" {
				return usage("--%s needs an ID", one)
			}
			return c.many(cmd, "/v1/messages/reschedule", "rescheduled", append(selectionFlags(), "delay", "at", "shift")...)
		}
		edit, err := fields(cmd, o.in, append([]string{"delay", "at", "shift", "priority"}, contentFlags...)...)
		if err != nil {
			return err
		}
		version, err := versionOf(cmd)
		if err != nil {
			return err
		}
		return shows(c, amendedText)(client.AskIf[ops.Rescheduled](cmd.Context(), c.Client, http.MethodPatch,
			nameOf(cmd, args[0]).Path(""), version, edit))
	})
}

func newRun(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run ID",
		Short: "Make a waiting message due now",
		Args:  oneArg("ID"),
	}
	addName(cmd)
	addVersion(cmd)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		version, err := versionOf(cmd)
		if err != nil {
			return err
		}
		return shows(c, amendedText)(client.AskIf[ops.Rescheduled](cmd.Context(), c.Client, http.MethodPost,
			nameOf(cmd, args[0]).Path("/run"), version, struct{}{}))
	})
}

// addVersion adds the flag of the required version to a command.
func addVersion(cmd *cobra.Command) {
	cmd.Flags().String("if-version", "", "only if the message still has this version, as tarry get shows it")
}

// versionOf returns the required version, empty for any. The server checks its form.
func versionOf(cmd *cobra.Command) (string, error) {
	flag := cmd.Flags().Lookup("if-version")
	version := flag.Value.String()
	// A header could not hold some of the values that are refused here. The error names the flag.
	if flag.Changed && (version == "" || strings.Trim(version, "0123456789") != "") {
		return "", usage("--if-version %q: want a whole number", version)
	}
	return version, nil
}

func amendedText(t clock, a *ops.Rescheduled) string {
	name := printable(a.ID, "")
	if a.UID != a.ID {
		name += " (" + a.UID + ")"
	}
	return fmt.Sprintf("%s is due on %s at %s, version %d", name, printable(a.Topic, ""), t.at(a.Due), a.Version)
}

func newCancel(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel ID | cancel --topic PATTERN | --due-from T | --due-to T | --all",
		Short: "Cancel a message that has not been delivered, or many",
		Long: `Cancel a message that has not been delivered, or many.

Success means that the message will not be delivered. If a consumer sent it back, or it was requeued, earlier attempts
may have been delivered.
Exit code 4 means that the message is being delivered, was delivered, or may have been delivered; for many, that this is
so for at least one. Exit code 3 means that no message has this id.`,
		Example: `  tarry cancel order-7131
  tarry cancel --topic 'orders.>' --due-to 2030-01-31T08:00:00Z --dry-run
  tarry cancel --all --topic orders.remind --key customer-9`,
		Args: idOrSelection,
	}
	addSelection(cmd, "cancel")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.many(cmd, "/v1/messages/cancel", "canceled", selectionFlags()...)
		}
		return shows(c, canceledText)(client.Ask[ops.Canceled](cmd.Context(), c.Client, http.MethodDelete,
			nameOf(cmd, args[0]).Path(""), nil))
	})
}

// canceledText describes the canceled delivery. If a consumer had sent the message back for a retry, it had been
// delivered before.
func canceledText(_ clock, canceled *ops.Canceled) string {
	never := "it will not be delivered"
	if canceled.Attempt > 0 {
		never = "it will not come again; earlier attempts were delivered"
	}
	return printable(canceled.ID, "") + " is canceled: " + never
}

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
	flags.String("accepted-to", "", "with many: only those that were accepted at this time or earlier, or how long ago")
	flags.Bool("all", false, does+" many: all that match the other flags, or all if there are none")
	addMany(cmd)
}

// addMany adds the flags of what changes many messages.
func addMany(cmd *cobra.Command) {
	cmd.Flags().Bool("dry-run", false, "with many: only count them")
	addYes(cmd)
}

func addYes(cmd *cobra.Command) {
	cmd.Flags().Bool("yes", false, "with many: do not ask, as on a terminal")
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
	flag := cmd.Flags().Lookup(name)
	return flag != nil && flag.Value.String() == "true"
}

// selectionFlags are the flags that are fields of a selection.
func selectionFlags() []string {
	return []string{"topic", "key", "due-from", "due-to", "accepted-to", "all", "dry-run"}
}

// many runs an operation on many messages, whose selection is in the flags with these names, and shows its report; done
// is the participle for one message, as in "canceled".
func (c caller) many(cmd *cobra.Command, path, done string, names ...string) error {
	order, err := fields(cmd, nil, names...)
	if err != nil {
		return err
	}
	matched := counted(c, cmd, path, order, func(r ops.Report) int { return r.Matched })
	if err := c.sure(cmd, done, matched); err != nil {
		return err
	}
	progress, end := watched(c, func(r ops.Report) string {
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

// counted counts the messages that an operation is about, by a dry run.
func counted[R any](c caller, cmd *cobra.Command, path string, order map[string]any,
	of func(R) int) func() (int, error) {
	return func() (int, error) {
		dry := maps.Clone(order)
		dry["dry_run"] = true
		r, _, err := client.Long[R](cmd.Context(), c.Client, path, dry, nil)
		return of(r), err
	}
}

// sure asks somebody at a terminal whether an operation on many messages is meant, and returns an error if it is not.
func (c caller) sure(cmd *cobra.Command, done string, count func() (int, error)) error {
	if !c.asks || isSet(cmd, "yes") || isSet(cmd, "dry-run") {
		return nil
	}
	n, err := count()
	if err != nil {
		return answered(err, c.json)
	}
	if n == 0 {
		return nil
	}
	fmt.Fprintf(c.err, "%d messages match, and will be %s. Go on? [y/N] ", n, done)
	line, _ := bufio.NewReader(c.in).ReadString('\n')
	if said := strings.ToLower(strings.TrimSpace(line)); said == "y" || said == "yes" {
		return nil
	}
	return c.fails(exitFailed, nil, "nothing was changed")
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
