package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/client"
)

func newForecast(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "forecast",
		Short:   "Count the messages that fall due, step by step; needs the journal",
		Example: `  tarry forecast --topic orders.remind --step 1h --until 7d`,
		Args:    noArgs,
	}
	flags := cmd.Flags()
	flags.String("topic", "", "only this topic, or all that match a pattern such as orders.>")
	flags.String("step", "", "length of a step, at least 1s (default 1m)")
	flags.String("until", "", "end of the forecast: RFC 3339, unix milliseconds, or how long from now (default 1h)")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		return shows(c, forecastText)(get[wire.Forecast](c, cmd,
			client.WithQuery("/v1/forecast", parameters(cmd, "topic", "step", "until"))))
	})
}

// forecastText shows the steps in which messages fall due.
func forecastText(t clock, f *wire.Forecast) string {
	var rows [][]string
	sum := 0
	for _, s := range f.Steps {
		if sum += s.Count; s.Count > 0 {
			rows = append(rows, []string{t.at(s.From), strconv.Itoa(s.Count)})
		}
	}
	text := fmt.Sprintf("%d overdue, %d fall due in %d of %d steps\n", f.Overdue, sum, len(rows), len(f.Steps))
	if len(rows) == 0 {
		return text
	}
	return text + "\n" + table(append([][]string{{"FROM", "COUNT"}}, rows...))
}
