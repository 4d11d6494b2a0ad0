package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cutroom/cutroom/shared/azuritetest"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// sending is an upload in parts, as the web role takes it.
type sending struct {
	bench
	t       *testing.T
	id      video.ID
	layout  sourceparts.Layout
	content []byte
	sent    map[int]bool
}

func (b bench) send(t *testing.T, content []byte, parts int) *sending {
	t.Helper()
	s := &sending{bench: b, t: t, id: video.NewID(), content: content, sent: map[int]bool{}, layout: sourceparts.Layout{
		Bytes: int64(len(content)), PartBytes: int64(len(content)/parts + 1), Epoch: "e",
	}}
	v := video.Video{ID: s.id, Title: "A clip", Channel: "tests", State: video.AwaitingUpload, Visibility: video.Public, Priority: video.Normal, CreatedAt: time.Now().UTC(),
		Upload: &video.Upload{Bytes: s.layout.Bytes, PartBytes: s.layout.PartBytes, Epoch: s.layout.Epoch}}
	if _, err := b.videos.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	return s
}

// part sends one part, unless it was sent.
func (s *sending) part(n int) {
	s.t.Helper()
	if s.sent[n] {
		return
	}
	s.sent[n] = true
	r := s.layout.Range(n)
	_, err := s.blobs.Put(s.t.Context(), video.SourcesContainer, sourceparts.Name(s.id, s.layout, n),
		bytes.NewReader(s.content[r.Offset:r.Offset+r.Length]), r.Length, blobstore.Options{IfNoneMatch: true})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *sending) held() []sourceparts.Part {
	s.t.Helper()
	held, err := sourceparts.Held(s.t.Context(), s.blobs, s.id, s.layout)
	if err != nil {
		s.t.Fatal(err)
	}
	return held
}

// arrived tells of what is held, and sends what is wanted.
func (s *sending) arrived() video.Video {
	s.t.Helper()
	for {
		rec, err := s.videos.Arrived(s.t.Context(), s.id, s.held())
		if err != nil {
			s.t.Fatal(err)
		}
		before := len(s.sent)
		for _, n := range rec.Video.Upload.Wants {
			s.part(n)
		}
		if len(s.sent) == before {
			return rec.Video
		}
	}
}

// until tells of what is held until the video is as it should be.
func (s *sending) until(d time.Duration, is func(videostore.View) error) {
	s.t.Helper()
	azuritetest.Eventually(s.t, d, func() error {
		s.arrived()
		view, err := s.videos.View(s.t.Context(), s.id)
		if err == nil {
			err = is(view)
		}
		if err != nil {
			return fmt.Errorf("%w: %s, %+v, steps %v", err, view.Video.State, view.Video.Upload, done(view))
		}
		return nil
	})
}

// complete sends the rest.
func (s *sending) complete() {
	s.t.Helper()
	for n := range s.layout.Count() {
		s.part(n)
	}
	etag, err := sourceparts.PutManifest(s.t.Context(), s.blobs, s.id, sourceparts.Manifest{Layout: s.layout, Parts: s.held()})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.videos.UploadedInParts(s.t.Context(), s.id, s.layout.Epoch, s.layout.Bytes, etag); err != nil {
		s.t.Fatal(err)
	}
}

func done(view videostore.View) (names []string) {
	for _, s := range view.Steps {
		name := fmt.Sprintf("%s %d %s", s.Key.Step, s.Key.Index, s.State)
		if s.Error != nil {
			name += " " + s.Error.Error()
		}
		names = append(names, name)
	}
	return names
}

func ready(view videostore.View) error {
	if view.Video.State != video.Ready {
		return fmt.Errorf("not ready: %+v", view.Video.Error)
	}
	return nil
}

// sums are the MD5s of everything that chunks and sound became, and the facts of META.
func (s *sending) sums() (sums map[string]string, view videostore.View) {
	s.t.Helper()
	view, err := s.videos.View(s.t.Context(), s.id)
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := view.Presentation(1)
	if err != nil {
		s.t.Fatal(err)
	}
	sums = map[string]string{}
	sum := func(name, blob string) {
		if blob == "" {
			return
		}
		head, err := s.blobs.Head(s.t.Context(), video.MediaContainer, blob)
		if err != nil || len(head.MD5) == 0 {
			s.t.Fatalf("%s: %v", name, err)
		}
		sums[name] = hex.EncodeToString(head.MD5)
	}
	for i, c := range p.Chunks {
		for _, r := range c.Renditions {
			sum(fmt.Sprintf("chunk %d %s", i, r.Name), r.Blob)
		}
		sum(fmt.Sprintf("chunk %d tiles", i), c.Tiles)
		sum(fmt.Sprintf("chunk %d poster", i), c.Poster)
	}
	for _, part := range p.Parts {
		sum(fmt.Sprintf("sound %d", part.First), part.Blob)
	}
	return sums, view
}

