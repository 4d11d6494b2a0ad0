// Package playlist turns committed step rows into HLS playlists, which grow while chunks
// are committed. The functions are pure.
//
// Three rules come from the browser, each of which stops playback when broken:
//
//   - the master appears only when audio and every rendition have a segment:
//     a playlist without segments becomes a fatal error in hls.js;
//   - a growing audio playlist never lists more than the video: a player that
//     runs on over audio alone jumps back to the start;
//   - a last audio segment under 0.1 s is never listed: it leaves a gap that
//     keeps the video from ending. The audio step drops it.
//
// Next: webrole/internal/playback, which serves these.
package playlist

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/cutroom/cutroom/shared/video"
)

// ContentType of a playlist (RFC 8216, section 4).
const ContentType = "application/vnd.apple.mpegurl"

// AudioName is the name that audio has where renditions have theirs.
const AudioName = "audio"

// audioBandwidth is bits per second of the audio group: 128 kbit/s of AAC and its container.
const audioBandwidth = 140_000

// Presentation is everything a playlist shows of one generation.
type Presentation struct {
	Plan      video.Plan
	Chunks    []*video.ChunkOutput // by chunk index; nil where nothing is committed yet
	Parts     []video.AudioPart    // committed audio, in order; with gaps while it is made
	AudioDone bool                 // the audio track is complete, or there is none
	// From is the chunk where a player begins that does not wait for those before
	// it. They are listed as gaps (EXT-X-GAP), so the times are those of the video.
	From int
	// Preview says that it has what is not committed yet. Its playlists and segments have
	// addresses of their own, because the sound is cut in another way than the committed one.
	Preview bool
}

// Leading returns the committed chunks from the first that is shown up to one that is
// missing: what a player can reach without a gap.
func (p Presentation) Leading() []*video.ChunkOutput {
	shown := p.Chunks[min(p.From, len(p.Chunks)):]
	for i, c := range shown {
		if c == nil {
			return shown[:i]
		}
	}
	return shown
}

// Complete reports whether nothing more will be added.
func (p Presentation) Complete() bool {
	return len(p.Plan.Chunks) > 0 && p.From+len(p.Leading()) == len(p.Plan.Chunks) && p.AudioDone
}

// Ready reports whether the master may be shown: the video has a chunk and the
// audio, if there is any, has a segment that may be listed beside it.
func (p Presentation) Ready() bool {
	if len(p.Leading()) == 0 {
		return false
	}
	_, sound := p.audioSegments()
	return !p.Plan.HasAudio || len(sound) > 0
}

// Master returns the multivariant playlist. URIs are relative to it.
func Master(p Presentation) string {
	var b strings.Builder
	b.WriteString("#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n")
	audio := ""
	if p.Plan.HasAudio {
		fmt.Fprintf(&b, "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"aud\",NAME=\"Main\",DEFAULT=YES,AUTOSELECT=YES,CHANNELS=\"2\",URI=\"%s\"\n", Address(AudioName, p.From, p.Preview))
		audio = ",AUDIO=\"aud\""
	}
	for i, r := range p.Plan.Renditions {
		peak, average := bandwidth(p, i)
		fmt.Fprintf(&b, "#EXT-X-STREAM-INF:BANDWIDTH=%d,AVERAGE-BANDWIDTH=%d,RESOLUTION=%dx%d,FRAME-RATE=%.3f,CODECS=\"%s\"%s%s\n%s\n",
			peak, average, r.Width, r.Height, p.Plan.FPS.Float(), codecs(p, i), videoRange(p.Plan), audio, Address(r.Name, p.From, p.Preview))
	}
	return b.String()
}

// Query parameters of a playlist's address: [Presentation.From], and [Presentation.Preview].
const (
	FromParameter    = "from"
	PreviewParameter = "preview"
)

// Address is a playlist's, relative to the others of its video.
func Address(name string, from int, preview bool) string {
	address := name + ".m3u8"
	if from > 0 || preview {
		address += fmt.Sprintf("?%s=%d", FromParameter, from)
	}
	if preview {
		address += "&" + PreviewParameter + "=1"
	}
	return address
}

// Media returns the media playlist of the named rendition or, by [AudioName], of the sound;
// false when the video has no such.
func Media(p Presentation, name string) (string, bool) {
	var gaps, shown []float64 // lengths in seconds
	index := slices.IndexFunc(p.Plan.Renditions, func(r video.Rendition) bool { return r.Name == name })
	switch {
	case index >= 0:
		gaps, shown = p.pictures(index)
	case name == AudioName && p.Plan.HasAudio:
		gaps, shown = p.sound()
	default:
		return "", false
	}
	kind, end := "EVENT", ""
	if p.Complete() {
		kind, end = "VOD", "#EXT-X-ENDLIST\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:%d\n#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:%s\n", targetDuration(p.Plan), kind)
	// Without START a player joins a growing playlist near its live edge.
	b.WriteString("#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-START:TIME-OFFSET=0,PRECISE=YES\n")
	fmt.Fprintf(&b, "#EXT-X-MAP:URI=\"%s/init.mp4?%s\"\n", name, p.version())
	for n, seconds := range slices.Concat(gaps, shown) {
		if n < len(gaps) { // players leave it out: RFC 8216bis, section 4.4.4.7
			b.WriteString("#EXT-X-GAP\n")
		}
		fmt.Fprintf(&b, "#EXTINF:%.6f,\n%s/%d.m4s?%s\n", seconds, name, n, p.version())
	}
	return b.String() + end, true
}

