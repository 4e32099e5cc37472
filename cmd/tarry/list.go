package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func newList(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List messages, live or ended, in the order they are due; needs the journal",
		Long: `List messages, live or ended, in the order they are due; needs the journal.

It shows one page or, with --all, every page. --json prints each page as one line; to get the next page, pass its cursor
to --cursor.`,
		Example: `  tarry list --topic orders.remind --state waiting --due-to 2030-01-31T08:00:00Z
  tarry list --topic 'orders.>' --due-from 1h --due-to 2h
  tarry list --state dead,expired --all`,
		Args: noArgs,
	}
	states := message.Words()
	flags := cmd.Flags()
	flags.String("topic", "", "only this topic, or all that match a pattern such as orders.>")
	flags.String("id", "", "only messages that have or had this id, of any topic and key")
	flags.String("key", "", "only this business key")
	flags.String("state", "",
		"only these states: "+strings.Join(states, ", ")+"; separated by commas")
	flags.String("due-from", "", "due then or later: RFC 3339, unix milliseconds, or how long from now")
	flags.String("due-to", "", "due then or earlier")
	addPages(cmd, "messages")
	completing(cmd, "state", true, states...)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		return pages(c, cmd, []string{"topic", "id", "key", "state", "due-from", "due-to"}, "/v1/messages",
			listPage)
	})
}

func listPage(t clock, l *wire.MessageList, first bool) page {
	rows := [][]string{{"DUE", "STATE", "UID", "TOPIC", "ID", "WHY"}}
	for i := range l.Messages {
		m := &l.Messages[i]
		name := ""
		if m.ID != m.UID {
			name = printable(m.ID, "")
		}
		if m.Key != "" {
			name = strings.TrimPrefix(name+" of key "+printable(m.Key, ""), " ")
		}
		why := m.Reason // requeued as another, replaced by a later one, refused: canceled alone would mislead
		if m.By != "" {
			why = strings.TrimPrefix(why+", by "+m.By, ", ")
		}
		if m.Why != nil {
			why = strings.TrimPrefix(why+"; "+m.Why.Detail, "; ")
		}
		rows = append(rows, []string{t.at(m.Due), m.State, m.UID, printable(m.Topic, ""), name, printable(why, "")})
	}
	for i := range l.Rejected {
		r := &l.Rejected[i]
		rows = append(rows, []string{"", "rejected", r.UID, printable(r.Topic, ""), "",
			t.at(r.At) + " " + printable(r.Reason, "")})
	}
	p := page{text: columns{-t.width(), -9, -18, -24, -24}.lines(rows, first), cursor: l.Cursor}
	if l.Lag == nil {
		p.remark = "it is not known how far the journal is behind"
	} else if l.Lag.Changes > 0 {
		p.remark = "the journal is behind by " + lagText(t, l.Lag)
	}
	return p
}

func lagText(t clock, l *wire.Lag) string {
	text := fmt.Sprintf("%d changes (%d bytes)", l.Changes, l.Bytes)
	if l.Oldest != "" {
		text += ", the oldest of " + t.at(l.Oldest)
	}
	return text
}
