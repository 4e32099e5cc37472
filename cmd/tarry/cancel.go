package main

import (
	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newCancel(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel ID | cancel --topic PATTERN | --due-from T | --due-to T | --all",
		Short: "Cancel a message that has not been delivered, or many",
		Long: `Cancel a message that has not been delivered, or many.

Success means that this delivery never comes; what a consumer sent back, or was requeued, may have been delivered
earlier.
Exit code 4 means that it is being delivered, has been, or may have been, or that this is so of some of many; 3 that no
message has this id.`,
		Example: `  tarry cancel order-7131
  tarry cancel --topic 'orders.>' --due-to 2030-01-31T08:00:00Z --dry-run
  tarry cancel --all --topic orders.remind --key customer-9`,
		Args: idOrSelection,
	}
	addSelection(cmd, "cancel")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.many("canceled", func(progress func(client.Report)) (client.Report, []byte, error) {
				return c.CancelMany(cmd.Context(), selectionOf(cmd), progress)
			})
		}
		canceled, raw, err := c.Cancel(cmd.Context(), nameOf(cmd, args[0]))
		if err != nil {
			return answered(err, c.json)
		}
		return c.show(raw, printable(canceled.ID, "")+" is canceled: "+never(canceled.Attempt))
	})
}

// never says what does not come. What a consumer sent back for a retry had come before.
func never(attempt uint32) string {
	if attempt > 1 {
		return "it will not come again; earlier attempts were delivered"
	}
	return "it will not be delivered"
}
