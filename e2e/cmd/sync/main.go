// Command sync merges a commit of upstream into a fork that `make fork` made: `make sync`.
//
//	make sync UPSTREAM=https://example.com/upstream.git REF=v0.2.0
//
// Next: e2e/fork, how; docs/fork.md, when something conflicts.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"

	"github.com/cutroom/cutroom/e2e/fork"
)

func main() {
	upstream := flag.String("upstream", "", "path, address or remote of upstream; the remote \"upstream\" unless given")
	ref := flag.String("ref", "", "branch, tag or whole commit id of upstream; HEAD unless given")
	flag.Parse()
	commit, err := fork.Sync(".", cmp.Or(*upstream, "upstream"), cmp.Or(*ref, "HEAD"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "sync:", err)
		os.Exit(1)
	}
	fmt.Printf("The fork holds upstream %s. `make check` checks it.\n", commit)
}
