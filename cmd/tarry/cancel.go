package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newCancel(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel ID | cancel --topic PATTERN | --due-from T | --due-to T | --all",
		Short: "Cancel a message that has not been delivered, or many",
		Long: `Cancel a message that has not been delivered, or many.

Success means that the message will not be delivered. If a consumer sent it back, or it was requeued, earlier attempts
may have been delivered.
Exit code 4 means that the message is being delivered, was delivered, or may have been delivered; for many, that this is
so for at least one. Exit code 3 means that no message has this id.`,
		Example: `  tarry cancel order-7131
  tarry cancel --topic 'orders.>' --due-to 2030-01-31T08:00:00Z --dry-run
  tarry cancel --all --topic orders.remind --key customer-9`,
		Args: idOrSelection,
	}
	addSelection(cmd, "cancel")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.many(cmd, "/v1/messages/cancel", "canceled", selectionFlags()...)
		}
		return shows(c, canceledText)(client.Ask[wire.Canceled](cmd.Context(), c.Client, http.MethodDelete,
			nameOf(cmd, args[0]).Path(""), nil))
	})
}

// canceledText describes the canceled delivery. If a consumer had sent the message back for a retry, it had been
// delivered before.
func canceledText(_ clock, canceled *wire.Canceled) string {
	never := "it will not be delivered"
	if canceled.Attempt > 1 {
		never = "it will not come again; earlier attempts were delivered"
	}
	return printable(canceled.ID, "") + " is canceled: " + never
}
