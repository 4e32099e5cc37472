package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/wire"
)

func newGet(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show a message, for some time also after its end",
		Args:  oneArg("ID"),
	}
	addName(cmd)
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) error {
		return shows(c, messageText)(get[wire.Info](c, cmd, nameOf(cmd, args[0]).Path("")))
	})
}

func messageText(t clock, m *wire.Info) string {
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
	line("refusals", number(int(m.Refusals)))
	line("intake", m.Intake)
	line("durable", m.Durable)
	if m.Why != nil {
		line("why", strings.TrimSuffix(m.Why.Word+", "+m.Why.Detail, ", "))
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
