package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newRestore(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore ID | restore --topic PATTERN | --all | --dry-run",
		Short: "Restore messages that the journal has and the store has lost",
		Long: `Restore messages that the journal has and the store has lost: one message, those of some topics or, with
--all, all of them.

It never removes a message. Messages are accepted and delivered meanwhile. If you interrupt the command, the work stops.
You may run it again.`,
		Example: `  tarry restore --dry-run
  tarry restore --all
  tarry restore --topic orders.remind --overdue=false --rate 1000
  tarry restore order-7131`,
		Args: restored,
	}
	flags := cmd.Flags()
	addKey(cmd)
	flags.String("topic", "",
		"with an ID: the topic of the id, if several topics have it; otherwise restore many, of all topics that "+
			"match a pattern such as orders.> or, with --all, of this topic")
	flags.Bool("all", false, "restore many: all that match the other flags, or all if there are none")
	flags.Bool("overdue", true, "also messages that are already due")
	flags.Bool("dry-run", false, "only report what the command would do")
	flags.String("rate", "", "at most this many messages a second, 1 to 1000000 (default no limit)")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		dry := isSet(cmd, "dry-run")
		if len(args) == 1 {
			r, raw, err := post[wire.RestoreReport](c, cmd, nameOf(cmd, args[0]).Path("/restore"),
				map[string]bool{"dry_run": dry})
			if err != nil {
				return answered(err, c.json)
			}
			return c.show(raw, restoredOneText(args[0], dry, r))
		}
		request, err := fields(cmd, nil, "topic", "dry-run")
		if err != nil {
			return err
		}
		request["overdue"] = isSet(cmd, "overdue")
		rate := flags.Lookup("rate").Value.String()
		switch n, err := strconv.Atoi(rate); {
		case flags.Changed("key"):
			return usage("--key requires an ID")
		case flags.Changed("rate") && (err != nil || n < 1):
			return usage("--rate %q: want a whole number from 1 to 1000000", rate)
		case n > 0:
			request["rate"] = n
		}
		progress, done := watched(c, func(r wire.RestoreReport) string {
			return fmt.Sprintf("%d read, %d added", r.Read, r.Added)
		})
		r, raw, err := client.Long(cmd.Context(), c.Client, "/v1/restore", request, progress)
		if done(); err != nil {
			return answered(err, c.json)
		}
		return c.show(raw, restoredText(dry, r))
	})
}

// restoring are the flags that pick many messages of the journal, and so do not go with an ID; see selecting.
var restoring = []string{"all", "overdue", "rate"}

// restored requires one argument, or flags that select many messages.
func restored(cmd *cobra.Command, args []string) error {
	many := changed(cmd, "overdue", "rate") != "" || isSet(cmd, "all") || patternGiven(cmd) || isSet(cmd, "dry-run")
	if len(args) > 1 {
		return fmt.Errorf("want at most one ID, got %d", len(args))
	}
	return idsOrMany(cmd, args, many, changed(cmd, "topic"), restoring, "by --all, or count them with --dry-run")
}

func restoredText(dry bool, r wire.RestoreReport) string {
	text := fmt.Sprintf(
		"%d read: %d added, %d raised to a later version, %d already there, %d in flight, %d newer in the store",
		r.Read, r.Added, r.Raised, r.Same, r.InFlight, r.Newer)
	if dry {
		text = "dry run, nothing was changed; " + text
	}
	return text
}

func restoredOneText(id string, dry bool, r wire.RestoreReport) string {
	text := "the same in the journal"
	switch {
	case r.Added > 0 && dry:
		text = "missing; it would be added"
	case r.Added > 0:
		text = "restored; it was missing"
	case r.Raised > 0 && dry:
		text = "of an earlier version; it would be raised to the journal's"
	case r.Raised > 0:
		text = "raised to the journal's version"
	case r.InFlight > 0:
		text = "being delivered now; nothing was changed"
	case r.Newer > 0:
		text = "newer in the store than in the journal; nothing was changed"
	}
	return printable(id, "") + " is " + text
}
