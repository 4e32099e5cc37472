package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/wire"
)

func newHistory(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history ID",
		Short: "Show what happened to a message, when, by whom and why; needs the journal",
		Long: `Show what happened to a message, when, by whom and why; needs the journal.

For an id of your own, it shows the last 20 messages that have or had this id, the latest last: a requeue makes a new
message, with another uid. For a uid, it shows only that message. It shows at most 1,000 changes, and says which message
has earlier ones.`,
		Args: oneArg("ID"),
	}
	addName(cmd)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		return shows(c, historyText)(get[wire.History](c, cmd, nameOf(cmd, args[0]).Path("/history")))
	})
}

// historyText prints the messages of a name in the order of their creation; the one that has the name now comes last.
func historyText(t clock, h *wire.History) string {
	var b strings.Builder
	if h.More {
		b.WriteString("there are earlier messages; tarry list --id lists all of them\n\n")
	}
	for _, l := range slices.Backward(h.Others) {
		end := l.State
		if l.Reason != "" {
			end += ", " + printable(l.Reason, "")
		}
		fmt.Fprintf(&b, "%s (%s), %s\n\n%s\n", printable(h.ID, ""), printable(l.UID, ""), end,
			changesText(t, l.History, l.Earlier))
	}
	name := printable(h.ID, "")
	if h.UID != h.ID {
		name += " (" + printable(h.UID, "") + ")"
	}
	b.WriteString(name + "\n\n" + changesText(t, h.History, h.Earlier))
	for i := range h.Rejected {
		r := &h.Rejected[i]
		fmt.Fprintf(&b, "\na push of it on %s (%s) was rejected at %s: %s\n", printable(r.Topic, ""), r.UID, t.at(r.At),
			printable(r.Reason, ""))
	}
	return b.String()
}

func changesText(t clock, changes []wire.Change, earlier bool) string {
	rows := [][]string{{"VERSION", "STATE", "AT", "DUE", "INSTANCE", "ADDRESS", "BUCKET", "TERM", "WHY"}}
	for i := range changes {
		c := &changes[i]
		term := ""
		if c.Term > 0 {
			term = strconv.FormatUint(c.Term, 10)
		}
		rows = append(rows, []string{
			strconv.FormatUint(c.Version, 10), c.State, t.at(c.At), t.at(c.Due),
			c.Instance, c.Address, strconv.Itoa(c.Bucket), term, why(t, c),
		})
	}
	if earlier {
		return "there are earlier changes; these are the last\n\n" + table(rows)
	}
	return table(rows)
}

// why returns the cause of a change, in a few words.
func why(t clock, c *wire.Change) string {
	var parts []string
	add := func(there bool, format string, args ...any) {
		if there {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(c.Reason != "", "%s", c.Reason)
	add(c.By != "", "by %s", c.By)
	add(c.Stream != "", "stored in %s as %d", c.Stream, c.Sequence)
	add(c.Attempt > 0, "attempt %d", c.Attempt)
	add(c.Claimed != "", "claimed %s", t.at(c.Claimed))
	return strings.Join(parts, ", ")
}
