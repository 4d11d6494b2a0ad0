package crash_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/clips"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/workflow"
)

// numbered is a clip whose every frame says its number: in 12 stripes that are
// white for a bit that is set, the lowest on the left.
var numbered = &clip{name: "numbered", frames: 480, args: []string{
	"-f", "lavfi", "-i", "color=black:s=192x108:r=15:d=32,geq=lum='16+219*mod(floor(N/pow(2,floor(12*X/W))),2)':cb=128:cr=128",
	"-f", "lavfi", "-i", "anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=32", "-c:a", "aac", "-b:a", "64k",
	"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "250",
}}

// requestClip asks for a part, in frames of numbered.
func (l *lane) requestClip(id engine.ID, first, frames int) (key engine.Key) {
	l.t.Helper()
	body := fmt.Sprintf(`{"startSeconds":%v,"durationSeconds":%v}`, float64(first)/15, float64(frames)/15)
	status, answer := l.call(http.MethodPost, "/api/v1/videos/"+string(id)+"/clips", strings.NewReader(body), "application/json")
	var made struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(answer, &made); err != nil || status != http.StatusAccepted {
		l.t.Fatalf("ask for a clip: %d %s", status, answer)
	}
	key, err := clips.ParseID(id, made.ID)
	if err != nil || key.Index != first || key.Length != frames {
		l.t.Fatalf("asked for frames %d+%d, got clip %s (%v)", first, frames, made.ID, err)
	}
	return key
}

// readyClip waits for a clip and checks that it is the one that was asked for,
// frame by frame.
func (l *lane) readyClip(key engine.Key) (made engine.Run) {
	l.t.Helper()
	l.await(2*time.Minute, "a clip", func() bool {
		var err error
		if made, err = l.videos.ReadRun(l.t.Context(), key); err != nil {
			l.t.Fatal(err)
		}
		if made.State == engine.RunFailed {
			l.t.Fatalf("%s failed: %v", key, made.Error)
		}
		return made.State == engine.RunDone
	})
	at := l.BaseURL() + "/v/" + string(key.ID) + "/clips/" + key.Name() + ".mp4"
	grey := ffmpeg(l.t, "-i", at, "-map", "0:v", "-vf", "scale=24:2,format=gray", "-f", "rawvideo", "-")
	if len(grey) != 48*key.Length {
		l.t.Errorf("%s has %d frames, want %d", key, len(grey)/48, key.Length)
	}
	for i := 0; 48*(i+1) <= len(grey); i++ {
		number := 0
		for bit := range 12 {
			if grey[48*i+2*bit] > 128 {
				number |= 1 << bit
			}
		}
		if number != key.Index+i {
			l.t.Fatalf("%s: frame %d is frame %d of the video", key, i, number)
		}
	}
	sound := ffmpeg(l.t, "-i", at, "-map", "0:a", "-ac", "1", "-f", "s16le", "-")
	if got, want := float64(len(sound))/2/48000, float64(key.Length)/15; got < want-0.03 || got > want+0.03 {
		l.t.Errorf("%s has %.3f s of sound, want %.3f", key, got, want)
	}
	return made
}

