package video

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/engine"
)

// Plan says how one generation of a video is cut and encoded. The probe step writes it once,
// and nothing changes it, so any worker can do any chunk (paper row Q16c). Everything is
// counted in frames of one constant-rate grid: seconds do not add up across chunks.
type Plan struct {
	engine.Plan

	Copy    *engine.Blob `json:"copy,omitempty"` // the remuxed copy that is read in place of the upload; nil: the upload is
	Demuxer string       `json:"demuxer"`        // ffmpeg's name for the container, pinned when the source is opened

	FPS           Rational `json:"fps"`           // the grid
	Frames        int64    `json:"frames"`        // what the container promises; the last chunk tells the truth
	SegmentFrames int64    `json:"segmentFrames"` // frames in an HLS segment: about 4 s
	Chunks        []Chunk  `json:"chunks"`

	Renditions []Rendition `json:"renditions"` // tallest first, never empty
	HasAudio   bool        `json:"hasAudio"`
	Heard      Heard       `json:"heard"`
	// Sound is how the audio track is cut into portions; empty without audio.
	Sound []SoundPortion `json:"sound,omitempty"`
	// SoundSeconds is where the source's sound ends; 0 when that is not known.
	SoundSeconds float64 `json:"soundSeconds,omitempty"`

	DurationSeconds float64 `json:"durationSeconds"`
	Width           int     `json:"width"`             // displayed pixels of the source
	Height          int     `json:"height"`            // displayed pixels of the source
	Rotated         bool    `json:"rotated,omitempty"` // the source says that its pictures must be turned

	// Pictures is how many frames the source's pictures last when its sound goes on after
	// them; 0 otherwise. The last picture stays.
	Pictures   int64 `json:"pictures,omitempty"`
	Interlaced bool  `json:"interlaced,omitempty"` // each picture of the source is two, a field apart

	ToneMap   bool   `json:"toneMap"`             // HDR or wide colours, and this ffmpeg can map them to BT.709
	HDR       string `json:"hdr,omitempty"`       // transfer of the source when it is HDR: "smpte2084", "arib-std-b67"
	FullRange bool   `json:"fullRange,omitempty"` // black is 0 and not 16
	// Primaries are those of a source that says how its numbers become colours. Then the
	// renditions say it, too, with the matrix of BT.709; else players guess of both alike.
	Primaries string `json:"primaries,omitempty"`

	TileEvery   int64 `json:"tileEvery"`   // frames between storyboard tiles; at most 100 tiles in all
	TileWidth   int   `json:"tileWidth"`   // pixels
	TileHeight  int   `json:"tileHeight"`  // pixels
	PosterFrame int64 `json:"posterFrame"` // the frame that becomes the poster
}

// Heard says what of the sound of a source is heard.
type Heard struct {
	Track    int  `json:"track,omitempty"`    // which audio stream, counted from 0
	Discrete bool `json:"discrete,omitempty"` // its channels have no names: the first two are heard
	Pair     bool `json:"pair,omitempty"`     // it and the next are the left and the right channel
}

// SoundPortion is the half-open range [First, End) of audio segments that one item of the step
// audio makes. The last one runs to the end of the track whatever End says.
type SoundPortion struct {
	First int `json:"first"`
	End   int `json:"end"`
}

// Chunk is the half-open range [From, To) of frames on the grid. Its segments
// are Plan.SegmentFrames long, counted from its own From; its last one may be
// shorter. The last chunk runs to the end of the source whatever To says.
type Chunk struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Last reports whether i is the last chunk.
func (p Plan) Last(i int) bool { return i == len(p.Chunks)-1 }

// SegmentsBefore returns the planned length in frames of every segment before chunk i.
func (p Plan) SegmentsBefore(i int) (frames []int64) {
	for _, c := range p.Chunks[:min(i, len(p.Chunks))] {
		for at := c.From; at < c.To; at += p.SegmentFrames {
			frames = append(frames, min(p.SegmentFrames, c.To-at))
		}
	}
	return frames
}

// Start returns when chunk i begins, in seconds; the whole length beyond the last.
func (p Plan) Start(i int) float64 {
	if i >= len(p.Chunks) {
		return p.DurationSeconds
	}
	return p.FPS.Seconds(p.Chunks[i].From)
}

// ChunkAt returns the chunk that shows a second: the last beyond the end. False without chunks.
func (p Plan) ChunkAt(second float64) (int, bool) {
	for i := range p.Chunks {
		if second < p.FPS.Seconds(p.Chunks[i].To) || p.Last(i) {
			return i, true
		}
	}
	return 0, false
}

// SoundFrom returns the first segment of the portion of sound that a second belongs to.
func (p Plan) SoundFrom(second float64) (segment int) {
	for _, portion := range p.Sound {
		if SoundStart(portion.First) > second {
			break
		}
		segment = portion.First
	}
	return segment
}

// ChunkOfSegment returns the chunk that holds segment n of the video, and which of the chunk's
// it is; beyond the planned ones it may still be one of the last chunk. False without chunks.
func (p Plan) ChunkOfSegment(n int) (chunk, at int, planned bool) {
	for i, c := range p.Chunks {
		segments := int((c.To - c.From + p.SegmentFrames - 1) / p.SegmentFrames)
		if n < segments || p.Last(i) {
			return i, n, true
		}
		n -= segments
	}
	return 0, 0, false
}

