package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newTopics(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topics [TOPIC]",
		Short: "Show what waits, is in flight and is dead by topic, and what is paused",
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
	cmd.Flags().String("limit", "", "topics to show, 1 to 1000 (default 100)")
	calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.topics(cmd)
		}
		if cmd.Flags().Changed("limit") {
			return usage("--limit does not go with a TOPIC")
		}
		t, raw, err := c.Topic(cmd.Context(), args[0])
		if err != nil {
			return answered(err, c.json)
		}
		return c.show(raw, topicText(&t))
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
	return c.show(raw, printable(p.Pattern, "")+" is paused: what is due waits until tarry topics resume")
}

func (c caller) resume(cmd *cobra.Command, pattern string) error {
	p, raw, err := c.Resume(cmd.Context(), pattern)
	if err != nil {
		return answered(err, c.json)
	}
	return c.show(raw, printable(p.Pattern, "")+" is not paused any more")
}

func (c caller) topics(cmd *cobra.Command) error {
	t, raw, err := c.Topics(cmd.Context(), parameters(cmd, "limit"))
	if err != nil {
		return answered(err, c.json)
	}
	rows := [][]string{{"TOPIC", "WAITING", "IN FLIGHT", "DEAD"}}
	for _, topic := range t.Topics {
		rows = append(rows, []string{topic.Topic, strconv.Itoa(topic.Waiting), strconv.Itoa(topic.InFlight), strconv.Itoa(topic.Dead)})
	}
	text, err := table(rows)
	if err != nil {
		return err
	}
	if len(t.Paused) > 0 {
		rows = [][]string{{"PAUSED", "SINCE", "BY"}}
		for _, p := range t.Paused {
			rows = append(rows, []string{p.Pattern, p.At, p.By})
		}
		paused, err := table(rows)
		if err != nil {
			return err
		}
		text += "\n" + paused
	}
	if err := c.show(raw, text); err != nil {
		return err
	}
	if t.More {
		c.remark("there are more topics: --limit shows up to 1000")
	}
	return nil
}

func topicText(t *client.Topic) string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-9s %s\n", name, printable(value, "")) }
	line("topic", t.Topic)
	line("waiting", strconv.Itoa(t.Waiting))
	line("in flight", strconv.Itoa(t.InFlight))
	line("dead", strconv.Itoa(t.Dead))
	if p := t.Paused; p != nil {
		line("paused", fmt.Sprintf("%s, since %s, by %s", p.Pattern, p.At, p.By))
	}
	return b.String()
}
