package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/provision"
	"github.com/cutroom/cutroom/shared/testkit/partstest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// clip makes a video of a test picture and noise.
func clip(t *testing.T, seconds int, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	all := append([]string{"-nostdin", "-v", "error", "-f", "lavfi", "-i", fmt.Sprintf("testsrc2=s=320x240:r=30:d=%d", seconds),
		"-f", "lavfi", "-i", fmt.Sprintf("anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=%d", seconds)}, args...)
	all = append(all, "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", path)
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", all...).CombinedOutput(); err != nil {
		t.Fatalf("make a clip: %v\n%s", err, out)
	}
	return path
}

// TestOneWorkerMakesAVideoReady runs the whole worker role in this process: the
// shortest way from an upload to a video that is ready.
func TestOneWorkerMakesAVideoReady(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	videos, blobs, id := b.videos, b.blobs, b.id
	stop := b.work(t)
	b.begin(t, clip(t, 20)).Complete()

	var view videostore.View
	azuritetest.Eventually(t, time.Minute, func() (err error) {
		if view, err = videos.View(t.Context(), id); err != nil {
			return err
		}
		if view.Subject.State != engine.Ready {
			return fmt.Errorf("state %s, error %v, steps %+v", view.Subject.State, view.Subject.Error, view.Runs)
		}
		return nil
	})
	if !view.Subject.Playable || view.Subject.DurationSeconds != 20 || view.Subject.Width != 320 {
		t.Errorf("video %+v: want playable, 20 s, 320 pixels wide", view.Subject)
	}
	p, err := videostore.Presentation(view, 1)
	if err != nil || !p.Complete() {
		t.Errorf("the presentation is not complete: %v", err)
	}
	step, _ := view.Find(1, workflow.StepFinish, 0)
	var out video.FinishOutput
	if err := json.Unmarshal(step.Output, &out); err != nil || out.Frames != 600 {
		t.Errorf("finish: %d frames (%v), want 600", out.Frames, err)
	}
	for _, name := range []string{out.Sprite, out.Storyboard, out.Download} {
		if _, err := blobs.Head(t.Context(), engine.MediaContainer, name); err != nil {
			t.Errorf("finish names %q: %v", name, err)
		}
	}
	azuritetest.Eventually(t, 20*time.Second, func() error {
		page, _, err := catalog.New(b.account).Recent(t.Context(), 10, "")
		if err != nil || !slices.Equal(page, []engine.ID{id}) {
			return fmt.Errorf("recent videos: %v, %v", page, err)
		}
		for _, find := range finds {
			if found, err := find(t.Context(), b.account); err != nil || !slices.Equal(found, page) {
				return fmt.Errorf("found: %v, %v", found, err)
			}
		}
		return nil
	})

	everyAttemptIsCounted(t, view)
	stop()
}

// everyAttemptIsCounted: each step of a video that is ready tells who did it, when, and
// what that took.
func everyAttemptIsCounted(t *testing.T, view videostore.View) {
	t.Helper()
	var all engine.Usage
	for _, s := range view.Runs {
		tries := s.AllAttempts()
		spent, notCounted := s.TotalUsage()
		if len(tries) != s.Attempts || s.State == engine.RunDone && (notCounted > 0 || tries[len(tries)-1].Outcome != engine.OutcomeDone) {
			t.Errorf("%s: %d attempts, %d not counted: %+v", s.Key, s.Attempts, notCounted, tries)
		}
		ended := 0
		for _, a := range tries {
			if a.Outcome != engine.OutcomeRunning { // what a running attempt spent is not written yet
				ended++
			}
			if a.Worker == "" || a.Queued.IsZero() || a.Queued.After(a.Started) ||
				a.Outcome != engine.OutcomeRunning && a.Ended.Before(a.Started) { // what comes after ready may still run
				t.Errorf("%s: %+v, want a worker, and the moments in their order", s.Key, a)
			}
		}
		all.Add(spent)
		// Encoding is ffmpeg's work on the source, and leaves blobs.
		if s.Key.Step == workflow.StepEncode && (spent.CPU == 0 || spent.Received == 0 || spent.Sent == 0 ||
			spent.Requests["blob.read"] == 0 || spent.Requests["blob.write"] == 0 || spent.Requests["table.write"] < 2) {
			t.Errorf("%s spent %+v: want something of everything", s.Key, spent)
		}
		if received := ended - notCounted; spent.Requests[azstore.QueueWrite] < received {
			t.Errorf("%s spent %+v: want a message received for each of %d attempts", s.Key, spent, received)
		}
	}
	t.Logf("%+v", all)
}

// TestReplacedSourceFailsTheVideo: a part is written over after the upload was verified,
// which takes the account's key. The first attempt finds out.
func TestReplacedSourceFailsTheVideo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	upload := b.begin(t, clip(t, 2))
	upload.Complete()
	part := sourceparts.Name(b.id, upload.Layout, 0)
	if _, err := b.blobs.PutFile(t.Context(), engine.SourcesContainer, part, clip(t, 3), ""); err != nil {
		t.Fatal(err)
	}
	stop := b.work(t)
	var view videostore.View
	azuritetest.Eventually(t, time.Minute, func() (err error) {
		if view, err = b.videos.View(t.Context(), b.id); err == nil && view.Subject.State != engine.Failed {
			err = fmt.Errorf("state %s", view.Subject.State)
		}
		return err
	})
	if view.Subject.Error == nil || view.Subject.Error.Code != engine.SourceChanged {
		t.Errorf("error %+v, want %s", view.Subject.Error, engine.SourceChanged)
	}
	if probe, _ := view.Find(1, workflow.StepProbe, 0); probe.Attempts != 1 {
		t.Errorf("%d attempts, want 1", probe.Attempts)
	}
	stop()
}

