package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newVerify(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the store with the journal",
		Long: `Compare the store with the journal. The exit code is 0 if they agree, with --repair after the repair,
and 1 if differences are left.

A message that is ended_in_store waits in the journal only, though Redis had it and has lost nothing since: the database
lost its last commits, perhaps in a failover, and with them the end of the message. --repair leaves it alone. If you
know that Redis was wrong, --revive brings it back; it may then be delivered again.

Messages are accepted and delivered meanwhile. If you interrupt the command, the work stops.`,
		Args: noArgs,
	}
	cmd.Flags().Bool("repair", false, "bring both to the higher version of each message that differs")
	cmd.Flags().Bool("revive", false, "bring back, as uncertain, what is ended_in_store")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		asked, err := fields(cmd, nil, "repair", "revive")
		if err != nil {
			return err
		}
		progress, done := watched(c, func(v wire.VerifyReport) string {
			return fmt.Sprintf("%d in the store, %d in the journal", v.InStore, v.InJournal)
		})
		v, raw, err := client.Long(cmd.Context(), c.Client, "/v1/verify", asked, progress)
		if done(); err != nil {
			return answered(err, c.json)
		}
		text, left := verifiedText(c.clock, &v)
		return c.showUnless(left > 0, raw, text, fmt.Sprintf("%d differences are left", left))
	})
}

// verifiedText also prints how many differences are left.
func verifiedText(t clock, v *wire.VerifyReport) (text string, left int) {
	found := 0
	for _, n := range v.Found {
		found += n
	}
	left = found - v.Repaired
	var b strings.Builder
	fmt.Fprintf(&b, "%d in the store, %d in the journal: ", v.InStore, v.InJournal)
	refused := refusedText(t, v) + quarantinedText(t, v)
	if found == 0 {
		same := "the same\n"
		if v.InStore != v.InJournal { // the two were counted one after the other
			same = "no differences; messages that arrived or ended meanwhile are in only one of the counts\n"
		}
		return b.String() + same + refused, left
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(v.Found)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", v.Found[kind], kind))
	}
	fmt.Fprintf(&b, "%d differ (%s), %d repaired\n\n", found, strings.Join(kinds, ", "), v.Repaired)
	rows := [][]string{{"UID", "BUCKET", "KIND", "STORE", "JOURNAL", "REPAIRED"}}
	for _, d := range v.Differences {
		repaired := "no"
		if d.Repaired {
			repaired = "yes"
		}
		rows = append(rows,
			[]string{d.UID, strconv.Itoa(d.Bucket), d.Kind, standText(d.Store), standText(d.Journal), repaired})
	}
	b.WriteString(table(rows))
	if more := found - len(v.Differences); more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	return b.String() + refused, left
}

// refusedText lists the changes that the store did not make, empty for none.
func refusedText(t clock, v *wire.VerifyReport) string {
	if len(v.Refused) == 0 {
		return ""
	}
	rows := [][]string{{"REFUSED", "BUCKET", "FROM", "TO", "BY", "AT"}}
	for _, r := range v.Refused {
		from := r.From
		if r.Unreadable {
			from = "unreadable"
		}
		rows = append(rows, []string{r.UID, strconv.Itoa(r.Bucket), from, r.To, r.Kind, t.at(r.At)})
	}
	return "\n" + table(rows)
}

// quarantinedText lists the entries that the journal could not record, empty for none.
func quarantinedText(t clock, v *wire.VerifyReport) string {
	if len(v.Quarantined) == 0 {
		return ""
	}
	rows := [][]string{{"QUARANTINED", "BUCKET", "AT", "STATES KNOWN", "MESSAGES", "REASON"}}
	for _, q := range v.Quarantined {
		known := "no"
		if q.Known {
			known = "yes"
		}
		uids := strings.Join(q.UIDs[:min(len(q.UIDs), shownUIDs)], " ")
		if more := len(q.UIDs) - shownUIDs; more > 0 {
			uids += fmt.Sprintf(" and %d more", more)
		}
		rows = append(rows, []string{q.Entry, strconv.Itoa(q.Bucket), t.at(q.At), known, uids, q.Reason})
	}
	return "\n" + table(rows)
}

// shownUIDs is the largest number of uids in a row; --json prints all.
const shownUIDs = 3

func standText(s *wire.Stand) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%s, version %d", s.State, s.Version)
}
