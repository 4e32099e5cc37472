package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newDead(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead [RECEIPT...]",
		Short: "List, requeue or purge dead messages, or say that messages that were pulled are dead",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if _, err := ops.ParseReceipt(args[0]); err == nil {
					return nil
				}
			}
			return knownCommand(cmd, args)
		},

		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(newDeadList(o), newDeadGroups(o), newRequeue(o), newPurge(o))
	return settling(o, cmd, ops.VerbDead,
		map[string]string{wire.FieldReason: "with receipts: why they are dead, for people"})
}

func newDeadList(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead messages, in the order they died",
		Long: `List dead messages, in the order they died.

It shows one page or, with --all, every page. --json prints each page as one line; to get the next page, pass its cursor
to --cursor.`,
		Args: noArgs,
	}
	addDied(cmd)
	cmd.Flags().String("cause", "", "only what died of this cause, one of tarry dead groups")
	addPages(cmd, "messages")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		return pages(c, cmd, []string{"topic", "cause", "from", "to"}, "/v1/dead", deadPage)
	})
}

func addDied(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.String("topic", "", "only this topic, or all that match a pattern such as orders.>")
	flags.String("from", "", "died at this time or later: RFC 3339, unix milliseconds, or how long ago")
	flags.String("to", "", "died at this time or earlier")
}

func newDeadGroups(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "List what messages died of, the most messages first",
		Long: `List what messages died of, the most messages first.

A cause is a topic and a reason, in which # stands for what differs from message to message. Requeue or purge the
messages of one with --cause.`,
		Example: `  tarry dead groups --from 24h
  tarry dead requeue --cause 7c1d09ab --spread 10m`,
		Args: noArgs,
	}
	addDied(cmd)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		return shows(c, causesText)(get[ops.DeadGroups](c, cmd,
			client.WithQuery("/v1/dead/groups", parameters(cmd, "topic", "from", "to"))))
	})
}

func causesText(t clock, l *ops.DeadGroups) string {
	part := fmt.Sprintf("the first %d that are dead were looked at; there are more", l.Looked.Read)
	switch {
	case len(l.Groups) == 0 && l.Looked.Whole:
		return "nothing is dead"
	case len(l.Groups) == 0:
		return "nothing of this is among those looked at: " + part
	}
	rows := [][]string{{"COUNT", "CAUSE", "TOPIC", "LAST", "REASON"}}
	for i := range l.Groups {
		g := &l.Groups[i]
		text := cmp.Or(g.Text, string(g.Word))
		if g.Uncertain > 0 {
			text += fmt.Sprintf(" (%d may have been delivered)", g.Uncertain)
		}
		rows = append(rows, []string{strconv.Itoa(g.Count), g.Cause, printable(g.Topic, ""), t.milli(g.Last),
			printable(text, "")})
	}
	text := table(rows)
	if l.Others > 0 {
		text += fmt.Sprintf("\nand %d of other causes", l.Others)
	}
	if !l.Looked.Whole {
		text += "\n" + part
	}
	return text
}

func deadPage(t clock, l *ops.MessageList, first bool) page {
	rows := [][]string{{"DIED", "UID", "TOPIC", "ID", "REASON"}}
	for i := range l.Messages {
		m := &l.Messages[i]
		name := "-"
		if m.ID != m.UID {
			name = printable(m.ID, "")
		}
		rows = append(rows,
			[]string{t.at(m.EndedAt), m.UID, printable(m.Topic, ""), name, printable(m.Reason, "")})
	}
	return page{text: columns{-t.width(), -18, -24, -24}.lines(rows, first), cursor: l.Cursor}
}

// deadFlags select many dead messages. The topic is not among them unless it is a pattern: see selecting.
var deadFlags = []string{"from", "to", "older", "cause", "all"}

func addDead(cmd *cobra.Command, does string) {
	flags := cmd.Flags()
	flags.String("topic", "", "with one ID: the topic of the id, if several topics have it; otherwise "+does+
		" many, of all topics that match a pattern such as orders.> or, with --all, of this topic")
	flags.String("key", "", "with one ID: the key of the id, if several keys have it")
	flags.String("from", "", does+" many: those that died at this time or later: RFC 3339, unix milliseconds, or how "+
		"long ago")
	flags.String("to", "", does+" many: those that died at this time or earlier")
	flags.String("older", "", does+" many: those that died longer ago than this: 12h, 7d")
	flags.String("cause", "", does+" many: those that died of this cause, one of tarry dead groups")
	flags.Bool("all", false, does+" many: all that match the other flags, or all if there are none")
	addMany(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		topic := changed(cmd, "topic")
		many := changed(cmd, deadFlags...) != "" || patternGiven(cmd) || topic != "" && isSet(cmd, "dry-run")
		switch err := idsOrMany(cmd, args, many, topic, deadFlags, "by --from, --to, --older, --cause or --all"); {
		case err != nil:
			return err
		case len(args) != 1 && cmd.Flags().Changed("key"):
			return errors.New("--key requires exactly one ID")
		case len(args) > 1 && topic != "":
			return errors.New("--topic requires exactly one ID; to name several messages whose ids are ambiguous, use their " +
				"uids")
		case len(args) > 0 && cmd.Flags().Changed("dry-run"):
			return errors.New("--dry-run cannot be combined with an ID")
		}
		return nil
	}
}