// TestPartOfACompleteUploadChanges: after the last byte a part in the middle is replaced,
// or is gone. The first attempt that meets it finds out, and the video says so.
func TestPartOfACompleteUploadChanges(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(b bench, s *partstest.Sending, part string) error{
		"replaced": func(b bench, s *partstest.Sending, part string) error {
			r := s.Layout.Range(3)
			_, err := b.blobs.Put(t.Context(), engine.SourcesContainer, part, s.Content[:r.Length], blobstore.Options{})
			return err
		},
		"missing": func(b bench, _ *partstest.Sending, part string) error {
			_, err := b.blobs.Delete(t.Context(), engine.SourcesContainer, part, "")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(clip(t, 4))
			if err != nil {
				t.Fatal(err)
			}
			b := newBench(t)
			s := b.inParts(t, content, 6)
			s.Complete()
			if err := spoil(b, s, sourceparts.Name(s.ID, s.Layout, 3)); err != nil {
				t.Fatal(err)
			}
			stop := b.work(t)
			azuritetest.Eventually(t, time.Minute, func() error {
				view, err := b.videos.View(t.Context(), s.ID)
				switch {
				case err != nil:
					return err
				case view.Subject.State != engine.Failed:
					return fmt.Errorf("state %s: %+v", view.Subject.State, view.Runs)
				case view.Subject.Error.Code != engine.SourceChanged:
					t.Fatalf("failed with %+v, want %s", view.Subject.Error, engine.SourceChanged)
				}
				return nil
			})
			stop()
		})
	}
}

// finds are how features find the video; the files of their tests add them.
var finds []func(context.Context, *azstore.Account) ([]engine.ID, error)

// bench is a storage account with one video that waits for its bytes.
type bench struct {
	account *azstore.Account
	videos  *videostore.Store
	blobs   *blobstore.Store
	id      engine.ID
}

func newBench(t *testing.T) bench {
	t.Helper()
	azuritetest.Slow(t, "runs a worker and ffmpeg")
	account := azuritetest.Account(t)
	queues := azq.Open(account, azq.Options{Queues: workflow.Specs})
	if err := provision.Ensure(t.Context(), account, queues); err != nil {
		t.Fatal(err)
	}
	b := bench{account: account, videos: videostore.New(account, queues), blobs: blobstore.New(account), id: engine.NewID()}
	v := video.Video{
		Meta: engine.Meta{
			ID: b.id, Owner: video.LocalOwner, Channel: "tests", State: engine.AwaitingUpload,
			Priority: engine.Normal, CreatedAt: time.Now().UTC(),
		},
		Title: "A clip", Visibility: video.Public,
	}
	if _, err := b.videos.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	return b
}

// begin begins the upload of a file: Complete sends it, and the worker gets to work.
func (b bench) begin(t *testing.T, path string) *partstest.Sending {
	t.Helper()
	return partstest.Begin(t, b.videos, b.blobs, b.id, path)
}

// inParts makes a video whose upload comes in about so many parts.
func (b bench) inParts(t *testing.T, content []byte, parts int) *partstest.Sending {
	t.Helper()
	layout := partstest.Layout(content, parts)
	v := video.Video{
		Meta: engine.Meta{
			ID: engine.NewID(), Owner: video.LocalOwner, Channel: "tests", State: engine.AwaitingUpload,
			Priority: engine.Normal, CreatedAt: time.Now().UTC(), Upload: partstest.Upload(layout),
		},
		Title: "A clip", Visibility: video.Public,
	}
	if _, err := b.videos.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	return partstest.New(t, b.videos, b.blobs, v.ID, layout, content)
}

// work runs a worker role. stop ends it and checks that it leaves nothing behind.
func (b bench) work(t *testing.T) (stop func()) {
	t.Helper()
	env := map[string]string{
		"AZURE_STORAGE_CONNECTION_STRING": azuritetest.ConnectionString(t), "CUTROOM_PREFIX": b.account.Prefix(),
		"WORKERROLE_ADMIN_ADDR": "127.0.0.1:0", "WORKERROLE_NAME": "only", "WORKERROLE_SCRATCH": t.TempDir(),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, func(name string) string { return env[name] })
		if ctx.Err() == nil { // what the test waits for will not come
			t.Errorf("the role ended by itself: %v", err)
		}
		ended <- err
	}()
	return func() {
		t.Helper()
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the role stopped with %v", err)
			}
		case <-time.After(azuritetest.Patience(10 * time.Second)):
			t.Error("the role does not stop")
		}
		left, _ := os.ReadDir(env["WORKERROLE_SCRATCH"])
		if len(left) != 0 {
			t.Errorf("scratch files are left: %v", left)
		}
	}
}

func TestEveryBadVariableIsNamed(t *testing.T) {
	t.Parallel()
	env := map[string]string{"WORKERROLE_POOLS": "light=x,medium=3", "WORKERROLE_SANDBOX": "yes", "CUTROOM_JANITOR_GRACE": "soon", "CUTROOM_VISIBILITY": "none=1s"}
	_, err := loadConfig(func(name string) string { return env[name] })
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"light=x", "medium=3", "WORKERROLE_SANDBOX", "CUTROOM_JANITOR_GRACE", `"none"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}
