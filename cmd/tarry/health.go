package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/cmd/internal/doctor"
)

func newHealth(o outside) *cobra.Command {
	var live bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check whether an instance can accept pushes; for health checks",
		Long: `Check whether an instance can accept pushes, as leader or standby. If it is ready, the exit code is 0,
and the output names what it lacks all the same, such as NATS. Otherwise the exit code is 1, and the output names what
is missing. "tarry cluster" shows the reasons.

It needs no token.`,
		Args: noArgs,
	}
	cmd.Flags().BoolVar(&live, "live", false, "only check whether the process answers")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, _ []string) error {
		if live {
			return says(c, "live")(get[struct{}](c, cmd, "/livez"))
		}
		ready, raw, err := c.Ready(cmd.Context())
		if err != nil {
			return answered(err, c.json)
		}
		if ready.Ready {
			if len(ready.Degraded) > 0 {
				return c.show(raw, "ready, but degraded: "+missing(ready.Checks))
			}
			return c.show(raw, "ready")
		}
		return c.fails(exitFailed, raw, "not ready: "+missing(ready.Checks))
	})
}

// missing returns the failed checks with their buckets and reasons.
func missing(checks []ops.Check) string {
	var parts []string
	for _, check := range checks {
		if check.OK {
			continue
		}
		part := check.Name
		if len(check.Buckets) > 0 {
			part += fmt.Sprintf(" in buckets %v", check.Buckets)
		}
		if check.Detail != "" {
			part += " (" + check.Detail + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

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

// version is set by the linker: -ldflags "-X main.version=v1.2.3". It is the only variable of the package.
var version string

// built is what this binary was made from.
type built struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"` // of the commit
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// build reads the stamp, else the go command's build information: the module's version, or "devel".
func build() built {
	b := built{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok {
		if b.Version == "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.time":
				b.Time = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	return b
}

func (b built) String() string {
	text := "tarry " + b.Version
	if b.Commit != "" {
		text += " (" + b.Commit[:min(12, len(b.Commit))]
		if b.Time != "" {
			text += " of " + b.Time
		}
		if b.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return text + ", " + b.Go + " " + b.Platform
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show what this binary was built from",
		Args:  noArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON for machines")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		b := build()
		if !asJSON {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), b)
			return err
		}
		return json.NewEncoder(cmd.OutOrStdout()).Encode(b)
	}
	return cmd
}
