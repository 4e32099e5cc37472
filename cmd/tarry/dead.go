package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newDead(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "List dead messages, give them another life, or end them for good",
		Args:  knownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(newDeadList(o), newRequeue(o), newPurge(o))
	return cmd
}

func newDeadList(o outside) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead messages, in the order they died",
		Long: `List dead messages, in the order they died.

It shows one page, or with --all everything, page after page. --json prints each page as one line; its cursor, given as
--cursor, asks for the next one.`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.String("topic", "", "only this topic, or all that match a pattern such as orders.>")
	flags.String("limit", "", "messages on a page, 1 to 1000 (default 100, with --all 1000)")
	flags.String("cursor", "", "go on after the page that gave this cursor")
	flags.BoolVar(&all, "all", false, "go on to the end")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		q := parameters(cmd, "topic", "limit", "cursor")
		if all && !q.Has("limit") {
			q.Set("limit", wholeList)
		}
		for first := true; ; first = false {
			page, raw, err := c.Dead(cmd.Context(), q)
			if err != nil {
				return answered(err, c.json)
			}
			if err := c.show(raw, deadText(c.clock, &page, first)); err != nil {
				return err
			}
			if page.Cursor == "" {
				return nil
			}
			if !all {
				c.remark("there are more: --all shows them")
				return nil
			}
			q.Set("cursor", page.Cursor)
		}
	})
}

// deadText is a page in columns of fixed width, as pageText is.
func deadText(t clock, l *client.List, first bool) string {
	var b strings.Builder
	line := func(died, uid, topic, name, reason string) {
		text := fmt.Sprintf("%-*s  %-18s  %-24s  %-24s  %s", t.width(), died, uid, topic, name, reason)
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	if first {
		line("DIED", "UID", "TOPIC", "ID", "REASON")
	}
	for i := range l.Messages {
		m := &l.Messages[i]
		name := "-"
		if m.ID != m.UID {
			name = printable(m.ID, "")
		}
		line(t.at(m.EndedAt), m.UID, printable(m.Topic, ""), name, printable(m.Reason, ""))
	}
	return b.String()
}

// deadFlags pick many dead messages. The topic is not among them unless it is a pattern: see selecting.
var deadFlags = []string{"from", "to", "older", "all"}

func addDead(cmd *cobra.Command, does string) {
	flags := cmd.Flags()
	flags.String("topic", "", "with one ID: topic that the id belongs to, where several topics have it; else "+does+
		" many: of all topics that match a pattern such as orders.>, or with --all of this topic")
	flags.String("key", "", "with one ID: key that the id belongs to, where several keys have it")
	flags.String("from", "", does+" many: died then or later: RFC 3339, unix milliseconds, or how long ago")
	flags.String("to", "", does+" many: died then or earlier")
	flags.String("older", "", does+" many: died longer ago than that: 12h, 7d")
	flags.Bool("all", false, does+" many: whatever the other flags leave, all where there are none")
	flags.Bool("dry-run", false, "with many: only count")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		selects, topic := changed(cmd, deadFlags...), cmd.Flags().Changed("topic")
		many := selects != "" || patternGiven(cmd) || topic && isSet(cmd, "dry-run")
		switch {
		case slices.Contains(args, ""): // a script whose variable is unset
			return errors.New("ID is empty")
		case len(args) == 0 && !many && topic:
			return errors.New(
				"ID is missing; --topic alone picks none: add --all for all of the topic, or --dry-run to count them")
		case len(args) == 0 && !many:
			return errors.New(
				"ID is missing; many are picked by a pattern as --topic, by --from, --to, --older or --all")
		case len(args) > 0 && selects != "":
			return fmt.Errorf("--%s does not go with an ID", selects)
		case len(args) != 1 && cmd.Flags().Changed("key"):
			return errors.New("--key goes with one ID")
		case len(args) > 1 && topic:
			return errors.New("--topic goes with one ID; several that several topics have are named by their uids")
		case len(args) > 0 && cmd.Flags().Changed("dry-run"):
			return errors.New("--dry-run does not go with an ID")
		}
		return nil
	}
}

func deadOrder(cmd *cobra.Command) client.DeadOrder {
	return client.DeadOrder{
		Topic: optional(cmd, "topic"), Key: optional(cmd, "key"), From: optional(cmd, "from"), To: optional(cmd, "to"),
		Older: optional(cmd, "older"),
		All:   isSet(cmd, "all"), DryRun: isSet(cmd, "dry-run"),
	}
}

