package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/client"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

func newGet(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show a message, for some time also after its end",
		Args:  oneArg("ID"),
	}
	addName(cmd)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		return shows(c, messageText)(get[ops.Info](c, cmd, nameOf(cmd, args[0]).Path("")))
	})
}

func messageText(t clock, m *ops.Info) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-9s %s\n", name, printable(value, ""))
		}
	}
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	line("id", m.ID)
	line("uid", m.UID)
	line("key", m.Key)
	line("topic", m.Topic)
	line("state", m.State)
	line("version", number(int(m.Version)))
	line("due", t.at(m.Due))
	line("ended", t.at(m.EndedAt))
	line("reason", m.Reason)
	line("priority", number(int(m.Priority)))
	line("ttl", m.TTL)
	line("retry", m.Retry)
	line("attempt", number(int(m.Attempt)))
	line("last try", tryText(t, m.LastTry))
	line("refusals", number(int(m.Refusals)))
	line("intake", m.Intake)
	line("durable", m.Durable)
	if w := m.Why; w.Word != "" && (string(w.Word) != m.State || w.Detail != "") {
		line("why", strings.TrimSuffix(string(w.Word)+", "+w.Detail, ", "))
	}
	if m.Uncertain {
		line("uncertain", "an attempt may have reached a consumer")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		for _, value := range m.Headers[name] {
			line("header", name+": "+value)
		}
	}
	switch {
	case m.Body != nil && *m.Body != "":
		line("body", fmt.Sprintf("%d bytes", len(*m.Body)))
		fmt.Fprintf(&b, "\n%s\n", printable(*m.Body, "\n\t"))
	case len(m.BodyBase64) > 0:
		line("body", fmt.Sprintf("%d bytes, not text; --json shows them as base64", len(m.BodyBase64)))
	}
	return b.String()
}

func newWhy(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why [ID]",
		Short: "Say where a message is, and why it has not arrived",
		Long: `Say where a message is, and why it has not arrived; or of a topic or a key, up to 100 messages.

It looks in the store and the journal, and for pushes that are no messages yet in the intake, among those that were set
aside, and in the rejects. The last line says how far it looked.`,
		Example: "  tarry why order-7131\n  tarry why --topic orders.remind\n  tarry why --key customer-12",
		Args:    cobra.MaximumNArgs(1),
	}
	addName(cmd)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		q := parameters(cmd, "topic", "key")
		if len(args) == 1 {
			q.Set("id", args[0])
		}
		a, raw, err := get[ops.WhyList](c, cmd, client.WithQuery("/v1/why", q))
		if err != nil {
			return answered(err, c.json)
		}
		if len(a.Messages)+len(a.Pushes) == 0 {
			return c.showAs(exitNotFound, raw, whyText(c.clock, &a)+notFoundAdvice, "nothing was found")
		}
		return c.show(raw, whyText(c.clock, &a))
	})
}

// notFoundAdvice says what to look at when nothing was found.
const notFoundAdvice = `tarry has no such message, or has forgotten its end: it keeps ends for ended.keep, a journal for
journal.keep.
- Is this the id, topic or key that the producer uses, and the namespace that it pushes to?
- Did the producer publish to delayed.SUBJECT (nats.prefix)? What goes to SUBJECT itself, tarry never sees.
- Did its request to tarry.NAMESPACE.push.SUBJECT come back with an error?
`

func whyText(t clock, a *ops.WhyList) string {
	var b strings.Builder
	one := func(id, uid, topic, state, when string, w *message.Why, last *ops.Try) {
		if id != uid && uid != "" {
			id += " (" + uid + ")"
		}
		fmt.Fprintf(&b, "%s on %s: %s, %s\n", printable(id, ""), printable(topic, ""), state, when)
		if w.Word == "" {
			return
		}
		fmt.Fprintf(&b, "  %s\n", strings.TrimSuffix(string(w.Word)+": "+printable(w.Detail, ""), ": "))
		for _, f := range [][2]string{{"by", w.By}, {"since", t.milli(w.Since)}, {"next", t.milli(w.Next)},
			{"last try", tryText(t, last)}} {
			if f[1] != "" {
				fmt.Fprintf(&b, "  %-5s %s\n", f[0], printable(f[1], ""))
			}
		}
	}
	for i := range a.Messages {
		m := &a.Messages[i]
		one(m.ID, m.UID, m.Topic, m.State, "due "+t.at(m.Due), &m.Why, m.LastTry)
	}
	for i := range a.Pushes {
		p := &a.Pushes[i]
		one(p.ID, p.UID, p.Topic, "a push", "stored by NATS "+t.milli(p.At), &p.Why, nil)
	}
	var looked []string
	for _, p := range a.Looked {
		text := fmt.Sprintf("%s: %d, all", p.Place, p.Read)
		if p.Error != "" {
			text = p.Place + ": " + p.Error
		} else if !p.Whole {
			text = fmt.Sprintf("%s: %d, not all", p.Place, p.Read)
		}
		looked = append(looked, text)
	}
	b.WriteString("looked at " + strings.Join(looked, "; ") + "\n")
	return b.String()
}

