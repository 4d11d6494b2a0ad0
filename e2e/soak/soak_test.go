package soak

import (
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// Two minutes of load and faults: see the page that it prints. `make soak` runs
// it for as long as you like.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs the whole system under load and faults for minutes")
	}
	report, err := Run(t.Context(), Options{Seed: 1, Duration: 2 * time.Minute, Bin: stacktest.Bin(t), Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + report.Page())
	if report.Early == 0 {
		t.Error("nothing was done before an upload ended")
	}
	if len(report.Findings) == 0 {
		return
	}
	for name, text := range report.Logs {
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