// A worker is killed at every boundary of the clip step; every time there is
// one clip in the end, the right one.
func TestClipKilledAtEveryBoundary(t *testing.T) {
	t.Parallel()
	l := newLane(t, 6*time.Second)
	worker := l.worker("victim", oneEncoder)
	id := l.mustUpload(numbered)
	l.ready(id)
	killed := points([]string{"clip/output", "clip/enqueued"}, "clip/claimed", "clip/committed")
	for i, point := range killed {
		marker := l.arm(worker, point, "kill")
		key := l.requestClip(id, 100*i+37, 60)
		died := l.dead(worker, marker)
		before, err := l.videos.ReadRun(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if again := l.requestClip(id, 100*i+37, 60); again != key {
			t.Errorf("%s: asked again for %s, got %s", point, key, again)
		}
		l.revive(worker)
		made := l.readyClip(key)
		want := 1
		if before.State == engine.RunRunning {
			want = 2
			took := made.StartedAt.Sub(died)
			t.Logf("%-15s taken up again %.1f s after the kill", point, took.Seconds())
			l.hold(died, soon(point+": taken up again", took, l.visibility+2*time.Second))
		}
		if made.Attempts != want {
			l.hold(died, []string{fmt.Sprintf("%s: %d attempts, want %d", point, made.Attempts, want)})
		}
	}
	// The message is lost before a worker takes it.
	if err := l.StopRole(worker); err != nil {
		t.Fatal(err)
	}
	key := l.requestClip(id, 1, 30)
	l.clear(workflow.StepEncode)
	l.worker("successor")
	l.readyClip(key)
	l.nothingLeft()
	if clips, want := l.clipBlobs(id), len(killed)+1; len(clips) != want {
		t.Errorf("blobs of clips: %q, want %d", clips, want)
	}

	// What plays is replaced; the clips stay.
	l.ask(http.StatusAccepted, http.MethodPost, "/api/v1/videos/"+string(id)+"/reprocess")
	l.await(4*time.Minute, "ready again", func() bool { return l.view(id).Subject.Serving == 2 })
	l.nothingLeft()
	l.readyClip(key)

	// What it would be cut from is gone: the clip fails, and nothing else does.
	if err := l.blobs.DeletePrefix(t.Context(), engine.MediaContainer, string(id)+"/g00002/encode/"); err != nil {
		t.Fatal(err)
	}
	hopeless := l.requestClip(id, 200, 30)
	l.await(time.Minute, "a clip that failed", func() bool {
		made, err := l.videos.ReadRun(t.Context(), hopeless)
		return err == nil && made.State == engine.RunFailed && made.Error.Code == engine.ProcessingFailed && made.Attempts == 1
	})
	if state := l.view(id).Subject.State; state != engine.Ready {
		t.Errorf("a clip failed, and its video is %s", state)
	}
	l.readyClip(key)
}

func (l *lane) clipBlobs(id engine.ID) []string {
	l.t.Helper()
	return slices.DeleteFunc(l.blobNames(engine.MediaContainer, engine.Prefix(id)), func(name string) bool {
		return !strings.Contains(name, "/clip/")
	})
}

// A video is deleted while a worker is frozen in the middle of a clip of it.
// Nothing may stay, and the frozen one may bring nothing back.
func TestDeletedDuringClip(t *testing.T) {
	t.Parallel()
	for _, point := range points([]string{"clip/output"}, "clip/claimed", "clip/committed") {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			l := newLane(t, 6*time.Second)
			zombie := l.worker("zombie", oneEncoder)
			id := l.mustUpload(numbered)
			l.ready(id)
			l.found(id)
			marker := l.arm(zombie, point, "stop")
			key := l.requestClip(id, 37, 60)
			l.frozen(zombie, marker)
			other := l.worker("other", oneEncoder)

			l.ask(http.StatusAccepted, http.MethodDelete, "/api/v1/videos/"+string(id))
			asked := time.Now()
			clip := "/videos/" + string(id) + "/clips/" + key.Name()
			l.ask(http.StatusNotFound, http.MethodGet, "/api/v1"+clip)
			l.ask(http.StatusNotFound, http.MethodGet, "/v/"+string(id)+"/clips/"+key.Name()+".mp4")
			l.gone(id, 2*time.Minute)
			t.Logf("everything gone %.1f s after the delete", time.Since(asked).Seconds())
			if err := l.StopRole(other); err != nil {
				t.Fatal(err)
			}
			if err := l.Kill(zombie, stack.Wake); err != nil {
				t.Fatal(err)
			}
			next := l.mustUpload(small)
			l.ready(next) // by now the zombie has done its worst
			l.ask(http.StatusNotFound, http.MethodGet, "/api/v1"+clip)
			l.gone(id, 20*time.Second)
			l.nothingLeft()
		})
	}
}

// A clip goes before the chunks of long videos that wait already (Q5).
func TestClipOvertakesBulkWork(t *testing.T) {
	t.Parallel()
	l := newLane(t, 30*time.Second)
	worker := l.worker("early", oneEncoder)
	id := l.mustUpload(numbered)
	l.ready(id)
	if err := l.StopRole(worker); err != nil {
		t.Fatal(err)
	}
	var long []engine.ID
	for range 3 {
		long = append(long, l.mustUpload(lengthy))
	}
	light := l.worker("light", "WORKERROLE_POOLS=light=4,heavy=0")
	l.await(time.Minute, "planned", func() bool {
		return !slices.ContainsFunc(long, func(id engine.ID) bool { return l.view(id).Subject.State != engine.Processing || l.view(id).Unsent })
	})
	if err := l.StopRole(light); err != nil {
		t.Fatal(err)
	}
	waiting := 0
	for _, id := range long {
		waiting += len(l.view(id).Plans[1].Chunks) - urgentChunks
	}
	key := l.requestClip(id, 37, 60)
	l.worker("heavy", oneEncoder)
	made := l.readyClip(key)
	before := 0
	for _, at := range l.chunkTimes(long) {
		if !at.IsZero() && at.Before(made.FinishedAt) {
			before++
		}
	}
	t.Logf("asked for last, the clip was done after %d of %d ordinary chunks", before, waiting)
	if waiting < 20 || before > waiting/3 {
		t.Errorf("the clip was done after %d of %d ordinary chunks, want at most a third", before, waiting)
	}
}

// A worker is frozen in the middle of a clip, past its lease, and wakes when
// another one has made it. It changes nothing and goes on as a good worker.
func TestZombieClipChangesNothing(t *testing.T) {
	t.Parallel()
	l := newLane(t, 6*time.Second)
	zombie := l.worker("zombie", oneEncoder)
	id := l.mustUpload(numbered)
	l.ready(id)
	l.settled(id)
	marker := l.arm(zombie, "clip/output", "stop")
	key := l.requestClip(id, 37, 60)
	l.frozen(zombie, marker)
	if blobs := l.clipBlobs(id); len(blobs) != 1 {
		t.Errorf("blobs of the frozen worker: %q, want 1: the test tests nothing", blobs)
	}
	winner := l.worker("winner", oneEncoder)
	made := l.readyClip(key)
	if made.Worker != "winner" || made.Attempts != 2 {
		t.Errorf("made by %s with attempt %d, want the winner with the second", made.Worker, made.Attempts)
	}
	l.settled(id)
	if err := l.StopRole(winner); err != nil {
		t.Fatal(err)
	}
	truth := l.truth(id)
	if err := l.Kill(zombie, stack.Wake); err != nil {
		t.Fatal(err)
	}
	next := l.mustUpload(numbered) // for the zombie alone
	l.ready(next)
	if diff := cmp.Diff(truth, l.truth(id)); diff != "" {
		t.Errorf("the zombie changed rows (-before +after):\n%s", diff)
	}
	l.nothingLeft()
	l.readyClip(key)
}
