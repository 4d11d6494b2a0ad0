package ffmpeg

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

// What a run meets by its own doing is evidence about the bytes, a RunError; what
// others do to it, a machine without time for it too, is trouble of a kind.
func TestEvidenceAndTrouble(t *testing.T) {
	t.Parallel()
	small := limits{wall: time.Minute, cpu: time.Second, memory: 64 << 20, file: 1 << 20}
	const evidence = "evidence"
	for name, c := range map[string]struct {
		script string
		limits limits
		want   string
	}{
		"error status":      {"exit 1", small, evidence},
		"crash":             {"kill -SEGV $$", small, evidence},
		"too much CPU time": {"while :; do :; done", small, evidence},
		"too much memory":   {"x=12345678; for i in $(/usr/bin/seq 24); do x=$x$x; done", small, evidence},
		"too large a file":  {"exec /bin/dd if=/dev/zero of=big bs=64k count=2000", small, evidence},
		"many files":        {"i=0; while :; do i=$((i+1)); echo x > f$i; done", small, evidence},
		"files, all together": {
			"for i in 1 2 3 4 5; do /bin/dd if=/dev/zero of=f$i bs=64k count=8 2>/dev/null; done", small,
			evidence,
		},
		"endless answer": {"while :; do echo yes yes yes yes yes yes yes yes yes; done", anything, evidence},
		"endless complaints": {
			"/usr/bin/yes 'it is broken in so many ways that they cannot all be told' >&2", anything, evidence,
		},
		"killed":  {"kill -KILL $$", small, azq.Killed},
		"stopped": {"exit 255", small, azq.Killed}, // ffmpeg's way
		"disk full": {
			"echo 'av_interleaved_write_frame(): No space left on device' >&2; exit 1", small, azq.Disk,
		},
		"disk full, status 0":              {"echo 'x: No space left on device' >&2", small, azq.Disk},
		"too much CPU time, asked in vain": {"trap '' XCPU; while :; do :; done", small, evidence},
		"longer than the clock": {
			"/bin/sleep 60", limits{wall: 100 * time.Millisecond, cpu: time.Hour, memory: 1 << 30}, azq.Killed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			ctx, used := WithRuns(t.Context())
			began := time.Now()
			_, err := new(Tool).run(ctx, command{path: script(t, c.script+"\n"), dir: t.TempDir(), stdout: &out, limits: c.limits})
			t.Logf("%v, processor %v, memory %d MiB, disk %d KiB: %v", time.Since(began).Round(time.Millisecond), used.Usage().CPU.Round(time.Millisecond), used.Usage().Memory>>20, used.Usage().Disk>>10, err)
			got := "nothing"
			var trouble interface{ Dependency() string }
			switch {
			case errors.As(err, &trouble):
				got = trouble.Dependency()
			case errors.As(err, new(*RunError)):
				got = evidence
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
	progress, packets := newProgress(func() {}), &packetEnds{}
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

// A stranger's tags cost neither the worker nor its children more than they are
// allowed. Each of three guards is enough for one file and not for another, so each
// has a case that only it keeps right.
func TestTagsStayOutOfMemory(t *testing.T) {
	tool := open(t)
	plain := filepath.Join(t.TempDir(), "plain.mkv")
	if out, err := exec.CommandContext(t.Context(), tool.FFmpeg, "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x64:r=10:d=3",
		"-f", "lavfi", "-i", "sine=d=3", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-live", "1", "-f", "matroska", plain).CombinedOutput(); err != nil {
		t.Fatalf("make a film: %v\n%s", err, out)
	}

	// ffprobe would write six bytes for each of these. What it is asked for leaves them
	// out: else the answer would be too long, and the film refused.
	src := Source{URL: withTags(t, plain, 1, 16<<20, 1)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if info, err := tool.Probe(t.Context(), src); err != nil || info.Video.Width != 64 || !info.HasAudio {
		t.Errorf("a film with one long tag: %+v, %v", info, err)
	}
	// Had it been asked for them, not all would be kept.
	var answer bytes.Buffer
	if err := tool.ffprobe(t.Context(), src, &answer, "-show_format", "-of", "json"); !errors.As(err, new(*RunError)) || answer.Len() > maxStdout {
		t.Errorf("all tags: %d bytes were kept, %v", answer.Len(), err)
	}
	runtime.ReadMemStats(&after)
	if all := after.TotalAlloc - before.TotalAlloc; all > 16<<20 {
		t.Errorf("the worker took %d MiB", all>>20)
	}

	// More tags than may be read: the first program that meets them is the last.
	src = servedFile(t, withTags(t, plain, 20, 16<<20, 0))
	ctx, used := WithRuns(t.Context())
	began := time.Now()
	_, err := tool.Probe(ctx, src)
	t.Logf("320 MB of tags: %d runs, %v, processor %v, memory %d MiB: %v", used.Usage().Runs, time.Since(began).Round(time.Millisecond), used.Usage().CPU.Round(time.Millisecond), used.Usage().Memory>>20, err)
	if failure := (*engine.Failure)(nil); !errors.As(err, &failure) || failure.Code != video.TooMuchMetadata || used.Usage().Runs != 1 {
		t.Errorf("%d runs said %v, want %s of the first", used.Usage().Runs, err, video.TooMuchMetadata)
	}
	if used.Usage().Memory > 300<<20 {
		t.Errorf("the probe took %d MiB", used.Usage().Memory>>20)
	}

	// As large as may be, and all runs have room for it.
	src = servedFile(t, withTags(t, plain, 11, 16<<20, 0))
	for name, run := range map[string]func(context.Context) error{
		"Probe": func(ctx context.Context) error { _, err := tool.Probe(ctx, src); return err },
		"Sound": func(ctx context.Context) error {
			_, err := tool.Sound(ctx, SoundJob{Source: src, Dir: t.TempDir(), To: 48000})
			return err
		},
		"Remux": func(ctx context.Context) error {
			return tool.Remux(ctx, src, Info{}, filepath.Join(t.TempDir(), "out.mkv"))
		},
	} {
		ctx, used := WithRuns(t.Context())
		err := run(ctx)
		t.Logf("176 MB of tags: %s: memory %d MiB: %v", name, used.Usage().Memory>>20, err)
		if err != nil || used.Usage().Memory > 300<<20 {
			t.Errorf("%s took %d MiB and said %v", name, used.Usage().Memory>>20, err)
		}
	}
}

// servedFile is a file as the roles' programs read theirs.
func servedFile(t *testing.T, path string) Source {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	src, err := Serve(t.Context(), info.Size(), func() io.ReadSeeker {
		f, err := os.Open(path)
		if err != nil {
			panic(err)
		}
		return f
	})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// withTags puts a Tags element before the first Cluster of a live Matroska file,
// whose Segment has no size. Each tag is fill, size times; zeros take no disk.
func withTags(t *testing.T, path string, count, size int, fill byte) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte("\x1f\x43\xb6\x75"))
	if at < 0 {
		t.Fatal("no Cluster")
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "tags.mkv"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	write := func(part []byte) {
		if _, err := f.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	// head begins an element whose content is inner and then more bytes.
	head := func(id string, more int, inner ...[]byte) []byte {
		body := bytes.Join(inner, nil)
		n := len(body) + more
		return append([]byte(id+string([]byte{0x08, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})), body...) // 0x08 starts a length of five bytes
	}
	tag := head("\x73\x73", size, head("\x63\xc0", 0), head("\x67\xc8", size, head("\x45\xa3", 0, []byte("TITLE")), head("\x44\x87", size)))
	write(data[:at])
	write(head("\x12\x54\xc3\x67", count*(len(tag)+size)))
	for range count {
		write(tag)
		if fill != 0 {
			write(bytes.Repeat([]byte{fill}, size))
		} else if _, err := f.Seek(int64(size), io.SeekCurrent); err != nil {
			t.Fatal(err)
		}
	}
	write(data[at:])
	return f.Name()
}
