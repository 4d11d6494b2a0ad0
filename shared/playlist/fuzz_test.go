package playlist_test

import (
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
)

// FuzzGrowing commits the chunks and the portions of sound of a plan in any order. A
// playlist that players read while it grows only ever gets longer at its end: what it
// listed stays, wherever it begins.
func FuzzGrowing(f *testing.F) {
	f.Add([]byte{1, 2, 4, 3}, []byte{0, 128, 1, 129, 2, 130, 3}, uint8(0))
	f.Add([]byte{1, 1, 1}, []byte{2, 128, 1, 129}, uint8(2))
	f.Add([]byte{9, 0}, []byte{129, 128, 1, 0}, uint8(1))
	f.Fuzz(func(t *testing.T, sizes, order []byte, from uint8) {
		if len(sizes) == 0 || len(sizes) > 30 {
			return
		}
		plan := video.Plan{
			Generation: 1, FPS: video.Rational{Num: 30, Den: 1}, SegmentFrames: 120, HasAudio: true,
			Renditions: []video.Rendition{{Name: "720p", Width: 1280, Height: 720}},
		}
		var whole []*video.ChunkOutput
		for _, size := range sizes {
			c := &video.ChunkOutput{Frames: 120 * int64(size%9+1), Renditions: []video.RenditionOutput{{Name: "720p"}}}
			for range size%9 + 1 {
				c.Renditions[0].Segments = append(c.Renditions[0].Segments, video.Segment{Frames: 120})
			}
			plan.Chunks = append(plan.Chunks, video.Chunk{From: plan.Frames, To: plan.Frames + c.Frames})
			plan.Frames += c.Frames
			whole = append(whole, c)
		}
		p := playlist.Presentation{Plan: plan, Chunks: make([]*video.ChunkOutput, len(whole)), From: int(from) % len(whole)}
		sound := map[int]bool{}
		var shown, heard string
		for _, next := range order {
			if next < 128 {
				p.Chunks[int(next)%len(whole)] = whole[int(next)%len(whole)]
			} else {
				sound[int(next-128)%len(whole)] = true
				p.Parts = nil
				for n := range whole { // portions of one segment, in order
					if sound[n] {
						p.Parts = append(p.Parts, video.AudioPart{First: n, Segments: []video.AudioSegment{{Samples: 192512}}})
					}
				}
			}
			shown = longer(t, shown, entries(playlist.Video(p, "720p")))
			heard = longer(t, heard, entries(playlist.Audio(p)))
		}
	})
}

// entries is a playlist without its head, whose type changes once, and its last line.
func entries(text string, _ bool) string {
	_, list, _ := strings.Cut(text, "#EXT-X-MAP")
	return strings.TrimSuffix(list, "#EXT-X-ENDLIST\n")
}

func longer(t *testing.T, before, after string) string {
	t.Helper()
	if !strings.HasPrefix(after, before) {
		t.Errorf("it listed\n%s\nand now\n%s", before, after)
	}
	return after
}
