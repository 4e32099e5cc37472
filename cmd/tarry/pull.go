package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newPull(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pull TOPIC...",
		Short: "Fetch due messages that were pushed for pull, and lease them",
		Long: `Fetch due messages that were pushed for pull, and lease them: the highest priority first, then the earliest
due. Each comes with a receipt, for tarry ack, nack, dead, extend and release. Once its lease is over it is ready again,
by its schedule of retries. Several topics, up to 32, get equal shares, as far as each has as many. If nothing comes,
the exit code is 3.`,
		Example: `  tarry pull bills --max 10 --wait 30s --json
  tarry pull bills --ack`,
		Args: someArgs("TOPIC"),
	}
	flags := cmd.Flags()
	flags.Int("max", 1, "how many at most, up to 1000")
	flags.String("wait", "", "how long to wait for a message, up to 60s (default not at all)")
	flags.String("lease", "", "how long to hold them, 100ms to 12h (default by message, topic, or 30s)")
	flags.String("consumer", "", "who pulls, for people: the history tells it")
	ack := flags.Bool("ack", false, "acknowledge them once they are printed")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		order, err := fields(cmd, nil, "max", "wait", "lease", "consumer")
		if err != nil {
			return err
		}
		found, raw, err := c.Pull(cmd.Context(), args, order)
		if err != nil {
			return answered(err, c.json)
		}
		if len(found) == 0 {
			return c.fails(exitNotFound, raw, "nothing is ready on "+printable(strings.Join(args, ", "), ""))
		}
		receipts, texts := make([]string, len(found)), make([]string, len(found))
		for i := range found {
			receipts[i], texts[i] = found[i].Receipt, pulledText(c.clock, &found[i])
			if len(args) > 1 {
				texts[i] = fmt.Sprintf("%-8s %s\n", "topic", printable(found[i].Topic, "")) + texts[i]
			}
		}
		if err := c.show(raw, strings.Join(texts, "\n")); err != nil || !*ack {
			return err
		}
		if c.out = c.err; c.json { // the output is the messages
			c.out = io.Discard
		}
		return c.settle(cmd, ops.VerbAck, receipts, map[string]any{})
	})
}

func pulledText(t clock, m *client.Pulled) string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-8s %s\n", name, value) }
	line("id", printable(m.ID, ""))
	line("due", t.at(m.Due))
	line("attempt", fmt.Sprintf("%d, leased until %s", m.Attempt, t.at(m.LeaseUntil)))
	line("receipt", m.Receipt)
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		line("header", printable(name+": "+strings.Join(m.Headers[name], ", "), ""))
	}
	if m.Body != nil {
		line("body", printable(*m.Body, "\n\t"))
	} else {
		line("body", fmt.Sprintf("%d bytes, not text", len(m.BodyBase64)))
	}
	return b.String()
}

// newSettle makes the command of a verb. flag is the flag that goes with the verb, empty for none.
func newSettle(o outside, verb, short string, usages map[string]string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   verb + " RECEIPT...",
		Short: short,
		Long:  short + ".\n\nIt is safe to repeat. If a lease does not hold any more, the exit code is 4.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("RECEIPT is missing; tarry pull shows it")
			}
			return nil
		},
	}
	return settling(o, cmd, verb, usages)
}

// settling makes a command settle the leases of receipts by a verb. usages are those of its flags.
func settling(o outside, cmd *cobra.Command, verb string, usages map[string]string) *cobra.Command {
	for flag, usage := range usages {
		cmd.Flags().String(flag, "", usage)
	}
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		order, err := fields(cmd, nil, slices.Collect(maps.Keys(usages))...)
		switch {
		case err != nil:
			return err
		case len(args) == 0 && verb == ops.VerbRelease:
			return c.free(cmd, order)
		case len(args) == 0:
			return cmd.Help()
		}
		return c.settle(cmd, verb, args, order)
	})
}

func newSettles(o outside) []*cobra.Command {
	return []*cobra.Command{
		newSettle(o, ops.VerbAck, "Acknowledge messages that were pulled: they are delivered", nil),
		newSettle(o, ops.VerbNack, "Send messages that were pulled back, for their next retry", map[string]string{
			wire.FieldDelay:  "how long until then (default by the schedule of retries): 10s, 5m",
			wire.FieldReason: "why, for people"}),
		newSettle(o, ops.VerbExtend, "Hold messages that were pulled for longer", map[string]string{
			wire.FieldLease: "how long from now: 30s, 10m"}),
		newRelease(o),
	}
}

// newRelease makes the command of a consumer's release, and with --id of an operator's.
func newRelease(o outside) *cobra.Command {
	cmd := newSettle(o, ops.VerbRelease, "Give messages that were pulled back, which counts as no try",
		map[string]string{wire.FieldReason: "with --id: why, for the history"})
	cmd.Use = "release RECEIPT... | release --id ID"
	cmd.Flags().String("id", "", "free this message, whoever holds it")
	addName(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		byID := cmd.Flags().Changed("id")
		if byID == (len(args) > 0) || !byID && changed(cmd, "reason", "topic", "key") != "" {
			return errors.New("want receipts, as tarry pull shows them, or --id")
		}
		return nil
	}
	return cmd
}

// free releases a message for an operator.
func (c caller) free(cmd *cobra.Command, order map[string]any) error {
	id := *optional(cmd, "id")
	return shows(c, func(_ clock, r *ops.Info) string {
		return fmt.Sprintf("%s is %s; %q had held it for attempt %d", printable(id, ""), r.State, r.Consumer,
			r.Attempt)
	})(post[ops.Info](c, cmd, nameOf(cmd, id).Path("/release"), order))
}

// settle settles the leases of receipts and shows the outcome of each.
func (c caller) settle(cmd *cobra.Command, verb string, receipts []string, order map[string]any) error {
	order[ops.FieldReceipts] = receipts
	answer, raw, err := post[client.Results[client.SettleResult]](c, cmd, "/v1/leases/"+verb, order)
	if err != nil {
		return answered(err, c.json)
	}
	var all outcomes
	for i, r := range answer.Results {
		switch {
		case r.Word != "":
			all.add(r.Word, fmt.Sprintf("%s: %s (%s)", receipts[i], r.Detail, r.Word))
		case r.LeaseUntil != "":
			all.add("", fmt.Sprintf("%s is leased until %s", r.UID, c.at(r.LeaseUntil)))
		case r.Due != "":
			all.add("", fmt.Sprintf("%s is %s, due %s", r.UID, r.State, c.at(r.Due)))
		default:
			all.add("", fmt.Sprintf("%s is %s", r.UID, r.State))
		}
	}
	return c.showAll(&all, raw, "settled")
}
