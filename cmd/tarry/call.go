package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/client"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// caller is one call of an instance from the command line.
type caller struct {
	*client.Client
	json     bool
	out, err io.Writer
	terminal bool // err is one
	in       io.Reader
	asks     bool // in and err are terminals
	clock
}

// calling adds the settings of the client commands to cmd and makes it run do with a client built from them.
func calling(o outside, cmd *cobra.Command, do func(c caller, cmd *cobra.Command, args []string) error) *cobra.Command {
	config.AddClientFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, json, err := connect(o, cmd, 0)
		if err != nil {
			return err
		}
		return do(caller{Client: c, json: json, out: o.out, err: o.err, terminal: o.terminal, in: o.in, asks: o.asks,
			clock: clock{o.now, o.zone}},
			cmd, args)
	}
	return cmd
}

// connect makes a client from the settings, and reports whether answers are for programs. A time-out of its own
// replaces that of the settings.
func connect(o outside, cmd *cobra.Command, timeout time.Duration) (c *client.Client, json bool, err error) {
	settings, err := config.LoadClient(cmd.Flags(), o.environ)
	if err != nil {
		return nil, false, err
	}
	if text := strange(o.environ); text != "" && o.terminal {
		_, _ = fmt.Fprintln(o.err, "tarry: "+text)
	}
	secure, err := settings.Config()
	if err != nil {
		return nil, false, usage("%s", err)
	}
	return client.New(client.Config{Server: settings.Server, Token: settings.Token.Reveal(),
		Timeout: cmp.Or(timeout, settings.Timeout), Agent: "tarry/" + build().Version, TLS: secure}), settings.JSON, nil
}

// strange says that variables of the environment are ignored, or nothing without any.
func strange(environ []string) string {
	names := config.Strangers(environ)
	if len(names) == 0 {
		return ""
	}
	return printable(strings.Join(names, ", "), "") + ": no setting of tarry has this name; ignored"
}

// get asks an instance.
func get[A any](c caller, cmd *cobra.Command, path string) (A, []byte, error) {
	return client.Ask[A](cmd.Context(), c.Client, http.MethodGet, path, nil)
}

// post makes an instance do something.
func post[A any](c caller, cmd *cobra.Command, path string, body any) (A, []byte, error) {
	return client.Ask[A](cmd.Context(), c.Client, http.MethodPost, path, body)
}

// show prints a success: the raw answer for programs, else text for people.
func (c caller) show(raw []byte, text string) error {
	if c.json {
		text = string(raw)
	}
	if _, err := fmt.Fprintln(c.out, strings.TrimSuffix(text, "\n")); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

// shows prints the answer of a call, as text for people.
func shows[A any](c caller, text func(clock, *A) string) func(A, []byte, error) error {
	return func(answer A, raw []byte, err error) error {
		if err != nil {
			return answered(err, c.json)
		}
		return c.show(raw, text(c.clock, &answer))
	}
}

// says is shows for an answer that holds nothing.
func says(c caller, text string) func(struct{}, []byte, error) error {
	return shows(c, func(clock, *struct{}) string { return text })
}

// showUnless prints the answer and ends the command as failed if something is left to do.
func (c caller) showUnless(failed bool, raw []byte, text, left string) error {
	if !failed {
		return c.show(raw, text)
	}
	return c.showAs(exitFailed, raw, text, left)
}

// showAs prints the answer and ends the command with this exit code, which reports what is left.
func (c caller) showAs(code int, raw []byte, text, left string) error {
	if !c.json {
		if err := c.show(raw, text); err != nil {
			return err
		}
	}
	return c.fails(code, raw, left)
}

// fails ends the command with this exit code. left says why; programs get the answer.
func (c caller) fails(code int, raw []byte, left string) error {
	f := &failure{code: code, err: errors.New(left)}
	if c.json {
		f.json = raw
	}
	return f
}

// clearLine returns to the start of a terminal's line and clears it.
const clearLine = "\r\x1b[K"

// watched returns a progress function that shows a long operation's progress in one line of the terminal, which it
// overwrites; done clears the line. If the output is no terminal, progress is nil.
func watched[R any](c caller, text func(R) string) (progress func(R), done func()) {
	if !c.terminal {
		return nil, func() {}
	}
	return func(r R) { fmt.Fprint(c.err, clearLine+text(r)) }, func() { fmt.Fprint(c.err, clearLine) }
}

// remark prints a note for people beside the answer.
func (c caller) remark(text string) {
	if text != "" && !c.json {
		_, _ = io.WriteString(c.err, "tarry: "+text+"\n")
	}
}

// printable returns text from a message for a terminal: quoted if it contains characters that could control the
// terminal.
func printable(s string, allowed string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune(allowed, r) }) {
		return strconv.Quote(s)
	}
	return s
}

