package playlist_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
)

// presentation has three chunks of 4, 8 and 3 s at 30 fps and audio in two parts.
func presentation() playlist.Presentation {
	plan := video.Plan{
		Plan: engine.Plan{Generation: 1}, FPS: video.Rational{Num: 30, Den: 1}, SegmentFrames: 120, Frames: 450,
		HasAudio: true, Chunks: []video.Chunk{{From: 0, To: 120}, {From: 120, To: 360}, {From: 360, To: 450}},
		Renditions: []video.Rendition{{Name: "720p", Width: 1280, Height: 720, MaxRate: 3_000_000}},
	}
	chunk := func(frames ...int64) *video.ChunkOutput {
		out := &video.ChunkOutput{Renditions: []video.RenditionOutput{{Name: "720p", Codecs: "avc1.64001f"}}}
		for _, f := range frames {
			out.Frames += f
			out.Renditions[0].Segments = append(out.Renditions[0].Segments, video.Segment{Frames: f, Range: video.Range{Length: f * 10_000}})
		}
		return out
	}
	return playlist.Presentation{
		Plan:   plan,
		Chunks: []*video.ChunkOutput{chunk(120), chunk(120, 120), chunk(90)},
		Parts: []video.AudioPart{
			{First: 0, Codecs: "mp4a.40.2", Channels: 2, Segments: []video.AudioSegment{{Samples: 192512}}},
			{First: 1, Segments: []video.AudioSegment{{Samples: 191488}, {Samples: 192512}, {Samples: 144000}}},
		},
		AudioDone: true,
	}
}

func TestCompletePresentationIsVOD(t *testing.T) {
	t.Parallel()
	got, ok := playlist.Media(presentation(), "720p")
	want := `#EXTM3U
#EXT-X-VERSION:7
#EXT-X-TARGETDURATION:4
#EXT-X-MEDIA-SEQUENCE:0
#EXT-X-PLAYLIST-TYPE:VOD
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-START:TIME-OFFSET=0,PRECISE=YES
#EXT-X-MAP:URI="720p/init.mp4?g=1"
#EXTINF:4.000000,
720p/0.m4s?g=1
#EXTINF:4.000000,
720p/1.m4s?g=1
#EXTINF:4.000000,
720p/2.m4s?g=1
#EXTINF:3.000000,
720p/3.m4s?g=1
#EXT-X-ENDLIST
`
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("Video mismatch (-want +got):\n%s", diff)
	}
	master := playlist.Master(presentation())
	for _, part := range []string{`BANDWIDTH=2540000,`, `RESOLUTION=1280x720`, `FRAME-RATE=30.000`, `CODECS="avc1.64001f,mp4a.40.2"`, `URI="audio.m3u8"`} {
		if !strings.Contains(master, part) {
			t.Errorf("master lacks %s:\n%s", part, master)
		}
	}
}

func TestGrowingPresentation(t *testing.T) {
	t.Parallel()
	p := presentation()
	p.Chunks[1] = nil // the last chunk is done, the one before it is not
	if p.Complete() {
		t.Fatal("a presentation with a hole is complete")
	}
	v, _ := playlist.Media(p, "720p")
	if n := strings.Count(v, "#EXTINF"); n != 1 || strings.Contains(v, "ENDLIST") || !strings.Contains(v, "TYPE:EVENT") {
		t.Errorf("a growing playlist lists what leads up to the hole and stays open, got:\n%s", v)
	}
	a, _ := playlist.Media(p, playlist.AudioName)
	if n := strings.Count(a, "#EXTINF"); n != 1 {
		t.Errorf("audio lists %d segments beside one of video, want 1 (rule 2):\n%s", n, a)
	}
}

func TestMasterWaitsForEverything(t *testing.T) {
	t.Parallel()
	p := presentation()
	p.Parts = nil
	if p.Ready() {
		t.Error("ready without audio (rule 1)")
	}
	p = presentation()
	p.Chunks[0] = nil
	if p.Ready() {
		t.Error("ready without the first chunk (rule 1)")
	}
	p = presentation()
	p.Plan.HasAudio, p.Parts = false, nil
	if !p.Ready() {
		t.Error("a silent video is ready with its first chunk")
	}
	if master := playlist.Master(p); strings.Contains(master, "AUDIO") || strings.Contains(master, "mp4a") {
		t.Errorf("the master of a silent video names audio:\n%s", master)
	}
}

