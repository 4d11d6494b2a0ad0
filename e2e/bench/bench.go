// Package bench measures Cutroom against the best that the same machine can do
// without it, side by side in one run, and prints ratios: absolute times say
// more about the machine than about the program.
//
// It drives the roles from outside, as child processes (package stack) and over
// HTTP (package journey), and reads what they cost from /proc, so it needs
// Linux. `make bench` runs it; with -write it keeps the run in docs/benchmarks.md.
//
// Next: pipeline.go, the largest section.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/proc"
	"github.com/cutroom/cutroom/e2e/report"
	"github.com/cutroom/cutroom/e2e/stack"
)

// Options says what to measure.
type Options struct {
	// Sections to run, by name; empty: all of Sections.
	Sections []string
	// Quick makes everything smaller: for a look, not for numbers to keep.
	Quick bool
	// Runs is how often the interleaved sections measure each side. 0: 2.
	Runs int
	// Cache keeps the generated videos between runs. Empty: .run/bench in the
	// repository.
	Cache string
	// Megabytes is how large the films of the section uploading are. 0: 60, or 24 when
	// quick.
	Megabytes int
	// Kinds are the containers of that section, by the end of their name; empty: all.
	Kinds []string
	// Log gets a line for people about every step. Nil: nothing.
	Log io.Writer
}

// Section is one thing that is measured.
type Section struct {
	Name, Title string
	run         func(context.Context, *bench) (report.Section, error)
}

// Sections lists all of them, in the order in which they run: those that measure
// time on an idle machine come first.
var Sections = []Section{
	{"pipeline", "Whole pipeline against one process of ffmpeg making the same ladder", pipeline},
	{"scale", "One video, 1 to 8 workers of a fifth of a core each", scale},
	{"queue", "Work-queue runtime against a bare loop over the SDK", queue},
	{"upload", "Upload through the web role against the SDK's UploadStream", upload},
	{"idle", "What an idle system asks of its storage", idle},
	{"search", "The same questions to a library of 1,000 videos and one of ten times the size", search},
	{"busy", "A newcomer on a stack that others keep busy, against the same on an idle one", busy},
	{"uploading", "A film on a slow line, made while it is sent, and after it was sent", uploading},
	{"playable", "From the last part of the upload to the first frame", playable},
}

// Report is a whole run.
type Report struct {
	Machine  string
	Quick    bool
	Sections []report.Section
}

// Text is the report for people.
func (r Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s\n", r.Machine)
	if r.Quick {
		b.WriteString("Quick run: too short for numbers to keep.\n")
	}
	for _, section := range r.Sections {
		section.WriteText(&b)
	}
	return b.String()
}

// Markdown is the report as docs/benchmarks.md.
func (r Report) Markdown() string {
	return "# Benchmarks\n\n" +
		"One run of `make bench`, as it was printed. What counts are the ratios: both sides of each were\n" +
		"measured in this run, on this machine, in turn. Azurite, the emulator, was the storage and shared the cores;\n" +
		"on Azure storage does not cost the worker's machine anything. `e2e/bench` says what is measured and how.\n\n" +
		"```text\n" + r.Text() + "```\n"
}

// bench is one run.
type bench struct {
	Options
	bin string // the built roles
}

func (b *bench) say(format string, args ...any) {
	if b.Log != nil {
		_, _ = fmt.Fprintf(b.Log, format+"\n", args...)
	}
}

// pick returns the value for a quick run or for a whole one.
func pick[T any](b *bench, quick, whole T) T {
	if b.Quick {
		return quick
	}
	return whole
}

// Run measures. Each section's result goes to out as soon as it is there.
func Run(ctx context.Context, o Options, out io.Writer) (Report, error) {
	if o.Runs <= 0 {
		o.Runs = 2
	}
	found := Report{Machine: proc.Machine(), Quick: o.Quick}
	for _, name := range o.Sections {
		if !slices.ContainsFunc(Sections, func(s Section) bool { return s.Name == name }) {
			return found, fmt.Errorf("there is no section %q", name)
		}
	}
	if runtime.GOOS != "linux" {
		return found, errors.New("measure: this reads what processes cost from /proc, which only Linux has")
	}
	root, err := stack.Root()
	if err != nil {
		return found, err
	}
	if o.Cache == "" {
		o.Cache = filepath.Join(root, ".run", "bench")
	}
	if err := os.MkdirAll(o.Cache, 0o700); err != nil {
		return found, fmt.Errorf("make a folder for generated videos: %w", err)
	}
	bin, err := os.MkdirTemp("", "cutroom-bench-bin-")
	if err != nil {
		return found, fmt.Errorf("make a folder for the built roles: %w", err)
	}
	defer func() { _ = os.RemoveAll(bin) }()
	if err := stack.Build(ctx, bin); err != nil {
		return found, err
	}
	b := &bench{Options: o, bin: bin}
	_, _ = fmt.Fprintf(out, "Machine: %s\n", found.Machine)
	for _, section := range Sections {
		if len(o.Sections) > 0 && !slices.Contains(o.Sections, section.Name) {
			continue
		}
		result, err := section.run(ctx, b)
		if err != nil {
			return found, fmt.Errorf("section %s: %w", section.Name, err)
		}
		result.Name, result.Title = section.Name, section.Title
		result.WriteText(out)
		found.Sections = append(found.Sections, result)
	}
	return found, nil
}

// start starts a stack with the roles that were built for this run.
func (b *bench) start(ctx context.Context, o stack.Options) (*stack.Stack, error) {
	o.Bin = b.bin
	o.Env = append([]string{"WEBROLE_RATE_LIMIT=0"}, o.Env...)
	return stack.Start(ctx, o)
}

// with runs f on a stack of its own, with a user of it.
func (b *bench) with(ctx context.Context, o stack.Options, f func(*stack.Stack, *journey.User) error) error {
	s, err := b.start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	u, err := journey.New(s.BaseURL())
	if err != nil {
		return err
	}
	defer u.Close()
	return f(s, u)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
