package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/client"
	"github.com/tarry-mq/tarry/scheduler"
)

func newTopics(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topics [TOPIC]",
		Short: "Count waiting, in-flight and dead messages by topic, and show what is paused",
		Long: `Count waiting, in-flight and dead messages by topic, in the order of the topics, and show what is
paused.

It shows one page or, with --all, every page. --json prints each page as one line; to get the next page, pass its cursor
to --cursor.`,
		Example: `  tarry topics
  tarry topics orders.remind
  tarry topics pause 'orders.>'
  tarry topics resume 'orders.>'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("want at most one TOPIC, got %d", len(args))
			}
			return nil
		},
	}
	addPages(cmd, "topics")
	calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return pages(c, cmd, nil, "/v1/topics", topicsPage)
		}
		if one := changed(cmd, "limit", "cursor", "all"); one != "" {
			return usage("--%s cannot be combined with a TOPIC", one)
		}
		return shows(c, topicText)(get[ops.TopicCounts](c, cmd, "/v1/topics/"+client.Step(args[0])))
	})
	cmd.AddCommand(
		newPause(o, "pause", "Hold back due messages of a topic, or of all topics that match a pattern", pausedText),
		newPause(o, "resume", "End the pause of exactly this pattern", resumedText),
	)
	return cmd
}

func newPause(o outside, name, short string, text func(clock, *ops.Paused) string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name + " PATTERN",
		Short: short,
		Args:  oneArg("PATTERN"),
	}
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		path := "/v1/topics/" + client.Step(args[0]) + "/" + name
		return shows(c, text)(post[ops.Paused](c, cmd, path, struct{}{}))
	})
}

func pausedText(_ clock, p *ops.Paused) string {
	if !p.InEffect {
		return printable(p.Pattern, "") + " is paused, but the leader has not confirmed it yet: due messages wait, " +
			"normally within a second and under a new leader from the start, until tarry topics resume"
	}
	return printable(p.Pattern, "") + " is paused: due messages wait until tarry topics resume"
}

func resumedText(_ clock, p *ops.Paused) string {
	text := printable(p.Pattern, "") + " is no longer paused"
	if !p.InEffect {
		text += ", but the leader has not confirmed it yet: due messages leave normally within a second"
	}
	return text
}

func pausedAs(p *scheduler.Pause) string {
	if p == nil {
		return ""
	}
	return p.Pattern + " is paused"
}

// topicsPage shows the paused patterns below the last topic.
func topicsPage(t clock, l *ops.Topics, first bool) page {
	rows := [][]string{{"TOPIC", "WAITING", "READY", "IN FLIGHT", "DEAD"}}
	for _, t := range l.Topics {
		rows = append(rows, []string{printable(t.Topic, ""), strconv.Itoa(t.Waiting), strconv.Itoa(t.Ready),
			strconv.Itoa(t.InFlight), strconv.Itoa(t.Dead), printable(cmp.Or(t.Why.Detail, pausedAs(t.Paused)), "")})
	}
	p := page{text: columns{-40, -9, -9, -9, -9}.lines(rows, first), cursor: l.Cursor}
	if len(l.Paused) > 0 {
		paused := [][]string{{"PAUSED", "SINCE", "BY"}}
		for _, pause := range l.Paused {
			paused = append(paused, []string{pause.Pattern, t.milli(pause.At), pause.By})
		}
		p.below = "\n" + table(paused)
	}
	if len(l.Webhooks) > 0 {
		hooks := [][]string{{"WEBHOOK", "TARGET", "LAST ASKED", "FAILING SINCE", "OUTCOME"}}
		for _, w := range l.Webhooks {
			hooks = append(hooks, []string{w.Pattern, w.Target, t.at(w.At), t.at(w.FailingSince), printable(w.Outcome, "")})
		}
		p.below += "\n" + table(hooks)
	}
	return p
}

func topicText(clk clock, t *ops.TopicCounts) string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-9s %s\n", name, printable(value, "")) }
	line("topic", t.Topic)
	line("waiting", strconv.Itoa(t.Waiting))
	line("ready", strconv.Itoa(t.Ready))
	line("in flight", strconv.Itoa(t.InFlight))
	line("leased", strconv.Itoa(t.Leased))
	if t.Held > 0 {
		line("held", fmt.Sprintf("%d, behind another message of their key", t.Held))
	}
	line("dead", strconv.Itoa(t.Dead))
	if t.Why.Word != "" {
		line("why", t.Why.Detail)
	}
	if p := t.Paused; p != nil {
		line("paused", fmt.Sprintf("%s, since %s, by %s", p.Pattern, clk.milli(p.At), p.By))
	}
	return b.String()
}
