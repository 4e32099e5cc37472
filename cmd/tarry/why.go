package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/client"
)

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
		a, raw, err := get[wire.WhyList](c, cmd, client.WithQuery("/v1/why", q))
		if err != nil {
			return answered(err, c.json)
		}
		if len(a.Messages)+len(a.Pushes) == 0 {
			return c.showAs(exitNotFound, raw, whyText(c.clock, &a), "nothing was found")
		}
		return c.show(raw, whyText(c.clock, &a))
	})
}

func whyText(t clock, a *wire.WhyList) string {
	var b strings.Builder
	one := func(id, uid, topic, state, when string, w *wire.Why) {
		if id != uid && uid != "" {
			id += " (" + uid + ")"
		}
		fmt.Fprintf(&b, "%s on %s: %s, %s\n", printable(id, ""), printable(topic, ""), state, when)
		if w == nil {
			return
		}
		fmt.Fprintf(&b, "  %s\n", strings.TrimSuffix(w.Word+": "+printable(w.Detail, ""), ": "))
		for _, f := range [][2]string{{"by", w.By}, {"since", t.at(w.Since)}, {"next", t.at(w.Next)}} {
			if f[1] != "" {
				fmt.Fprintf(&b, "  %-5s %s\n", f[0], printable(f[1], ""))
			}
		}
	}
	for i := range a.Messages {
		m := &a.Messages[i]
		one(m.ID, m.UID, m.Topic, m.State, "due "+t.at(m.Due), m.Why)
	}
	for i := range a.Pushes {
		p := &a.Pushes[i]
		one(p.ID, p.UID, p.Topic, "a push", "stored by NATS "+t.at(p.At), p.Why)
	}
	var looked []string
	for _, p := range a.Looked {
		text := fmt.Sprintf("%s: %d, all", p.Place, p.Read)
		if p.Error != "" {
			text = p.Place + ": " + p.Error
		} else if !p.Whole {
			text = fmt.Sprintf("%s: %d, there are more", p.Place, p.Read)
		}
		looked = append(looked, text)
	}
	b.WriteString("looked at " + strings.Join(looked, "; ") + "\n")
	return b.String()
}
