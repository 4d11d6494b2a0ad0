package main

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// fixture is a video of two chunks, one rendition and audio, whose rows and
// blobs are written by hand, the way steps would.
type fixture struct {
	*server
	id   engine.ID
	plan video.Plan
	blob []byte // content of every media blob
}

const fixtureTitle = `A "film" / 日本`

func newFixture(t *testing.T, variables map[string]string, edits ...func(*video.Plan)) *fixture {
	t.Helper()
	return makeFixture(t, variables, nil, edits...)
}

// makeFixture is newFixture with headers of the request that announces the video.
func makeFixture(t *testing.T, variables map[string]string, headers []string, edits ...func(*video.Plan)) *fixture {
	t.Helper()
	s := start(t, variables)
	v := decode[api.Video](t, s.call(http.MethodPost, "/videos", map[string]any{"title": fixtureTitle}, headers...), http.StatusCreated)
	f := &fixture{server: s, id: engine.ID(v.Id), blob: movie(1000)}
	s.call(http.MethodPut, "/videos/"+v.Id+"/content", movie(100)).want(t, http.StatusAccepted, "")
	f.plan = video.Plan{
		Plan: engine.Plan{Generation: 1}, FPS: video.Rational{Num: 25, Den: 1}, Frames: 300, SegmentFrames: 100,
		Chunks:     []video.Chunk{{From: 0, To: 200}, {From: 200, To: 300}},
		Renditions: []video.Rendition{{Name: "240p", Width: 426, Height: 240, MaxRate: 400_000}}, HasAudio: true,
		Sound: []video.SoundPortion{{End: 3}}, DurationSeconds: 12, Width: 426, Height: 240,
	}
	for _, edit := range edits {
		edit(&f.plan)
	}
	f.plan.Promises = slices.DeleteFunc(workflow.PromisesFor(f.plan), func(p engine.Promise) bool {
		step, _ := workflow.Declaration.Find(p.Step)
		return step.Makes == "" // a fork's gates and parts: nothing ends them here
	})
	f.commit(workflow.StepProbe, 0, nil, videostore.Commit{Plan: &f.plan, Edit: func(v *video.Video) {
		v.State, v.DurationSeconds, v.Renditions = engine.Processing, 12, f.plan.Renditions
	}})
	return f
}

// commit claims and commits one step.
func (f *fixture) commit(step string, index int, output any, c videostore.Commit) {
	f.t.Helper()
	claim, err := f.videos.Claim(f.t.Context(), engine.Key{ID: f.id, Generation: 1, Step: step, Index: index}, "message", "worker-1", time.Time{})
	if err != nil {
		f.t.Fatal(err)
	}
	c.Output = output
	if err := claim.Commit(f.t.Context(), c); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) put(name string, content []byte) string {
	f.t.Helper()
	full := engine.Key{ID: f.id, Generation: 1, Step: "hand"}.BlobPrefix("attempt") + name
	if _, err := f.blobs.Put(f.t.Context(), engine.MediaContainer, full, content, blobstore.Options{}); err != nil {
		f.t.Fatal(err)
	}
	return full
}

// chunk commits an encode step: an init segment of 100 bytes, then segments of 200.
func (f *fixture) chunk(index, segments int) {
	f.t.Helper()
	out := video.RenditionOutput{Name: "240p", Blob: f.put(fmt.Sprintf("c%d.mp4", index), f.blob), Init: video.Range{Length: 100}, Codecs: "avc1.640015"}
	for i := range segments {
		out.Segments = append(out.Segments, video.Segment{Frames: 100, Range: video.Range{Offset: int64(100 + 200*i), Length: 200}})
	}
	made := video.ChunkOutput{Frames: int64(100 * segments), Renditions: []video.RenditionOutput{out}}
	if index == 0 {
		made.Poster = f.put("poster.jpg", []byte("poster"))
	}
	f.commit(workflow.StepEncode, index, made, videostore.Commit{})
}

