// Command prebuild builds the programs that most stories start: see lab.Prebuild.
package main

import (
	"fmt"
	"os"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func main() {
	if err := lab.Prebuild(); err != nil {
		fmt.Fprintln(os.Stderr, "prebuild:", err)
		os.Exit(1)
	}
}