// TestPlaylistFromAChunk: a player that does not wait for chunk 1 begins with chunk 2.
// What it leaves out is listed as gaps, so that times are those of the video.
func TestPlaylistFromAChunk(t *testing.T) {
	t.Parallel()
	p := presentation()
	p.Plan.Sound = []video.SoundPortion{{First: 0, End: 2}, {First: 2, End: 4}}
	p.Chunks[1] = nil
	p.From = 2
	p.Parts = []video.AudioPart{{
		First: 2, Codecs: "mp4a.40.2", Channels: 2,
		Segments: []video.AudioSegment{{Samples: 192512}, {Samples: 192512}},
	}}
	p.AudioDone = false
	if !p.Ready() || p.Complete() {
		t.Fatalf("ready %v, complete %v; chunk 2 and its sound are there, other sound is not", p.Ready(), p.Complete())
	}
	got, _ := playlist.Media(p, "720p")
	want := `#EXTM3U
#EXT-X-VERSION:7
#EXT-X-TARGETDURATION:4
#EXT-X-MEDIA-SEQUENCE:0
#EXT-X-PLAYLIST-TYPE:EVENT
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-START:TIME-OFFSET=0,PRECISE=YES
#EXT-X-MAP:URI="720p/init.mp4?g=1"
#EXT-X-GAP
#EXTINF:4.000000,
720p/0.m4s?g=1
#EXT-X-GAP
#EXTINF:4.000000,
720p/1.m4s?g=1
#EXT-X-GAP
#EXTINF:4.000000,
720p/2.m4s?g=1
#EXTINF:3.000000,
720p/3.m4s?g=1
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Video mismatch (-want +got):\n%s", diff)
	}
	sound, _ := playlist.Media(p, playlist.AudioName)
	if strings.Count(sound, "#EXT-X-GAP\n") != 2 || !strings.Contains(sound, "audio/2.m4s") || !strings.Contains(sound, "#EXT-X-GAP\n#EXTINF:1.984000,\naudio/0.m4s") {
		t.Errorf("audio begins with the portion that sounds at 12 s:\n%s", sound)
	}
	if master := playlist.Master(p); !strings.Contains(master, "\n720p.m3u8?from=2\n") || !strings.Contains(master, `URI="audio.m3u8?from=2"`) {
		t.Errorf("the master names other playlists:\n%s", master)
	}
	p.Chunks[2] = nil
	if p.Ready() {
		t.Error("ready without the chunk that it begins with")
	}
}

// TestPreview: a viewer went to chunk 1, of which there is a preview, and nothing else but
// the beginning. The preview runs on into chunk 2, until that is there itself.
func TestPreview(t *testing.T) {
	t.Parallel()
	p := presentation()
	small := func(frames ...int64) video.ChunkOutput {
		out := video.ChunkOutput{Renditions: []video.RenditionOutput{{Name: "240p", Codecs: "avc1.640015", Blob: "preview"}}}
		for _, f := range frames {
			out.Frames += f
			out.Renditions[0].Segments = append(out.Renditions[0].Segments, video.Segment{Frames: f})
		}
		return out
	}
	p.Plan.Renditions = append(p.Plan.Renditions, video.Rendition{Name: "240p", Width: 426, Height: 240, MaxRate: 400_000})
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
	whole := func(c *video.ChunkOutput, name string) *video.ChunkOutput {
		r := c.Renditions[0]
		r.Name = name
		c.Renditions = append(c.Renditions, r)
		return c
	}
	p.Chunks = []*video.ChunkOutput{whole(p.Chunks[0], "240p"), nil, nil, nil}
	p.Parts, p.AudioDone, p.From = p.Parts[:1], false, 1
	sound := video.AudioPart{First: 1, Codecs: "mp4a.40.2", Channels: 2, Blob: "preview"}
	for range 4 {
		sound.Segments = append(sound.Segments, video.AudioSegment{Samples: 192512})
	}
	p.Previews = map[int]video.Preview{1: {Chunk: 1, Pictures: small(120, 120, 120), Sound: &sound}}
	if p.Ready() || !p.Preview().Ready() {
		t.Fatalf("ready %v, and the preview %v; want only the preview", p.Ready(), p.Preview().Ready())
	}

	shown := p.Preview()
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
	want := []string{"gap 240p/0" + version, "240p/1" + version, "240p/2" + version, "240p/3" + version}
	if diff := cmp.Diff(want, entries(shown)); diff != "" {
		t.Errorf("chunk 1 and the beginning of chunk 2 (-want +got):\n%s", diff)
	}
	audio, _ := playlist.Media(shown, playlist.AudioName)
	if strings.Count(audio, "#EXT-X-GAP") != 1 || strings.Count(audio, "#EXTINF") != 4 {
		t.Errorf("sound from segment 1 on, no longer than the pictures:\n%s", audio)
	}

	p.Chunks[3] = whole(&video.ChunkOutput{Frames: 210, Renditions: small(120, 90).Renditions}, "240p") // no player gets there yet
	if diff := cmp.Diff(want, entries(p.Preview())); diff != "" {
		t.Errorf("what follows a chunk that is not all there is listed (-want +got):\n%s", diff)
	}
	p.Previews[2] = video.Preview{Chunk: 2, Pictures: small(120, 120, 120)}
	want = append(want, "240p/4"+version, "240p/5"+version, "240p/6"+version, "240p/7"+version)
	if diff := cmp.Diff(want, entries(p.Preview())); diff != "" {
		t.Errorf("a preview of chunk 2 (-want +got):\n%s", diff)
	}
}
