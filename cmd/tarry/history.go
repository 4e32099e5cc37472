package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newHistory(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history ID",
		Short: "Show what happened to a message, when, by whom and why; needs the journal",
		Args:  oneArg("ID"),
	}
	addKey(cmd)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		key, keyed := keyOf(cmd)
		h, raw, err := c.History(cmd.Context(), args[0], key, keyed)
		if err != nil {
			return answered(err, c.json)
		}
		text, err := historyText(&h)
		if err != nil {
			return err
		}
		return c.show(raw, text)
	})
}

func historyText(h *client.History) (string, error) {
	name := printable(h.ID, "")
	if h.UID != h.ID {
		name += " (" + printable(h.UID, "") + ")"
	}
	rows := [][]string{{"VERSION", "STATE", "AT", "DUE", "INSTANCE", "ADDRESS", "BUCKET", "TERM", "WHY"}}
	for i := range h.History {
		c := &h.History[i]
		term := ""
		if c.Term > 0 {
			term = strconv.FormatUint(c.Term, 10)
		}
		rows = append(rows, []string{strconv.FormatUint(c.Version, 10), c.State, c.At, c.Due, c.Instance, c.Address, strconv.Itoa(c.Bucket), term, why(c)})
	}
	text, err := table(rows)
	return name + "\n\n" + text, err
}

// why is what led to a change, in a few words.
func why(c *client.Change) string {
	var parts []string
	add := func(there bool, format string, args ...any) {
		if there {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(c.Reason != "", "%s", c.Reason)
	add(c.Stream != "", "stored in %s as %d", c.Stream, c.Sequence)
	add(c.Attempt > 0, "attempt %d", c.Attempt)
	add(c.Claimed != "", "claimed %s", c.Claimed)
	return strings.Join(parts, ", ")
}
