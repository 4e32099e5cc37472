package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

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
