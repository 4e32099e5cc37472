package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/cmd/internal/doctor"
)

// newDoctor returns the command to run before the first start, after each change of a server, and when something seems
// wrong.
func newDoctor(o outside) *cobra.Command {
	var (
		asJSON, strict bool
		timeout        time.Duration
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the settings of tarry serve and every server they name, and say what to change",
		Long: `Check the settings of tarry serve and every server they name, and say what to change.

It reads the same settings as tarry serve. It changes nothing, and may run next to running instances.
Exit code 0: nothing failed (with --strict: no warnings either). 1: something must be changed. 2: the settings are
refused.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.LoadServe(cmd.Flags(), o.environ)
			if err != nil {
				return err
			}
			if timeout <= 0 {
				return usage("--timeout: %s is not above 0", timeout)
			}
			report := doctor.Run(cmd.Context(), cfg, timeout)
			if cmd.Context().Err() != nil {
				return errors.New("interrupted")
			}
			text := report.Text()
			if asJSON {
				raw, err := report.JSON()
				if err != nil {
					return err
				}
				text = string(raw) + "\n"
			}
			if _, err := fmt.Fprint(o.out, text); err != nil {
				return fmt.Errorf("print the report: %w", err)
			}
			if !report.Sick(strict) {
				return nil
			}
			return &failure{code: exitFailed, err: errors.New(report.Summary())}
		},
	}
	config.AddServeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON for machines")
	cmd.Flags().BoolVar(&strict, "strict", false, "fail on warnings too")
	cmd.Flags().DurationVar(&timeout, "timeout", doctor.DefaultTimeout, "how long one check may take")
	return cmd
}
