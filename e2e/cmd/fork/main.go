// Command fork gives a fresh clone another name: `make fork`.
//
//	make fork MODULE=example.com/acme/reel NAME=reel WITHOUT="clips seek"
//
// Next: e2e/fork, what it replaces; docs/fork.md, what to decide afterwards.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/cutroom/cutroom/e2e/fork"
)

func main() {
	module := flag.String("module", "", "path of the modules, such as example.com/acme/reel")
	name := flag.String("name", "", "name of the product, such as reel")
	without := flag.String("without", "", "features to take off, separated by spaces")
	flag.Parse()
	changed, err := fork.Rename(".", *module, *name)
	if err == nil && *without != "" {
		_, err = fork.Remove(".", strings.Fields(*without)...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fork:", err)
		os.Exit(1)
	}
	fmt.Printf("This is %s now, module %s: %d files changed. `make check` checks it, `git reset --hard` undoes it, "+
		"docs/fork.md says what to decide.\n", fork.Title(*name), *module, changed)
}
