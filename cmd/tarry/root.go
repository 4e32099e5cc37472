package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/cmd/internal/client"
	"github.com/tarry-mq/tarry/cmd/internal/config"
)

// outside is the environment of a run of the binary. Tests supply their own.
type outside struct {
	in       io.Reader
	out, err io.Writer
	environ  []string
	terminal bool // err is one, and somebody may be watching
	piped    bool // in is what another program writes, or a file
	asks     bool // in and err are terminals: somebody can answer
	now      func() time.Time
	zone     *time.Location // in which people read times
}

// run runs the whole binary and returns the exit code.
func run(ctx context.Context, args []string, o outside) int {
	root := newRoot(o)
	root.SetArgs(commandFirst(args))
	cmd, err := root.ExecuteContextC(ctx)
	report(o, cmd, err)
	return exitCode(err)
}

func newRoot(o outside) *cobra.Command {
	root := &cobra.Command{
		Use:   "tarry",
		Short: "Delayed messages for the NATS you have",
		Long: `tarry holds delayed messages and puts them on their NATS subjects when they are due.

Exit codes: 0 done, 1 failed, 2 bad usage, 3 not found, 4 refused by the message's state.`,
		Version:       build().String(),
		SilenceUsage:  true, // an error gets one line, not a page
		SilenceErrors: true,

		DisableFlagsInUseLine:      true,
		SuggestionsMinimumDistance: 2,
		Args:                       knownCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n") // as tarry version shows it
	root.SetIn(o.in)
	root.SetOut(o.out)
	root.SetErr(o.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if given := cmd.Flags().Args(); cmd.HasSubCommands() && len(given) > 0 { // no flag can be known of such a command
			if unknown := knownCommand(cmd, given); unknown != nil {
				return unknown
			}
		}
		return config.FlagError(cmd.Flags(), err)
	})
	root.AddCommand(newDev(o), newServe(o), newMigrate(o), newRebucket(o), newPush(o), newGet(o), newWhy(o), newList(o),
		newCancel(o), newReschedule(o), newRun(o), newHistory(o), newForecast(o), newRestore(o), newVerify(o),
		newRedeliver(o), newPull(o), newDead(o), newRejected(o), newTopics(o), newOverview(o), newHeld(o), newEvents(o),
		newActions(o), newCluster(o),
		newResign(o),
		newHealth(o), newDoctor(o), newConfig(o), newToken(), newVersion())
	root.AddCommand(newSettles(o)...)
	working(root)
	completingValues(o, root)
	return root
}

// completingValues makes shells complete the settings with a fixed set of values, and the topics and ids that an
// instance knows, for all commands below cmd.
func completingValues(o outside, cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		below.Flags().VisitAll(func(flag *pflag.Flag) {
			if values := config.Choices(flag); values != nil {
				completing(below, flag.Name, false, values...)
			}
			if flag.Name == "topic" {
				_ = below.RegisterFlagCompletionFunc(flag.Name, names(o, true)) // the flag is there
			}
		})
		_, takes, _ := strings.Cut(below.Use, " ")
		switch takes, _, _ = strings.Cut(strings.Trim(takes, "["), "]"); {
		case strings.HasPrefix(takes, "ID"):
			below.ValidArgsFunction = names(o, false)
		case strings.HasPrefix(takes, "TOPIC"), strings.HasPrefix(takes, "PATTERN"):
			below.ValidArgsFunction = names(o, true)
		}
		completingValues(o, below)
	}
}

// completeWithin bounds how long a shell waits. Without an answer it completes nothing.
const completeWithin = 2 * time.Second

// names completes topics that have messages, or else the ids of waiting and dead messages, which need the journal.
func names(o outside, topics bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) (found []string, _ cobra.ShellCompDirective) {
		add := func(name string) {
			if strings.HasPrefix(name, typed) && !slices.Contains(args, name) && printable(name, "") == name {
				found = append(found, name)
			}
		}
		c, _, err := connect(o, cmd, completeWithin)
		switch {
		case err != nil:
		case topics:
			a, _, _ := client.Ask[ops.Topics](cmd.Context(), c, http.MethodGet, "/v1/topics?limit=1000", nil)
			for i := range a.Topics {
				add(a.Topics[i].Topic)
			}
		default:
			a, _, _ := client.Ask[ops.MessageList](cmd.Context(), c, http.MethodGet,
				"/v1/messages?state=waiting,ready,dead&limit=1000", nil)
			for i := range a.Messages {
				add(a.Messages[i].ID)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// working makes the commands below cmd end with exit codes.
func working(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		below.RunE = work(below.RunE)
		working(below)
	}
}

// knownCommand refuses an unknown command, which cobra lets pass.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	near := slices.DeleteFunc(cmd.SuggestionsFor(args[0]), func(name string) bool {
		return name == "pull" // it takes messages: whoever typed pus and a topic would lease some
	})
	if len(near) > 0 {
		hint = " (did you mean " + near[0] + "?)"
	}
	return fmt.Errorf("unknown command %q%s", args[0], hint)
}

// commandFirst moves flags of the client commands from before the command to after it: "tarry --json get x" means what
// "tarry get x --json" does.
func commandFirst(args []string) []string {
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddClientFlags(known)
	n := 0
	for n < len(args) && strings.HasPrefix(args[n], "--") {
		name, _, valued := strings.Cut(strings.TrimPrefix(args[n], "--"), "=")
		flag := known.Lookup(name)
		if flag == nil {
			return args
		}
		if n++; !valued && flag.NoOptDefVal == "" {
			n++
		}
	}
	if n == 0 || n >= len(args) {
		return args
	}
	flags, rest := args[:n], args[n:]
	end := slices.Index(rest, "--")
	if end < 0 {
		end = len(rest)
	}
	return slices.Concat(rest[:end], flags, rest[end:])
}
