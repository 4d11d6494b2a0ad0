// Package playlist turns committed step rows into HLS playlists. The functions are
// pure. So the web role can draw a playlist that grows while chunks are committed,
// and the finish step can write the final one, with the same code.
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
// Next: webrole/internal/playback, which serves these. The finish step of
// workerrole/internal/step stores them.
package playlist

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/cutroom/cutroom/shared/video"
)

// ContentType of a playlist (RFC 8216, section 4).
const ContentType = "application/vnd.apple.mpegurl"

// AudioName is the name that audio has where renditions have theirs.
const AudioName = "audio"

// audioBandwidth is what the audio group adds to a variant, in bits per second:
// 128 kbit/s of AAC and its container.
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
	// Previews are what can be watched of chunks that are not committed yet, by chunk:
	// see [Presentation.Preview].
	Previews map[int]video.Preview

	preview bool // what Preview returned
}

// Preview returns what a viewer can watch who went to chunk From before it was committed:
// the smallest rendition alone, of chunks that are committed or have a preview. Its
// playlists and segments have addresses of their own, because the sound is cut in another
// way than the committed one.
func (p Presentation) Preview() Presentation {
	last := len(p.Plan.Renditions) - 1
	if last < 0 {
		return p
	}
	shown := p
	shown.preview = true
	shown.Plan.Renditions = p.Plan.Renditions[last:]
	shown.Chunks = make([]*video.ChunkOutput, len(p.Chunks))
	sound := map[int]video.AudioPart{} // each segment as a part of its own, by number
	for i, c := range p.Chunks {
		made, found := p.Previews[i]
		switch {
		case c != nil:
			low := *c
			low.Renditions = c.Renditions[min(last, len(c.Renditions)):]
			shown.Chunks[i] = &low
		case found:
			shown.Chunks[i] = slicePreview(made.Pictures, 0, p.Plan.SegmentsOf(i))
		case i > 0: // the one before may run on
			shown.Chunks[i] = slicePreview(p.Previews[i-1].Pictures, p.Plan.SegmentsOf(i-1), math.MaxInt)
		}
		if found && made.Sound != nil {
			addSegments(sound, *made.Sound)
		}
	}
	for _, part := range p.Parts { // the committed sound goes before
		addSegments(sound, part)
	}
	shown.Parts, shown.Plan.Sound = nil, nil
	for _, n := range slices.Sorted(maps.Keys(sound)) {
		shown.Parts = append(shown.Parts, sound[n])
		shown.Plan.Sound = append(shown.Plan.Sound, video.SoundPortion{First: n, End: n + 1})
	}
	return shown
}

// slicePreview returns some segments of a preview as a chunk, nil when there are none.
func slicePreview(preview video.ChunkOutput, from, to int) *video.ChunkOutput {
	if len(preview.Renditions) == 0 || from >= len(preview.Renditions[0].Segments) {
		return nil
	}
	r := preview.Renditions[0]
	r.Segments = r.Segments[from:min(to, len(r.Segments))]
	c := video.ChunkOutput{Renditions: []video.RenditionOutput{r}}
	for _, s := range r.Segments {
		c.Frames += s.Frames
	}
	return &c
}

// addSegments puts each segment of a part under its number in the whole track, as a part of
// its own.
func addSegments(sound map[int]video.AudioPart, part video.AudioPart) {
	for i := range part.Segments {
		one := part
		one.First, one.Segments = part.First+i, part.Segments[i:i+1]
		sound[one.First] = one
	}
}

// Leading returns the committed chunks from the first that is shown up to one that is
// missing: what a player can reach without a gap.
func (p Presentation) Leading() []*video.ChunkOutput {
	shown := p.Chunks[min(p.From, len(p.Chunks)):]
	for i, c := range shown {
		if c == nil {
			return shown[:i]
		}
		if p.preview && p.short(p.From+i) {
			return shown[:i+1]
		}
	}
	return shown
}