// whole is what the same file becomes when all of it was there before work began.
func (b bench) whole(t *testing.T, content []byte, parts int) (sums map[string]string, view videostore.View) {
	t.Helper()
	whole := b.send(t, content, parts)
	whole.complete()
	whole.until(4*time.Minute, ready)
	return whole.sums()
}

// early makes a clip with keyframes every two seconds, in a container. Pictures are few
// and small, because only what is read when matters here.
func early(t *testing.T, container string, args ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clip."+container)
	all := slices.Concat([]string{"-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=192x108:r=15:d=60", "-f", "lavfi", "-i", "sine=d=60",
		"-c:v", "libx264", "-preset", "ultrafast", "-g", "30", "-pix_fmt", "yuv420p", "-c:a", "aac"}, args, []string{path})
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", all...).CombinedOutput(); err != nil {
		t.Fatalf("make a clip: %v\n%s", err, out)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

const partsOfClip = 24

// TestPlayableWhileItUploads: of a file whose last parts are not sent the first chunks
// can be watched. When all is sent the video becomes ready, and everything that was made
// has the bytes that it has when the file was complete before. A file that cannot be read
// early waits for its last byte, and becomes ready too.
func TestPlayableWhileItUploads(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stop := b.work(t)
	for _, c := range []struct {
		name, container string
		args            []string
		waits           bool
	}{
		{name: "index at the end", container: "mp4"},
		{name: "index at the start", container: "mov", args: []string{"-movflags", "+faststart"}},
		{name: "cues at the end", container: "mkv"},
		{name: "fragments without an index", container: "mp4", args: []string{"-movflags", "frag_keyframe+empty_moov"}, waits: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			content := early(t, c.container, c.args...)
			s := b.send(t, content, partsOfClip)
			s.part(0)
			s.arrived()
			s.part(partsOfClip - 1)
			for n := range partsOfClip * 2 / 3 {
				s.part(n)
			}
			if c.waits {
				s.until(4*time.Minute, func(view videostore.View) error {
					if !view.Video.Upload.Late && len(view.Video.Upload.Wants) == 0 {
						return errors.New("it was not looked at")
					}
					return nil
				})
				s.complete()
				s.until(4*time.Minute, ready)
				return
			}
			s.until(4*time.Minute, beginning)
			view, err := b.videos.View(t.Context(), s.id)
			if err != nil || view.Video.State != video.AwaitingUpload || len(s.sent) == partsOfClip {
				t.Errorf("playable with %d of %d parts, state %s, %v", len(s.sent), partsOfClip, view.Video.State, err)
			}
			if _, found := view.Find(1, workflow.StepEncode, len(view.Plans[1].Chunks)-1); found {
				t.Error("the last chunk was begun before the last byte")
			}
			s.complete()
			s.until(4*time.Minute, ready)
			s.equalsWhole()
		})
	}
	stop()
}

// beginning holds when the first seconds are made and can be watched.
func beginning(view videostore.View) error {
	if chunk, _ := view.Find(1, workflow.StepEncode, 1); !view.Video.Playable || chunk.State != videostore.StepDone {
		return errors.New("not playable, or chunk 1 is not done")
	}
	return nil
}

// equalsWhole compares a video with what the same file becomes when it was complete.
func (s *sending) equalsWhole() {
	s.t.Helper()
	sums, view := s.sums()
	want, other := s.whole(s.t, s.content, partsOfClip)
	if diff := cmp.Diff(want, sums); diff != "" || len(sums) < 8 {
		s.t.Errorf("%d outputs (-whole +while it uploads):\n%s", len(sums), diff)
	}
	ignore := cmpopts.IgnoreFields(video.Plan{}, "Source", "Needs", "SourceETag")
	if diff := cmp.Diff(other.Plans[1], view.Plans[1], ignore); diff != "" {
		s.t.Errorf("plans (-whole +while it uploads):\n%s", diff)
	}
	if chunk, _ := view.Find(1, workflow.StepEncode, 0); !chunk.FinishedAt.Before(view.Video.UploadedAt) {
		s.t.Errorf("the first chunk was made after the upload")
	}
}
