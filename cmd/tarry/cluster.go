package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newCluster(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show who leads and who stands by",
		Args:  noArgs,
	}
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		cluster, raw, err := c.Cluster(cmd.Context())
		if err != nil {
			return answered(err, c.json)
		}
		text, err := clusterText(c.clock, &cluster)
		if err != nil {
			return err
		}
		return c.show(raw, text)
	})
}

func clusterText(t clock, c *client.Cluster) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "namespace %s, term %d, ", c.Namespace, c.Term)
	if c.Leader == nil {
		b.WriteString("nobody leads\n")
	} else {
		fmt.Fprintf(&b, "%s at %s leads since %s\n", c.Leader.Instance, c.Leader.Address, t.at(c.Leader.Since))
	}
	if c.Journal != nil {
		b.WriteString("journal " + journalText(t, c.Journal.Mode, c.Journal.Lag) + "\n")
	}
	if lacks := missing(c.Checks); lacks != "" {
		b.WriteString("the instance asked lacks " + lacks + "\n")
	}
	for _, p := range c.Parked {
		b.WriteString("parked: " + printable(p.Why, "") + "\n")
	}
	if len(c.Instances) == 0 {
		return b.String(), nil
	}
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "\nINSTANCE\tADDRESS\tROLE\tLAST SAID\tVERSION\n")
	for _, i := range c.Instances {
		health := "healthy"
		switch {
		case i.Other:
			health = "another Redis than the leader's"
		case !i.Healthy:
			health = "not healthy"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", i.Instance, i.Address, i.Role, health, i.Version)
	}
	if err := table.Flush(); err != nil {
		return "", fmt.Errorf("lay out the table: %w", err)
	}
	return b.String(), nil
}

// journalText is the journal's mode, how far it is behind, and what it could not hold.
func journalText(t clock, mode string, lag *client.Lag) string {
	switch {
	case mode == "off":
		return mode
	case lag == nil:
		return mode + ", how far it is behind is not known"
	}
	text := mode + ", up to date"
	if lag.Changes > 0 {
		text = mode + ", behind by " + lagText(t, lag)
	}
	if lag.Quarantined > 0 {
		text += fmt.Sprintf("; %d entries of the outbox are quarantined: see tarry verify", lag.Quarantined)
	}
	return text
}
