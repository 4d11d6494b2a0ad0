// Command bundle makes the scripts of the pages from their TypeScript:
//
//	go generate ./webrole/web
//
// The result is committed, so building and running the roles needs neither this
// program nor Node. A test says when it is not what the sources make. esbuild
// removes the types and does not check them; `npm run check` does.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	if err := bundle(".", "static"); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

// scripts are one for each page, and those that run beside a page or in a part of
// one. What they share becomes a file of its own, so that a browser loads it once.
var scripts = []string{"home", "mine", "upload", "watch", "embed", "race", "board", "lab", "learn", "scene", "md5-worker"}

// bundle writes the scripts of the pages under web into out.
func bundle(web, out string) error {
	var entries []string
	for _, script := range scripts {
		entries = append(entries, filepath.Join("src", script+".ts"))
	}
	root, err := filepath.Abs(web)
	if err != nil {
		return fmt.Errorf("find the pages: %w", err)
	}
	if out, err = filepath.Abs(out); err != nil {
		return fmt.Errorf("find where the scripts go: %w", err)
	}
	before, err := filepath.Glob(filepath.Join(out, "*.js"))
	if err != nil {
		return fmt.Errorf("list the scripts of before: %w", err)
	}
	for _, script := range before {
		if err := os.Remove(script); err != nil {
			return fmt.Errorf("remove a script of before: %w", err)
		}
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: root, EntryPoints: entries, Outdir: out, Write: true,
		Bundle: true, Splitting: true, Format: api.FormatESModule, ChunkNames: "shared-[hash]", Target: api.ES2022,
		MinifySyntax: true, MinifyWhitespace: true, MinifyIdentifiers: true, LegalComments: api.LegalCommentsNone,
	})
	var errs []error
	for _, message := range result.Errors {
		where := ""
		if message.Location != nil {
			where = fmt.Sprintf("%s:%d: ", message.Location.File, message.Location.Line)
		}
		errs = append(errs, errors.New(where+message.Text))
	}
	return errors.Join(errs...)
}
