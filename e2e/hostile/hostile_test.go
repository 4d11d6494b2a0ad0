// Package hostile_test uploads what should not be uploaded to a running stack:
// every file gets a clear code within one attempt, nothing is read or requested
// that should not be, nothing is left behind and the workers go on working.
package hostile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/azuritetest"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// ffmpeg makes a clip and returns its bytes.
func ffmpeg(t *testing.T, args ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	args = append([]string{"-nostdin", "-v", "error"}, append(args, path)...)
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", args...).CombinedOutput(); err != nil {
		t.Fatalf("make a clip: %v\n%s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// manifest is a DASH manifest that names one address. It begins so that the web role
// takes it for an MPEG transport stream: with the byte G at places 4 and 196.
func manifest(address string) []byte {
	return []byte("<!--G" + strings.Repeat("-x", 95) + "xG-->\n" +
		`<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" profiles="urn:mpeg:dash:profile:isoff-on-demand:2011" type="static" mediaPresentationDuration="PT10S">` +
		`<Period><AdaptationSet mimeType="video/mp4"><Representation id="1" bandwidth="1000" width="64" height="64"><BaseURL>` + address +
		`</BaseURL></Representation></AdaptationSet></Period></MPD>`)
}

// watched is a file that notes whenever somebody opens it to read: a pipe, which a
// writer can open only then.
func watched(t *testing.T) (path string, opened *atomic.Int32) {
	t.Helper()
	path, opened = filepath.Join(t.TempDir(), "secret.mp4"), new(atomic.Int32)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		for t.Context().Err() == nil {
			if f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				opened.Add(1)
				_ = f.Close()
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return path, opened
}

// bareProbe lets ffprobe look at a file, by an address and by a path, without any guard.
func bareProbe(t *testing.T, content []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.mp4")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(path))))
	defer server.Close()
	for _, input := range []string{path, server.URL + "/manifest.mp4"} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_ = exec.CommandContext(ctx, "ffprobe", "-v", "error", input).Run()
		cancel()
	}
}

// playlist is an HLS playlist that names one address.
func playlist(address string) []byte {
	return []byte("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n" + address + "\n#EXT-X-ENDLIST\n")
}

func TestBadFiles(t *testing.T) {
	// Without the cage, so that only the whitelists are between a file and its targets.
	s := stacktest.Start(t, stack.Options{Workers: 1, Env: []string{"CUTROOM_PURGE_LINGER=1s", "WORKERROLE_SANDBOX=off"}})
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)

	var asked atomic.Int32
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(trap.Close)
	secret, opened := watched(t)
	good := ffmpeg(t, "-f", "lavfi", "-i", "testsrc2=s=160x90:r=15:d=10", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-movflags", "+faststart")
	// Both are reached by a program that is not held back.
	bareProbe(t, manifest("file://"+secret))
	bareProbe(t, manifest(trap.URL+"/x.mp4"))
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if asked.Load() == 0 || opened.Load() == 0 {
			return fmt.Errorf("a bare ffprobe asked the trap %d times and opened the secret %d times", asked.Load(), opened.Load())
		}
		return nil
	})
	asked.Store(0)
	opened.Store(0)

	files := []struct {
		name    string
		content []byte
		refused string   // code of the refused upload, or
		failed  []string // codes that the failed video may have
	}{
		{name: "zero bytes", content: nil, refused: "unsupported_media"},
		{name: "text", content: []byte(strings.Repeat("not a video at all\n", 100)), refused: "unsupported_media"},
		{name: "playlist that points at a local file", content: playlist("file://" + secret), refused: "unsupported_media"},
		{name: "playlist that points at a URL", content: playlist(trap.URL + "/x.ts"), refused: "unsupported_media"},
		{name: "manifest that points at a local file", content: manifest("file://" + secret), failed: []string{"unsupported_media"}},
		{name: "manifest that points at a URL", content: manifest(trap.URL + "/x.mp4"), failed: []string{"unsupported_media"}},
		{name: "cut in half", content: good[:len(good)/2], failed: []string{"corrupt_media"}},
		{name: "audio only", content: ffmpeg(t, "-f", "lavfi", "-i", "sine=d=5", "-c:a", "aac"), failed: []string{"no_video_stream"}},
		{name: "8192x8192", content: ffmpeg(t, "-f", "lavfi", "-i", "color=s=8192x8192:r=1:d=1", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"), failed: []string{"too_many_pixels"}},
		{name: "ten-hour gap", content: ffmpeg(t, "-f", "lavfi", "-i", "testsrc2=s=64x64:r=1:d=2", "-vf", "setpts='N*36000/TB'", "-fps_mode", "passthrough", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"), failed: []string{"too_long", "too_many_frames"}},
		{name: "container with random content", content: append(slices.Clone(good[:64]), bytes.Repeat([]byte{0xA5, 0x3C}, 50_000)...), failed: []string{"corrupt_media", "no_video_stream"}},
	}
	var ids []string
	for _, f := range files {
		t.Run(f.name, func(t *testing.T) {
			v, err := user.Announce(t.Context(), client.NewVideo{Title: f.name})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, v.Id)
			err = user.Put(t.Context(), v.Id, bytes.NewReader(f.content), int64(len(f.content)))
			if f.refused != "" {
				if code := journey.Code(err); code != f.refused {
					t.Errorf("upload: %v, want code %s", err, f.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err = user.AwaitReady(ctx, v.Id)
			var failure *journey.Failed
			if !errors.As(err, &failure) {
				t.Fatalf("it ended with %v, want a failure", err)
			}
			got, err := user.Video(t.Context(), v.Id)
			if err != nil || got.Error == nil || !slices.Contains(f.failed, string(got.Error.Code)) {
				t.Fatalf("error %+v (%v), want one of %v", got.Error, err, f.failed)
			}
			steps, err := user.API().ListStepsWithResponse(t.Context(), v.Id)
			if err != nil || steps.JSON200 == nil {
				t.Fatalf("steps: %v", err)
			}
			for _, step := range steps.JSON200.Items {
				if step.Attempts > 1 {
					t.Errorf("step %s took %d attempts: the failure is permanent", step.Step, step.Attempts)
				}
			}
		})
	}
	if asked.Load() > 0 || opened.Load() > 0 {
		t.Errorf("something asked the trap %d times, and opened the secret %d times", asked.Load(), opened.Load())
	}

	// The workers are unharmed: a good file right afterwards.
	v, err := user.Announce(t.Context(), client.NewVideo{Title: "A good one"})
	if err != nil {
		t.Fatal(err)
	}
	ids = append(ids, v.Id)
	if err := user.Put(t.Context(), v.Id, bytes.NewReader(good), int64(len(good))); err != nil {
		t.Fatal(err)
	}
	if _, err := user.AwaitReady(t.Context(), v.Id); err != nil {
		t.Fatalf("a good file after the bad ones: %v", err)
	}

	// Nothing is left behind: no blob in the end, nor a failed video's output.
	account, err := azstorage.Open(azstorage.Config{ConnectionString: s.ConnectionString()})
	if err != nil {
		t.Fatal(err)
	}
	defer account.CloseIdle()
	blobs := blobstore.New(account)
	for _, id := range ids {
		if res, err := user.API().DeleteVideoWithResponse(t.Context(), id, nil); err != nil || res.StatusCode() != http.StatusAccepted {
			t.Fatalf("delete %s: %v", id, err)
		}
	}
	azuritetest.Eventually(t, 2*time.Minute, func() error {
		for _, container := range []string{video.MediaContainer, video.SourcesContainer, video.ClaimsContainer} {
			for blob, err := range blobs.List(t.Context(), container, "") {
				if err != nil {
					return err
				}
				return fmt.Errorf("blob %s is left in %s", blob.Name, container)
			}
		}
		return nil
	})
}
