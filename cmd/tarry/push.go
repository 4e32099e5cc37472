package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/client"
)

// maxBody is the maximum size of a body that is read; an instance has a lower limit of its own.
const maxBody = 256 << 20

func newPush(o outside) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "push TOPIC [--delay D | --at T] [--body TEXT | --body-file FILE | -]",
		Short: "Push a message, to be delivered later",
		Long: `Push a message, to be delivered later.

Without a body flag, the body is empty. If standard input is a pipe or a file, name the body: - or --body - reads it
from standard input, --body '' is an empty one.`,
		Example: `  tarry push orders.remind --delay 20m --body 'order 7131'
  tarry push orders.remind --at 2030-01-31T08:00:00Z --id order-7131 --body-file order.json
  jq . order.json | tarry push orders.remind --delay 1d12h -`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return errors.New("TOPIC is missing")
			case len(args) > 2:
				return fmt.Errorf("%q: too many arguments", args[2])
			case len(args) == 2 && args[1] != "-":
				return fmt.Errorf(
					"%q: only - may follow TOPIC; it reads the body from standard input", args[1])
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.String("delay", "", "how long from now: 20m, 1d12h, 2w")
	flags.String("at", "", "when: RFC 3339, or unix milliseconds")
	flags.String("id", "", "your own name for the message: cancel it by this name, and repeat the push "+
		"safely")
	flags.String("key", "", "business key: messages of one key keep their order")
	flags.String("on-duplicate", "",
		"if a message has the id: reject, or merge into it while it waits: keep, replace, debounce (default reject)")
	completing(cmd, "on-duplicate", false, "reject", "keep", "replace", "debounce")
	flags.String("max-wait", "",
		"with debounce: the message is due at most this long after the first push (default no limit)")
	flags.String("deliver", "", "mq, or pull for consumers that fetch it (default the topic's)")
	completing(cmd, "deliver", false, wire.MQ, wire.PullWord)
	flags.String("lease", "", "how long a consumer that pulls it may hold it (default the topic's)")
	addPriority(cmd, "default 0")
	flags.String("ttl", "",
		"how long after its due time the message is still delivered (default the topic's, else for ever)")
	flags.String("retry", "", "delays of the retries after refusals, separated by commas: 0,2m,1h (default the topic's)")
	flags.StringArray("header", nil, "header for the consumer, as name=value; repeatable")
	flags.String("body", "", "the body; - is standard input")
	flags.String("body-file", "", "file with the body; - is standard input")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) (err error) {
		named := flags.Changed("body") || flags.Changed("body-file")
		switch {
		case len(args) == 2 && named:
			return usage("the body is set twice: by a flag and by -")
		case len(args) == 1 && o.piped && !named:
			return usage(
				"no body is set, and standard input is a pipe or a file: add - to read it, or --body '' for an empty " +
					"body")
		case !named:
			body := ""
			if len(args) == 2 {
				body = "-"
			}
			if err := flags.Set("body", body); err != nil {
				return err
			}
		}
		push, err := fields(cmd, o.in, "delay", "at", "id", "key", "on-duplicate", "max-wait", "priority", "ttl", "retry",
			"deliver", "lease", "header", "body", "body-file")
		if err != nil {
			return err
		}
		if changed(cmd, "delay", "at") == "" {
			return usage("--delay or --at is missing")
		}
		push["topic"] = args[0]
		kept, raw, err := post[client.Kept](c, cmd, "/v1/messages", push)
		if err != nil {
			return answered(unsure(err, func(p *client.Problem) string {
				return "push it again with --id " + p.ID +
					", which is safe"
			}), c.json)
		}
		return c.show(raw, keptText(c.clock, args[0], kept))
	})
}

func keptText(t clock, topic string, kept client.Kept) string {
	name := kept.ID
	if kept.UID != kept.ID {
		name += " (" + kept.UID + ")"
	}
	switch {
	case kept.Merged:
		return fmt.Sprintf("merged into %s, which is %s, due on %s at %s", name, kept.State, topic, t.at(kept.Due))
	case kept.Duplicate:
		return fmt.Sprintf("%s was pushed before; it is %s, due %s", name, kept.State, t.at(kept.Due))
	case kept.State == "canceled":
		return fmt.Sprintf("%s is canceled: the cancel arrived before the push", name)
	}
	return fmt.Sprintf("%s is due on %s at %s", name, topic, t.at(kept.Due))
}

// addPriority adds --priority to a command.
func addPriority(cmd *cobra.Command, otherwise string) {
	cmd.Flags().String("priority", "", "0 to 255; of messages due at the same time, a higher one is delivered first "+
		"("+otherwise+")")
}

// readHeaders reads name=value; a repeated name keeps all its values.
func readHeaders(given []string) (map[string][]string, error) {
	var headers map[string][]string
	for _, line := range given {
		name, value, found := strings.Cut(line, "=")
		if !found || name == "" {
			return nil, usage("--header %q: want name=value", line)
		}
		if headers == nil {
			headers = map[string][]string{}
		}
		headers[name] = append(headers[name], value)
	}
	return headers, nil
}

// readBody reads a file, or standard input as "-".
func readBody(file string, in io.Reader) (body []byte, err error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, usage("--body-file: %w", err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		in = f
	}
	body, err = io.ReadAll(io.LimitReader(in, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	if len(body) > maxBody {
		return nil, usage("the body is larger than %d MiB", maxBody>>20)
	}
	return body, nil
}

// contentFlags are the flags that replace a message's headers or its body.
var contentFlags = []string{"header", "body", "body-file"}

func addContent(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArray("header", nil, "header for the consumer, as name=value; replaces all headers; repeatable")
	flags.String("body", "", "new body; - is standard input")
	flags.String("body-file", "", "file with the new body; - is standard input")
}

// fields returns the flags that were set, as the fields of a request. The server checks them, empty ones too: a script
// whose variable is unset must not change everything.
func fields(cmd *cobra.Command, in io.Reader, names ...string) (map[string]any, error) {
	all, flags := map[string]any{}, cmd.Flags()
	for _, name := range names {
		flag := flags.Lookup(name)
		if !flag.Changed {
			continue
		}
		text, field := flag.Value.String(), strings.ReplaceAll(name, "-", "_")
		var err error
		switch {
		case name == "header":
			var lines []string
			if lines, err = flags.GetStringArray(name); err == nil {
				all["headers"], err = readHeaders(lines)
			}
		case name == "body-file" && flags.Changed("body"):
			err = usage("the body is set twice: by --body and by --body-file")
		case name == "body" && text != "-":
			setBody(all, []byte(text))
		case name == "body", name == "body-file":
			var body []byte
			if body, err = readBody(text, in); err == nil {
				setBody(all, body)
			}
		case name == "priority" || flag.Value.Type() == "int":
			if all[field], err = strconv.Atoi(text); err != nil {
				err = usage("--priority %q: want a whole number from 0 to 255", text)
			}
		case flag.Value.Type() == "bool":
			all[field] = text == "true"
		default:
			all[field] = text
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// setBody stores a body in the field that preserves its bytes. JSON would make six bytes of a zero.
func setBody(all map[string]any, body []byte) {
	if all["body"] = string(body); !utf8.Valid(body) || bytes.IndexByte(body, 0) >= 0 {
		delete(all, "body")
		all["body_base64"] = body
	}
}