func (f *fixture) audio() {
	f.t.Helper()
	part := video.AudioPart{Blob: f.put("a.mp4", f.blob), Init: video.Range{Length: 50}, Codecs: "mp4a.40.2", Channels: 2}
	for i := range 3 {
		part.Segments = append(part.Segments, video.AudioSegment{Samples: 4 * video.SampleRate, Range: video.Range{Offset: int64(50 + 100*i), Length: 100}})
	}
	f.commit(workflow.StepAudio, 0, part, videostore.Commit{})
}

// portion commits an item of sound: segments of 4 s from the given one on.
func (f *fixture) portion(first, segments int) {
	f.t.Helper()
	part := video.AudioPart{First: first, Blob: f.put(fmt.Sprintf("a%d.mp4", first), f.blob), Codecs: "mp4a.40.2", Channels: 2}
	if first == 0 {
		part.Init = video.Range{Length: 50}
	}
	for i := range segments {
		part.Segments = append(part.Segments, video.AudioSegment{Samples: 4 * video.SampleRate, Range: video.Range{Offset: int64(50 + 100*i), Length: 100}})
	}
	f.commit(workflow.StepAudio, first/segments, part, videostore.Commit{})
}

func (f *fixture) finish() {
	f.t.Helper()
	out := video.FinishOutput{
		Storyboard: f.put("storyboard.vtt", []byte("WEBVTT\n")), Sprite: f.put("storyboard.jpg", []byte("sprite")), Download: f.put("download.mp4", f.blob), Frames: f.plan.Frames,
	}
	f.commit(workflow.StepFinish, 0, out, videostore.Commit{Edit: func(v *video.Video) {
		v.State, v.Serving, v.Playable = engine.Ready, 1, true
	}})
}

func (f *fixture) play(path string, headers ...string) answer {
	f.t.Helper()
	return f.get("/v/"+string(f.id)+"/"+path, headers...)
}

// A step that the document does not know leaves a file and facts: the video shows
// both, and the file is served, of the generation that plays.
func TestWhatStepsLeaveIsLinkedAndServed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.chunk(0, 2)
	f.chunk(1, 1)
	f.audio()
	f.finish()
	name := workflow.Declaration.Only(engine.AfterReady).Name
	file := engine.File{Name: "notes.txt", Blob: f.put("notes.txt", []byte("la la")), ContentType: "text/plain", Bytes: 5}
	f.commit(name, 0, nil, videostore.Commit{Files: []engine.File{file}, Facts: map[string]any{"x": "y"}})
	v := decode[api.Video](t, f.call(http.MethodGet, "/videos/"+string(f.id), nil), http.StatusOK)
	if len(v.Made) != 1 || v.Made[0].Step != name || string(v.Made[0].Facts) != `{"x":"y"}` || len(v.Made[0].Files) != 1 {
		t.Fatalf("made: %+v", v.Made)
	}
	url := v.Made[0].Files[0].Url
	got := f.get(url)
	got.want(t, http.StatusOK, "")
	if string(got.body) != "la la" || got.Header.Get("Content-Type") != "text/plain" || !strings.Contains(got.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("%s: %q %v", url, got.body, got.Header)
	}
	for _, none := range []string{"files/" + name + "/other.txt", "files/none/notes.txt", "files/" + name} {
		f.play(none).want(t, http.StatusNotFound, "")
	}
	f.call(http.MethodPost, "/videos/"+string(f.id)+"/retry", nil).want(t, http.StatusConflict, "")
}

