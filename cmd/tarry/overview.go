package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func newOverview(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "overview",
		Short: "Say whether all is well and, if not, why",
		Long: `Say whether all is well and, if not, why: the worst first. If something is not accepted, or does not leave, the
exit code is 1, for monitors.`,
		Args: noArgs,
	}
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		seen, raw, err := get[ops.Overview](c, cmd, "/v1/overview")
		if err != nil {
			return answered(err, c.json)
		}
		text := overviewText(c.clock, &seen)
		if seen.Level == ops.LevelStop {
			return c.fails(exitFailed, raw, text)
		}
		return c.show(raw, text)
	})
}

func overviewText(t clock, o *ops.Overview) string {
	var b strings.Builder
	if o.Level == ops.LevelWell {
		b.WriteString("all is well\n")
	}
	for i := range o.Conditions {
		c := &o.Conditions[i]
		fmt.Fprintf(&b, "%-5s %s", c.Level, printable(c.Detail, ""))
		if c.Count > 0 {
			fmt.Fprintf(&b, ", %d", c.Count)
		}
		if c.Oldest > 0 {
			fmt.Fprintf(&b, ", the oldest since %s", t.at(ops.FormatTime(int64(c.Oldest))))
		}
		if c.By != "" {
			b.WriteString(", by " + printable(c.By, ""))
		}
		fmt.Fprintf(&b, " (%s)\n", c.Word)
	}
	if m := o.Messages; m != nil {
		fmt.Fprintf(&b, "%d waiting, %d ready, %d in flight, %d dead", m.Waiting, m.Ready, m.InFlight, m.Dead)
		if o.Next > 0 {
			fmt.Fprintf(&b, "; the next falls due at %s", t.at(ops.FormatTime(int64(o.Next))))
		}
		b.WriteByte('\n')
	}
	if h := o.LastHour; h != nil {
		fmt.Fprintf(&b, "in the last hour %d accepted, %d delivered (%d late), %d canceled, %d expired, %d dead\n",
			h.Accepted, h.Delivered, h.Late, h.Canceled, h.Expired, h.Dead)
	}
	if o.Leader != nil {
		fmt.Fprintf(&b, "%s leads, %d of %d instances could", o.Leader.Instance, o.Healthy, o.Instances)
		if o.Gone > 0 {
			fmt.Fprintf(&b, ", and %d more gone", o.Gone)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func newHeld(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "held",
		Short: "List what holds messages back that are due",
		Long: `List what holds messages back that are due, the most messages first: pauses, rates, subjects without a
listener, streams that take nothing, and topics whose messages wait to be pulled.`,
		Args: noArgs,
	}
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		return shows(c, heldText)(get[ops.HeldList](c, cmd, "/v1/held"))
	})
}

func heldText(t clock, l *ops.HeldList) string {
	if len(l.Groups) == 0 {
		return "nothing that is due is held back"
	}
	rows := [][]string{{"COUNT", "NAME", "OLDEST", "WHY"}}
	for i := range l.Groups {
		g := &l.Groups[i]
		why := string(g.Word) + ": " + g.Detail
		if g.Word == message.WhyPaused {
			why += ", by " + g.By
		}
		rows = append(rows, []string{strconv.Itoa(g.Count), g.Name, t.milli(g.Oldest), why})
	}
	text := table(rows)
	if l.More {
		text += "\nand more: these hold the most"
	}
	return text
}
