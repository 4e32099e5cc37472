package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/client"
	"github.com/tarry-mq/tarry/scheduler/record"
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
	addYes(cmd)
	flags.String("rate", "", "at most this many messages a second, 1 to 1000000 (default no limit)")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		dry := isSet(cmd, "dry-run")
		if len(args) == 1 {
			return shows(c, func(_ clock, r *record.RestoreReport) string { return restoredOneText(args[0], dry, *r) })(
				post[record.RestoreReport](c, cmd, nameOf(cmd, args[0]).Path("/restore"), map[string]bool{"dry_run": dry}))
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
		missing := counted(c, cmd, "/v1/restore", request, func(r record.RestoreReport) int { return r.Added + r.Raised })
		if err := c.sure(cmd, "restored", missing); err != nil {
			return err
		}
		progress, done := watched(c, func(r record.RestoreReport) string {
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

func restoredText(dry bool, r record.RestoreReport) string {
	text := fmt.Sprintf(
		"%d read: %d added, %d raised to a later version, %d already there, %d in flight, %d newer in the store",
		r.Read, r.Added, r.Raised, r.Same, r.InFlight, r.Newer)
	if dry {
		text = "dry run, nothing was changed; " + text
	}
	return text
}

func restoredOneText(id string, dry bool, r record.RestoreReport) string {
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

func newVerify(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the store with the journal",
		Long: `Compare the store with the journal. The exit code is 0 if they agree, with --repair after the repair,
and 1 if differences are left.

A message that is ended_in_store waits in the journal only, though Redis had it and has lost nothing since: the database
lost its last commits, perhaps in a failover, and with them the end of the message. --repair notes that in the journal
(end_lost), as the leader's own comparisons do, and nothing takes the message up again. If you know that Redis was
wrong, --revive brings it back; it may then be delivered again.

Messages are accepted and delivered meanwhile. If you interrupt the command, the work stops.`,
		Args: noArgs,
	}
	cmd.Flags().Bool("repair", false, "bring both to the higher version of each message that differs")
	cmd.Flags().Bool("revive", false, "bring back, as uncertain, what is ended_in_store or end_lost")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		asked, err := fields(cmd, nil, "repair", "revive")
		if err != nil {
			return err
		}
		progress, done := watched(c, func(v record.VerifyReport) string {
			return fmt.Sprintf("%d in the store, %d in the journal", v.InStore, v.InJournal)
		})
		v, raw, err := client.Long(cmd.Context(), c.Client, "/v1/verify", asked, progress)
		if done(); err != nil {
			return answered(err, c.json)
		}
		text, left := verifiedText(c.clock, &v)
		return c.showUnless(left > 0, raw, text, fmt.Sprintf("%d differences are left", left))
	})
}

// verifiedText also prints how many differences are left.
func verifiedText(t clock, v *record.VerifyReport) (text string, left int) {
	found := 0
	for _, n := range v.Found {
		found += n
	}
	left = found - v.Repaired
	var b strings.Builder
	fmt.Fprintf(&b, "%d in the store, %d in the journal: ", v.InStore, v.InJournal)
	refused := refusedText(t, v) + quarantinedText(t, v)
	if found == 0 {
		same := "the same\n"
		if v.InStore != v.InJournal { // the two were counted one after the other
			same = "no differences; messages that arrived or ended meanwhile are in only one of the counts\n"
		}
		return b.String() + same + refused, left
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(v.Found)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", v.Found[kind], kind))
	}
	fmt.Fprintf(&b, "%d differ (%s), %d repaired\n\n", found, strings.Join(kinds, ", "), v.Repaired)
	rows := [][]string{{"UID", "BUCKET", "KIND", "STORE", "JOURNAL", "REPAIRED"}}
	for _, d := range v.Differences {
		repaired := "no"
		if d.Repaired {
			repaired = "yes"
		}
		rows = append(rows,
			[]string{string(d.UID), strconv.Itoa(int(d.Bucket)), d.Kind, standText(d.Store), standText(d.Journal), repaired})
	}
	b.WriteString(table(rows))
	if more := found - len(v.Differences); more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	return b.String() + refused, left
}

// refusedText lists the changes that the store did not make, empty for none.
func refusedText(t clock, v *record.VerifyReport) string {
	if len(v.Refused) == 0 {
		return ""
	}
	rows := [][]string{{"REFUSED", "BUCKET", "FROM", "TO", "BY", "AT"}}
	for _, r := range v.Refused {
		from := r.From.String()
		if r.Unreadable {
			from = "unreadable"
		}
		rows = append(rows,
			[]string{string(r.UID), strconv.Itoa(int(r.Bucket)), from, r.To.String(), r.Kind.String(), t.milli(r.At)})
	}
	return "\n" + table(rows)
}

// quarantinedText lists the entries that the journal could not record, empty for none.
func quarantinedText(t clock, v *record.VerifyReport) string {
	if len(v.Quarantined) == 0 {
		return ""
	}
	rows := [][]string{{"QUARANTINED", "BUCKET", "AT", "STATES KNOWN", "MESSAGES", "REASON"}}
	for _, q := range v.Quarantined {
		known := "no"
		if q.Known {
			known = "yes"
		}
		uids := strings.Trim(fmt.Sprint(q.UIDs[:min(len(q.UIDs), shownUIDs)]), "[]")
		if more := len(q.UIDs) - shownUIDs; more > 0 {
			uids += fmt.Sprintf(" and %d more", more)
		}
		rows = append(rows, []string{q.ID, strconv.Itoa(int(q.Bucket)), t.milli(q.At), known, uids, q.Reason})
	}
	return "\n" + table(rows)
}

// shownUIDs is the largest number of uids in a row; --json prints all.
const shownUIDs = 3

func standText(s record.Stand) string {
	if s.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s, version %d", s.State, s.Version)
}

func newRedeliver(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redeliver --since T",
		Short: "Deliver again what NATS stored and then lost",
		Long: `Deliver again what NATS stored and then lost: for every delivery since the given time, check whether the
stream still has it.

Exit code 1 means that a message could not be delivered again. If you interrupt the command, the work stops. You may run
it again.`,
		Example: `  tarry redeliver --since 2h --dry-run
  tarry redeliver --since 2030-01-31T08:00:00Z --topic orders.remind`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.String("since", "",
		"check deliveries from this time on: RFC 3339, unix milliseconds, or how long ago; required")
	flags.String("topic", "", "only this topic, or all that match a pattern such as orders.>")
	flags.Bool("dry-run", false, "only report what is lost")
	addYes(cmd)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		if !flags.Changed("since") {
			return usage("--since is missing: want RFC 3339, unix milliseconds, or how long ago")
		}
		request, err := fields(cmd, nil, "since", "topic", "dry-run")
		if err != nil {
			return err
		}
		gone := counted(c, cmd, "/v1/redeliver", request, func(r record.RedeliverReport) int { return r.Gone })
		if err := c.sure(cmd, "delivered again", gone); err != nil {
			return err
		}
		progress, done := watched(c, func(r record.RedeliverReport) string {
			return fmt.Sprintf("%d checked, %d gone", r.Checked, r.Gone)
		})
		r, raw, err := client.Long(cmd.Context(), c.Client, "/v1/redeliver", request, progress)
		if done(); err != nil {
			return answered(err, c.json)
		}
		return c.showUnless(r.Failed > 0, raw, redeliveredText(isSet(cmd, "dry-run"), r),
			fmt.Sprintf("%d could not be delivered again", r.Failed))
	})
}

func redeliveredText(dry bool, r record.RedeliverReport) string {
	text := fmt.Sprintf("%d checked: %d present, %d gone, %d unknown", r.Checked, r.Present, r.Gone, r.Unknown)
	if dry {
		return "dry run, nothing was delivered; " + text
	}
	return fmt.Sprintf("%s; %d delivered again", text, r.Redelivered)
}
