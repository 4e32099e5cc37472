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
		text, err := clusterText(&cluster)
		if err != nil {
			return err
		}
		return c.show(raw, text)
	})
}

func clusterText(c *client.Cluster) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "namespace %s, term %d, ", c.Namespace, c.Term)
	if c.Leader == nil {
		b.WriteString("nobody leads\n")
	} else {
		fmt.Fprintf(&b, "%s at %s leads since %s\n", c.Leader.Instance, c.Leader.Address, c.Leader.Since)
	}
	if c.Journal != nil {
		b.WriteString("journal " + journalText(c.Journal.Mode, c.Journal.Lag) + "\n")
	}
	if len(c.Instances) == 0 {
		return b.String(), nil
	}
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "\nINSTANCE\tADDRESS\tROLE\tHEALTH\tVERSION\n")
	for _, i := range c.Instances {
		health := "healthy"
		if !i.Healthy {
			health = "not healthy"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", i.Instance, i.Address, i.Role, health, i.Version)
	}
	if err := table.Flush(); err != nil {
		return "", fmt.Errorf("lay out the table: %w", err)
	}
	return b.String(), nil
}

// journalText is the journal's mode and how far it is behind.
func journalText(mode string, lag *client.Lag) string {
	switch {
	case mode == "off":
		return mode
	case lag == nil:
		return mode + ", how far it is behind is not known"
	case lag.Changes == 0:
		return mode + ", up to date"
	}
	return mode + ", behind by " + lagText(lag)
}
