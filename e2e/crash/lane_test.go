package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// lane is a stack of its own, usually on the shared emulator: a web role and a worker
// without slots that only does the upkeep, so that workers with slots can be
// killed without waiting for another leader. Upkeep is nervous: it looks every
// few seconds, and the janitor gives no grace at all.
type lane struct {
	*stack.Stack
	t          *testing.T
	visibility time.Duration
	scratch    string // of all workers
	encoders   shim

	account *azstore.Account
	queues  *azq.Client
	videos  *videostore.Store
	blobs   *blobstore.Store
}

// oneEncoder is a worker that encodes one chunk at a time, so that its death
// costs one chunk at most.
const oneEncoder = "WORKERROLE_POOLS=light=4,heavy=1"

// newLane starts a lane whose queues have this visibility.
func newLane(t *testing.T, visibility time.Duration) *lane {
	t.Helper()
	return newLaneOn(t, world.connection, visibility)
}

// newLaneOn starts a lane on the emulator of that connection string, or on one
// of its own if it is empty.
func newLaneOn(t *testing.T, connection string, visibility time.Duration, env ...string) *lane {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: starts the whole system and waits for leases to end")
	}
	prefix := make([]byte, 9)
	for i := range prefix {
		prefix[i] = 'a' + byte(rand.IntN(26))
	}
	scratch := t.TempDir()
	l := &lane{t: t, visibility: visibility, scratch: scratch, encoders: newShim(t, scratch)}
	var err error
	l.Stack, err = stack.Start(t.Context(), stack.Options{
		Dir: t.TempDir(), Bin: stacktest.Bin(t), ConnectionString: connection, InMemory: true,
		Env: append([]string{
			"CUTROOM_PREFIX=" + string(prefix), stacktest.Unhurried(),
			"CUTROOM_VISIBILITY=*=" + visibility.String(),
			"CUTROOM_RECONCILE_INTERVAL=3s", "CUTROOM_RECONCILE_GRACE=2s",
			"CUTROOM_JANITOR_INTERVAL=5s", "CUTROOM_JANITOR_GRACE=0s",
			"CUTROOM_PURGE_LINGER=1s",
			"WORKERROLE_SCRATCH=" + l.scratch,
			"FFMPEG_PATH=" + l.encoders.program,
		}, env...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.end)
	l.account, err = azstore.Open(azstore.Config{ConnectionString: l.ConnectionString(), Prefix: string(prefix)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.account.CloseIdle)
	l.queues = azq.Open(l.account, azq.Options{Queues: workflow.Specs})
	l.videos = videostore.New(l.account, l.queues)
	l.blobs = blobstore.New(l.account)
	l.worker("upkeep", "WORKERROLE_POOLS=light=0,heavy=0")
	return l
}

// end shows what the roles said when the test failed, then stops them.
func (l *lane) end() {
	if l.t.Failed() {
		for _, name := range l.Names() {
			lines := strings.Split(strings.TrimSpace(l.Logs(name)), "\n")
			l.t.Logf("the end of the log of %s:\n%s", name, strings.Join(lines[max(0, len(lines)-60):], "\n"))
		}
	}
	if err := l.Stop(); err != nil {
		l.t.Error(err)
	}
	stacktest.NoSecrets(l.t, l.Stack)
}

// worker starts a worker and returns the name that the stack has for it. The
// name given is the one that the timeline shows.
func (l *lane) worker(name string, env ...string) string {
	l.t.Helper()
	process, err := l.AddWorker(l.t.Context(), append([]string{"WORKERROLE_NAME=" + name}, env...)...)
	if err != nil {
		l.t.Fatal(err)
	}
	return process
}

// await polls until ok says so, and fails the test after the patience for limit.
func (l *lane) await(limit time.Duration, what string, ok func() bool) {
	l.t.Helper()
	if !azuritetest.Poll(limit, ok) {
		l.t.Fatalf("not within %v: %s", limit, what)
	}
}

// awaitEvery is await for what must be seen soon after it happens.
func (l *lane) awaitEvery(pause, limit time.Duration, what string, ok func() bool) {
	l.t.Helper()
	for began := time.Now(); !ok(); time.Sleep(pause) {
		l.notLate(began, limit, what)
	}
}

func (l *lane) notLate(began time.Time, limit time.Duration, what string) {
	l.t.Helper()
	if azuritetest.Late(began, limit) {
		l.t.Fatalf("after %v: not %s", time.Since(began).Round(time.Second), what)
	}
}

// dies waits for a process to end and returns when that was.
func (l *lane) dies(process string) (time.Time, *os.ProcessState) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), azuritetest.Patience(3*time.Minute))
	defer cancel()
	state, err := l.Wait(ctx, process)
	if err != nil {
		l.t.Fatal(err)
	}
	return time.Now(), state
}

