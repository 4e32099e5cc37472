package main

import "github.com/spf13/cobra"

func newCancel(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a message that has not been delivered",
		Long: `Cancel a message that has not been delivered.

Success means that no consumer will ever see it. Exit code 4 means that it is being delivered, has been, or may have been;
3 that no message has this id.`,
		Args: oneArg("ID"),
	}
	addKey(cmd)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		key, keyed := keyOf(cmd)
		canceled, raw, err := c.Cancel(cmd.Context(), args[0], key, keyed)
		if err != nil {
			return answered(err, c.json)
		}
		return c.show(raw, printable(canceled.ID, "")+" is canceled: no consumer will ever see it")
	})
}