// TestWatchWhileItIsMade: playlists grow with committed rows, then the finish
// step's files take over.
func TestWatchWhileItIsMade(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.play("master.m3u8").want(t, 404, "not_playable_yet")
	f.chunk(0, 2)
	f.play("master.m3u8").want(t, 404, "not_playable_yet") // no audio yet
	f.audio()

	master := f.play("master.m3u8")
	if master.StatusCode != http.StatusOK || !strings.Contains(string(master.body), "240p.m3u8") || master.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("master: %d %v %s", master.StatusCode, master.Header, master.body)
	}
	growing := string(f.play("240p.m3u8").body)
	if strings.Count(growing, "#EXTINF") != 2 || strings.Contains(growing, "ENDLIST") {
		t.Errorf("growing playlist:\n%s", growing)
	}
	if audio := string(f.play("audio.m3u8").body); strings.Count(audio, "#EXTINF") != 2 {
		t.Errorf("audio lists more than video:\n%s", audio)
	}
	f.play("240p/2.m4s?g=1").want(t, 404, "not_found")
	f.chunk(1, 1)
	if done := string(f.play("240p.m3u8").body); strings.Count(done, "#EXTINF") != 3 || !strings.Contains(done, "ENDLIST") {
		t.Errorf("complete playlist:\n%s", done)
	}

	// Every address in the playlists answers with its range of the blob.
	for path, want := range map[string][]byte{
		"240p/init.mp4?g=1": f.blob[:100], "240p/0.m4s?g=1": f.blob[100:300], "240p/1.m4s?g=1": f.blob[300:500], "240p/2.m4s?g=1": f.blob[100:300],
		"audio/init.mp4?g=1": f.blob[:50], "audio/2.m4s?g=1": f.blob[250:350],
	} {
		got := f.play(path)
		if got.StatusCode != http.StatusOK || !bytes.Equal(got.body, want) {
			t.Errorf("%s: %d, %d bytes, want %d", path, got.StatusCode, len(got.body), len(want))
		}
		if cache := got.Header.Get("Cache-Control"); cache != "public, max-age=31536000, immutable" {
			t.Errorf("%s: Cache-Control %q", path, cache)
		}
	}
	for _, path := range []string{"240p/3.m4s?g=1", "240p/99999999999999999999.m4s", "240p/-1.m4s", "720p/0.m4s", "720p.m3u8", "audio/3.m4s", "240p/0.m4s?g=2", "240p/0.ts", "a/b/c", "storyboard.vtt", "download.mp4", "x"} {
		if got := f.play(path); got.StatusCode != 404 {
			t.Errorf("%s: %d, want 404", path, got.StatusCode)
		}
	}
	f.play("240p/0.m4s?g=0").want(t, 400, "invalid_parameter")
	f.get("/v/..%2f..%2f/master.m3u8").want(t, 400, "invalid_id")

	f.finish()
	for path, want := range map[string]string{
		"master.m3u8": "\n240p.m3u8\n", "240p.m3u8": "#EXT-X-ENDLIST", "240p.m3u8?from=1": "\n240p/0.m4s?g=1\n", "audio.m3u8": "#EXT-X-ENDLIST",
		"poster.jpg": "poster", "storyboard.vtt": "WEBVTT", "storyboard.jpg": "sprite",
	} {
		if got := f.play(path); got.StatusCode != http.StatusOK || !strings.Contains(string(got.body), want) || strings.Contains(string(got.body), "GAP") {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
		}
	}
	download := f.play("download.mp4")
	if !bytes.Equal(download.body, f.blob) || !strings.HasPrefix(download.Header.Get("Content-Disposition"), "attachment; filename*=utf-8''A%20%22film%22%20%2F%20%E6%97%A5") {
		t.Errorf("download: %d bytes, %v", len(download.body), download.Header)
	}
	v := decode[api.Video](t, f.call(http.MethodGet, "/videos/"+string(f.id), nil), http.StatusOK)
	if v.Links.Download == nil || v.Links.Master == nil || v.Progress.Percent != 100 || v.Progress.ChunksDone != 2 {
		t.Errorf("ready video: %+v", v)
	}
	steps := decode[api.StepList](t, f.call(http.MethodGet, "/videos/"+string(f.id)+"/steps", nil), http.StatusOK)
	var names []string
	for _, s := range steps.Items {
		names = append(names, fmt.Sprintf("%s%d=%s", s.Step, s.Index, s.State))
	}
	if got := strings.Join(names, " "); got != "probe0=done encode0=done encode1=done audio0=done finish0=done" {
		t.Errorf("timeline: %s", got)
	}

	// From the tombstone on nothing plays, whatever is remembered or still stored.
	f.call(http.MethodDelete, "/videos/"+string(f.id), nil).want(t, http.StatusAccepted, "")
	for _, path := range []string{"master.m3u8", "240p.m3u8", "240p/0.m4s?g=1", "poster.jpg", "download.mp4"} {
		f.play(path).want(t, 404, "not_found")
	}
}