// try sends a request to the web role and returns status and body. It may be
// used by several goroutines.
func (l *lane) try(method, path string, body io.Reader, contentType string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(l.t.Context(), method, l.BaseURL()+path, body)
	if err != nil {
		return 0, nil, err
	}
	if f, ok := body.(*os.File); ok {
		info, err := f.Stat()
		if err != nil {
			return 0, nil, err
		}
		req.ContentLength = info.Size()
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// call is try for the test's own goroutine.
func (l *lane) call(method, path string, body io.Reader, contentType string) (int, []byte) {
	l.t.Helper()
	status, answer, err := l.try(method, path, body, contentType)
	if err != nil {
		l.t.Fatal(err)
	}
	return status, answer
}

// ask is call for requests that must be answered with want.
func (l *lane) ask(want int, method, path string) []byte {
	l.t.Helper()
	status, answer := l.call(method, path, nil, "")
	if status != want {
		l.t.Fatalf("%s %s: %d, want %d: %s", method, path, status, want, answer)
	}
	return answer
}

// create announces a video with these members besides the title.
func (l *lane) create(title string, members map[string]any) (engine.ID, error) {
	doc := map[string]any{"title": title}
	for k, v := range members {
		doc[k] = v
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return "", err
	}
	var made struct {
		ID engine.ID `json:"id"`
	}
	status, answer, err := l.try(http.MethodPost, "/api/v1/videos", bytes.NewReader(text), "application/json")
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(answer, &made); err != nil || status != http.StatusCreated {
		return "", fmt.Errorf("create video: %d %s", status, answer)
	}
	return made.ID, nil
}

// upload creates a video and puts a clip into it. It may be used by several
// goroutines.
func (l *lane) upload(c *clip, title string, members map[string]any) (engine.ID, error) {
	id, err := l.create(title, members)
	if err != nil {
		return "", err
	}
	path, err := c.path()
	if err != nil {
		return "", err
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	status, answer, err := l.try(http.MethodPut, "/api/v1/videos/"+string(id)+"/content", file, "video/mp4")
	if err == nil && status != http.StatusAccepted {
		err = fmt.Errorf("put content: %d %s", status, answer)
	}
	return id, err
}

func (l *lane) mustUpload(c *clip) engine.ID {
	l.t.Helper()
	id, err := l.upload(c, "Crash "+c.name, map[string]any{"race": map[string]any{"event": "Crash__Full", "firstFrameAt": "2011-11-06T14:00:00Z"}})
	if err != nil {
		l.t.Fatal(err)
	}
	return id
}

// view reads all rows of a video.
func (l *lane) view(id engine.ID) videostore.View {
	l.t.Helper()
	view, err := l.videos.View(l.t.Context(), id)
	if err != nil {
		l.t.Fatal(err)
	}
	return view
}

// ready waits for a video and for what comes after it, and fails at once when it
// fails.
func (l *lane) ready(id engine.ID) videostore.View {
	l.t.Helper()
	var view videostore.View
	l.await(4*time.Minute, "ready", func() bool {
		view = l.view(id)
		if view.Subject.State == engine.Failed {
			l.t.Fatalf("video %s failed: %v", id, view.Subject.Error)
		}
		return view.Subject.State == engine.Ready && len(view.OpenOptional()) == 0
	})
	return view
}

// result is what a player gets: every frame, every block of audio.
type result struct{ picture, sound string }

// play decodes the top rendition and the audio, as the web role serves them.
func (l *lane) play(id engine.ID) result {
	l.t.Helper()
	view := l.view(id)
	plan := view.Plans[view.Subject.Playing()]
	at := l.BaseURL() + "/v/" + string(id) + "/"
	l.ask(http.StatusOK, http.MethodGet, "/v/"+string(id)+"/master.m3u8")
	got := result{picture: ffmpeg(l.t, "-i", at+plan.Renditions[0].Name+".m3u8", "-map", "0:v", "-f", "framemd5", "-")}
	if plan.HasAudio {
		got.sound = ffmpeg(l.t, "-i", at+"audio.m3u8", "-map", "0:a", "-f", "framemd5", "-")
	}
	return got
}

// frames counts the lines of a framemd5 that are not comments.
func frames(text string) int {
	n := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

// equalsUninterrupted compares a video with one that nothing disturbed: the
// first one of each clip, processed in a lane of its own.
func (l *lane) equalsUninterrupted(c *clip, id engine.ID) {
	l.t.Helper()
	want := c.undisturbed(l.t)
	got := l.play(id)
	if got.picture != want.picture {
		l.t.Errorf("the pictures of %s differ from an uninterrupted run's: %d frames, want %d", id, frames(got.picture), frames(want.picture))
	}
	if got.sound != want.sound {
		l.t.Errorf("the sound of %s differs from an uninterrupted run's: %d blocks, want %d", id, frames(got.sound), frames(want.sound))
	}
	for _, extra := range []string{"poster.jpg", "storyboard.vtt", "download.mp4"} {
		l.ask(http.StatusOK, http.MethodGet, "/v/"+string(id)+"/"+extra)
	}
}

func (c *clip) undisturbed(t *testing.T) result {
	t.Helper()
	c.reference.Lock()
	defer c.reference.Unlock()
	if c.golden != nil {
		return *c.golden
	}
	l := newLane(t, 30*time.Second)
	l.worker("calm")
	id := l.mustUpload(c)
	start := time.Now()
	for _, s := range l.ready(id).Runs {
		if tries(s) != 1 {
			l.hold(start, []string{fmt.Sprintf("%s took %d attempts with nothing in the way", s.Key, s.Attempts)})
		}
	}
	got := l.play(id)
	if n := frames(got.picture); n != c.frames {
		t.Fatalf("an uninterrupted run of %s has %d frames, want %d", c.name, n, c.frames)
	}
	c.golden = &got
	return got
}

// shim is an ffmpeg that writes down the process id of everything that encodes
// video, in its own directory because the sandbox allows no other, and that lets
// everybody else go first: the emulator must answer while encoders have all cores.
type shim struct{ program, scratch string }

// pidsFile is what the shim writes.
const pidsFile = "encoders"

func newShim(t *testing.T, scratch string) shim {
	t.Helper()
	real, err1 := exec.LookPath("ffmpeg")
	nice, err2 := exec.LookPath("nice")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	s := shim{program: filepath.Join(t.TempDir(), "ffmpeg"), scratch: scratch}
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *libx264*) echo $$ >>%s ;; esac\nexec %s -n 10 %s \"$@\"\n", pidsFile, nice, real)
	if err := os.WriteFile(s.program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return s
}

// running are the encoders that are alive.
func (s shim) running() []int {
	var pids []int
	_ = filepath.WalkDir(s.scratch, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != pidsFile {
			return nil // directories of attempts come and go
		}
		text, _ := os.ReadFile(path)
		for _, word := range strings.Fields(string(text)) {
			var pid int
			if _, err := fmt.Sscan(word, &pid); err == nil && alive(pid) {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// alive reports whether a process exists. One that has ended and that its parent has not
// waited for is dead.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	state := processState(pid)
	return state != 'Z' && state != 'X'
}

// processState is the letter that the system has for what a process does: 'T'
// is stopped by a signal. 0 when it is gone.
func processState(pid int) byte {
	if runtime.GOOS == "linux" {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if i := bytes.LastIndexByte(text, ')'); err == nil && i >= 0 && i+2 < len(text) {
			return text[i+2]
		}
		return 0
	}
	out, err := exec.Command("ps", "-o", "state=", "-p", fmt.Sprint(pid)).Output()
	if text := strings.TrimSpace(string(out)); err == nil && text != "" {
		return text[0]
	}
	return 0
}

// rows are all rows of a table of the lane.
func (l *lane) rows(table string, partition string) []tablestore.Entity {
	l.t.Helper()
	q := tablestore.Query{PartitionKey: partition, Class: tablestore.Scan}
	var rows []tablestore.Entity
	for row, err := range tablestore.New(l.account, table).Query(l.t.Context(), q) {
		if err != nil {
			l.t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}
