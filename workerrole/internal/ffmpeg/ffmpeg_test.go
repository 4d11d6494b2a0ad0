package ffmpeg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
)

func open(t *testing.T) *Tool {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: runs ffmpeg")
	}
	tool, err := Open(t.Context(), trySandbox(t), "", "")
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// trySandbox is what this system has.
func trySandbox(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	held, err := sandbox.Open(sandbox.Try)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// script is a program that stands in for ffmpeg.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ffmpeg")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil { //nolint:gosec // must be executable
		t.Fatal(err)
	}
	return path
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	tool := open(t)
	if tool.Version == "" || !filepath.IsAbs(tool.FFmpeg) || !filepath.IsAbs(tool.FFprobe) {
		t.Errorf("Open = %+v", tool)
	}
	for name, path := range map[string]string{
		"no such program": filepath.Join(t.TempDir(), "none"),
		"something else":  script(t, "echo hello\n"),
		"no encoders":     script(t, "echo ffmpeg version 0 x\n"),
	} {
		if _, err := Open(t.Context(), tool.sandbox, path, tool.FFprobe); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// anything is for runs that no limit is to end.
var anything = encoding(maxPixels, 1)

// inputs returns the options that stand before each input of a command line, and
// the inputs.
func inputs(args []string) (options [][]string, names []string) {
	from := 0
	for i, a := range args {
		if a == "-i" {
			options, names = append(options, args[from:i]), append(names, args[i+1])
			from = i + 2
		}
	}
	return options, names
}

// everyMethod fails for a method of Tool that a test of all commands does not name.
func everyMethod(t *testing.T, named []string) {
	t.Helper()
	tool := reflect.TypeFor[*Tool]()
	for i := range tool.NumMethod() {
		if name := tool.Method(i).Name; !slices.Contains(named, name) {
			t.Errorf("this test does not run Tool.%s: add it", name)
		}
	}
}

// What the commands of features do with a file of a stranger, and with two of ours; the files of
// their tests add them.
var (
	ofStrangers = map[string]func(context.Context, *Tool, Source){}
	ofOurs      = map[string]func(ctx context.Context, tool *Tool, video, audio, out string) error{}
)

// Every input of every command carries the guards before it. The programs are
// stand-ins that write down how they were called, so no command can be left out
// by how this test builds it.
func TestEveryInputIsGuarded(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs programs")
	}
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	note := script(t, "for a in \"$@\"; do echo \"$a\" >> "+calls+"; done\necho END >> "+calls+"\n")
	answer := script(t, "for a in \"$@\"; do echo \"$a\" >> "+calls+"; done\necho END >> "+calls+"\n"+
		`echo '{"format":{"format_name":"mov","duration":"9"},"streams":[{"codec_type":"video","codec_name":"h264","width":64,"height":64,"duration":"9"}]}'`+"\n")
	tool := &Tool{FFmpeg: note, FFprobe: answer, decodes: map[string]bool{"h264": true}}
	plan := video.Plan{
		FPS: video.Rational{Num: 30, Den: 1}, SegmentFrames: 120, TileEvery: 30, TileWidth: 16, TileHeight: 16, Width: 64, Height: 64,
		Chunks: []video.Chunk{{From: 0, To: 120}, {From: 120, To: 240}}, Renditions: []video.Rendition{{Name: "240p", Width: 426, Height: 240, MaxRate: 1}},
	}
	out := filepath.Join(dir, "out")
	chunk := func(index int) func(Source) error {
		return func(src Source) error {
			return tool.Chunk(t.Context(), ChunkJob{Source: src, Plan: plan, Index: index, Dir: dir, Margin: 1, End: 240, Renditions: plan.Renditions, Stills: true})
		}
	}
	strangers := map[string]func(Source) error{
		"Chunk": chunk(1), "the first Chunk": chunk(0),
		// The stand-in writes no lists, which is an error of its own.
		"Sound": func(src Source) error {
			_, _ = tool.Sound(t.Context(), SoundJob{Source: src, Dir: dir, To: 1024})
			return nil
		},
		"Sound from the middle": func(src Source) error {
			_, _ = tool.Sound(t.Context(), SoundJob{Source: src, Dir: dir, From: 1 << 20, To: 1 << 21})
			return nil
		},
		"Remux": func(src Source) error { return tool.Remux(t.Context(), src, Info{}, out) },
		// The stand-in's packets are none, which is a failure of its own.
		"Probe": func(src Source) error { _, _ = tool.Probe(t.Context(), src); return nil },
	}
	own := map[string]func() error{
		"Mux": func() error { return tool.Mux(t.Context(), "-y.mp4", "concat:a|b", out) },
	}
	for name, run := range ofStrangers {
		strangers[name] = func(src Source) error { run(t.Context(), tool, src); return nil }
	}
	for name, run := range ofOurs {
		own[name] = func() error { return run(t.Context(), tool, "-y.mp4", "concat:a|b", out) }
	}
	everyMethod(t, slices.Concat(slices.Collect(maps.Keys(strangers)), slices.Collect(maps.Keys(own)), []string{"Check"})) // which has no input
	check := func(what string, run func() error, count int, want map[string]string, address string) {
		t.Helper()
		_ = os.Remove(calls)
		if err := run(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		text, err := os.ReadFile(calls)
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for call := range strings.SplitSeq(strings.TrimSuffix(string(text), "END\n"), "END\n") {
			options, names := inputs(strings.Split(strings.TrimSuffix(call, "\n"), "\n"))
			for n, in := range options {
				seen++
				for option, value := range want {
					if i := slices.Index(in, option); i < 0 || i+1 == len(in) || in[i+1] != value {
						t.Errorf("%s: %s is not %s in %q", what, option, value, in)
					}
				}
				if names[n] != address && !strings.HasPrefix(names[n], "file:/") {
					t.Errorf("%s: the input is %q", what, names[n])
				}
			}
		}
		if seen != count {
			t.Errorf("%s: %d inputs, want %d", what, seen, count)
		}
	}
	served, err := Serve(t.Context(), 0, func() io.ReadSeeker { return strings.NewReader("") })
	if err != nil {
		t.Fatal(err)
	}
	for _, src := range []Source{{URL: "/tmp/x"}, {URL: "-y.mp4"}, {URL: "concat:a|b"}, served} {
		src.Demuxer = "mov"
		protocols := "file"
		if src.URL == served.URL {
			protocols = "http,tcp"
		}
		for name, run := range strangers {
			count := 1
			if name == "Probe" {
				count = 1 + len(tails) // what is in it, and where it ends, for which it looks further back each time
			}
			check(name+" of "+src.URL, func() error { return run(src) }, count, map[string]string{
				"-protocol_whitelist": protocols, "-format_whitelist": demuxers, "-f": "mov", "-max_pixels": "9437184", "-max_streams": "64",
			}, src.URL)
		}
	}
	for name, run := range own {
		check(name, run, 2, map[string]string{"-protocol_whitelist": "file", "-format_whitelist": "mov", "-f": "mov"}, "")
	}
	for _, name := range []string{"hls", "concat", "dash", "sdp", "image2", "applehttp"} {
		if slices.Contains(strings.Split(demuxers, ","), name) {
			t.Errorf("%s reads other files and must not be a container", name)
		}
	}
}

// The address lets its reader in, so it is kept out of errors.
func TestAddressesAreRedacted(t *testing.T) {
	t.Parallel()
	src := Source{URL: "http://127.0.0.1:1/SECRET"}
	for _, text := range []string{src.URL + ": Invalid data", "[http @ 0x1] Will reconnect at 12 to " + src.URL} {
		if got := src.redact(text); strings.Contains(got, "SECRET") {
			t.Errorf("redact(%q) = %q", text, got)
		}
	}
	if got := (Source{URL: "/tmp/SECRET"}).redact("file:/tmp/SECRET: Invalid data"); got != "source: Invalid data" {
		t.Errorf("a local path: %q", got)
	}
}

// The process and whatever it started end with the context, and the error says why.
func TestCancelKillsTheWholeGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	started := filepath.Join(dir, "started")
	// The grandchild ignores polite signals and keeps stderr open.
	path := script(t, fmt.Sprintf("trap '' TERM\n/bin/sh -c \"trap '' TERM; while :; do /bin/sleep 0.05; echo x >> %s; done\" &\necho frame=1\necho progress=continue\nwait\n", started))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	why := errors.New("the lease is lost")
	done := make(chan error, 1)
	go func() {
		_, err := new(Tool).run(ctx, command{path: path, limits: anything})
		done <- err
	}()
	size := func() int64 {
		info, err := os.Stat(started)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	eventually(t, func() bool { return size() > 0 })
	cancel(why)
	select {
	case err := <-done:
		if !errors.Is(err, why) {
			t.Errorf("the error is %v, want the cause", err)
		}
	case <-time.After(azuritetest.Patience(5 * time.Second)):
		t.Fatal("the process outlived its context")
	}
	// The grandchild writes 20 times a second as long as it lives.
	eventually(t, func() bool {
		before := size()
		time.Sleep(300 * time.Millisecond)
		return size() == before
	})
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	if !azuritetest.Poll(10*time.Second, ok) {
		t.Fatal("it did not happen")
	}
}

// No key of ours is in the environment of a program that reads strangers' files.
func TestEnvironmentIsEmpty(t *testing.T) {
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "SECRET")
	var out bytes.Buffer
	if _, err := new(Tool).run(t.Context(), command{path: script(t, "/usr/bin/env\n"), stdout: &out, limits: anything}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "SECRET") {
		t.Errorf("the environment is\n%s", out.String())
	}
}

