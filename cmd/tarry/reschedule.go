package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/wire"
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
		if err := withUnits(cmd, "delay", "shift"); err != nil {
			return err
		}
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
		return shows(c, amendedText)(client.AskIf[wire.Rescheduled](cmd.Context(), c.Client, http.MethodPatch,
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
		return shows(c, amendedText)(client.AskIf[wire.Rescheduled](cmd.Context(), c.Client, http.MethodPost,
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

func amendedText(t clock, a *wire.Rescheduled) string {
	name := printable(a.ID, "")
	if a.UID != a.ID {
		name += " (" + a.UID + ")"
	}
	return fmt.Sprintf("%s is due on %s at %s, version %d", name, printable(a.Topic, ""), t.at(a.Due), a.Version)
}