// deadOrderFlags are the flags that are fields of an order about dead messages.
func deadOrderFlags() []string {
	return []string{"topic", "key", "from", "to", "older", "cause", "all", "dry-run"}
}

func newRequeue(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "requeue ID... | requeue --topic PATTERN | --from T | --to T | --older D | --cause C | --all",
		Short: "Deliver dead messages after all, each as a new message under the same id",
		Long: `Deliver dead messages after all, each as a new message under the same id.

If the dead message may have been delivered, the new one is uncertain from the start, even if it is edited: a consumer
may have seen it. A cancel of it answers maybe_delivered, and reschedule and run refuse it.`,
		Example: `  tarry dead requeue order-7131 --body-file repaired.json
  tarry dead requeue --topic 'orders.>' --delay 10m --dry-run`,
	}
	addDead(cmd, "requeue")
	cmd.Flags().String("delay", "", "due this long from now: 20m, 1d12h, 2w (default at once)")
	cmd.Flags().String("spread", "", "requeue many: spread evenly over this long from then on, at most 24h")
	addContent(cmd)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		if one := changed(cmd, contentFlags...); one != "" && len(args) != 1 {
			return usage("--%s needs one ID", one)
		}
		names := append(append(deadOrderFlags(), "delay", "spread"), contentFlags...)
		if len(args) != 1 {
			return c.deadOnes(cmd, "requeue", "requeued", args, names)
		}
		order, err := fields(cmd, o.in, names...)
		if err != nil {
			return err
		}
		order["id"] = args[0]
		r, raw, err := post[ops.DeadResult](c, cmd, "/v1/dead/requeue", order)
		if err != nil {
			return answered(unsure(err, func(p *client.Problem) string { return lookFor(p.UID) }), c.json)
		}
		return c.show(raw, fmt.Sprintf("%s is requeued as %s, due %s", printable(args[0], ""), r.UID, c.at(r.Due)))
	})
}

func newPurge(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "purge ID... | purge --topic PATTERN | --from T | --to T | --older D | --cause C | --all",
		Short: "End dead messages for good",
		Example: `  tarry dead purge order-7131
  tarry dead purge --older 30d --dry-run`,
	}
	addDead(cmd, "purge")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		if len(args) != 1 || changed(cmd, "topic", "key") == "" {
			return c.deadOnes(cmd, "purge", "purged", args, deadOrderFlags())
		}
		order, err := fields(cmd, nil, deadOrderFlags()...)
		if err != nil {
			return err
		}
		order["id"] = args[0]
		return says(c, printable(args[0], "")+" is purged")(post[struct{}](c, cmd, "/v1/dead/purge", order))
	})
}

// lookFor returns what to do if it is unknown whether a message was requeued.
func lookFor(uid string) string {
	const again = "you can safely requeue it again"
	if uid == "" {
		return again
	}
	return "if it was requeued, the new message is " + uid + "; " + again
}

// deadOnes requeues or purges the named messages or, without ids, those that the flags with these names select.
func (c caller) deadOnes(cmd *cobra.Command, what, done string, ids, names []string) error {
	if len(ids) == 0 {
		return c.many(cmd, "/v1/dead/"+what, done, names...)
	}
	order, err := fields(cmd, nil, names...)
	if err != nil {
		return err
	}
	order["ids"] = ids
	answer, raw, err := post[client.Results[client.DeadResult]](c, cmd, "/v1/dead/"+what, order)
	if err != nil {
		return answered(err, c.json)
	}
	var all outcomes
	for _, r := range answer.Results {
		text := printable(r.ID, "")
		switch {
		case r.Word != "":
			text += fmt.Sprintf(": %s (%s)", r.Detail, r.Word)
			if r.Word == wordOutcomeUnknown && what == "requeue" {
				text += "; " + lookFor(r.UID)
			}
		case r.UID != "" && what == "requeue":
			text += " is requeued as " + r.UID
		default:
			text += " is " + done
		}
		all.add(r.Word, text)
	}
	return c.showAll(&all, raw, done)
}

// outcomes collects the outcomes of a request that names several messages.
type outcomes struct {
	text         strings.Builder
	count        int
	failed, code int
}

// add adds one outcome; word is the word of a refusal.
func (o *outcomes) add(word, text string) {
	o.text.WriteString(text + "\n")
	if o.count++; word != "" {
		o.failed++
		o.code = worse(o.code, codeOfResult(word))
	}
}

// showAll prints all outcomes and ends the command with the exit code of the worst.
func (c caller) showAll(o *outcomes, raw []byte, done string) error {
	if o.failed == 0 {
		return c.show(raw, o.text.String())
	}
	return c.showAs(o.code, raw, o.text.String(), fmt.Sprintf("%d of %d were not %s", o.failed, o.count, done))
}

// worse returns the more severe of two exit codes: a failure is worse than a refusal by a message's state.
func worse(a, b int) int {
	for _, code := range []int{exitFailed, exitUsage, exitState, exitNotFound} {
		if a == code || b == code {
			return code
		}
	}
	return exitDone
}

// codeOfResult returns the exit code for one result's word; results have no status.
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
