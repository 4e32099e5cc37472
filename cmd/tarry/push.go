package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/client"
)

// maxBody is the maximum size of a body that is read; an instance has a lower limit of its own.
const maxBody = 256 << 20

func newPush(o outside) *cobra.Command {
	var p client.Push
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
	flags.StringVar(&p.Delay, "delay", "", "how long from now: 20m, 1d12h, 2w")
	flags.StringVar(&p.At, "at", "", "when: RFC 3339, or unix milliseconds")
	flags.StringVar(&p.ID, "id", "", "your own name for the message: cancel it by this name, and repeat the push "+
		"safely")
	flags.StringVar(&p.Key, "key", "", "business key: messages of one key keep their order")
	flags.StringVar(&p.OnDuplicate, "on-duplicate", "",
		"if a message has the id: reject, or merge into it while it waits: keep, replace, debounce (default reject)")
	completing(cmd, "on-duplicate", false, "reject", "keep", "replace", "debounce")
	flags.StringVar(&p.MaxWait, "max-wait", "",
		"with debounce: the message is due at most this long after the first push (default no limit)")
	addPriority(cmd, "default 0")
	flags.StringVar(&p.TTL, "ttl", "",
		"how long after its due time the message is still delivered (default the topic's, else for ever)")
	flags.StringVar(&p.Retry, "retry", "",
		"delays of the retries after refusals, separated by commas: 0,2m,1h (default the topic's)")
	flags.StringArray("header", nil, "header for the consumer, as name=value; repeatable")
	flags.String("body", "", "the body; - is standard input")
	flags.String("body-file", "", "file with the body; - is standard input")
	return calling(o, cmd, func(c caller, cmd *cobra.Command, args []string) (err error) {
		if err := withUnits(cmd, "delay", "max-wait", "ttl"); err != nil {
			return err
		}
		p.Topic = args[0]
		if p.Priority, err = priorityOf(cmd); err != nil {
			return err
		}
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
		if p.Headers, p.Content, err = contentOf(cmd, o.in); err != nil {
			return err
		}
		kept, raw, err := post[client.Kept](c, cmd, "/v1/messages", p)
		if err != nil {
			return answered(unsure(err, func(p *client.Problem) string {
				return "push it again with --id " + p.ID +
					", which is safe"
			}), c.json)
		}
		return c.show(raw, keptText(c.clock, p.Topic, kept))
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

// priorityOf returns the priority, or nil if none was set. The server checks its limits.
func priorityOf(cmd *cobra.Command) (*int, error) {
	flag := cmd.Flags().Lookup("priority")
	if !flag.Changed {
		return nil, nil
	}
	n, err := strconv.Atoi(flag.Value.String())
	if err != nil {
		return nil, usage("--priority %q: want a whole number from 0 to 255", flag.Value)
	}
	return &n, nil
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

// contentOf returns the headers and the body from the flags.
func contentOf(cmd *cobra.Command, in io.Reader) (headers map[string][]string, body client.Content, err error) {
	flags := cmd.Flags()
	lines, err := flags.GetStringArray("header")
	if err != nil {
		return nil, body, err
	}
	if headers, err = readHeaders(lines); err != nil {
		return nil, body, err
	}
	switch text, file := flags.Lookup("body"), flags.Lookup("body-file"); {
	case text.Changed && file.Changed:
		return nil, body, usage("the body is set twice: by --body and by --body-file")
	case text.Changed && text.Value.String() != "-":
		body.SetBody([]byte(text.Value.String()))
	case text.Changed || file.Changed:
		name := file.Value.String()
		if text.Changed {
			name = "-"
		}
		read, err := readBody(name, in)
		if err != nil {
			return nil, body, err
		}
		body.SetBody(read)
	}
	return headers, body, nil
}