// tryText says when a try ended, whose it was and what came of it.
func tryText(t clock, last *ops.Try) string {
	if last == nil {
		return ""
	}
	text := t.at(last.At)
	if last.By != "" {
		text += " by " + last.By
	}
	return strings.TrimSuffix(text+": "+last.Outcome, ": ")
}

func newList(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List messages, live or ended, in the order they are due",
		Long: `List messages, live or ended, in the order they are due.

Without a journal it lists what the store has, part by part: messages that have not ended, and dead ones. With --held
and --name it lists what a group of tarry held holds back, what fell due first first.

It shows one page or, with --all, every page. --json prints each page as one line; to get the next page, pass its cursor
to --cursor.`,
		Example: `  tarry list --topic orders.remind --state waiting --due-to 2030-01-31T08:00:00Z
  tarry list --topic 'orders.>' --due-from 1h --due-to 2h
  tarry list --state dead,expired --all
  tarry list --held paused --name 'mail.>'`,
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
	flags.String("held", "", "only what this word of tarry held holds back; needs --name")
	flags.String("name", "", "with --held: the pattern, subject, stream or topic that holds it")
	addPages(cmd, "messages")
	completing(cmd, "state", true, states...)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		return pages(c, cmd, []string{"topic", "id", "key", "state", "due-from", "due-to", "held", "name"},
			"/v1/messages", listPage)
	})
}

func listPage(t clock, l *ops.MessageList, first bool) page {
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
		if m.Why.Word != "" {
			why = strings.TrimPrefix(why+"; "+m.Why.Detail, "; ")
		}
		rows = append(rows, []string{t.at(m.Due), m.State, m.UID, printable(m.Topic, ""), name, printable(why, "")})
	}
	for i := range l.Rejected {
		r := &l.Rejected[i]
		rows = append(rows, []string{"", "rejected", string(r.UID), printable(r.Topic, ""), "",
			t.milli(r.At) + " " + printable(r.Reason, "")})
	}
	p := page{text: columns{-t.width(), -9, -18, -24, -24}.lines(rows, first), cursor: l.Cursor}
	switch {
	case l.Order != "":
		p.remark = "from the store, part by part; the journal, which lists what has ended, is off"
	case l.Looked != nil && !l.Looked.Whole:
		p.remark = "there are more"
	case l.Looked != nil:
	case l.Lag == nil:
		p.remark = "it is not known how far the journal is behind"
	case l.Lag.Changes > 0:
		p.remark = "the journal is behind by " + lagText(t, l.Lag)
	}
	return p
}

func lagText(t clock, l *record.Lag) string {
	text := fmt.Sprintf("%d changes (%d bytes)", l.Changes, l.Bytes)
	if l.Oldest > 0 {
		text += ", the oldest of " + t.milli(l.Oldest)
	}
	return text
}

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
		return shows(c, historyText)(get[ops.History](c, cmd, nameOf(cmd, args[0]).Path("/history")))
	})
}

// historyText prints the messages of a name in the order of their creation; the one that has the name now comes last.
func historyText(t clock, h *ops.History) string {
	var b strings.Builder
	if h.More {
		b.WriteString("there are earlier messages; tarry list --id lists all of them\n\n")
	}
	for _, l := range slices.Backward(h.Others) {
		end := l.State.String()
		if l.Reason != "" {
			end += ", " + printable(l.Reason, "")
		}
		fmt.Fprintf(&b, "%s (%s), %s\n\n%s\n", printable(h.ID, ""), printable(string(l.UID), ""), end,
			changesText(t, l.History, l.Earlier))
	}
	name := printable(h.ID, "")
	if string(h.UID) != h.ID {
		name += " (" + printable(string(h.UID), "") + ")"
	}
	b.WriteString(name + "\n\n" + changesText(t, h.History, h.Earlier))
	for i := range h.Rejected {
		r := &h.Rejected[i]
		fmt.Fprintf(&b, "\na push of it on %s (%s) was rejected at %s: %s\n", printable(r.Topic, ""), r.UID, t.milli(r.At),
			printable(r.Reason, ""))
	}
	return b.String()
}

