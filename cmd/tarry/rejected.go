package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newRejected(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rejected",
		Short: "List pushes by tag that were refused after NATS acknowledged them, or push them again",
		Args:  knownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(newRejectedList(o), newRejectedShow(o), newRejectedRequeue(o))
	return cmd
}

func newRejectedList(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List refused pushes, oldest first",
		Long: `List refused pushes, oldest first, without headers and bodies.

It shows one page or, with --all, every page. --json prints each page as one line; to get the next page, pass its cursor
to --cursor.`,
		Example: `  tarry rejected list --topic 'orders.>'
  tarry rejected list --id order-7131`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.String("topic", "", "only this topic, or all that match a pattern such as orders.>")
	flags.String("id", "", "only pushes with this Tarry-Id")
	flags.String("reason", "", "only pushes refused with this word, such as invalid_delay")
	addPages(cmd, "rejects")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		return pages(c, cmd, []string{"topic", "id", "reason"}, "/v1/rejects", rejectsPage)
	})
}

func rejectsPage(t clock, l *ops.RejectList, first bool) page {
	rows := [][]string{{"SEQUENCE", "REFUSED", "TOPIC", "ID", "REASON"}}
	for i := range l.Rejects {
		r := &l.Rejects[i]
		name := "-"
		if r.ID != "" {
			name = printable(r.ID, "")
		}
		rows = append(rows, []string{strconv.FormatUint(r.Sequence, 10), t.milli(r.At), printable(r.Topic, ""), name,
			r.Word + ": " + printable(r.Detail, "")})
	}
	return page{text: columns{8, -t.width(), -24, -24}.lines(rows, first), cursor: l.Cursor,
		empty: len(l.Rejects) == 0}
}

func newRejectedShow(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show SEQUENCE",
		Short: "Show one refused push with its headers and its body",
		Args:  oneArg("SEQUENCE"),
	}
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		sequence, err := sequenceOf(args[0])
		if err != nil {
			return err
		}
		return shows(c, rejectText)(get[ops.Rejected](c, cmd, fmt.Sprint("/v1/rejects/", sequence)))
	})
}

func rejectText(t clock, r *ops.Rejected) string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-10s %s\n", name, value) }
	line("sequence", strconv.FormatUint(r.Sequence, 10))
	line("refused", t.milli(r.At))
	line("topic", printable(r.Topic, ""))
	line("reason", r.Word+": "+printable(r.Detail, ""))
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		for _, value := range r.Headers[name] {
			line("header", printable(name+": "+value, ""))
		}
	}
	switch {
	case r.Incomplete:
		line("body", "incomplete: only a part of the push was stored")
	case r.Body != nil:
		line("body", printable(*r.Body, "\n\t"))
	default:
		line("body", fmt.Sprintf("%d bytes, not text", len(r.BodyBase64)))
	}
	return b.String()
}

func sequenceOf(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return 0, usage("SEQUENCE %q is not a whole number from 1", text)
	}
	return n, nil
}

// maxRejects is how many one request may name.
const maxRejects = 1000

func newRejectedRequeue(o outside) *cobra.Command {
	var (
		delay, at string
		set, drop []string
	)
	cmd := &cobra.Command{
		Use:   "requeue SEQUENCE...",
		Short: "Push refused pushes again, unchanged or edited",
		Long: `Push refused pushes again, unchanged or edited.

An accepted push leaves the rejects. A push that is refused again stays. If you repeat the command, it makes no second
message. A delay counts from now.`,
		Example: `  tarry rejected requeue 12 --delay 20m
  tarry rejected requeue 12 13 --set Tarry-Priority=9 --drop Tarry-Dealy`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return errors.New("SEQUENCE is missing; tarry rejected list shows them")
			case len(args) > maxRejects:
				return fmt.Errorf("%d sequences, the limit is %d", len(args), maxRejects)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.String("topic", "", "due on this topic, in place of the original one")
	flags.StringVar(&delay, "delay", "", "due this long from now, in place of the original delay or time")
	flags.StringVar(&at, "at", "", "due at this time, in place of the original delay or time")
	flags.StringArrayVar(&set, "set", nil, "header, as Name=value; replaces those of the same name; repeatable")
	flags.StringArrayVar(&drop, "drop", nil, "name of a header to remove; repeatable")
	addYes(cmd)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		order := client.RejectOrder{Topic: optional(cmd, "topic"), Drop: drop, Set: map[string]string{}}
		for _, arg := range args {
			sequence, err := sequenceOf(arg)
			if err != nil {
				return err
			}
			order.Sequences = append(order.Sequences, sequence)
		}
		for _, pair := range set {
			name, value, found := strings.Cut(pair, "=")
			if !found || name == "" {
				return usage("--set %q is not Name=value", pair)
			}
			order.Set[name] = value
		}
		if cmd.Flags().Changed("delay") {
			order.Set["Tarry-Delay"], order.Drop = delay, append(order.Drop, "Tarry-At")
		}
		if cmd.Flags().Changed("at") {
			order.Set["Tarry-At"] = at
			if !cmd.Flags().Changed("delay") { // otherwise both are sent, and refused
				order.Drop = append(order.Drop, "Tarry-Delay")
			}
		}
		if n := len(args); n > 1 {
			if err := c.sure(cmd, "pushed again", func() (int, error) { return n, nil }); err != nil {
				return err
			}
		}
		return c.requeueRejects(cmd, order)
	})
}

func (c caller) requeueRejects(cmd *cobra.Command, order client.RejectOrder) error {
	answer, raw, err := post[client.Results[client.RejectResult]](c, cmd, "/v1/rejects/requeue", order)
	if err != nil {
		return answered(err, c.json)
	}
	var all outcomes
	for _, r := range answer.Results {
		text := strconv.FormatUint(r.Sequence, 10)
		switch name := printable(r.ID, ""); {
		case r.Word != "":
			text += fmt.Sprintf(": %s (%s)", r.Detail, r.Word)
			if r.Word == wordOutcomeUnknown {
				text += "; you can safely requeue it again"
			}
		case r.Duplicate:
			text += fmt.Sprintf(" was accepted before: %s is %s, due %s", name, r.State, c.at(r.Due))
		case r.Merged:
			text += fmt.Sprintf(" is merged into %s, due %s", name, c.at(r.Due))
		default:
			text += fmt.Sprintf(" is accepted as %s, due %s", name, c.at(r.Due))
		}
		if r.Kept {
			text += "; it is still in the rejects"
		}
		all.add(r.Word, text)
	}
	return c.showAll(&all, raw, "requeued")
}
