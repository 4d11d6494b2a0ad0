package media

import (
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
)

// Piece is a run of bytes of a blob in container "media".
type Piece struct {
	Blob string
	video.Range
}

// BytesOf is how much pieces hold.
func BytesOf(pieces []Piece) (bytes int64) {
	for _, p := range pieces {
		bytes += p.Length
	}
	return bytes
}

// Pictures returns what holds the frames [from, to) in the tallest rendition: joined, the
// pieces are a fragmented MP4 that starts with a keyframe at or before from.
func Pictures(p playlist.Presentation, from, to int64) []Piece {
	var list []Piece
	at := int64(0)
	for i, chunk := range p.Chunks {
		if len(chunk.Renditions) == 0 {
			continue // a last chunk without frames
		}
		top := chunk.Renditions[0]
		if i == 0 { // the same in all chunks
			list = add(list, top.Blob, top.Init)
		}
		for _, s := range top.Segments {
			if at < to && at+s.Frames > from {
				list = add(list, top.Blob, s.Range)
			}
			at += s.Frames
		}
	}
	return list
}

// soundMargin is how many samples around a part are read: the decoder needs the
// block before the first, and segments begin up to a block beside their time.
const soundMargin = 4096

// Sound returns what holds the samples [from, to), with a little before and after; or nothing.
func Sound(p playlist.Presentation, from, to int64) []Piece {
	var list []Piece
	at := int64(0)
	for _, part := range p.Parts {
		for _, s := range part.Segments {
			if at-soundMargin < to && at+s.Samples+soundMargin > from {
				if len(list) == 0 {
					list = add(list, p.Parts[0].Blob, p.Parts[0].Init)
				}
				list = add(list, part.Blob, s.Range)
			}
			at += s.Samples
		}
	}
	return list
}

// add appends a piece, or makes the last one longer: neighbours are read with one request.
func add(list []Piece, blob string, r video.Range) []Piece {
	if n := len(list); n > 0 && list[n-1].Blob == blob && list[n-1].Offset+list[n-1].Length == r.Offset {
		list[n-1].Length += r.Length
		return list
	}
	return append(list, Piece{blob, r})
}
