// Command bundle makes the scripts of the pages from their TypeScript:
//
//	go generate ./webrole/web
//
// The result is committed, so building and running the roles needs neither this program nor
// Node. esbuild removes the types and does not check them; `npm run check` does.
package main

import (
	"os"

	"github.com/evanw/esbuild/pkg/cli"
)

func main() { os.Exit(bundle("static")) }

// scripts are one for each page, and those that run beside a page or in a part of
// one. What they share becomes a file of its own, so that a browser loads it once.
var scripts = []string{"home", "mine", "upload", "watch", "embed", "race", "board", "lab", "learn", "scene", "md5-worker"}

// bundle writes the scripts of the pages into out, and returns the exit code of esbuild, which
// prints mistakes.
func bundle(out string) int {
	args := []string{
		"--bundle", "--splitting", "--format=esm", "--chunk-names=shared-[hash]", "--target=es2022",
		"--minify", "--legal-comments=none", "--log-level=warning", "--outdir=" + out,
	}
	for _, script := range scripts {
		args = append(args, "src/"+script+".ts")
	}
	return cli.Run(args)
}
