// Command check holds a history of what users saw of a tarry against its promises. deploy/check/history documents the
// file.
//
//	go run ./deploy/check FILE
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/tarry-mq/tarry/deploy/check/history"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: check FILE")
		os.Exit(2)
	}
	broken, err := check(os.Args[1], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(2)
	}
	if broken > 0 {
		os.Exit(1)
	}
}

// check prints what a history breaks and returns how much that is.
func check(name string, out io.Writer) (broken int, err error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	all, err := history.Read(file)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	found, judged, of := history.Judge(all)
	for _, v := range found {
		fmt.Fprintln(out, v)
		picture, err := v.Draw()
		if err != nil {
			return 0, err
		}
		if picture != "" {
			fmt.Fprintln(out, "  drawn in", picture)
		}
	}
	fmt.Fprintf(out, "%d events, %d promises broken; the answers about %d of %d messages judged\n", len(all), len(found),
		judged, of)
	return len(found), nil
}
