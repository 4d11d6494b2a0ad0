package previews_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/previews"
	"github.com/cutroom/cutroom/shared/video"
)

// TestPreview: a viewer went to chunk 1, of which there is a preview, and nothing else but
// the beginning.
func TestPreview(t *testing.T) {
	t.Parallel()
	p := playlist.Presentation{Plan: video.Plan{
		Plan: engine.Plan{Generation: 1}, FPS: video.Rational{Num: 30, Den: 1}, SegmentFrames: 120, HasAudio: true,
	}}
	small := func(frames ...int64) video.ChunkOutput {
		out := video.ChunkOutput{Renditions: []video.RenditionOutput{{Name: "240p", Codecs: "avc1.640015", Blob: "preview"}}}
		for _, f := range frames {
			out.Frames += f
			out.Renditions[0].Segments = append(out.Renditions[0].Segments, video.Segment{Frames: f})
		}
		return out
	}
	p.Plan.Renditions = []video.Rendition{{
		Name: "720p", Width: 1280, Height: 720, MaxRate: 3_000_000,
	}, {
		Name: "240p", Width: 426, Height: 240, MaxRate: 400_000,
	}}
	p.Plan.Frames, p.Plan.Chunks = 930, []video.Chunk{{
		From: 0, To: 120,
	}, {
		From: 120, To: 360,
	}, {
		From: 360, To: 720,
	}, {
		From: 720, To: 930,
	}}
	p.Plan.Sound = []video.SoundPortion{{First: 0, End: 2}, {First: 2, End: 8}}
	whole := func(frames ...int64) *video.ChunkOutput {
		c := small(frames...)
		high := c.Renditions[0]
		high.Name = "720p"
		c.Renditions = []video.RenditionOutput{high, c.Renditions[0]}
		return &c
	}
	p.Chunks = []*video.ChunkOutput{whole(120), nil, nil, nil}
	p.Parts, p.From = []video.AudioPart{{Codecs: "mp4a.40.2", Channels: 2, Segments: []video.AudioSegment{{Samples: 192512}}}}, 1
	sound := video.AudioPart{First: 1, Codecs: "mp4a.40.2", Channels: 2, Blob: "preview"}
	for range 4 {
		sound.Segments = append(sound.Segments, video.AudioSegment{Samples: 192512})
	}
	made := map[int]previews.Preview{1: {Chunk: 1, Pictures: small(120, 120), Sound: &sound}}
	if p.Ready() || !previews.Show(p, made).Ready() {
		t.Fatalf("ready %v, and the preview %v; want only the preview", p.Ready(), previews.Show(p, made).Ready())
	}

	shown := previews.Show(p, made)
	master := playlist.Master(shown)
	if strings.Count(master, "#EXT-X-STREAM-INF") != 1 || !strings.Contains(master, "\n240p.m3u8?from=1&preview=1\n") || !strings.Contains(master, `URI="audio.m3u8?from=1&preview=1"`) {
		t.Errorf("the master has more than the smallest rendition, or other addresses:\n%s", master)
	}
	entries := func(p playlist.Presentation) (listed []string) {
		t.Helper()
		text, found := playlist.Media(p, "240p")
		if !found || strings.Contains(text, "ENDLIST") {
			t.Errorf("a preview stays open:\n%s", text)
		}
		gap := ""
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "#EXT-X-GAP") {
				gap = "gap "
			}
			if !strings.HasPrefix(line, "#") {
				listed, gap = append(listed, gap+strings.TrimSpace(line)), ""
			}
		}
		return listed
	}
	const version = ".m4s?g=1&preview=1"
	want := []string{"gap 240p/0" + version, "240p/1" + version, "240p/2" + version}
	if diff := cmp.Diff(want, entries(shown)); diff != "" {
		t.Errorf("chunk 1 (-want +got):\n%s", diff)
	}
	audio, _ := playlist.Media(shown, playlist.AudioName)
	if strings.Count(audio, "#EXT-X-GAP") != 1 || strings.Count(audio, "#EXTINF") != 3 {
		t.Errorf("sound from segment 1 on, no longer than the pictures:\n%s", audio)
	}

	// A preview of release 0.1.0 runs on into chunk 2, of which nothing is there to be asked for.
	old := map[int]previews.Preview{1: {Chunk: 1, Pictures: small(120, 120, 120, 120), Sound: &sound}}
	if diff := cmp.Diff(want, entries(previews.Show(p, old))); diff != "" {
		t.Errorf("a preview that runs on (-want +got):\n%s", diff)
	}
	if frames := previews.Show(p, old).Chunks[1].Frames; frames != 240 {
		t.Errorf("of it %d frames are shown, want those of chunk 1", frames)
	}

	p.Chunks[3] = whole(120, 90) // no player gets there yet
	if diff := cmp.Diff(want, entries(previews.Show(p, made))); diff != "" {
		t.Errorf("what follows a chunk that is not there is listed (-want +got):\n%s", diff)
	}
	made[2] = previews.Preview{Chunk: 2, Pictures: small(120, 120, 120)}
	want = append(want, "240p/3"+version, "240p/4"+version, "240p/5"+version, "240p/6"+version, "240p/7"+version)
	if diff := cmp.Diff(want, entries(previews.Show(p, made))); diff != "" {
		t.Errorf("a preview of chunk 2 (-want +got):\n%s", diff)
	}
}
