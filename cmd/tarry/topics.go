package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newTopics(o outside) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "topics [TOPIC]",
		Short: "Show what waits, is in flight and is dead by topic, and what is paused",
		Long: `Show what waits, is in flight and is dead by topic, in the order of their names, and what is paused.

It shows one page, or with --all everything, page after page. --json prints each page as one line; its cursor, given as
--cursor, asks for the next one.`,
		Example: `  tarry topics
  tarry topics orders.remind
  tarry topics pause 'orders.>'
  tarry topics resume 'orders.>'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("at most one TOPIC is wanted, not %d", len(args))
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.String("limit", "", "topics on a page, 1 to 1000 (default 100, with --all 1000)")
	flags.String("cursor", "", "go on after the page that gave this cursor")
	flags.BoolVar(&all, "all", false, "go on to the end")
	calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.topics(cmd, all)
		}
		if one := changed(cmd, "limit", "cursor", "all"); one != "" {
			return usage("--%s does not go with a TOPIC", one)
		}
		t, raw, err := c.Topic(cmd.Context(), args[0])
		if err != nil {
			return answered(err, c.json)
		}
		return c.show(raw, topicText(c.clock, &t))
	})
	cmd.AddCommand(
		newPause(o, "pause", "Hold back what is due on a topic, or on all that match a pattern", caller.pause),
		newPause(o, "resume", "End a pause, of exactly the pattern that was paused", caller.resume),
	)
	return cmd
}

func newPause(o outside, name, short string, do func(caller, *cobra.Command, string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name + " PATTERN",
		Short: short,
		Args:  oneArg("PATTERN"),
	}
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error { return do(c, cmd, args[0]) })
}

func (c caller) pause(cmd *cobra.Command, pattern string) error {
	p, raw, err := c.Pause(cmd.Context(), pattern)
	if err != nil {
		return answered(err, c.json)
	}
	text := printable(p.Pattern, "") + " is paused: what is due waits until tarry topics resume"
	if !p.InEffect {
		text = printable(p.Pattern, "") + " is paused, but the leader has not said so yet: normally within a second, " +
			"and with a new leader from the start, what is due waits until tarry topics resume"
	}
	return c.show(raw, text)
}

func (c caller) resume(cmd *cobra.Command, pattern string) error {
	p, raw, err := c.Resume(cmd.Context(), pattern)
	if err != nil {
		return answered(err, c.json)
	}
	text := printable(p.Pattern, "") + " is not paused any more"
	if !p.InEffect {
		text += ", but the leader has not said so yet: normally within a second what is due leaves"
	}
	return c.show(raw, text)
}

// topics shows a page, or all of them; what is paused comes after the last that is shown.
func (c caller) topics(cmd *cobra.Command, all bool) error {
	q := parameters(cmd, "limit", "cursor")
	if all && !q.Has("limit") {
		q.Set("limit", wholeList)
	}
	for first := true; ; first = false {
		page, raw, err := c.Topics(cmd.Context(), q)
		if err != nil {
			return answered(err, c.json)
		}
		last := !all || page.Cursor == ""
		text := countsText(page.Topics, first)
		if last && len(page.Paused) > 0 {
			paused, err := pausesText(c.clock, page.Paused)
			if err != nil {
				return err
			}
			text += "\n" + paused
		}
		if err := c.show(raw, text); err != nil {
			return err
		}
		if last {
			if page.Cursor != "" {
				c.remark("there are more: --all shows them")
			}
			return nil
		}
		q.Set("cursor", page.Cursor)
	}
}

// countsText is a page in columns of fixed width, as pageText is.
func countsText(topics []client.Topic, first bool) string {
	var b strings.Builder
	line := func(topic, waiting, inFlight, dead string) {
		fmt.Fprintf(&b, "%-40s  %-9s  %-9s  %s\n", topic, waiting, inFlight, dead)
	}
	if first {
		line("TOPIC", "WAITING", "IN FLIGHT", "DEAD")
	}
	for _, t := range topics {
		dead := strconv.Itoa(t.Dead)
		if t.ParkedWhy != "" {
			dead = fmt.Sprintf("%-9s  %s", dead, printable(t.ParkedWhy, ""))
		}
		line(printable(t.Topic, ""), strconv.Itoa(t.Waiting), strconv.Itoa(t.InFlight), dead)
	}
	return b.String()
}

func pausesText(t clock, pauses []client.Pause) (string, error) {
	rows := [][]string{{"PAUSED", "SINCE", "BY"}}
	for _, p := range pauses {
		rows = append(rows, []string{p.Pattern, t.at(p.At), p.By})
	}
	return table(rows)
}

func topicText(clk clock, t *client.Topic) string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-9s %s\n", name, printable(value, "")) }
	line("topic", t.Topic)
	line("waiting", strconv.Itoa(t.Waiting))
	line("in flight", strconv.Itoa(t.InFlight))
	line("dead", strconv.Itoa(t.Dead))
	if t.ParkedWhy != "" {
		line("parked", t.ParkedWhy)
	}
	if p := t.Paused; p != nil {
		line("paused", fmt.Sprintf("%s, since %s, by %s", p.Pattern, clk.at(p.At), p.By))
	}
	return b.String()
}