// short reports whether a chunk, not the last, lacks segments: the preview before it runs
// on into it.
func (p Presentation) short(i int) bool {
	return !p.Plan.Last(i) && len(segments(p.Chunks[i], 0)) < p.Plan.SegmentsOf(i)
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
		channels := 2
		if len(p.Parts) > 0 && p.Parts[0].Channels > 0 {
			channels = p.Parts[0].Channels
		}
		fmt.Fprintf(&b, "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"aud\",NAME=\"Main\",DEFAULT=YES,AUTOSELECT=YES,CHANNELS=\"%d\",URI=\"%s\"\n", channels, p.address(AudioName))
		audio = ",AUDIO=\"aud\""
	}
	for i, r := range p.Plan.Renditions {
		peak, average := bandwidth(p, i)
		fmt.Fprintf(&b, "#EXT-X-STREAM-INF:BANDWIDTH=%d,AVERAGE-BANDWIDTH=%d,RESOLUTION=%dx%d,FRAME-RATE=%.3f,CODECS=\"%s\"%s%s\n%s\n",
			peak, average, r.Width, r.Height, p.Plan.FPS.Float(), codecs(p, i), videoRange(p.Plan), audio, p.address(r.Name))
	}
	return b.String()
}

// FromParameter is the query parameter of a playlist's address that names
// [Presentation.From].
const FromParameter = "from"

// PreviewParameter is the query parameter in the addresses of a [Presentation.Preview].
const PreviewParameter = "preview"

// address is that of a playlist of the presentation.
func (p Presentation) address(name string) string {
	if p.preview {
		return PreviewAddress(name, p.From)
	}
	return Address(name, p.From)
}

// PreviewAddress is that of a playlist of a [Presentation.Preview], relative to the
// others of its video.
func PreviewAddress(name string, from int) string {
	return fmt.Sprintf("%s.m3u8?%s=%d&%s=1", name, FromParameter, from, PreviewParameter)
}

// Address is a playlist's, relative to the others of its video.
func Address(name string, from int) string {
	if from == 0 {
		return name + ".m3u8"
	}
	return fmt.Sprintf("%s.m3u8?%s=%d", name, FromParameter, from)
}

// Video returns the media playlist of the named rendition, or false when the
// plan has no such rendition.
func Video(p Presentation, rendition string) (string, bool) {
	index := -1
	for i, r := range p.Plan.Renditions {
		if r.Name == rendition {
			index = i
		}
	}
	if index < 0 {
		return "", false
	}
	var b strings.Builder
	header(&b, p, rendition)
	number := 0
	for _, frames := range p.Plan.SegmentsBefore(p.From) {
		gap(&b, p, rendition, number, p.Plan.FPS.Seconds(frames))
		number++
	}
	for _, chunk := range p.Leading() {
		for _, s := range segments(chunk, index) {
			segment(&b, p, rendition, number, p.Plan.FPS.Seconds(s.Frames))
			number++
		}
	}
	footer(&b, p)
	return b.String(), true
}

// Audio returns the media playlist of the audio group, or false for a silent video.
func Audio(p Presentation) (string, bool) {
	if !p.Plan.HasAudio {
		return "", false
	}
	var b strings.Builder
	header(&b, p, AudioName)
	first, sound := p.audioSegments()
	for n := range first {
		gap(&b, p, AudioName, n, video.SoundSeconds(n))
	}
	for i, s := range sound {
		segment(&b, p, AudioName, first+i, s.Seconds())
	}
	footer(&b, p)
	return b.String(), true
}

// segments returns a chunk's segments of one rendition. A last chunk that turned
// out to hold no frames has none, nor renditions.
func segments(c *video.ChunkOutput, rendition int) []video.Segment {
	if rendition >= len(c.Renditions) {
		return nil
	}
	return c.Renditions[rendition].Segments
}

func header(b *strings.Builder, p Presentation, name string) {
	kind := "EVENT"
	if p.Complete() {
		kind = "VOD"
	}
	fmt.Fprintf(b, "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:%d\n#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:%s\n", targetDuration(p.Plan), kind)
	// Without START a player joins a growing playlist near its live edge.
	b.WriteString("#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-START:TIME-OFFSET=0,PRECISE=YES\n")
	fmt.Fprintf(b, "#EXT-X-MAP:URI=\"%s/init.mp4?%s\"\n", name, p.version())
}

// segment writes one entry. The generation is part of the address, so that a
// segment may be cached for ever and a reprocessed video is never mixed up.
func segment(b *strings.Builder, p Presentation, name string, number int, seconds float64) {
	fmt.Fprintf(b, "#EXTINF:%.6f,\n%s/%d.m4s?%s\n", seconds, name, number, p.version())
}

// version is the query of a segment's address: bytes never change under one address that
// may be kept.
func (p Presentation) version() string {
	if p.preview {
		return fmt.Sprintf("g=%d&%s=1", p.Plan.Generation, PreviewParameter)
	}
	return fmt.Sprintf("g=%d", p.Plan.Generation)
}

