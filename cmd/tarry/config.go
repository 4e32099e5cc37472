package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/app"
	"github.com/tarry-mq/tarry/cmd/internal/config"
)

func newConfig(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check settings without any server, and show what a topic gets by them",
		Args:  knownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	settled := func(use, short, what string, show func(cfg config.Serve, arg string) string) {
		sub := &cobra.Command{Use: use, Short: short, Args: oneArg(what)}
		sub.RunE = func(cmd *cobra.Command, args []string) error {
			if what == "FILE" {
				if err := cmd.Flags().Set("config", args[0]); err != nil {
					return fmt.Errorf("take the file: %w", err)
				}
			}
			cfg, err := config.LoadServe(cmd.Flags(), o.environ)
			if err == nil {
				err = app.Check(cfg)
			}
			if err != nil {
				return err
			}
			if _, err := fmt.Fprint(o.out, show(cfg, args[0])); err != nil {
				return fmt.Errorf("print the answer: %w", err)
			}
			return nil
		}
		config.AddServeFlags(sub.Flags())
		cmd.AddCommand(sub)
	}
	settled("check FILE", "Check the settings of tarry serve in a file, the environment and flags", "FILE",
		func(cfg config.Serve, file string) string {
			return fmt.Sprintf("%s: good, with %d topics and %d tokens; tarry doctor asks the servers too\n", file,
				len(cfg.Topics), len(cfg.HTTP.Tokens))
		})
	settled("topic TOPIC", "Show the settings that apply to a topic", "TOPIC", applying)
	return cmd
}

// applying returns what applies to a topic, in the form of the settings.
func applying(cfg config.Serve, topic string) string {
	one := app.TopicOf(cfg, topic)
	if one.Retry == "" {
		one.Retry = cfg.Retry
	}
	lines := one.Lines()
	switch {
	case len(cfg.Topics) == 0:
		lines = append([]string{"# no topics are set here: --config names the file that sets them"}, lines...)
	case one.Pattern == "":
		lines = append([]string{"# no pattern of topics matches " + topic}, lines...)
	}
	return strings.Join(append(lines, "# what is not listed is at its default\n"), "\n")
}
