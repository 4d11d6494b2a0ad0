// Command mutations makes the mistakes of package mutations one by one, and tells of each
// whether the test that is named there finds it. It ends with 1 when one was not found or
// did not build. `make mutations` runs it.
//
//	make mutations RUN=Breaker
//	scripts/gorun mutations -run 'frame count|videostore'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/cutroom/cutroom/e2e/command"
	"github.com/cutroom/cutroom/e2e/mutations"
)

func main() { command.Main("mutations", run) }

func run(ctx context.Context) error {
	some := flag.String("run", "", "only those in whose name, package or test this regular expression is found")
	flag.Parse()
	chosen, err := regexp.Compile(*some)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	list, err := mutations.All()
	if err != nil {
		return err
	}
	all, found := 0, 0
	for _, m := range list {
		if !chosen.MatchString(m.Name + " " + m.Package + " " + m.Test) {
			continue
		}
		all++
		if try(ctx, m) {
			found++
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	fmt.Printf("%d of %d were found\n", found, all)
	if all == 0 {
		return errors.New("none is chosen")
	}
	if found < all {
		return fmt.Errorf("%d were not found", all-found)
	}
	return nil
}

// try makes one mistake and prints what became of it. What a test said that did not find
// it goes to standard error.
func try(ctx context.Context, m mutations.Mutation) bool {
	begun := time.Now()
	found, said, err := m.Run(ctx)
	word := "found"
	switch {
	case err != nil:
		word, said = "ERROR", err.Error()
	case !found:
		word = "NOT FOUND"
	}
	fmt.Printf("%-9s %6.1f s  %s: %s %s\n", word, time.Since(begun).Seconds(), m.Name, m.Package, m.Test)
	if !found {
		fmt.Fprintf(os.Stderr, "want %q of the test, which said:\n%s\n", m.Says, end(said))
	}
	return found
}

// end is the last lines of a text.
func end(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}