func (p Presentation) pictures(rendition int) (gaps, shown []float64) {
	for _, frames := range p.Plan.SegmentsBefore(p.From) {
		gaps = append(gaps, p.Plan.FPS.Seconds(frames))
	}
	for _, chunk := range p.Leading() {
		for _, s := range segments(chunk, rendition) {
			shown = append(shown, p.Plan.FPS.Seconds(s.Frames))
		}
	}
	return gaps, shown
}

func (p Presentation) sound() (gaps, shown []float64) {
	first, listed := p.audioSegments()
	for n := range first {
		gaps = append(gaps, video.SoundStart(n+1)-video.SoundStart(n))
	}
	for _, s := range listed {
		shown = append(shown, s.Seconds())
	}
	return gaps, shown
}

// segments returns a chunk's segments of one rendition. One without frames has none.
func segments(c *video.ChunkOutput, rendition int) []video.Segment {
	if rendition >= len(c.Renditions) {
		return nil
	}
	return c.Renditions[rendition].Segments
}

// version is the query of a segment's address. Of a generation, a segment may be cached for
// ever, and a reprocessed video is never mixed up.
func (p Presentation) version() string {
	if p.Preview {
		return fmt.Sprintf("g=%d&%s=1", p.Plan.Generation, PreviewParameter)
	}
	return fmt.Sprintf("g=%d", p.Plan.Generation)
}

// targetDuration must never change while a playlist grows, so it comes from the
// plan alone: no EXTINF, rounded, may exceed it (RFC 8216, section 4.3.3.1).
func targetDuration(plan video.Plan) int {
	return max(1, int(math.Round(plan.FPS.Seconds(plan.SegmentFrames))))
}

// audioSegments returns the segments that may be listed now, and the number of the
// first: from the portion on that sounds when the first chunk begins (in a preview from the
// segment on), up to one that is missing, and unless the presentation is complete only those
// that end before the video does.
func (p Presentation) audioSegments() (first int, listed []video.AudioSegment) {
	var limit float64 = math.Inf(1)
	begin := p.Plan.Start(p.From)
	if !p.Complete() {
		limit = begin + audioSlack
		for _, c := range p.Leading() {
			limit += p.Plan.FPS.Seconds(c.Frames)
		}
	}
	first = p.Plan.SoundFrom(begin)
	if p.Preview {
		first = video.SoundAt(begin)
	}
	made := map[int]video.AudioSegment{} // by number
	for _, part := range slices.Backward(p.Parts) {
		for i, s := range part.Segments {
			made[part.First+i] = s
		}
	}
	end := video.SoundStart(first)
	for s, found := made[first]; found; s, found = made[first+len(listed)] {
		if end += s.Seconds(); end > limit {
			break
		}
		listed = append(listed, s)
	}
	return first, listed
}

// audioSlack lets the first audio segment stand beside the first video segment,
// whose frames do not divide its seconds: it may end a little sooner.
const audioSlack = 2.0 * video.AACPacket / video.SampleRate

// bandwidth returns the peak and the average of a variant in bits per second.
// While the presentation grows the peak is the encoder's ceiling, so that it
// never has to be raised; afterwards it is measured.
func bandwidth(p Presentation, rendition int) (peak, average int) {
	r := p.Plan.Renditions[rendition]
	ceiling := float64(r.MaxRate) * 1.1
	var bits, seconds, highest float64
	for _, c := range p.Leading() {
		for _, s := range segments(c, rendition) {
			d := p.Plan.FPS.Seconds(s.Frames)
			bits += float64(s.Length) * 8
			seconds += d
			highest = max(highest, float64(s.Length)*8/d)
		}
	}
	if seconds == 0 {
		bits, seconds, highest = ceiling, 1, ceiling
	}
	if !p.Complete() {
		highest = max(highest, ceiling)
	}
	extra := 0
	if p.Plan.HasAudio {
		extra = audioBandwidth
	}
	return int(math.Ceil(highest)) + extra, int(math.Ceil(bits/seconds)) + extra
}

func codecs(p Presentation, rendition int) string {
	var names []string
	if lead := p.Leading(); len(lead) > 0 && rendition < len(lead[0].Renditions) {
		names = append(names, lead[0].Renditions[rendition].Codecs)
	}
	if p.Plan.HasAudio && len(p.Parts) > 0 {
		names = append(names, p.Parts[0].Codecs)
	}
	return strings.Join(names, ",")
}

// videoRange tags HDR that could not be mapped to SDR.
func videoRange(plan video.Plan) string {
	if plan.ToneMap {
		return ""
	}
	return map[string]string{"smpte2084": ",VIDEO-RANGE=PQ", "arib-std-b67": ",VIDEO-RANGE=HLG"}[plan.HDR]
}

// CaptionTime is a time of WebVTT, to the millisecond.
func CaptionTime(d time.Duration) string {
	ms := d.Round(time.Millisecond).Milliseconds()
	return fmt.Sprintf("%02d:%02d:%02d.%03d", ms/3_600_000, ms/60_000%60, ms/1000%60, ms%1000)
}

// Quoted writes a quoted string, which has no escapes (RFC 8216, section 4.2).
func Quoted(text string) string {
	return `"` + strings.Map(func(r rune) rune {
		if r == '"' || unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "")) + `"`
}
