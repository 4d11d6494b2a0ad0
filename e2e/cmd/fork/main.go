// Command fork makes a fresh clone another product: `make fork`.
//
//	make fork MODULE=example.com/acme/reel NAME=reel WITHOUT="clips seek"
//	make fork MODULE=example.com/acme/reel NAME=reel ONLY=core
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
	only := flag.String("only", "", "\"core\": uploads of any kind, one step, list, delete, operations, the engine")
	flag.Parse()
	changed, err := fork.Make(".", fork.Choice{Module: *module, Name: *name, Without: strings.Fields(*without), Only: *only})
	if err != nil {
		fmt.Fprintln(os.Stderr, "fork:", err)
		os.Exit(1)
	}
	fmt.Printf("This is %s now, module %s: %d files have other names in them. `make check` checks it, `git reset --hard` undoes it.\n", fork.Title(*name), *module, changed)
}