// gap writes an entry that players leave out: RFC 8216bis, section 4.4.4.7.
func gap(b *strings.Builder, p Presentation, name string, number int, seconds float64) {
	b.WriteString("#EXT-X-GAP\n")
	segment(b, p, name, number, seconds)
}

func footer(b *strings.Builder, p Presentation) {
	if p.Complete() {
		b.WriteString("#EXT-X-ENDLIST\n")
	}
}

// targetDuration must never change while a playlist grows, so it comes from the
// plan alone: no EXTINF, rounded, may exceed it (RFC 8216, section 4.3.3.1).
func targetDuration(plan video.Plan) int {
	return max(1, int(math.Round(plan.FPS.Seconds(plan.SegmentFrames))))
}

// audioSegments returns the segments that may be listed now, and the number of the
// first: from the portion on that sounds when the first chunk begins, up to one that is
// missing, and unless the presentation is complete only those that end before the video
// does.
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
	end := video.SoundStart(first)
	for _, part := range p.Parts {
		if part.First < first {
			continue
		}
		if part.First != first+len(listed) {
			return first, listed
		}
		for _, s := range part.Segments {
			end += s.Seconds()
			if end > limit {
				return first, listed
			}
			listed = append(listed, s)
		}
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
	var bits, seconds, measured float64
	for _, c := range p.Leading() {
		for _, s := range segments(c, rendition) {
			d := p.Plan.FPS.Seconds(s.Frames)
			if d <= 0 {
				continue
			}
			bits += float64(s.Length) * 8
			seconds += d
			measured = max(measured, float64(s.Length)*8/d)
		}
	}
	extra := 0
	if p.Plan.HasAudio {
		extra = audioBandwidth
	}
	ceiling := float64(p.Plan.Renditions[rendition].MaxRate) * 1.1
	if seconds == 0 {
		return int(ceiling) + extra, int(ceiling) + extra
	}
	if !p.Complete() {
		measured = max(measured, ceiling)
	}
	return int(math.Ceil(measured)) + extra, int(math.Ceil(bits/seconds)) + extra
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
	switch plan.HDR {
	case "smpte2084":
		return ",VIDEO-RANGE=PQ"
	case "arib-std-b67":
		return ",VIDEO-RANGE=HLG"
	}
	return ""
}

// CaptionsHeader begins every segment of captions. The map says that its times are
// those of the video, whose timestamps begin at 0 (RFC 8216, section 3.5). Alone it
// is a segment without cues.
const CaptionsHeader = "WEBVTT\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:0\n"

// CaptionsTrack is captions that a player may offer.
type CaptionsTrack struct {
	Language string // BCP 47
	Name     string // of the language in itself
}

// WithCaptions adds captions to a multivariant playlist. They come and go after
// the video is made, so they are not in the stored one.
func WithCaptions(master string, tracks []CaptionsTrack) string {
	if len(tracks) == 0 {
		return master
	}
	var media strings.Builder
	for _, t := range tracks {
		fmt.Fprintf(&media, "#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"subs\",NAME=%s,LANGUAGE=%s,DEFAULT=NO,AUTOSELECT=YES,URI=\"captions/%s.m3u8\"\n", quoted(t.Name), quoted(t.Language), t.Language)
	}
	var b strings.Builder
	for line := range strings.Lines(master) {
		if strings.HasPrefix(line, "#EXT-X-STREAM-INF:") {
			b.WriteString(media.String())
			media.Reset()
			line = strings.TrimSuffix(line, "\n") + ",SUBTITLES=\"subs\"\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// quoted writes a quoted string. It has no escapes, so what it cannot have is left out
// (RFC 8216, section 4.2).
func quoted(text string) string {
	return `"` + strings.Map(func(r rune) rune {
		if r == '"' || unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "")) + `"`
}

// Captions draws the media playlist of a language for a video of a length. Pieces that
// no file has, of less than a second, count as a second: the list has an end.
func Captions(language string, segmentSeconds int, seconds float64) string {
	segmentSeconds = max(1, segmentSeconds)
	var b strings.Builder
	fmt.Fprintf(&b, "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:%d\n#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:VOD\n", segmentSeconds)
	for n := 0; seconds >= 1e-6; n++ { // less is nothing as it is written
		fmt.Fprintf(&b, "#EXTINF:%.6f,\n%s/%d.vtt\n", min(seconds, float64(segmentSeconds)), language, n)
		seconds -= float64(segmentSeconds)
	}
	b.WriteString("#EXT-X-ENDLIST\n")
	return b.String()
}
