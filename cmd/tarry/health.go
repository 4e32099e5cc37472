package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/wire"
)

func newHealth(o outside) *cobra.Command {
	var live bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check whether an instance can accept pushes; for health checks",
		Long: `Check whether an instance can accept pushes, as leader or standby. If it is ready, the exit code is 0,
and the output names what it lacks all the same, such as NATS. Otherwise the exit code is 1, and the output names what
is missing. "tarry cluster" shows the reasons.

It needs no token.`,
		Args: noArgs,
	}
	cmd.Flags().BoolVar(&live, "live", false, "only check whether the process answers")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		if live {
			_, raw, err := get[struct{}](c, cmd, "/livez")
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
			if len(ready.Degraded) > 0 {
				return c.show(raw, "ready, but degraded: "+missing(ready.Checks))
			}
			return c.show(raw, "ready")
		}
		f := &failure{code: exitFailed, err: errors.New("not ready: " + missing(ready.Checks))}
		if c.json {
			f.json = raw
		}
		return f
	})
}

// missing returns the failed checks with their buckets and reasons.
func missing(checks []wire.Check) string {
	var parts []string
	for _, check := range checks {
		if check.OK {
			continue
		}
		part := check.Name
		if len(check.Buckets) > 0 {
			part += fmt.Sprintf(" in buckets %v", check.Buckets)
		}
		if check.Detail != "" {
			part += " (" + check.Detail + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
