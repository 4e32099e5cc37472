package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newRedeliver(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redeliver --since T",
		Short: "Deliver again what NATS stored and then lost",
		Long: `Deliver again what NATS stored and then lost: for every delivery since the given time, check whether the
stream still has it.

Exit code 1 means that a message could not be delivered again. If you interrupt the command, the work stops. You may run
it again.`,
		Example: `  tarry redeliver --since 2h --dry-run
  tarry redeliver --since 2030-01-31T08:00:00Z --topic orders.remind`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.String("since", "",
		"check deliveries from this time on: RFC 3339, unix milliseconds, or how long ago; required")
	flags.String("topic", "", "only this topic, or all that match a pattern such as orders.>")
	flags.Bool("dry-run", false, "only report what is lost")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		if !flags.Changed("since") {
			return usage("--since is missing: want RFC 3339, unix milliseconds, or how long ago")
		}
		request, err := fields(cmd, nil, "since", "topic", "dry-run")
		if err != nil {
			return err
		}
		progress, done := watched(c, func(r wire.RedeliverReport) string {
			return fmt.Sprintf("%d checked, %d gone", r.Checked, r.Gone)
		})
		r, raw, err := client.Long(cmd.Context(), c.Client, "/v1/redeliver", request, progress)
		if done(); err != nil {
			return answered(err, c.json)
		}
		return c.showUnless(r.Failed > 0, raw, redeliveredText(isSet(cmd, "dry-run"), r),
			fmt.Sprintf("%d could not be delivered again", r.Failed))
	})
}

func redeliveredText(dry bool, r wire.RedeliverReport) string {
	text := fmt.Sprintf("%d checked: %d present, %d gone, %d unknown", r.Checked, r.Present, r.Gone, r.Unknown)
	if dry {
		return "dry run, nothing was delivered; " + text
	}
	return fmt.Sprintf("%s; %d delivered again", text, r.Redelivered)
}
