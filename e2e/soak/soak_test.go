package soak

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

var (
	length     = flag.Duration("time", 2*time.Minute, "how long there are load and faults")
	seed       = flag.Uint64("seed", 1, "decides what happens; 0: one is drawn")
	visibility = flag.Duration("visibility", 0, "lease of every message; longer for a busy machine (default 8s)")
	settle     = flag.Duration("settle", 0, "how long nothing may change on the way to rest (default 6m)")
	logs       = flag.String("logs", "", "folder for the logs of the roles when something is wrong")
)

// asked are the options that the flags say.
func asked(t *testing.T) Options {
	o := Options{Seed: *seed, Duration: *length, Visibility: *visibility, Settle: *settle, Log: t.Output()}
	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1_000_000) + 1
	}
	return o
}

// Load and faults, for two minutes or as long as you like: `make soak`. The page is also
// kept in .run/soak-<seed>.md.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs the whole system under load and faults for minutes")
	}
	o := asked(t)
	o.Bin = stacktest.Bin(t)
	report, err := Run(t.Context(), o)
	if report == nil {
		t.Fatal(err)
	}
	t.Log("\n" + report.Page())
	root, rootErr := stack.Root()
	page := filepath.Join(root, ".run", fmt.Sprintf("soak-%d.md", o.Seed))
	if err := errors.Join(err, rootErr, os.MkdirAll(filepath.Dir(page), 0o700), os.WriteFile(page, []byte(report.Page()), 0o600)); err != nil {
		t.Error(err)
	}
	if report.Early == 0 && report.Videos >= 30 { // on a busy machine fewer come, and few of them are sent slowly
		t.Error("nothing was done before an upload ended")
	}
	for name, text := range report.Logs {
		if *logs != "" {
			if err := os.WriteFile(filepath.Join(*logs, name+".log"), []byte(text), 0o600); err != nil {
				t.Error(err)
			}
			continue
		}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		t.Logf("the end of the log of %s:\n%s", name, strings.Join(lines[max(0, len(lines)-30):], "\n"))
	}
	// Last, so that a log that is cut keeps it.
	for _, f := range report.Findings {
		t.Errorf("found: %s", f)
	}
}

// The recipes are what the checks believe them to be.
func TestClipsCarryTheirNumbers(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs ffmpeg")
	}
	t.Parallel()
	list, err := makeClips(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.frames == 0 {
			continue
		}
		if err := checkFrames(t.Context(), c.path, c.frames); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.sound {
			if err := checkSound(t.Context(), c.path, c.length); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		t.Logf("%s: %d frames, %d bytes", c.name, c.frames, c.size)
	}
}
