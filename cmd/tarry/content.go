package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/tarry-mq/tarry/cmd/internal/client"
)

// contentFlags are the flags that replace a message's headers or its body.
var contentFlags = []string{"header", "body", "body-file"}

func addContent(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArray("header", nil, "header for the consumer, as name=value; replaces all headers; repeatable")
	flags.String("body", "", "new body")
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
	case text.Changed:
		body.SetBody([]byte(text.Value.String()))
	case file.Changed:
		read, err := readBody(file.Value.String(), in)
		if err != nil {
			return nil, body, err
		}
		body.SetBody(read)
	}
	return headers, body, nil
}
