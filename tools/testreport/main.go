// Command testreport tells what came of a run of scripts/test: the slowest tests and
// packages, how long each part took, and how to run each test that failed alone.
//
//	testreport DIR
//
// DIR has a line for each part in the file "parts": name, seconds and exit status,
// separated by tabs. A part that ran tests has the events of `go test -json` in
// NAME.json, and the flags that its tests need to be run alone in NAME.flags.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// most is how many of the slowest are told.
const most = 10

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: testreport DIR")
		os.Exit(2)
	}
	if err := report(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

// part is a line of the file "parts", and what its tests said.
type part struct {
	name, seconds, status string
	flags, args           string // of go test, and of the test binary
	tests                 *testjson.Execution
}

// timed is something that took a while.
type timed struct {
	name string
	took time.Duration
}

func report(w io.Writer, dir string) error {
	parts, err := read(dir)
	if err != nil {
		return err
	}
	var tests, packages []timed
	for _, p := range parts {
		if p.tests == nil {
			continue
		}
		for _, name := range p.tests.Packages() {
			pkg := p.tests.Package(name)
			packages = append(packages, timed{short(name), pkg.Elapsed()})
			for test, took := range longest(pkg) {
				tests = append(tests, timed{short(name) + " " + test, took})
			}
		}
	}
	slowest(w, "tests", tests)
	slowest(w, "packages", packages)
	fmt.Fprintln(w, "\nparts:")
	for _, p := range parts {
		fmt.Fprintf(w, "%8s s  %s%s\n", p.seconds, p.name, failed(p))
	}
	var alone []string
	for _, p := range parts {
		alone = append(alone, failures(p)...)
	}
	if len(alone) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nfailed; each alone:")
	for _, line := range alone {
		fmt.Fprintln(w, "  "+line)
	}
	return nil
}

func read(dir string) (parts []part, err error) {
	lines, err := os.ReadFile(filepath.Join(dir, "parts"))
	if err != nil {
		return nil, fmt.Errorf("read the parts: %w", err)
	}
	for line := range strings.Lines(string(lines)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("read the parts: %q is not name, seconds and status", line)
		}
		p := part{name: fields[0], seconds: fields[1], status: fields[2]}
		events, err := os.ReadFile(filepath.Join(dir, p.name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			parts = append(parts, p)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the events of %s: %w", p.name, err)
		}
		if p.tests, err = testjson.ScanTestOutput(testjson.ScanConfig{Stdout: bytes.NewReader(events), Stderr: strings.NewReader("")}); err != nil {
			return nil, fmt.Errorf("read the events of %s: %w", p.name, err)
		}
		flags, err := os.ReadFile(filepath.Join(dir, p.name+".flags"))
		if err != nil {
			return nil, fmt.Errorf("read the flags of %s: %w", p.name, err)
		}
		p.flags, p.args, _ = strings.Cut(string(flags), "-args")
		parts = append(parts, p)
	}
	return parts, nil
}

// longest are the tests of a package, each with what it took or, if that is more, the
// longest of its subtests: a test does not count the time in which these are parallel.
func longest(pkg *testjson.Package) map[string]time.Duration {
	all := map[string]time.Duration{}
	for _, test := range pkg.TestCases() {
		root, _ := test.Test.Split()
		all[root] = max(all[root], test.Elapsed)
	}
	return all
}

func slowest(w io.Writer, what string, all []timed) {
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	fmt.Fprintf(w, "\nslowest %s:\n", what)
	for _, one := range all[:min(most, len(all))] {
		fmt.Fprintf(w, "%8.1f s  %s\n", one.took.Seconds(), one.name)
	}
}

func failed(p part) string {
	if p.status == "0" {
		return ""
	}
	return ", FAILED"
}

// failures are the commands that run each test that failed alone. A package can fail
// without a test: it does not compile, panics, or leaves goroutines behind.
func failures(p part) (lines []string) {
	if p.tests == nil {
		if p.status != "0" {
			lines = append(lines, p.name+": see its output above")
		}
		return lines
	}
	for _, name := range p.tests.Packages() {
		pkg := p.tests.Package(name)
		command := func(test string) string {
			words := strings.Fields("go test " + p.flags + " -count=1 " + test + " " + short(name))
			if p.args != "" {
				words = append(words, strings.Fields("-args "+p.args)...)
			}
			return strings.Join(words, " ")
		}
		blamed := false
		for _, test := range pkg.Failed {
			if test.Test.IsSubTest() {
				continue
			}
			blamed = true
			lines = append(lines, command("-run '^"+test.Test.Name()+"$'"))
		}
		if pkg.Result() == testjson.ActionFail && !blamed {
			lines = append(lines, command(""))
		}
	}
	return lines
}

// short is a package's path as `go test` takes it in this repository.
func short(path string) string {
	for _, module := range []string{"shared", "webrole", "workerrole", "e2e", "examples"} {
		if i := strings.Index(path, "/"+module); i >= 0 {
			return "." + path[i:]
		}
	}
	return path
}
