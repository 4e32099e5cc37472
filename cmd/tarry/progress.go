package main

import (
	"fmt"
	"io"
)

// clearLine goes back to the begin of a terminal's line and empties it.
const clearLine = "\r\x1b[K"

// watched gives what shows how far a long operation is, in one line of the terminal that is written over; done takes it
// away. Nobody watches what is no terminal: progress is nil then.
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