func TestStderrIsCapped(t *testing.T) {
	t.Parallel()
	path := script(t, "i=0\nwhile [ $i -lt 3000 ]; do echo \"line $i of a very long complaint about a broken file that goes on and on\" >&2; i=$((i+1)); done\necho the end >&2\nexit 3\n")
	_, err := new(Tool).run(t.Context(), command{path: path, limits: anything})
	var exit *RunError
	if !errors.As(err, &exit) || exit.Status != 3 || len(exit.Stderr) > stderrTail || !strings.HasSuffix(exit.Stderr, "the end\n") {
		t.Fatalf("got %v", err)
	}
	if want := "ffmpeg ended with status 3: the end"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

// Progress is reported when work moves, and not when ffmpeg only says the same again.
func TestProgressMeansMovement(t *testing.T) {
	t.Parallel()
	var got []string
	var w *progressWriter
	w = newProgress(func() { got = append(got, w.now["frame"]) })
	for _, text := range []string{
		"frame=0\nprogress=continue\n", "frame=0\nprogress=continue\n", // reading towards the chunk
		"fra", "me=5\nout_time_us=100\ntotal_size=N/A\nprogress=cont", "inue\n",
		"frame=5\nout_time_us=100\nprogress=continue\n", // stuck
		"frame=9\nprogress=end\n",
	} {
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := []string{"0", "0", "5", "9"}; !slices.Equal(got, want) {
		t.Errorf("reported %v, want %v", got, want)
	}
	w.start, got = time.Now().Add(-2*firstFrameLimit), nil
	w.now, w.last = map[string]string{}, map[string]string{"frame": "0"}
	_, _ = w.Write([]byte("frame=0\nprogress=continue\n"))
	if len(got) > 0 {
		t.Error("reading for ever without a frame counts as progress")
	}
}
