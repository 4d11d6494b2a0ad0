package video

// Plan says how one generation of a video is cut and encoded. The probe step
// writes it once; every other step reads it and nothing changes it. That is
// what makes chunks independent: any worker can do any chunk (paper row Q16c).
//
// Everything is counted in frames of one constant-rate grid, never in seconds:
// seconds do not add up across chunks.
type Plan struct {
	Generation int    `json:"generation"`
	Source     string `json:"source"`               // blob in container "sources": the upload, or its remuxed copy
	SourceETag string `json:"sourceETag,omitempty"` // the version that was probed: every read asks for it
	Demuxer    string `json:"demuxer"`              // ffmpeg's name for the container, pinned when the source is opened

	FPS           Rational `json:"fps"`           // the grid
	Frames        int64    `json:"frames"`        // what the container promises; the last chunk tells the truth
	SegmentFrames int64    `json:"segmentFrames"` // frames in an HLS segment: about 4 s
	Chunks        []Chunk  `json:"chunks"`

	Renditions []Rendition `json:"renditions"` // tallest first, never empty
	HasAudio   bool        `json:"hasAudio"`

	DurationSeconds float64 `json:"durationSeconds"`
	Width           int     `json:"width"`             // displayed pixels of the source
	Height          int     `json:"height"`            // displayed pixels of the source
	Rotated         bool    `json:"rotated,omitempty"` // the source says that its pictures must be turned

	SeekMargin float64 `json:"seekMargin"`    // seconds before a chunk where decoding starts, on the first try
	ToneMap    bool    `json:"toneMap"`       // HDR source and this ffmpeg can map it to SDR
	HDR        string  `json:"hdr,omitempty"` // transfer of the source when it is HDR: "smpte2084", "arib-std-b67"

	TileEvery   int64 `json:"tileEvery"`   // frames between storyboard tiles; at most 100 tiles in all
	TileWidth   int   `json:"tileWidth"`   // pixels
	TileHeight  int   `json:"tileHeight"`  // pixels
	PosterFrame int64 `json:"posterFrame"` // the frame that becomes the poster
}

// Chunk is the half-open range [From, To) of frames on the grid. From is a
// multiple of Plan.SegmentFrames. The last chunk runs to the end of the source
// whatever To says.
type Chunk struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Last reports whether i is the last chunk.
func (p Plan) Last(i int) bool { return i == len(p.Chunks)-1 }

// FirstSegment is the number of chunk i's first segment in the whole video.
func (p Plan) FirstSegment(i int) int { return int(p.Chunks[i].From / p.SegmentFrames) }

// ChunkOfSegment returns the chunk that holds segment n, or false when there is
// no such segment.
func (p Plan) ChunkOfSegment(n int) (int, bool) {
	if n < 0 || len(p.Chunks) == 0 {
		return 0, false
	}
	from := int64(n) * p.SegmentFrames
	for i, c := range p.Chunks {
		if from >= c.From && (from < c.To || p.Last(i)) {
			return i, true
		}
	}
	return 0, false
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
	Name     string    `json:"name"`
	Blob     string    `json:"blob"`
	Init     Range     `json:"init"`
	InitSum  string    `json:"initSum"` // SHA-256 of the init segment, hex: equal in every chunk of a rendition
	Codecs   string    `json:"codecs"`  // RFC 6381, from the avcC box: "avc1.64001f"
	Segments []Segment `json:"segments"`
}

// Segment is one video segment inside a chunk's blob.
type Segment struct {
	Frames int64 `json:"f"`
	Range
}

// SampleRate is the rate of every audio rendition, in Hz.
const SampleRate = 48000

// AudioPart is a run of audio segments committed together: a PART row. Audio is
// encoded as one track and committed as it grows, so that playlists can grow.
type AudioPart struct {
	First    int            `json:"first"` // number of the first segment in the whole track
	Blob     string         `json:"blob"`
	Init     Range          `json:"init"`   // set in the first part only
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
	Prefix      string            `json:"prefix"`    // every name below starts with it
	Master      string            `json:"master"`    // playlist
	Playlists   map[string]string `json:"playlists"` // rendition name, or "audio", to playlist
	Poster      string            `json:"poster"`
	Storyboard  string            `json:"storyboard"` // WebVTT
	Sprite      string            `json:"sprite"`     // JPEG
	Download    string            `json:"download"`   // MP4
	Frames      int64             `json:"frames"`
	DownloadLen int64             `json:"downloadLen"` // bytes
}

// ClipOutput is what a clip step wrote: one blob in container "media".
type ClipOutput struct {
	Blob  string `json:"blob"`
	Bytes int64  `json:"bytes"`
}
