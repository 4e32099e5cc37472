package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newHealth(o outside) *cobra.Command {
	var live bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Tell whether an instance can do its part; for health checks",
		Long: `Tell whether an instance can do its part: exit code 0 when it is ready, leader or standby, else 1 with what is missing.

It needs no token.`,
		Args: noArgs,
	}
	cmd.Flags().BoolVar(&live, "live", false, "only ask whether the process answers")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		if live {
			raw, err := c.Live(cmd.Context())
			if err != nil {
				return answered(err, c.json)
			}
			return c.show(raw, "live")
		}
		ready, raw, err := c.Ready(cmd.Context())
		if err != nil {
			return answered(err, c.json)
		}
		if ready.Ready {
			return c.show(raw, "ready")
		}
		f := &failure{code: exitFailed, err: errors.New("not ready: " + missing(ready))}
		if c.json {
			f.json = raw
		}
		return f
	})
}

func missing(r client.Ready) string {
	var parts []string
	for _, check := range r.Checks {
		if check.OK {
			continue
		}
		part := check.Name
		if check.Detail != "" {
			part += " (" + check.Detail + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