func changesText(t clock, changes []record.Change, earlier bool) string {
	rows := [][]string{{"VERSION", "STATE", "AT", "DUE", "INSTANCE", "ADDRESS", "BUCKET", "TERM", "WHY"}}
	for i := range changes {
		c := &changes[i]
		term := ""
		if c.Term > 0 {
			term = strconv.FormatUint(c.Term, 10)
		}
		rows = append(rows, []string{
			strconv.FormatUint(c.Version, 10), c.State.String(), t.milli(c.At), t.milli(c.Due),
			c.Instance, c.Address, strconv.Itoa(int(c.Bucket)), term, why(t, c),
		})
	}
	if earlier {
		return "there are earlier changes; these are the last\n\n" + table(rows)
	}
	return table(rows)
}

// why returns the cause of a change, in a few words.
func why(t clock, c *record.Change) string {
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
	add(c.Claimed > 0, "claimed %s", t.milli(c.Claimed))
	return strings.Join(parts, ", ")
}

func newForecast(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forecast",
		Short: "Count the messages that fall due, step by step",
		Long: `Count the messages that fall due, step by step: of all topics, or of some.

The store counts them. --by also says of which topics, or of which patterns of the settings, and which rates will make
messages late; it reads up to 4,096 messages for that. Where more fall due, the shares of the groups are about right,
and one message in a thousand may be missing. Without --by a journal, if there is one, counts a topic exactly.`,
		Example: `  tarry forecast --topic orders.remind --step 1h --until 7d
  tarry forecast --by topic --step 5m --until 2h`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.String("topic", "", "only this topic, or all that match a pattern such as orders.>")
	flags.String("step", "", "length of a step, at least 1s (default 1m)")
	flags.String("until", "", "end of the forecast: RFC 3339, unix milliseconds, or how long from now (default 1h)")
	flags.String("by", "", "tell the topics apart, or the patterns of the settings: topic or pattern")
	flags.String("top", "", "how many groups have a column of their own, at most 20 (default 6)")
	completing(cmd, "by", false, scheduler.ByTopic, scheduler.ByPattern)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		return shows(c, forecastText)(get[scheduler.Outlook](c, cmd,
			client.WithQuery("/v1/forecast", parameters(cmd, "topic", "step", "until", "by", "top"))))
	})
}

// forecastText shows the steps in which messages fall due, or are late from before.
func forecastText(t clock, f *scheduler.Outlook) string {
	heads := []string{"FROM", "COUNT"}
	for _, g := range f.Groups {
		heads = append(heads, printable(g, ""))
	}
	grouped, lag := len(f.Groups) > 0, false
	if grouped {
		heads = append(heads, "OTHERS")
	}
	var rows [][]string
	sum, some := 0, 0
	for _, s := range f.Steps {
		if sum += s.Count; s.Count > 0 {
			some++
		}
		if s.Count == 0 && len(s.Behind) == 0 {
			continue
		}
		row := []string{t.milli(s.From), strconv.Itoa(s.Count)}
		for _, n := range s.Groups {
			row = append(row, strconv.Itoa(n))
		}
		if grouped {
			row = append(row, strconv.Itoa(s.Others))
		}
		var behind []string
		for _, b := range s.Behind {
			text := fmt.Sprintf("%s: %d left", printable(b.Name, ""), b.Left)
			if b.LateMS > 0 {
				text += fmt.Sprintf(", up to %s late", time.Duration(b.LateMS)*time.Millisecond)
			}
			behind = append(behind, text)
		}
		lag = lag || behind != nil
		rows = append(rows, append(row, strings.Join(behind, "; ")))
	}
	text := fmt.Sprintf("%d fall due in %d of %d steps\n", sum, some, len(f.Steps))
	if f.Overdue != nil {
		text = fmt.Sprintf("%d overdue, ", *f.Overdue) + text
	}
	if f.Sample != nil && !f.Sample.Exact {
		text += fmt.Sprintf("%d of these %d were read: the numbers of topics are about right\n", f.Sample.Read, f.Sample.Of)
	}
	if len(rows) == 0 {
		return text
	}
	if heads = append(heads, "BEHIND"); !lag {
		heads = heads[:len(heads)-1]
		for i := range rows {
			rows[i] = rows[i][:len(heads)]
		}
	}
	return text + "\n" + table(append([][]string{heads}, rows...))
}
