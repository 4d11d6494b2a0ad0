package main

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

func (f *fixture) seek(at float64) api.Seek {
	f.t.Helper()
	return decode[api.Seek](f.t, f.call(http.MethodPost, "/videos/"+string(f.id)+"/seek", map[string]any{"at": at}), http.StatusOK)
}

// TestSeekAsksForWhatIsMissing: the chunk of that second, the next one and their sound
// are asked for once, in the urgent queues, whatever the window has promised. The
// playlist begins with that chunk as soon as it is there.
func TestSeekAsksForWhatIsMissing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil, func(p *video.Plan) {
		p.Frames, p.DurationSeconds, p.Chunks, p.Sound = 5000, 200, nil, nil
		for i := range int64(25) {
			p.Chunks = append(p.Chunks, video.Chunk{From: i * 200, To: (i + 1) * 200}) // 8 s
		}
		for i := range 10 {
			p.Sound = append(p.Sound, video.SoundPortion{First: 5 * i, End: 5*i + 5}) // 20 s
		}
	})
	first, sound := f.queue(workflow.EncodeFirst).Length, f.queue(workflow.AudioFirst).Length

	got := f.seek(162) // the portion of sound from 158 s on ends after the next chunk, at 176 s
	if want := "/v/" + string(f.id) + "/master.m3u8?from=20"; got.Made || got.Master != want || got.From != 160 {
		t.Errorf("seek: %+v, want %s from 160 on, which is not made", got, want)
	}
	if n := f.queue(workflow.EncodeFirst).Length - first; n != 2 {
		t.Errorf("%d chunks are asked for, want 2", n)
	}
	if n := f.queue(workflow.AudioFirst).Length - sound; n != 1 {
		t.Errorf("%d portions of sound are asked for, want 1", n)
	}
	f.seek(162)
	f.seek(167.9)
	if n := f.queue(workflow.EncodeFirst).Length - first; n != 2 {
		t.Errorf("asked again at once: %d messages, want 2", n)
	}
	f.play("master.m3u8?from=20").want(t, http.StatusNotFound, "not_playable_yet")

	f.chunk(20, 2)
	f.portion(40, 5)
	if got := f.seek(162); !got.Made {
		t.Errorf("chunk and sound are there: %+v", got)
	}
	if text := string(f.play("240p.m3u8?from=20").body); strings.Count(text, "#EXT-X-GAP") != 40 || strings.Count(text, "#EXTINF") != 42 {
		t.Errorf("40 gaps, two segments:\n%s", text)
	}
	if got := f.seek(1); got.Made || strings.Contains(got.Master, "from") {
		t.Errorf("the beginning is not made: %+v", got)
	}
	f.chunk(0, 2)
	f.portion(0, 5)
	if got := f.seek(1); !got.Made || strings.Contains(got.Master, "from") {
		t.Errorf("the beginning is made: %+v", got)
	}

	for _, bad := range []any{-1, "1", nil} {
		f.call(http.MethodPost, "/videos/"+string(f.id)+"/seek", map[string]any{"at": bad}).want(t, http.StatusBadRequest, "invalid_body")
	}
	f.play("master.m3u8?from=x").want(t, http.StatusBadRequest, "invalid_parameter")
	f.play("master.m3u8?from=-1").want(t, http.StatusBadRequest, "invalid_parameter")
	f.play("master.m3u8?from=99999").want(t, http.StatusNotFound, "not_playable_yet")
	if got := f.seek(1e9); !strings.HasSuffix(got.Master, "from=24") {
		t.Errorf("behind the end: %+v, want the last chunk", got)
	}
	f.call(http.MethodPost, "/videos/"+string(f.id)+"/cancel", nil).want(t, http.StatusAccepted, "")
	before := f.queue(workflow.EncodeFirst).Length
	f.seek(100)
	if n := f.queue(workflow.EncodeFirst).Length; n != before {
		t.Errorf("a cancelled video asks for %d chunks", n-before)
	}
}