// TestRanges: what the storage service cannot do itself is done here.
// A video plays from its first short chunk and its first portion of sound, in
// whatever order the others are committed.
func TestWatchWhilePortionsAreMissing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil, func(p *video.Plan) {
		p.Sound = []video.SoundPortion{{First: 0, End: 1}, {First: 1, End: 2}, {First: 2, End: 4}}
		p.Chunks = []video.Chunk{{From: 0, To: 50}, {From: 50, To: 300}} // 1 segment of 2 s, then 3
	})
	portion := func(index int) {
		part := video.AudioPart{First: f.plan.Sound[index].First, Blob: f.put(fmt.Sprintf("a%d.m4s", index), f.blob), Codecs: "mp4a.40.2", Channels: 2}
		offset := int64(0)
		if index == 0 {
			part.Init, offset = video.Range{Length: 50}, 50
		}
		for i := part.First; i < f.plan.Sound[index].End; i++ {
			samples := (video.SoundPacket(i+1) - video.SoundPacket(i)) * video.AACPacket
			part.Segments = append(part.Segments, video.AudioSegment{Samples: samples, Range: video.Range{Offset: offset, Length: 100}})
			offset += 100
		}
		f.commit(workflow.StepAudio, index, part, videostore.Commit{})
	}
	listed := func(name string) int { return strings.Count(string(f.play(name).body), "#EXTINF") }

	portion(2)
	f.chunk(1, 3)
	f.play("audio/init.mp4?g=1").want(t, 404, "not_found")
	f.chunk(0, 1)
	f.play("master.m3u8").want(t, 404, "not_playable_yet")
	portion(0)
	f.play("master.m3u8").want(t, 200, "")
	if video, sound := listed("240p.m3u8"), listed("audio.m3u8"); video != 4 || sound != 1 {
		t.Errorf("%d segments of video and %d of sound are listed, want 4 and 1", video, sound)
	}
	for path, want := range map[string][]byte{
		"audio/init.mp4?g=1": f.blob[:50], "audio/0.m4s?g=1": f.blob[50:150], "audio/3.m4s?g=1": f.blob[100:200],
		"240p/0.m4s?g=1": f.blob[100:300], "240p/1.m4s?g=1": f.blob[100:300], "240p/3.m4s?g=1": f.blob[500:700],
	} {
		if got := f.play(path); got.StatusCode != http.StatusOK || !bytes.Equal(got.body, want) {
			t.Errorf("%s: %d, %d bytes, want %d", path, got.StatusCode, len(got.body), len(want))
		}
	}
	portion(1)
	if sound := listed("audio.m3u8"); sound != 4 {
		t.Errorf("%d segments of sound are listed, want 4", sound)
	}
	steps := decode[api.StepList](t, f.call(http.MethodGet, "/videos/"+string(f.id)+"/steps", nil), http.StatusOK)
	if n := len(steps.Items); n != 6 {
		t.Errorf("the timeline has %d steps: %+v", n, steps.Items)
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.chunk(0, 2)
	segment := f.blob[100:300]
	whole := f.play("240p/0.m4s?g=1")
	etag := whole.Header.Get("ETag")
	many := "bytes=0-0" + strings.Repeat(",2-2", 999)
	for _, c := range []struct {
		name    string
		headers []string
		status  int
		want    []byte
		content string
	}{
		{"first bytes", []string{"Range", "bytes=0-9"}, 206, segment[:10], "bytes 0-9/200"},
		{"from the middle", []string{"Range", "bytes=150-"}, 206, segment[150:], "bytes 150-199/200"},
		{"suffix", []string{"Range", "bytes=-20"}, 206, segment[180:], "bytes 180-199/200"},
		{"beyond the end", []string{"Range", "bytes=190-9999"}, 206, segment[190:], "bytes 190-199/200"},
		{"backwards", []string{"Range", "bytes=9-1"}, 200, segment, ""},
		{"1,000 ranges", []string{"Range", many}, 200, segment, ""},
		{"If-Range that fits", []string{"Range", "bytes=0-0", "If-Range", etag}, 206, segment[:1], "bytes 0-0/200"},
		{"If-Range of another version", []string{"Range", "bytes=0-0", "If-Range", `"old"`}, 200, segment, ""},
		{"If-None-Match", []string{"If-None-Match", `"x", ` + etag}, 304, nil, ""},
	} {
		got := f.play("240p/0.m4s?g=1", c.headers...)
		if got.StatusCode != c.status || !bytes.Equal(got.body, c.want) || got.Header.Get("Content-Range") != c.content {
			t.Errorf("%s: %d %q, %d bytes", c.name, got.StatusCode, got.Header.Get("Content-Range"), len(got.body))
		}
	}
	outside := f.play("240p/0.m4s?g=1", "Range", "bytes=200-")
	outside.want(t, 416, "range_not_satisfiable")
	if outside.Header.Get("Content-Range") != "bytes */200" {
		t.Errorf("416 with Content-Range %q", outside.Header.Get("Content-Range"))
	}
	head := f.send(f.request(http.MethodHead, f.public+"/v/"+string(f.id)+"/240p/0.m4s?g=1", nil))
	if head.StatusCode != http.StatusOK || head.ContentLength != 200 || len(head.body) != 0 {
		t.Errorf("HEAD: %d, length %d", head.StatusCode, head.ContentLength)
	}
}

