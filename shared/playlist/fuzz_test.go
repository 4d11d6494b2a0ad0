package playlist_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/cutroom/cutroom/shared/engine"
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
			Plan: engine.Plan{Generation: 1}, FPS: video.Rational{Num: 30, Den: 1}, SegmentFrames: 120,
			HasAudio: true, Renditions: []video.Rendition{{Name: "720p", Width: 1280, Height: 720}},
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
			shown = longer(t, shown, entries(playlist.Media(p, "720p")))
			heard = longer(t, heard, entries(playlist.Media(p, playlist.AudioName)))
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

// FuzzMaster draws the multivariant playlist of a video and reads it as a player does (RFC 8216,
// sections 4.1 and 4.2): a line is a tag with attributes or one address.
func FuzzMaster(f *testing.F) {
	f.Add(int64(30000), int64(1001), uint8(0x13), 2)
	f.Add(int64(1), int64(1), uint8(0xff), 0)
	f.Add(int64(240), int64(1), uint8(0x11), -1)
	f.Fuzz(func(t *testing.T, num, den int64, shape uint8, channels int) {
		if num < 1 || den < 1 || num > 1e6 || den > 1e6 {
			return // no probe says so
		}
		p := drawn(num, den, shape, channels)
		master := playlist.Master(p)
		if len(addresses(t, master)) != len(p.Plan.Renditions) || strings.Contains(master, "SUBTITLES") {
			t.Errorf("%d renditions are listed as\n%s", len(p.Plan.Renditions), master)
		}
	})
}

// drawn is a video of which one chunk is made.
func drawn(num, den int64, shape uint8, channels int) playlist.Presentation {
	plan := video.Plan{
		Plan: engine.Plan{Generation: 1}, FPS: video.Rational{Num: num, Den: den}, SegmentFrames: 120,
		HasAudio: shape&0x10 != 0,
	}
	chunk := &video.ChunkOutput{Frames: 120}
	for n := range int(shape % 7) {
		plan.Renditions = append(plan.Renditions, video.Rendition{Name: fmt.Sprintf("%dp", 100*n), Width: 160 * (n + 1), Height: 90 * (n + 1)})
		chunk.Renditions = append(chunk.Renditions, video.RenditionOutput{Codecs: "avc1.64001f", Segments: []video.Segment{{
			Frames: 120, Range: video.Range{Length: int64(shape) * 1000},
		}}})
	}
	plan.Chunks = []video.Chunk{{To: 120}}
	p := playlist.Presentation{Plan: plan, Chunks: []*video.ChunkOutput{chunk}, AudioDone: shape&0x20 != 0, Parts: []video.AudioPart{{
		Channels: channels, Codecs: "mp4a.40.2",
	}}}
	if shape&0x40 != 0 {
		p.Preview, p.From = true, 1
	}
	return p
}

var (
	// attributes is a tag with a list of them.
	attributes = regexp.MustCompile(`^#EXT-X-[A-Z-]+:[A-Z0-9-]+=("[^"]*"|[^",\s]+)(,[A-Z0-9-]+=("[^"]*"|[^",\s]+))*$`)
	attribute  = regexp.MustCompile(`([A-Z0-9-]+)=("[^"]*"|[^",\s]+)`)
	// plainTag has one value or none.
	plainTag = regexp.MustCompile(`^#(EXTM3U|EXTINF:[0-9.]+,|EXT-X-[A-Z-]+(:[A-Z0-9]+)?)$`)
	// address is relative, and of this video.
	address = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9/-]*\.(m3u8|vtt)(\?[a-z0-9=&]+)?$`)
)

// addresses reads a playlist and returns its addresses, those of media groups left out.
func addresses(t *testing.T, text string) (found []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		elsewhere := slices.ContainsFunc(attribute.FindAllStringSubmatch(line, -1), func(a []string) bool {
			return a[1] == "URI" && !address.MatchString(strings.Trim(a[2], `"`))
		})
		switch {
		case strings.ContainsFunc(line, unicode.IsControl) || !utf8.ValidString(line):
			t.Errorf("line %q", line)
		case address.MatchString(line):
			found = append(found, line)
		case !attributes.MatchString(line) && !plainTag.MatchString(line) || elsewhere:
			t.Errorf("line %q in\n%.2000s", line, text)
		}
	}
	return found
}
