package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/client"
	"github.com/tarry-mq/tarry/scheduler/record"
)

func newCluster(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show who leads and who stands by",
		Args:  noArgs,
	}
	cmd.Flags().Bool("detail", false, "also since when each instance runs, what it reaches and how its clocks are")
	cmd.AddCommand(newForget(o))
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		return shows(c, clusterText)(get[ops.Cluster](c, cmd, client.WithQuery("/v1/cluster", parameters(cmd, "detail"))))
	})
}

func clusterText(t clock, c *ops.Cluster) string {
	var b strings.Builder
	fmt.Fprintf(&b, "namespace %s, term %d, ", c.Namespace, c.Term)
	if c.Leader == nil {
		b.WriteString("nobody leads\n")
	} else {
		fmt.Fprintf(&b, "%s at %s leads since %s\n", c.Leader.Instance, c.Leader.Address, t.at(c.Leader.Since))
	}
	if c.Journal != nil {
		lost := slices.ContainsFunc(c.Checks, func(k ops.Check) bool { return k.Name == "journal" && !k.OK })
		b.WriteString("journal " + journalText(t, c.Journal.Mode, c.Journal.Lag, lost) + "\n")
	}
	if lacks := missing(c.Checks); lacks != "" {
		b.WriteString("this instance lacks " + lacks + "\n")
	}
	if c.Clocks != "" {
		b.WriteString("clocks: " + printable(c.Clocks, "") + "\n")
	}
	for _, i := range c.Instances {
		if i.Restored != "" {
			fmt.Fprintf(&b, "the store had lost messages, which %s gave back from the journal: %s\n", i.Instance, i.Restored)
		}
	}
	for _, p := range c.Parked {
		b.WriteString("parked: " + printable(p.Why, "") + "\n")
	}
	if len(c.Instances) == 0 {
		return b.String()
	}
	rows := [][]string{{"INSTANCE", "ADDRESS", "ROLE", "STATE", "VERSION"}}
	for _, i := range c.Instances {
		role := i.Role
		if i.Linked {
			role += ", linked"
		}
		rows = append(rows, []string{i.Instance, i.Address, role, state(t, &i), i.Version})
	}
	return b.String() + "\n" + table(rows) + detailText(t, c)
}

// detailText is what each instance tells of itself, if it was asked for.
func detailText(t clock, c *ops.Cluster) (text string) {
	rows := [][]string{{"INSTANCE", "SINCE", "REACHES", "CLOCKS AHEAD, MS"}}
	for _, i := range c.Instances {
		if i.Detail == nil {
			continue
		}
		var clocks, reached []string
		for _, k := range i.Detail.Checks {
			if k.OK {
				reached = append(reached, k.Name)
			}
		}
		for _, r := range i.Detail.Clocks {
			middle, doubt := (r.LeastMS+r.MostMS)/2, (r.MostMS-r.LeastMS)/2
			clocks = append(clocks, fmt.Sprintf("%s %+.2f ± %.2f", r.Source, middle, doubt))
		}
		rows = append(rows, []string{i.Instance, t.milli(i.Detail.Since), strings.Join(reached, ", "),
			strings.Join(clocks, ", ")})
		if lacks := missing(i.Detail.Checks); lacks != "" {
			text += printable(i.Instance+" lacks "+lacks, "") + "\n"
		}
	}
	if len(c.Missing) > 0 {
		text += without(c.Missing)
	}
	if len(rows) == 1 {
		return text
	}
	return "\n" + table(rows) + text
}

// state says how an instance is, in the words of tarry health.
func state(t clock, i *ops.Instance) string {
	if i.Role == ops.RoleGone {
		return "last seen " + t.at(i.Seen)
	}
	text := "ready"
	if !i.Ready {
		text = "not ready: " + strings.Join(i.Lacks, ", ")
	} else if len(i.Lacks) > 0 {
		text = "ready, but degraded: " + strings.Join(i.Lacks, ", ")
	}
	if !i.CanLead {
		text += "; cannot lead"
	}
	if i.OtherStore {
		text += "; another Redis than the leader's"
	}
	if len(i.Differs) > 0 {
		text += "; not as the leader's: " + strings.Join(i.Differs, ", ")
	}
	return text
}

func newForget(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forget INSTANCE",
		Short: "Remove an instance that is gone from those that tarry cluster lists",
		Args:  oneArg("INSTANCE"),
	}
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		return says(c, args[0]+" is forgotten")(client.Ask[struct{}](cmd.Context(), c.Client, http.MethodDelete,
			"/v1/cluster/instances/"+url.PathEscape(args[0]), nil))
	})
}

// journalText describes the journal's mode, its lag, and the number of entries that it could not hold. While it does
// not answer, what it had when it last did is not called up to date.
func journalText(t clock, mode string, lag *record.Lag, lost bool) string {
	switch {
	case mode == "off":
		return mode
	case lag == nil:
		return mode + ", it is not known how far behind"
	}
	text := mode + ", up to date"
	if lost {
		text = mode + ", does not answer"
	}
	if lag.Changes > 0 {
		text = mode + ", behind by " + lagText(t, lag)
	}
	if lag.Quarantined > 0 {
		text += fmt.Sprintf("; %d entries of the outbox are quarantined: see tarry verify", lag.Quarantined)
	}
	return text
}

func newResign(o outside) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "resign",
		Short: "Make the leader step down, so that a standby takes over",
		Args:  noArgs,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason for the logs")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		request := map[string]string{}
		if reason != "" {
			request["reason"] = reason
		}
		return says(c, "the leader has resigned; tarry cluster shows who leads now")(
			post[struct{}](c, cmd, "/v1/cluster/resign", request))
	})
}