// TestPrivateIsNotCachedByOthers: only the viewer's own browser may keep it.
func TestPrivateIsNotCachedByOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.chunk(0, 2)
	f.call(http.MethodPatch, "/videos/"+string(f.id), `{"visibility":"private"}`, "If-Match", "*").want(t, http.StatusOK, "")
	if got := f.play("240p/0.m4s?g=1").Header.Get("Cache-Control"); !strings.HasPrefix(got, "private") {
		t.Errorf("Cache-Control %q", got)
	}
}

// TestGrowingVideoIsReadForAll: a hundred viewers of a video that is being made,
// with a player and a page each, cost few requests: its rows are read for all of
// them together (Q2). Each viewer costs point reads of META, as of a video that
// is ready.
func TestGrowingVideoIsReadForAll(t *testing.T) {
	t.Parallel()
	wire := azuritetest.NewWire(t)
	f := newFixture(t, map[string]string{"AZURE_STORAGE_CONNECTION_STRING": wire.ConnectionString()})
	f.chunk(0, 2)
	f.audio()
	wire.Take()
	const viewers = 100
	start := time.Now()
	var wg sync.WaitGroup
	for range viewers {
		wg.Go(func() {
			f.play("master.m3u8").want(t, http.StatusOK, "")
			f.play("240p.m3u8").want(t, http.StatusOK, "")
			f.play("240p/1.m4s?g=1").want(t, http.StatusOK, "")
			f.play("240p/2.m4s?g=1").want(t, 404, "not_found") // not there yet
			f.play("x/1.m4s?g=1").want(t, 404, "not_found")
			f.call(http.MethodGet, "/videos/"+string(f.id), nil).want(t, http.StatusOK, "")
			f.call(http.MethodGet, "/videos/"+string(f.id)+"/steps", nil).want(t, http.StatusOK, "")
		})
	}
	wg.Wait()
	took := time.Since(start)
	points, views := 0, 0
	for _, call := range wire.Take() {
		if call.Class == tablestore.Point {
			points++
		} else {
			views++
		}
	}
	t.Logf("%d viewers in %v: %d point reads, %d views", viewers, took, points, views)
	// Player, captions and page are read each for itself, 20 times a second at most.
	if most := 10 + int(took/(17*time.Millisecond)); views > most || views > viewers {
		t.Errorf("%d views in %v, want %d at most", views, took, min(most, viewers))
	}
	if points > 7*viewers {
		t.Errorf("%d point reads, want one a request", points)
	}

	// What is committed is seen at once all the same.
	f.chunk(1, 1)
	f.play("240p/2.m4s?g=1").want(t, http.StatusOK, "")
	f.finish()
	if v := decode[api.Video](t, f.call(http.MethodGet, "/videos/"+string(f.id), nil), http.StatusOK); v.Progress.Percent != 100 || v.Progress.ChunksDone != 2 {
		t.Errorf("finished: %+v", v.Progress)
	}
	steps := decode[api.StepList](t, f.call(http.MethodGet, "/videos/"+string(f.id)+"/steps", nil), http.StatusOK)
	if last := steps.Items[len(steps.Items)-1]; last.Step != workflow.StepFinish || last.State != "done" {
		t.Errorf("the timeline of a finished video ends with %+v", last)
	}
}

