package ffmpeg

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
)

// Every command runs in the sandbox: a program in ffmpeg's place writes nothing outside the
// directory of its attempt, and without the sandbox it does.
func TestEveryCommandIsSandboxed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs programs")
	}
	full := trySandbox(t)
	// An old kernel does not hold files back, and says so.
	holdsFiles := !slices.ContainsFunc(full.Missing(), func(m string) bool { return strings.HasPrefix(m, "files:") })
	off, err := sandbox.Open(sandbox.Off)
	if err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	program := script(t, ": > "+outside+"/$$\n"+
		`echo '{"format":{"format_name":"mov","duration":"9"},"streams":[{"codec_type":"video","codec_name":"h264","width":64,"height":64,"duration":"9"}]}'`+"\n")
	plan := video.Plan{
		FPS: video.Rational{Num: 30, Den: 1}, SegmentFrames: 120, Width: 64, Height: 64,
		Chunks: []video.Chunk{{From: 0, To: 120}}, Renditions: []video.Rendition{{Name: "240p", Width: 426, Height: 240, MaxRate: 1}},
	}
	dir := t.TempDir()
	src, out := Source{URL: filepath.Join(dir, "source"), Demuxer: "mov"}, filepath.Join(dir, "out")
	commands := map[string]func(*Tool){
		"Chunk": func(tool *Tool) {
			_ = tool.Chunk(t.Context(), ChunkJob{Source: src, Plan: plan, Dir: dir, End: 120, Renditions: plan.Renditions})
		},
		"Sound": func(tool *Tool) {
			_, _ = tool.Sound(t.Context(), SoundJob{Source: src, Dir: dir, To: 1024})
		},
		"Remux": func(tool *Tool) { _ = tool.Remux(t.Context(), src, Info{}, out) },
		"Probe": func(tool *Tool) { _, _ = tool.Probe(t.Context(), src) },
		"Mux":   func(tool *Tool) { _ = tool.Mux(t.Context(), "v.mp4", "a.mp4", out) },
		"Check": func(tool *Tool) { _ = tool.Check(t.Context()) },
	}
	for name, run := range ofStrangers {
		commands[name] = func(tool *Tool) { run(t.Context(), tool, src) }
	}
	for name, run := range ofOurs {
		commands[name] = func(tool *Tool) { _ = run(t.Context(), tool, "v.mp4", "", out) }
	}
	everyMethod(t, slices.Collect(maps.Keys(commands)))
	for name, run := range commands {
		written := func(held *sandbox.Sandbox) int {
			t.Helper()
			run(&Tool{FFmpeg: program, FFprobe: program, sandbox: held})
			files, err := os.ReadDir(outside)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				_ = os.Remove(filepath.Join(outside, f.Name()))
			}
			return len(files)
		}
		if n := written(full); holdsFiles != (n == 0) {
			t.Errorf("%s: %d files outside; the sandbox is %s", name, n, full)
		}
		if n := written(off); n == 0 {
			t.Errorf("%s: not even without a sandbox, so this proves nothing", name)
		}
	}
}

// A program steps back as far as its context says.
func TestProgramsAreNice(t *testing.T) {
	t.Parallel()
	niceness := func(by int) (n int) {
		var out bytes.Buffer
		ctx, runs := WithRuns(t.Context())
		runs.Nice = by
		tool := &Tool{sandbox: trySandbox(t)}
		_, err := tool.run(ctx, command{path: script(t, "exec /usr/bin/nice\n"), stdout: &out, limits: anything})
		if err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(out.String()))
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if own := niceness(0); niceness(3) != min(own+3, 19) {
		t.Errorf("a program with 3 more than %d is at %d", own, niceness(3))
	}
}

// One place starts programs.
func TestOnePlaceStartsPrograms(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range file.Imports {
			in := filepath.Base(filepath.Dir(path))
			if i.Path.Value == `"os/exec"` && in != "ffmpeg" && in != "sandbox" {
				t.Errorf("%s starts programs: that is for package ffmpeg to do", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
