package main

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/early/earlytest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/testkit/mediatest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// sending is an upload in parts, as the web role takes it.
type sending struct {
	bench
	*earlytest.Sending
	t *testing.T
}

func (b bench) send(t *testing.T, content []byte, parts int) *sending {
	t.Helper()
	return &sending{bench: b, t: t, Sending: earlytest.New(t, b.videos, b.blobs, b.inParts(t, content, parts))}
}

// until tells of what is held until the video is as it should be.
func (s *sending) until(d time.Duration, is func(videostore.View) error) {
	s.t.Helper()
	azuritetest.Eventually(s.t, d, func() error {
		s.Arrived()
		view, err := s.videos.View(s.t.Context(), s.ID)
		if err == nil {
			err = is(view)
		}
		if err != nil {
			return fmt.Errorf("%w: %s, %+v, steps %v", err, view.Subject.State, view.Subject.Upload, done(view))
		}
		return nil
	})
}

func done(view videostore.View) (names []string) {
	for _, s := range view.Runs {
		name := fmt.Sprintf("%s %d %s", s.Key.Step, s.Key.Index, s.State)
		if s.Error != nil {
			name += " " + s.Error.Error()
		}
		names = append(names, name)
	}
	return names
}

func ready(view videostore.View) error {
	if view.Subject.State != engine.Ready {
		return fmt.Errorf("not ready: %+v", view.Subject.Error)
	}
	return nil
}