// TestWhatIsNotThereCostsLittle: names that nothing has read no view, and ids that
// no video has cost a point read, as others do.
func TestWhatIsNotThereCostsLittle(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	wire := azuritetest.NewWire(t)
	f := newFixture(t, map[string]string{"AZURE_STORAGE_CONNECTION_STRING": wire.ConnectionString()})
	f.chunk(0, 2)
	f.chunk(1, 1)
	f.audio()
	f.finish()
	f.play("240p/1.m4s?g=1").want(t, http.StatusOK, "")
	wire.Take()
	for n := range 50 {
		f.play(fmt.Sprintf("240p/1.m4s?g=%d", n+2)).want(t, 404, "not_found")
		f.play(fmt.Sprintf("x/%d.m4s?g=1", n)).want(t, 404, "not_found")
		f.play(fmt.Sprintf("240p/%d.m4s?g=1", n+3)).want(t, 404, "not_found")
		f.play(fmt.Sprintf("nothing%d.jpg", n)).want(t, 404, "not_found")
		f.play("240p/1.m4s?g=1").want(t, http.StatusOK, "")
	}
	for _, call := range wire.Take() {
		if call.Class != tablestore.Point {
			t.Fatalf("a view was read: %s", call.Text)
		}
	}
	f.get("/v/"+strings.Repeat("b", 26)+"/master.m3u8").want(t, 404, "not_found")
	if calls := wire.Take(); len(calls) != 1 || calls[0].Class != tablestore.Point {
		t.Errorf("a request for a video that is not there made %d to storage, want a point read", len(calls))
	}
}

// TestLinksAnswer: a video names no address that does not answer, when it can
// just be watched and when it is ready.
func TestLinksAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	links := func(want ...string) {
		t.Helper()
		v := decode[struct{ Links map[string]string }](t, f.call(http.MethodGet, "/videos/"+string(f.id), nil), http.StatusOK)
		for _, path := range v.Links {
			f.get(path).want(t, http.StatusOK, "")
		}
		for _, name := range want {
			if v.Links[name] == "" {
				t.Errorf("%s is not among the links %v", name, v.Links)
			}
		}
	}
	f.chunk(0, 2)
	f.audio()
	if err := f.videos.FanIn(t.Context(), f.id); err != nil {
		t.Fatal(err)
	}
	links("self", "steps", "watch", "master")
	f.chunk(1, 1)
	f.finish()
	links("self", "steps", "watch", "master", "poster", "storyboard", "download")
}
