package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/client"
	"github.com/tarry-mq/tarry/scheduler"
)

func newEvents(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events",
		Short: "List what happened, the last first",
		Long: `List what happened, the last first: messages that died, expired or left late, leases that lapsed, pushes that
were refused, topics that are held back or leave again, and leaders, stores, journals and webhooks that came or went.
Each instance keeps its last 500 events since it started. NATS has them too, on tarry.<namespace>.event.>.`,
		Args: noArgs,
	}
	cmd.Flags().String("kind", "", "only events of this kind")
	cmd.Flags().String("limit", "", "events, 1 to 1000 (default 100)")
	var kinds []string
	for _, kind := range scheduler.EventKinds() {
		kinds = append(kinds, string(kind))
	}
	completing(cmd, "kind", false, kinds...)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		return shows(c, eventsText)(get[ops.EventList](c, cmd,
			client.WithQuery("/v1/events", parameters(cmd, "kind", "limit"))))
	})
}

func eventsText(t clock, l *ops.EventList) string {
	rows := [][]string{{"AT", "KIND", "TOPIC", "MESSAGE", "DETAIL"}}
	for i := range l.Events {
		e, name, detail := &l.Events[i], "-", "-"
		if e.UID != "" {
			name = printable(string(e.UID), "")
		}
		if e.Detail != "" {
			detail = printable(e.Detail, "")
		}
		if e.N > 1 {
			detail += fmt.Sprintf(" (and %d more)", e.N-1)
		}
		rows = append(rows, []string{t.milli(e.At), string(e.Kind) + " on " + e.Instance, printable(e.Topic, "-"), name,
			detail})
	}
	return listText(rows, "no such event is kept: each instance has its last ones since it started", l.Missing)
}

func newActions(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "actions",
		Short: "List what operators did, the last first",
		Long: `List what operators did, the last first, with what it was done to and how much of it was done, from the
journal. Where it is off, from what each instance keeps: its last 300 actions since it started; the log has all of
them. The outcome of an action is unknown until it has ended, and for good where its instance died.

It shows one page or, with --all, every page. --json prints each page as one line; to get the next page, pass its cursor
to --cursor.`,
		Args: noArgs,
	}
	cmd.Flags().String("who", "", "only by the token with this name")
	cmd.Flags().String("what", "", "only this operation: pause, requeue, ...")
	addPages(cmd, "actions")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		return pages(c, cmd, []string{"who", "what"}, "/v1/actions", actionsPage)
	})
}

func actionsPage(t clock, l *ops.ActionList, first bool) page {
	rows := [][]string{{"AT", "WHO", "FROM", "WHAT", "OUTCOME", "ON"}}
	for i := range l.Actions {
		a, outcome := &l.Actions[i], "done"
		switch {
		case !a.Ended:
			outcome = "unknown"
		case a.Problem != "":
			outcome = a.Problem
		case a.DryRun:
			outcome = "dry run"
		}
		var on []string
		for _, name := range slices.Sorted(maps.Keys(a.On)) {
			value := fmt.Sprint(a.On[name])
			if n, is := a.On[name].(float64); is {
				value = strconv.FormatFloat(n, 'f', -1, 64)
			}
			if value != "" {
				on = append(on, name+" "+printable(value, ""))
			}
		}
		rows = append(rows, []string{t.milli(a.At), printable(a.Who, ""), a.From, printable(a.What, ""), outcome,
			strings.Join(on, ", ")})
	}
	text := columns{-t.width(), -16, -21, -16, -12}.lines(rows, first)
	if len(rows) == 1 && first {
		text = "no such action is kept\n"
	}
	return page{text: text, below: without(l.Missing), cursor: l.Cursor}
}

// listText is a table, or what to say where it has no rows, and whose part of it is missing.
func listText(rows [][]string, none string, missing []string) string {
	text := none + "\n"
	if len(rows) > 1 {
		text = table(rows)
	}
	return strings.TrimSuffix(text+without(missing), "\n")
}

// without says whose part of a list is missing.
func without(missing []string) string {
	if len(missing) == 0 {
		return ""
	}
	return "without " + strings.Join(missing, ", ") + ": no answer\n"
}
