package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/client"
)

// wholeList is the page that --all asks for where --limit says nothing.
const wholeList = "1000"

func newList(o outside) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List messages, live or ended, in the order they are due; needs the journal",
		Long: `List messages, live or ended, in the order they are due; needs the journal.

It shows one page, or with --all everything, page after page. --json prints each page as one line; its cursor, given as
--cursor, asks for the next one.`,
		Example: `  tarry list --topic orders.remind --state waiting --due-to 2030-01-31T08:00:00Z
  tarry list --topic 'orders.>' --due-from 1h --due-to 2h
  tarry list --state dead,expired --all`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.String("topic", "", "only this topic, or all that match a pattern such as orders.>")
	flags.String("id", "", "only messages that have or had this id, in whatever topic and under whatever key")
	flags.String("key", "", "only this business key")
	flags.String("state", "",
		"only these states: waiting, in_flight, delivered, canceled, expired, dead; joined by commas")
	flags.String("due-from", "", "due then or later: RFC 3339, unix milliseconds, or how long from now")
	flags.String("due-to", "", "due then or earlier")
	flags.String("limit", "", "messages on a page, 1 to 1000 (default 100, with --all 1000)")
	flags.String("cursor", "", "go on after the page that gave this cursor")
	flags.BoolVar(&all, "all", false, "go on to the end")
	completing(cmd, "state", true, "waiting", "in_flight", "delivered", "canceled", "expired", "dead")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		q := parameters(cmd, "topic", "id", "key", "state", "due-from", "due-to", "limit", "cursor")
		if all && !q.Has("limit") {
			q.Set("limit", wholeList)
		}
		for first := true; ; first = false {
			page, raw, err := c.List(cmd.Context(), q)
			if err != nil {
				return answered(err, c.json)
			}
			if err := c.show(raw, pageText(c.clock, &page, first)); err != nil {
				return err
			}
			if more := page.Cursor != ""; !more || !all {
				c.remark(listRemark(c.clock, &page, more))
				return nil
			}
			q.Set("cursor", page.Cursor)
		}
	})
}

// pageText is a page in columns of fixed width: the pages of a long list come one by one and must stand in line.
func pageText(t clock, l *client.List, first bool) string {
	var b strings.Builder
	line := func(due, state, uid, topic, name string) {
		text := fmt.Sprintf("%-*s  %-9s  %-18s  %-24s  %s", t.width(), due, state, uid, topic, name)
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	if first {
		line("DUE", "STATE", "UID", "TOPIC", "ID")
	}
	for i := range l.Messages {
		m := &l.Messages[i]
		name := ""
		if m.ID != m.UID {
			name = printable(m.ID, "")
		}
		if m.Key != "" {
			name = strings.TrimPrefix(name+" of key "+printable(m.Key, ""), " ")
		}
		if m.ParkedWhy != "" {
			name = strings.TrimPrefix(name+"; "+printable(m.ParkedWhy, ""), "; ")
		}
		if m.Reason != "" { // requeued as another, replaced by a later one, refused: canceled alone would mislead
			name = strings.TrimPrefix(name+" ("+printable(m.Reason, "")+")", " ")
		}
		line(t.at(m.Due), m.State, m.UID, printable(m.Topic, ""), name)
	}
	return b.String()
}

// listRemark is what a reader of a list should know beside it.
func listRemark(t clock, l *client.List, more bool) string {
	var parts []string
	if more {
		parts = append(parts, "there are more: --all shows them")
	}
	if l.Lag == nil {
		parts = append(parts, "how far the journal is behind is not known")
	} else if l.Lag.Changes > 0 {
		parts = append(parts, "the journal is behind by "+lagText(t, l.Lag))
	}
	return strings.Join(parts, "; ")
}

func lagText(t clock, l *client.Lag) string {
	text := fmt.Sprintf("%d changes (%d bytes)", l.Changes, l.Bytes)
	if l.Oldest != "" {
		text += ", the oldest of " + t.at(l.Oldest)
	}
	return text
}

// parameters are the flags that were given, under the names that the query has for them.
func parameters(cmd *cobra.Command, names ...string) url.Values {
	q := url.Values{}
	for _, name := range names {
		if flag := cmd.Flags().Lookup(name); flag.Changed {
			q.Set(strings.ReplaceAll(name, "-", "_"), flag.Value.String())
		}
	}
	return q
}
