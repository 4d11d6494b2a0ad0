package media_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/testkit/mediatest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
)

// served is a local file behind an address, as the steps hand a blob to ffmpeg.
func served(t *testing.T, path string) ffmpeg.Source {
	t.Helper()
	return serve(t, path, func(body io.ReadSeeker) io.ReadSeeker { return body })
}

// serve is served with a change to each read.
func serve(t *testing.T, path string, change func(body io.ReadSeeker) io.ReadSeeker) ffmpeg.Source {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	src, err := ffmpeg.Serve(t.Context(), int64(len(content)), func() io.ReadSeeker { return change(bytes.NewReader(content)) })
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// broken is a reader that fails after some bytes.
type broken struct {
	io.ReadSeeker
	left int
	err  error
}

func (b *broken) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, b.err
	}
	n, err := b.ReadSeeker.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// What comes through an address is the same as from a file.
func TestServedSourceGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	for _, clip := range mediatest.Clips() {
		switch clip.Name {
		case "mp4-30", "mp4-fragmented", "mkv-44.1k":
		default:
			continue
		}
		t.Run(clip.Name, func(t *testing.T) {
			t.Parallel()
			path := clip.Make(t, t.TempDir())
			local, info := probe(t, tool, path)
			plan, err := media.Plan(info)
			if err != nil {
				t.Fatal(err)
			}
			plan = manySeams(plan)
			src := served(t, path)
			if _, err := tool.Probe(t.Context(), src); err != nil {
				t.Errorf("Probe: %v", err)
			}
			if !bytes.Equal(chunkBytes(t, tool, src, plan, 2), chunkBytes(t, tool, local, plan, 2)) {
				t.Error("other bytes")
			}
		})
	}
}

// The sandbox changes no byte.
func TestSandboxGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	sandboxed := tool(t)
	off, err := sandbox.Open(sandbox.Off)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := ffmpeg.Open(t.Context(), off, "", "")
	if err != nil {
		t.Fatal(err)
	}
	path := mediatest.Clips()[0].Make(t, t.TempDir())
	_, info := probe(t, sandboxed, path)
	plan, err := media.Plan(info)
	if err != nil {
		t.Fatal(err)
	}
	plan = manySeams(plan)
	src := served(t, path)
	if !bytes.Equal(chunkBytes(t, sandboxed, src, plan, 0), chunkBytes(t, bare, src, plan, 0)) {
		t.Error("other bytes")
	}
}

// A read that fails, fails the run, whatever ffmpeg made of it: with trouble, or
// with the failure that the read itself named. ffmpeg takes a connection that
// broke for the end of the file, and repeats the last picture until the count of
// frames is right.
func TestReadThatFailsFailsTheRun(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	path := mediatest.Clips()[0].Make(t, t.TempDir())
	_, info := probe(t, tool, path)
	plan, err := media.Plan(info)
	if err != nil {
		t.Fatal(err)
	}
	plan = manySeams(plan)
	last := len(plan.Chunks) - 1
	plan.Chunks = append(plan.Chunks[:1:1], video.Chunk{From: plan.Chunks[1].From, To: plan.Chunks[last].To})
	size, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	away := errors.New("the storage is away")
	replaced := engine.Fail(engine.SourceChanged, "It was replaced.")
	for name, left := range map[string]int{"at once": 0, "in the middle": int(size.Size()) * 6 / 10, "at the end": int(size.Size()) - 10} {
		for _, why := range []error{away, replaced} {
			breaks := func(body io.ReadSeeker) io.ReadSeeker { return &broken{ReadSeeker: body, left: left, err: why} }
			check := func(what string, err error) {
				t.Helper()
				var trouble interface{ Dependency() string }
				var failure *engine.Failure
				switch isTrouble := errors.As(err, &trouble) && trouble.Dependency() == ffmpeg.SourceDependency; {
				case why == away && (!isTrouble || !errors.Is(err, away)), why == replaced && (!errors.As(err, &failure) || failure.Code != engine.SourceChanged):
					t.Errorf("%s, %s: %v", what, name, err)
				}
			}
			if left == 0 {
				_, err := tool.Probe(t.Context(), serve(t, path, breaks))
				check("probe", err)
			}
			_, err := media.EncodeChunk(t.Context(), tool, serve(t, path, breaks), plan, 1, t.TempDir())
			check("chunk", err)
			if name != "at the end" { // which is not sound
				_, _, err = media.EncodePortion(t.Context(), tool, serve(t, path, breaks), plan, len(plan.Sound)-1, t.TempDir())
				check("sound", err)
			}
			err = tool.Remux(t.Context(), serve(t, path, breaks), info, t.TempDir()+"/out")
			check("remux", err)
		}
	}
}

func chunkBytes(t *testing.T, tool *ffmpeg.Tool, src ffmpeg.Source, plan video.Plan, index int) []byte {
	t.Helper()
	c, err := media.EncodeChunk(t.Context(), tool, src, plan, index, t.TempDir())
	if err != nil {
		t.Fatalf("EncodeChunk: %v", err)
	}
	var all []byte
	for _, r := range c.Renditions {
		all = append(all, read(t, r.Blob)...)
	}
	return all
}
