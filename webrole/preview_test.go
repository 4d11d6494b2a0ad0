package main

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/previews"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

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
	made := previews.Open(f.videos)
	key := engine.Key{ID: f.id, Generation: 1, Step: workflow.StepEncode, Index: 20}
	rec, _, there, err := made.Begin(t.Context(), key)
	if err != nil || there {
		t.Fatalf("there is a preview: %v, %v", there, err)
	}
	if got := f.seek(162); got.Made || got.Preview {
		t.Errorf("before there is a preview: %+v", got)
	}
	out := video.RenditionOutput{Name: "240p", Blob: f.put("preview.m4s", f.blob), Init: video.Range{Length: 100}, Codecs: "avc1.640015"}
	sound := video.AudioPart{First: 40, Blob: f.put("preview-sound.m4s", f.blob), Codecs: "mp4a.40.2", Channels: 2}
	for i := range 2 {
		out.Segments = append(out.Segments, video.Segment{Frames: 100, Range: video.Range{Offset: int64(100 + 200*i), Length: 200}})
		sound.Segments = append(sound.Segments, video.AudioSegment{Samples: 4 * video.SampleRate, Range: video.Range{Offset: int64(50 + 100*i), Length: 100}})
	}
	preview := previews.Preview{Chunk: 20, Pictures: video.ChunkOutput{Frames: 200, Renditions: []video.RenditionOutput{out}}, Sound: &sound}
	for range 2 { // safe to repeat
		if err := made.Add(t.Context(), key, preview); err != nil {
			t.Fatal(err)
		}
	}

	if _, _, there, err := made.Begin(t.Context(), key); err != nil || !there {
		t.Errorf("there is no preview: %v, %v", there, err)
	}
	hurried := f.queue(workflow.EncodeHigh).Length
	behind := engine.OutboxMessage{Queue: workflow.Declaration.InLane(workflow.Declaration.StepOf(key).Queues[1], rec.Subject.Meta), Key: key}
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
	_, shown, err := f.videos.Preview(view, playlist.Presentation{Plan: view.Plans[1]})
	if wanted := videostore.Wanted(view, 162, shown); err != nil || slices.ContainsFunc(wanted, func(i engine.OutboxMessage) bool { return i.Key == key }) {
		t.Errorf("a chunk with a preview is asked for again: %v", wanted)
	}
	got := f.seek(162)
	if want := "/v/" + string(f.id) + "/master.m3u8?from=20&preview=1"; !got.Made || !got.Preview || got.Master != want || got.From != 160 {
		t.Fatalf("seek: %+v, want %s", got, want)
	}
	f.get(got.Master).want(t, http.StatusOK, "")
	f.play("master.m3u8?from=20").want(t, http.StatusNotFound, "not_playable_yet")
	for _, name := range []string{"240p/40.m4s", "240p/41.m4s", "240p/init.mp4", "audio/40.m4s", "audio/init.mp4"} {
		answer := f.play(name + "?g=1&preview=1")
		answer.want(t, http.StatusOK, "")
		if cache := answer.Header.Get("Cache-Control"); cache != "no-store" {
			t.Errorf("%s may be kept: %q", name, cache)
		}
	}
	f.play("240p/40.m4s?g=1").want(t, http.StatusNotFound, "")
	f.play("240p/42.m4s?g=1&preview=1").want(t, http.StatusNotFound, "")

	f.commit(workflow.StepEncode, 20, preview.Pictures, videostore.Commit{})
	if _, _, _, err := made.Begin(t.Context(), key); !errors.Is(err, engine.ErrDone) {
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

func init() {
	parts = append(parts, part{
		lists: []list{{"listSteps", "/videos/{id}/steps", []damage{{workflow.VideosTable, "+{id} PREVIEW:strange", 0}}}},
	})
}