// Range is a run of bytes inside a blob.
type Range struct {
	Offset int64 `json:"o"`
	Length int64 `json:"n"`
}

// ChunkOutput is what an encode step committed: the Output of its step row.
type ChunkOutput struct {
	Frames     int64             `json:"frames"`
	Renditions []RenditionOutput `json:"renditions"`          // in the order of Plan.Renditions; none in a last chunk without frames
	Tiles      string            `json:"tiles,omitempty"`     // blob: one JPEG strip, tiles side by side
	TileCount  int               `json:"tileCount,omitempty"` // tiles in the strip
	Poster     string            `json:"poster,omitempty"`    // blob: JPEG, in the chunk that holds the poster frame
}

// RenditionOutput is one rendition of one chunk: a single blob in container
// "media" that starts with the init segment; the segments follow.
type RenditionOutput struct {
	Name string `json:"name"`
	Blob string `json:"blob"`
	Init Range  `json:"init"`
	// InitKind is the SHA-256 of what a decoder takes from the init segment. Segments can be
	// played after any init segment of their kind. Workers with other versions of ffmpeg write
	// some that differ in what no decoder reads, such as tags and bit rates.
	InitKind string    `json:"initKind"`
	Codecs   string    `json:"codecs"` // RFC 6381, from the avcC box: "avc1.64001f"
	Segments []Segment `json:"segments"`
}

// Segment is one video segment inside a chunk's blob.
type Segment struct {
	Frames int64 `json:"f"`
	Range
}

// Facts about every audio rendition.
const (
	SampleRate = 48000 // Hz
	AACPacket  = 1024  // samples in a packet
)

// The audio segments of a plan, in seconds: one as long as the first
// chunk of video, the others as long as a segment of video.
const (
	firstSoundSegment = 2
	soundSegment      = 4
)

// SoundPacket is the number of the first AAC packet of an audio segment, counted
// from the start of the track. It follows from the segment's number alone, so
// that a portion has its place no matter who makes the one before it (paper row Q16c).
// Packet n holds the samples from (n-1) × AACPacket on: the first one holds the
// priming of the encoder.
func SoundPacket(segment int) int64 {
	if segment <= 0 {
		return 0
	}
	return (firstSoundSegment + soundSegment*int64(segment-1)) * SampleRate / AACPacket
}

// SoundStart is when an audio segment begins, in seconds.
func SoundStart(segment int) float64 {
	return float64(SoundPacket(segment)) * AACPacket / SampleRate
}

// SoundAt is the audio segment that sounds at a second.
func SoundAt(second float64) (segment int) {
	for SoundStart(segment+1) <= second {
		segment++
	}
	return segment
}

// AudioPart is what an audio step committed: the Output of its row, without segments beyond
// the end of the track.
type AudioPart struct {
	First    int            `json:"first"` // number of the first segment in the whole track
	Blob     string         `json:"blob"`
	Init     Range          `json:"init"`   // set in the part with segment 0 only
	Codecs   string         `json:"codecs"` // "mp4a.40.2"
	Channels int            `json:"channels"`
	Segments []AudioSegment `json:"segments"`
}

// AudioSegment is one audio segment inside a part's blob.
type AudioSegment struct {
	Samples int64 `json:"s"` // at SampleRate
	Range
}

// Seconds is the segment's duration.
func (s AudioSegment) Seconds() float64 { return float64(s.Samples) / SampleRate }

// FinishOutput is what the finish step wrote: blobs in container "media".
type FinishOutput struct {
	Storyboard string `json:"storyboard"` // WebVTT
	Sprite     string `json:"sprite"`     // JPEG
	Download   string `json:"download"`   // MP4
	Frames     int64  `json:"frames"`
}

// Rational is an exact fraction such as the frame rate 30000/1001.
type Rational struct {
	Num int64 `json:"num"`
	Den int64 `json:"den"`
}

// ParseRational reads "30000/1001" or "25". A zero or negative value is an error.
func ParseRational(s string) (Rational, error) {
	num, den, found := strings.Cut(s, "/")
	if !found {
		den = "1"
	}
	n, err1 := strconv.ParseInt(num, 10, 64)
	d, err2 := strconv.ParseInt(den, 10, 64)
	if err1 != nil || err2 != nil || n <= 0 || d <= 0 {
		return Rational{}, fmt.Errorf("rational %q is not a positive fraction", s)
	}
	return Rational{Num: n, Den: d}, nil
}

// String returns "30000/1001", the form that ffmpeg reads.
func (r Rational) String() string { return fmt.Sprintf("%d/%d", r.Num, r.Den) }

// Float returns the value in floating point, for display and for estimates only.
func (r Rational) Float() float64 {
	if r.Den == 0 {
		return 0
	}
	return float64(r.Num) / float64(r.Den)
}

// Seconds returns how long n frames last at the frame rate r.
func (r Rational) Seconds(n int64) float64 {
	if r.Num == 0 {
		return 0
	}
	return float64(n) * float64(r.Den) / float64(r.Num)
}

// Duration is Seconds as a time.Duration.
func (r Rational) Duration(n int64) time.Duration {
	return time.Duration(r.Seconds(n) * float64(time.Second))
}

// Frames returns how many frames at the rate r fit d seconds, rounded to the nearest.
func (r Rational) Frames(seconds float64) int64 {
	return int64(math.Round(seconds * r.Float()))
}