// TestSeekShowsAPreview: while a worker makes the chunk that a viewer went to, a preview
// plays, at addresses that are not kept. When the chunk is there the preview has ended.
func TestSeekShowsAPreview(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil, func(p *video.Plan) {
		p.Frames, p.DurationSeconds, p.Chunks, p.Sound = 5000, 200, nil, nil
		for i := range int64(25) {
			p.Chunks = append(p.Chunks, video.Chunk{From: i * 200, To: (i + 1) * 200}) // 8 s
		}
		p.Sound = []video.SoundPortion{{First: 0, End: 2}, {First: 2, End: 51}}
	})
	f.chunk(0, 2)
	f.portion(0, 2)
	key := engine.Key{ID: f.id, Generation: 1, Step: workflow.StepEncode, Index: 20}
	rec, _, there, err := f.videos.BeginPreview(t.Context(), key)
	if err != nil || there {
		t.Fatalf("there is a preview: %v, %v", there, err)
	}
	if got := f.seek(162); got.Made || got.Preview {
		t.Errorf("before there is a preview: %+v", got)
	}
	out := video.RenditionOutput{Name: "240p", Blob: f.put("preview.m4s", f.blob), Init: video.Range{Length: 100}, Codecs: "avc1.640015"}
	sound := video.AudioPart{First: 40, Blob: f.put("preview-sound.m4s", f.blob), Codecs: "mp4a.40.2", Channels: 2}
	for i := range 3 {
		out.Segments = append(out.Segments, video.Segment{Frames: 100, Range: video.Range{Offset: int64(100 + 200*i), Length: 200}})
		sound.Segments = append(sound.Segments, video.AudioSegment{Samples: 4 * video.SampleRate, Range: video.Range{Offset: int64(50 + 100*i), Length: 100}})
	}
	preview := video.Preview{Chunk: 20, Pictures: video.ChunkOutput{Frames: 300, Renditions: []video.RenditionOutput{out}}, Sound: &sound}
	for range 2 { // safe to repeat
		if err := f.videos.AddPreview(t.Context(), key, preview); err != nil {
			t.Fatal(err)
		}
	}

	if _, _, there, err := f.videos.BeginPreview(t.Context(), key); err != nil || !there {
		t.Errorf("there is no preview: %v, %v", there, err)
	}
	hurried := f.queue(workflow.EncodeHigh).Length
	behind := engine.OutboxMessage{Queue: workflow.Declaration.QueueAt(workflow.Declaration.StepOf(key), 1, rec.Subject.Meta), Key: key}
	if err := f.videos.Resend(t.Context(), rec, []engine.OutboxMessage{behind}); err != nil {
		t.Fatal(err)
	}
	if n := f.queue(workflow.EncodeHigh).Length - hurried; n != 1 {
		t.Errorf("%d messages for the chunk itself, want 1", n)
	}
	view, err := f.videos.View(t.Context(), f.id)
	if err != nil {
		t.Fatal(err)
	}
	if wanted, err := videostore.Wanted(view, 162); err != nil || slices.ContainsFunc(wanted, func(i engine.OutboxMessage) bool { return i.Key == key }) {
		t.Errorf("a chunk with a preview is asked for again: %v", wanted)
	}
	got := f.seek(162)
	if want := "/v/" + string(f.id) + "/master.m3u8?from=20&preview=1"; !got.Made || !got.Preview || got.Master != want || got.From != 160 {
		t.Fatalf("seek: %+v, want %s", got, want)
	}
	f.get(got.Master).want(t, http.StatusOK, "")
	f.play("master.m3u8?from=20").want(t, http.StatusNotFound, "not_playable_yet")
	for _, name := range []string{"240p/40.m4s", "240p/42.m4s", "240p/init.mp4", "audio/40.m4s", "audio/init.mp4"} {
		answer := f.play(name + "?g=1&preview=1")
		answer.want(t, http.StatusOK, "")
		if cache := answer.Header.Get("Cache-Control"); cache != "no-store" {
			t.Errorf("%s may be kept: %q", name, cache)
		}
	}
	f.play("240p/40.m4s?g=1").want(t, http.StatusNotFound, "")
	f.play("240p/43.m4s?g=1&preview=1").want(t, http.StatusNotFound, "")

	full := preview.Pictures
	full.Frames, full.Renditions[0].Segments = 200, full.Renditions[0].Segments[:2]
	f.commit(workflow.StepEncode, 20, full, videostore.Commit{})
	if _, _, _, err := f.videos.BeginPreview(t.Context(), key); !errors.Is(err, engine.ErrDone) {
		t.Errorf("a preview of a chunk that is there: %v, want ErrDone", err)
	}
	rest := video.AudioPart{First: 2, Blob: sound.Blob, Codecs: sound.Codecs, Channels: 2}
	for range 49 {
		rest.Segments = append(rest.Segments, sound.Segments[0])
	}
	f.commit(workflow.StepAudio, 1, rest, videostore.Commit{})
	if got := f.seek(162); !got.Made || got.Preview || got.Master != "/v/"+string(f.id)+"/master.m3u8?from=20" {
		t.Errorf("the chunk is there: %+v", got)
	}
	if err := f.videos.DropGeneration(t.Context(), f.id, 1); err != nil {
		t.Fatal(err)
	}
	if view, err := f.videos.View(t.Context(), f.id); err != nil || len(view.Rows) > 0 {
		t.Errorf("after the generation: previews %v, %v", view.Rows, err)
	}
}
