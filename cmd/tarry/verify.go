package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newVerify(o outside) *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the store with the journal",
		Long: `Compare the store with the journal: exit code 0 when both tell the same, or do after --repair; 1 when differences are left.

It goes on while messages come and go, and ends when this command does.`,
		Args: noArgs,
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "bring both to the later version of each message that differs")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		progress, done := watched(c, func(v client.Verified) string {
			return fmt.Sprintf("%d in the store, %d in the journal", v.InStore, v.InJournal)
		})
		v, raw, err := c.Verify(cmd.Context(), repair, progress)
		if done(); err != nil {
			return answered(err, c.json)
		}
		text, left, err := verifiedText(&v)
		if err != nil {
			return err
		}
		return c.showUnless(left > 0, raw, text, fmt.Sprintf("%d differences are left", left))
	})
}

// verifiedText also tells how many differences are left.
func verifiedText(v *client.Verified) (text string, left int, err error) {
	found := 0
	for _, n := range v.Found {
		found += n
	}
	left = found - v.Repaired
	var b strings.Builder
	fmt.Fprintf(&b, "%d in the store, %d in the journal: ", v.InStore, v.InJournal)
	if found == 0 {
		b.WriteString("the same\n")
		return b.String(), left, nil
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
		rows = append(rows, []string{d.UID, strconv.Itoa(d.Bucket), d.Kind, standText(d.Store), standText(d.Journal), repaired})
	}
	differences, err := table(rows)
	b.WriteString(differences)
	if more := found - len(v.Differences); more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	return b.String(), left, err
}

func standText(s *client.Stand) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%s, version %d", s.State, s.Version)
}
