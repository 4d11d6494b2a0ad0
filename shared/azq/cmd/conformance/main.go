// Command conformance checks that a worker, a program in any language, keeps the rules of
// WORKER.md, on the emulator or an account for tests. Package conformance says what the worker
// is told and what it has to be able to do.
//
//	AZURE_STORAGE_CONNECTION_STRING=… conformance [FLAGS] COMMAND ARGUMENT…
//
//	-claims          the worker reads claim checks
//	-only done,lease only these rules
//	-visibility 5s   the visibility timeout that the worker is told
//	-patience 30s    how long each wait may take
//	-v               print what the worker prints
//
// COMMAND must be the worker itself and no script that starts it, because it gets signals.
// A line for each rule is printed. The exit status is 1 when one is broken.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azq/conformance"
	"github.com/cutroom/cutroom/shared/azstore"
)

func main() {
	w := conformance.Worker{}
	flag.BoolVar(&w.Claims, "claims", false, "the worker reads claim checks")
	flag.DurationVar(&w.Visibility, "visibility", 5*time.Second, "the visibility timeout that the worker is told")
	flag.DurationVar(&w.Patience, "patience", 30*time.Second, "how long each wait may take")
	only := flag.String("only", "", "the rules to check, with commas between; all if it is empty")
	verbose := flag.Bool("v", false, "print what the worker prints")
	flag.Parse()
	w.Command, w.Only = flag.Args(), strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	if *verbose {
		w.Output = os.Stderr
	}
	kept, err := check(w)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !kept {
		os.Exit(1)
	}
}

// check runs the worker under names of its own and reports whether it kept all rules.
func check(w conformance.Worker) (kept bool, err error) {
	connection := os.Getenv("AZURE_STORAGE_CONNECTION_STRING")
	if connection == "" || len(w.Command) == 0 {
		return false, errors.New("set AZURE_STORAGE_CONNECTION_STRING and name the program to check")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	prefix := fmt.Sprintf("c%09x", rand.Uint64()&0xfffffffff)
	account, err := azstore.Open(azstore.Config{ConnectionString: connection, Prefix: prefix})
	if err != nil {
		return false, err
	}
	verdicts, err := conformance.Check(ctx, account, connection, w)
	kept = true
	for _, v := range verdicts {
		mark := "ok"
		if len(v.Broken) > 0 {
			mark, kept = "BROKEN", false
		}
		fmt.Printf("%-7s %-10s %s\n", mark, v.Name, v.Text)
		for _, how := range v.Broken {
			fmt.Printf("%8s%s\n", "", how)
		}
	}
	return kept, err
}