// sums are the MD5s of everything that chunks and sound became, and the facts of META.
func (s *sending) sums() (sums map[string]string, view videostore.View) {
	s.t.Helper()
	view, err := s.videos.View(s.t.Context(), s.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := videostore.Presentation(view, 1)
	if err != nil {
		s.t.Fatal(err)
	}
	sums = map[string]string{}
	sum := func(name, blob string) {
		if blob == "" {
			return
		}
		head, err := s.blobs.Head(s.t.Context(), engine.MediaContainer, blob)
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

// clips of TestPlayableWhileItUploads are made by ffmpeg with these arguments behind its
// input. Pictures are few and small, because only what is read when matters here.
var inputs = []struct {
	name, container string
	args            []string
	cut             string               // so many seconds from its start, without encoding
	damage          func(content []byte) // afterwards
	waits           bool                 // nothing of it is made before its last byte
	night           bool                 // left out without -every-clip
}{
	{name: "index at the end", container: "mp4"},
	{name: "index at the start", container: "mov", args: []string{"-movflags", "+faststart"}, night: true},
	{name: "cues at the end", container: "mkv", night: true},
	{
		name: "WebM", container: "webm",
		args: []string{"-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "16", "-b:v", "300k", "-c:a", "libopus"},
	},
	{
		name: "AVI", container: "avi", args: []string{"-c:v", "mpeg4", "-q:v", "10", "-c:a", "libmp3lame"},
		waits: true, night: true,
	},
	{name: "MPEG-TS", container: "ts", waits: true},
	{
		name: "rate that varies, edit list", container: "mp4",
		args: []string{"-vf", "select=not(between(mod(n\\,50)\\,10\\,30))", "-vsync", "vfr", "-bf", "2"},
		cut:  "1.3",
	},
	{
		name: "fragments without an index", container: "mp4",
		args: []string{"-movflags", "frag_keyframe+empty_moov"}, waits: true, night: true,
	},
	{name: "rubbish where the index says pictures", container: "mp4", damage: func(c []byte) {
		_, _ = rand.NewChaCha8([32]byte{}).Read(c[len(c)*6/10 : len(c)*9/10])
	}},
}

// clipOf makes the clip number n, with keyframes every two seconds.
func clipOf(t *testing.T, n int) []byte {
	t.Helper()
	c := inputs[n]
	run := func(args ...string) {
		if out, err := exec.CommandContext(t.Context(), "ffmpeg", append([]string{"-nostdin", "-v", "error"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("make a clip: %v\n%s", err, out)
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "clip."+c.container)
	run(slices.Concat([]string{"-f", "lavfi", "-i", "testsrc2=s=192x108:r=15:d=32", "-f", "lavfi", "-i", "anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=32",
		"-c:v", "libx264", "-preset", "ultrafast", "-g", "30", "-pix_fmt", "yuv420p", "-c:a", "aac"}, c.args, []string{path})...)
	if c.cut != "" {
		run("-ss", c.cut, "-i", path, "-c", "copy", filepath.Join(dir, "cut."+c.container))
		path = filepath.Join(dir, "cut."+c.container)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.damage != nil {
		c.damage(content)
	}
	return content
}

const partsOfClip = 24

// TestPlayableWhileItUploads: of a file whose last parts are not sent the first chunks
// can be watched. When all is sent the video becomes ready, and everything that was made
// has the bytes that it has when the file was complete before, also of a file whose index
// lies. A file that cannot be read early waits for its last byte, and becomes
// ready too.
func TestPlayableWhileItUploads(t *testing.T) {
	earlytest.NeedsEarlyGates(t)
	t.Parallel()
	b := newBench(t)
	stop := b.work(t)
	t.Run("inputs", func(t *testing.T) {
		for n, c := range inputs {
			if c.night && !*everyClip {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				content := clipOf(t, n)
				s := b.send(t, content, partsOfClip)
				s.Part(0)
				s.Arrived()
				s.Beginning(partsOfClip * 2 / 3)
				if c.waits {
					s.until(4*time.Minute, func(view videostore.View) error {
						if view.Subject.Upload.ProbeTries == 0 {
							return errors.New("it was not looked at")
						}
						return nil
					})
					s.Complete()
					s.until(4*time.Minute, ready)
					return
				}
				whole := b.send(t, content, partsOfClip)
				whole.Complete()
				s.until(4*time.Minute, beginning)
				view, err := b.videos.View(t.Context(), s.ID)
				if err != nil || view.Subject.State != engine.AwaitingUpload || len(s.Sent) == partsOfClip {
					t.Errorf("playable with %d of %d parts, state %s, %v", len(s.Sent), partsOfClip, view.Subject.State, err)
				}
				if _, found := view.Find(1, workflow.StepEncode, len(view.Plans[1].Chunks)-1); found {
					t.Error("the last chunk was begun before the last byte")
				}
				s.Complete()
				s.until(4*time.Minute, ready)
				whole.until(4*time.Minute, ready)
				s.equals(whole)
			})
		}
	})
	stop()
}

// everyClip is for `make test-all`: without it two tests take the kinds that differ most.
var everyClip = flag.Bool("every-clip", false, "send every kind of clip in parts")

// TestEveryClipIsTheSameWhileItUploads: every kind of input is looked at before its upload
// is complete, and most that are not remuxed have chunks made of them. What becomes of it has the bytes that it
// has when the file was complete before.
func TestEveryClipIsTheSameWhileItUploads(t *testing.T) {
	earlytest.NeedsEarlyGates(t)
	t.Parallel()
	b := newBench(t)
	stop := b.work(t)
	var sent, early atomic.Int64
	clips := mediatest.HeavyClips()
	onesOwn := slices.DeleteFunc(slices.Clone(clips), func(c mediatest.Clip) bool { return c.Remux })
	want := len(onesOwn) * 4 / 5
	if !*everyClip {
		want = 1
		clips = slices.DeleteFunc(clips, func(c mediatest.Clip) bool {
			return !slices.Contains([]string{"mpeg-ps", "portrait-odd"}, c.Name)
		})
	}
	t.Run("clips", func(t *testing.T) {
		for _, clip := range clips {
			t.Run(clip.Name, func(t *testing.T) {
				t.Parallel()
				content, err := os.ReadFile(clip.Make(t, t.TempDir()))
				if err != nil {
					t.Fatal(err)
				}
				const parts = partsOfClip
				s, whole := b.send(t, content, parts), b.send(t, content, parts)
				sent.Add(1)
				s.Beginning(parts / 2)
				s.until(4*time.Minute, s.rests)
				view, err := b.videos.View(t.Context(), s.ID)
				if err != nil || view.Subject.State != engine.AwaitingUpload {
					t.Fatalf("state %s, %v", view.Subject.State, err)
				}
				if chunk, _ := view.Find(1, workflow.StepEncode, 0); chunk.State == engine.RunDone {
					early.Add(1)
				}
				t.Logf("%d tries, %d of %d parts, %v", view.Subject.Upload.ProbeTries, len(s.Sent), parts, done(view))
				s.Complete()
				whole.Complete()
				s.until(4*time.Minute, ready)
				whole.until(4*time.Minute, ready)
				s.same(whole)
			})
		}
	})
	stop()
	// A clip that is run alone says nothing about how many are begun early.
	if n := int(early.Load()); n < want && int(sent.Load()) == len(clips) {
		t.Errorf("%d of %d clips were begun before their upload was complete, want %d", n, len(clips), want)
	}
}

// rests holds when everything is made of what is held that can be. What a chunk needs is a
// guess that may be too low, so it must be made when two parts more than its share are there.
func (s *sending) rests(view videostore.View) error {
	plan, planned := view.Plans[1]
	if len(s.Sent) == s.Layout.Count() { // only complete is missing
		return nil
	}
	if gaveUp := view.Subject.Upload.ProbeTries > 5; gaveUp {
		return nil
	}
	if !planned {
		return errors.New("there is no plan")
	}
	head := 0
	for s.Sent[head] {
		head++
	}
	for i := range plan.Chunks[1:] { // all but the last
		share := (plan.Start(i+1) + 1) / plan.DurationSeconds * float64(s.Layout.Count())
		if chunk, _ := view.Find(1, workflow.StepEncode, i); share+2 < float64(head) && chunk.State != engine.RunDone {
			return fmt.Errorf("chunk %d, which needs %.1f parts, is not made of %d", i, share, head)
		}
	}
	return nil
}

// beginning holds when the first seconds are made and can be watched.
func beginning(view videostore.View) error {
	if chunk, _ := view.Find(1, workflow.StepEncode, 1); !view.Subject.Playable || chunk.State != engine.RunDone {
		return errors.New("not playable, or chunk 1 is not done")
	}
	return nil
}

// equals is same for a film of which most was made before the last byte.
func (s *sending) equals(whole *sending) {
	s.t.Helper()
	view, outputs := s.same(whole)
	if outputs < 8 {
		s.t.Errorf("only %d outputs", outputs)
	}
	if chunk, _ := view.Find(1, workflow.StepEncode, 0); !chunk.FinishedAt.Before(view.Subject.UploadedAt) {
		s.t.Errorf("the first chunk was made after the upload")
	}
}

// same compares a video with what the same file became when it was complete before.
func (s *sending) same(whole *sending) (view videostore.View, outputs int) {
	s.t.Helper()
	sums, view := s.sums()
	want, other := whole.sums()
	if diff := cmp.Diff(want, sums); diff != "" || len(sums) == 0 {
		s.t.Errorf("%d outputs (-whole +while it uploads):\n%s", len(sums), diff)
	}
	ignore := cmpopts.IgnoreFields(video.Plan{}, "Copy") // a copy has a name of its own
	if diff := cmp.Diff(other.Plans[1], view.Plans[1], ignore); diff != "" {
		s.t.Errorf("plans (-whole +while it uploads):\n%s", diff)
	}
	return view, len(sums)
}
