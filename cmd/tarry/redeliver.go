package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newRedeliver(o outside) *cobra.Command {
	var (
		request client.Redeliver
		topic   string
	)
	cmd := &cobra.Command{
		Use:   "redeliver --since T",
		Short: "Deliver again what NATS had stored and has lost",
		Long: `Deliver again what NATS had stored and has lost: for every delivery since then it looks whether the
stream still has it.

Exit code 1 means that something could not be delivered again. It ends when this command does, and may be repeated.`,
		Example: `  tarry redeliver --since 2h --dry-run
  tarry redeliver --since 2030-01-31T08:00:00Z --topic orders.remind`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&request.Since, "since", "",
		"the first deliveries to check: RFC 3339, unix milliseconds, or how long ago; required")
	flags.StringVar(&topic, "topic", "", "only this topic, or all that match a pattern such as orders.>")
	flags.BoolVar(&request.DryRun, "dry-run", false, "only report what is gone")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		if !flags.Changed("since") {
			return usage("--since is missing: want RFC 3339, unix milliseconds, or how long ago")
		}
		if flags.Changed("topic") {
			request.Topic = &topic
		}
		progress, done := watched(c, func(r wire.RedeliverReport) string {
			return fmt.Sprintf("%d checked, %d gone", r.Checked, r.Gone)
		})
		r, raw, err := c.Redeliver(cmd.Context(), request, progress)
		if done(); err != nil {
			return answered(err, c.json)
		}
		return c.showUnless(r.Failed > 0, raw, redeliveredText(request.DryRun, r),
			fmt.Sprintf("%d could not be delivered again", r.Failed))
	})
}

func redeliveredText(dry bool, r wire.RedeliverReport) string {
	text := fmt.Sprintf("%d checked: %d present, %d gone, %d not to be judged", r.Checked, r.Present, r.Gone, r.Unknown)
	if dry {
		return "dry run, nothing was delivered; " + text
	}
	return fmt.Sprintf("%s; %d delivered again", text, r.Redelivered)
}