func newRequeue(o outside) *cobra.Command {
	var delay string
	cmd := &cobra.Command{
		Use:   "requeue ID... | requeue --topic PATTERN | --from T | --to T | --older D | --all",
		Short: "Have dead messages delivered after all, each as a new message under its name",
		Long: `Have dead messages delivered after all, each as a new message under its name.

Where the dead one may have been delivered, the new one is uncertain from the start, edited or not: nobody can promise
that no consumer saw it, so that its cancel answers maybe_delivered, and reschedule and run refuse it.`,
		Example: `  tarry dead requeue order-7131 --body-file mended.json
  tarry dead requeue --topic 'orders.>' --delay 10m --dry-run`,
	}
	addDead(cmd, "requeue")
	cmd.Flags().StringVar(&delay, "delay", "", "due that long from now: 20m, 1d12h, 2w (default at once)")
	addContent(cmd)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) (err error) {
		order := deadOrder(cmd)
		if order.Delay = delay; cmd.Flags().Changed("delay") && delay == "" {
			return usage("--delay is empty")
		}
		if err := withUnits(cmd, "delay", "older"); err != nil {
			return err
		}
		if one := changed(cmd, contentFlags...); one != "" && len(args) != 1 {
			return usage("--%s needs one ID", one)
		}
		if order.Headers, order.Content, err = contentOf(cmd, o.in); err != nil {
			return err
		}
		if len(args) != 1 {
			return c.deadOnes(cmd, "requeue", "requeued", args, order)
		}
		order.ID = args[0]
		r, raw, err := c.RequeueOne(cmd.Context(), order)
		if err != nil {
			return answered(unsure(err, func(p *client.Problem) string { return lookFor(p.UID) }), c.json)
		}
		return c.show(raw, fmt.Sprintf("%s waits again as %s, due %s", printable(args[0], ""), r.UID, c.at(r.Due)))
	})
}

func newPurge(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "purge ID... | purge --topic PATTERN | --from T | --to T | --older D | --all",
		Short: "End dead messages for good",
		Example: `  tarry dead purge order-7131
  tarry dead purge --older 30d --dry-run`,
	}
	addDead(cmd, "purge")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		if err := withUnits(cmd, "older"); err != nil {
			return err
		}
		order := deadOrder(cmd)
		if len(args) != 1 || order.Topic == nil && order.Key == nil {
			return c.deadOnes(cmd, "purge", "purged", args, order)
		}
		order.ID = args[0]
		raw, err := c.PurgeOne(cmd.Context(), order)
		if err != nil {
			return answered(err, c.json)
		}
		return c.show(raw, printable(args[0], "")+" is purged")
	})
}

// lookFor says what to do where nobody knows whether a message was requeued.
func lookFor(uid string) string {
	const again = "to requeue it again is safe"
	if uid == "" {
		return again
	}
	return "if it was requeued, " + uid + " is there; " + again
}

// deadOnes requeues or purges what is named, else what is selected.
func (c caller) deadOnes(cmd *cobra.Command, what, done string, ids []string, order client.DeadOrder) error {
	if len(ids) == 0 {
		return c.manyDead(done, func(progress func(client.Report)) (client.Report, []byte, error) {
			return c.DeadMany(cmd.Context(), what, order, progress)
		})
	}
	order.IDs = ids
	results, raw, err := c.DeadByID(cmd.Context(), what, order)
	if err != nil {
		return answered(err, c.json)
	}
	var b strings.Builder
	failed, code := 0, exitDone
	for _, r := range results {
		name := printable(r.ID, "")
		switch {
		case r.Word != "":
			fmt.Fprintf(&b, "%s: %s (%s)", name, r.Detail, r.Word)
			if r.Word == wordOutcomeUnknown && what == "requeue" {
				b.WriteString("; " + lookFor(r.UID))
			}
			b.WriteString("\n")
			failed++
			code = worse(code, codeOfResult(r.Word))
		case r.UID != "" && what == "requeue":
			fmt.Fprintf(&b, "%s waits again as %s\n", name, r.UID)
		default:
			fmt.Fprintf(&b, "%s is %s\n", name, done)
		}
	}
	if failed == 0 {
		return c.show(raw, b.String())
	}
	return c.showAs(code, raw, b.String(), fmt.Sprintf("%d of %d were not %s", failed, len(results), done))
}

// worse is the exit code that counts of two: that something failed is more than what the messages' states refuse.
func worse(a, b int) int {
	for _, code := range []int{exitFailed, exitUsage, exitState, exitNotFound} {
		if a == code || b == code {
			return code
		}
	}
	return exitDone
}

// codeOfResult is the exit code of one result's word; results have no status.
func codeOfResult(word string) int {
	switch {
	case word == wordUnknownID, word == wordUnknownReject:
		return exitNotFound
	case strings.HasPrefix(word, "invalid_"), strings.HasPrefix(word, "unknown_"), strings.HasPrefix(word, "repeated_"),
		word == "too_large", word == "too_far",
		word == "delay_and_at", word == "missing_delay", word == "unsupported_yet":
		return exitUsage
	case word == "unavailable", word == "bucket_unavailable", word == wordOutcomeUnknown, word == "internal",
		word == "store_full", word == "busy", word == "journal_behind", word == "stopping":
		return exitFailed
	}
	return exitState
}
