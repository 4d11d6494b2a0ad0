package soak

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Two minutes of load and faults: see the page that it prints. `make soak` runs
// it for as long as you like.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs the whole system under load and faults for minutes")
	}
	report, err := Run(t.Context(), Options{Seed: 1, Duration: 2 * time.Minute, Older: Older, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + report.Page())
	if len(report.Findings) == 0 {
		return
	}
	t.Errorf("%d findings", len(report.Findings))
	if dir := os.Getenv("CUTROOM_SOAK_LOGS"); dir != "" {
		for name, text := range report.Logs {
			if err := os.WriteFile(filepath.Join(dir, name+".log"), []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
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
