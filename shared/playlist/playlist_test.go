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
