package main

import "github.com/spf13/cobra"

func newResign(o outside) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "resign",
		Short: "Make the leader step down, so that a standby takes over",
		Args:  noArgs,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the logs")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		raw, err := c.Resign(cmd.Context(), reason)
		if err != nil {
			return answered(err, c.json)
		}
		return c.show(raw, "the leader has resigned; tarry cluster shows who leads now")
	})
}
