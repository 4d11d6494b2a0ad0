package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// demo runs the built program as `make demo FILE=… DEMO_EXIT=1` does, on free
// ports, and returns what it printed.
func demo(t *testing.T, file string) (string, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test runs Azurite and the built roles")
	}
	program := filepath.Join(t.TempDir(), "demo")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build demo: %v\n%s", err, out)
	}
	dir := t.TempDir()
	stacktest.CopyRoles(t, filepath.Join(dir, "bin"))
	cmd := exec.CommandContext(t.Context(), program, "-dir", dir)
	cmd.Env = append(stack.Environ(), "FILE="+file, "DEMO_EXIT=1",
		"AZURITE_BLOB_PORT=0", "AZURITE_QUEUE_PORT=0", "AZURITE_TABLE_PORT=0",
		"WEBROLE_ADDR=127.0.0.1:0", "WEBROLE_ADMIN_ADDR=127.0.0.1:0", "WORKERROLE_ADMIN_ADDR=127.0.0.1:0")
	out, err := cmd.CombinedOutput()
	if left, _ := filepath.Glob(filepath.Join(dir, "*.pid")); len(left) > 0 || stack.Running(dir) != 0 {
		t.Errorf("left behind: %v", left)
	}
	return string(out), err
}

func TestDemoEndsWhenTheVideoIsReady(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "small clip.mp4")
	make := exec.Command("ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25:duration=5",
		"-f", "lavfi", "-i", "anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=5", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", file)
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("generate a clip: %v\n%s", err, out)
	}
	out, err := demo(t, file)
	if err != nil {
		t.Fatalf("demo: %v\n%s", err, out)
	}
	for _, want := range []string{"uploaded:", "playable:", "ready:", `"Small clip" finds it`, "/watch/"} {
		if !strings.Contains(out, want) {
			t.Errorf("the demo does not say %q:\n%s", want, out)
		}
	}
}

func TestDemoSaysWhyAFileIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "text.mp4")
	if err := os.WriteFile(file, []byte("not a video\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := demo(t, file)
	if err == nil || !strings.Contains(out, "unsupported_media") {
		t.Errorf("demo of a text file: %v\n%s", err, out)
	}
}

func TestTitleOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"a/big_buck-bunny.480p.mp4": "Big buck bunny 480p",
		"élan.mkv":                  "Élan",
		".mp4":                      "Demo",
	} {
		if got := titleOf(path); got != want {
			t.Errorf("titleOf(%q) = %q, want %q", path, got, want)
		}
	}
}