// oneArg requires exactly one argument and names it in the error.
func oneArg(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("%s is missing", name)
		case len(args) > 1:
			return fmt.Errorf("want one %s, got %d", name, len(args))
		case args[0] == "": // a script whose variable is unset
			return fmt.Errorf("%s is empty", name)
		}
		return nil
	}
}

// someArgs requires arguments and names them in the error.
func someArgs(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for _, arg := range args {
			if err := oneArg(name)(cmd, []string{arg}); err != nil {
				return err
			}
		}
		return oneArg(name)(cmd, args[:min(1, len(args))])
	}
}

// noArgs accepts no argument.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q: want no arguments", args[0])
	}
	return nil
}

// addName adds the topic and key flags, which accompany the id.
func addName(cmd *cobra.Command) {
	cmd.Flags().String("topic", "", "the topic of the id, if several topics have it")
	addKey(cmd)
}

func addKey(cmd *cobra.Command) {
	cmd.Flags().String("key", "", "the key of the id, if several keys have it")
}

// nameOf returns the message name of an id, with the topic and key flags.
func nameOf(cmd *cobra.Command, id string) client.Name {
	return client.Name{ID: id, Topic: optional(cmd, "topic"), Key: optional(cmd, "key")}
}

// completing makes shells complete the values of a flag, several joined by commas if many.
func completing(cmd *cobra.Command, name string, many bool, values ...string) {
	complete := func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := ""
		if at := strings.LastIndexByte(typed, ','); many && at >= 0 {
			before = typed[:at+1]
		}
		found := make([]string, len(values))
		for i, v := range values {
			found[i] = before + v
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc(name, complete); err != nil {
		panic(err) // the flag is missing: no command line comes this far
	}
}

// clock shows the times of answers, which are UTC, in the user's time zone and relative to now.
type clock struct {
	now  func() time.Time
	zone *time.Location
}

// at formats a time of an answer for people, as in 2030-01-31T09:00:00.000+01:00 (in 59m). The time stays in RFC 3339,
// which every time flag accepts. Text that is no time is returned unchanged.
func (c clock) at(text string) string {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	return t.In(c.zone).Format("2006-01-02T15:04:05.000Z07:00") + " (" + away(t.Sub(c.now())) + ")"
}

// milli is at for a time that is not text; no time is empty.
func (c clock) milli(m message.Milli) string {
	text, _ := m.MarshalText() // cannot fail
	return c.at(string(text))
}

// width returns the maximum width of a column of times.
func (c clock) width() int {
	widest := "2030-01-31T09:00:00.003+01:00 (23h59m ago)"
	if _, offset := c.now().In(c.zone).Zone(); offset == 0 {
		widest = strings.Replace(widest, "+01:00", "Z", 1)
	}
	return len(widest)
}

// away formats a duration relative to now, rounded for people.
func away(d time.Duration) string {
	text := "in %s"
	if d < 0 {
		text, d = "%s ago", -d
	}
	const day = 24 * time.Hour
	d = d.Round(time.Second)
	for _, step := range []struct{ from, to time.Duration }{{time.Minute, time.Minute}, {day, time.Hour},
		{10 * day, day}} {
		if d >= step.from {
			d = d.Round(step.to)
		}
	}
	if d == 0 {
		return "now"
	}
	var b strings.Builder
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / unit.of; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, unit.name)
			d -= n * unit.of
		}
	}
	return fmt.Sprintf(text, b.String())
}
