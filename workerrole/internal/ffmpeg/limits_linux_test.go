package ffmpeg

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// What a run meets by its own doing is evidence about the bytes, a RunError; what
// others do to it is trouble of a kind; the clock is neither.
func TestEvidenceAndTrouble(t *testing.T) {
	t.Parallel()
	small := limits{wall: time.Minute, cpu: time.Second, memory: 64 << 20, file: 1 << 20}
	const evidence, clock = "evidence", "clock"
	for name, c := range map[string]struct {
		script string
		limits limits
		want   string
	}{
		"error status":          {"exit 1", small, evidence},
		"crash":                 {"kill -SEGV $$", small, evidence},
		"too much CPU time":     {"while :; do :; done", small, evidence},
		"too much memory":       {"x=12345678; for i in $(/usr/bin/seq 24); do x=$x$x; done", small, evidence},
		"too large a file":      {"exec /bin/dd if=/dev/zero of=big bs=64k count=2000", small, evidence},
		"many files":            {"i=0; while :; do i=$((i+1)); echo x > f$i; done", small, evidence},
		"files, all together":   {"for i in 1 2 3 4 5; do /bin/dd if=/dev/zero of=f$i bs=64k count=8 2>/dev/null; done", small, evidence},
		"endless answer":        {"while :; do echo yes yes yes yes yes yes yes yes yes; done", anything, evidence},
		"endless complaints":    {"/usr/bin/yes 'it is broken in so many ways that they cannot all be told' >&2", anything, evidence},
		"killed":                {"kill -KILL $$", small, TroubleKilled},
		"stopped":               {"exit 255", small, TroubleKilled}, // ffmpeg's way
		"disk full":             {"echo 'av_interleaved_write_frame(): No space left on device' >&2; exit 1", small, TroubleDisk},
		"disk full, status 0":   {"echo 'x: No space left on device' >&2", small, TroubleDisk},
		"longer than the clock": {"/bin/sleep 60", limits{wall: 100 * time.Millisecond, cpu: time.Hour, memory: 1 << 30}, clock},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			ctx, used := WithUsage(t.Context())
			began := time.Now()
			_, err := run(ctx, command{path: script(t, c.script+"\n"), dir: t.TempDir(), stdout: &out, limits: c.limits})
			t.Logf("%v, processor %v, memory %d MiB, disk %d KiB: %v", time.Since(began).Round(time.Millisecond), used.CPU().Round(time.Millisecond), used.Memory()>>20, used.Disk()>>10, err)
			got := "nothing"
			var trouble *TroubleError
			switch {
			case errors.As(err, &trouble):
				got = trouble.Trouble()
			case errors.As(err, new(*RunError)):
				got = evidence
			case errors.As(err, new(*timeLimitError)):
				got = clock
			}
			if got != c.want {
				t.Errorf("%v is %s, want %s", err, got, c.want)
			}
			if out.Len() > maxStdout {
				t.Errorf("%d bytes of output were kept", out.Len())
			}
		})
	}
}

// A line without an end is not waited for.
func TestEndlessLinesAreDropped(t *testing.T) {
	t.Parallel()
	progress, packets := &progressWriter{report: func(Progress) {}}, &packetEnds{}
	for range 1000 {
		for _, w := range []io.Writer{progress, packets} {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 32<<10)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := max(cap(progress.rest), cap(packets.rest)); n > 256<<10 {
		t.Errorf("%d bytes of a line are kept", n)
	}
}

// A file of 320 MB of tags costs neither the worker nor its children more than
// they are allowed.
func TestTagsStayOutOfMemory(t *testing.T) {
	tool := open(t)
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain.mkv")
	if out, err := exec.CommandContext(t.Context(), tool.FFmpeg, "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x64:r=10:d=3",
		"-f", "lavfi", "-i", "sine=d=3", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-live", "1", "-f", "matroska", plain).CombinedOutput(); err != nil {
		t.Fatalf("make a film: %v\n%s", err, out)
	}
	src := Source{URL: withTags(t, plain, 20, 16<<20)}

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ctx, used := WithUsage(t.Context())
	began := time.Now()
	info, err := tool.Probe(ctx, src)
	t.Logf("Probe: %+v, %v", info, err)
	if err == nil {
		err = tool.Remux(ctx, src, filepath.Join(dir, "out.mkv"), nil)
		t.Logf("Remux: %v", err)
		_, err = tool.Sound(ctx, SoundJob{Source: src, Dir: dir, To: 48000, Seek: -1}, nil)
		t.Logf("Sound: %v", err)
	}
	t.Logf("%d runs: %v, processor %v, disk %d KiB", used.Runs(), time.Since(began), used.CPU(), used.Disk()>>10)
	runtime.ReadMemStats(&after)
	if all := after.TotalAlloc - before.TotalAlloc; all > 16<<20 {
		t.Errorf("the worker took %d MiB", all>>20)
	}
	var children syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children); err != nil {
		t.Fatal(err)
	}
	t.Logf("worker %d KiB in all, largest child %d MiB", (after.TotalAlloc-before.TotalAlloc)>>10, children.Maxrss>>10)
	if children.Maxrss > 1<<20 {
		t.Errorf("a child took %d MiB", children.Maxrss>>10)
	}
}

// withTags puts a Tags element before the first Cluster of a live Matroska file,
// whose Segment has no size.
func withTags(t *testing.T, path string, count, size int) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte("\x1f\x43\xb6\x75"))
	if at < 0 {
		t.Fatal("no Cluster")
	}
	f, err := os.Create(filepath.Join(filepath.Dir(path), "tags.mkv"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	length := func(n int) string { // 0x08 starts one of five bytes
		return string([]byte{0x08, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	}
	element := func(id string, content ...[]byte) []byte {
		body := bytes.Join(content, nil)
		return append([]byte(id+length(len(body))), body...)
	}
	tag := element("\x73\x73", element("\x63\xc0"), element("\x67\xc8",
		element("\x45\xa3", []byte("TITLE")), element("\x44\x87", bytes.Repeat([]byte{1}, size))))
	parts := append([][]byte{data[:at], []byte("\x12\x54\xc3\x67" + length(count*len(tag)))}, slices.Repeat([][]byte{tag}, count)...)
	for _, part := range append(parts, data[at:]) {
		if _, err := f.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	return f.Name()
}
