package media

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/Eyevinn/mp4ff/mp4"

	"github.com/cutroom/cutroom/shared/video"
)

// listing is what a playlist of ffmpeg says about the one file beside it.
type listing struct {
	init     video.Range
	segments []video.Range
}

// readListing reads a playlist. One that does not exist is empty.
func readListing(path string) (listing, error) {
	var l listing
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, fmt.Errorf("reading the segment list: %w", err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "#EXT-X-MAP:"):
			_, text, _ := strings.Cut(line, `BYTERANGE="`)
			text, _, _ = strings.Cut(text, `"`)
			if l.init, err = byteRange(text); err != nil {
				return l, err
			}
		case strings.HasPrefix(line, "#EXT-X-BYTERANGE:"):
			r, err := byteRange(strings.TrimPrefix(line, "#EXT-X-BYTERANGE:"))
			if err != nil {
				return l, err
			}
			if r.Length > 0 { // ffmpeg lists a segment of nothing when there are no frames
				l.segments = append(l.segments, r)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return l, fmt.Errorf("reading the segment list: %w", err)
	}
	return l, nil
}

// byteRange reads "length@offset".
func byteRange(text string) (video.Range, error) {
	length, offset, _ := strings.Cut(text, "@")
	n, err1 := strconv.ParseInt(length, 10, 64)
	o, err2 := strconv.ParseInt(offset, 10, 64)
	if err := errors.Join(err1, err2); err != nil || n < 0 || o < 0 {
		return video.Range{}, fmt.Errorf("segment list: %q is not a byte range", text)
	}
	return video.Range{Offset: o, Length: n}, nil
}

// initSegment is what a player must know before the first segment.
type initSegment struct {
	sum       string // SHA-256, hex
	kind      string // SHA-256 of what a decoder takes from it, hex
	codecs    string // RFC 6381
	timescale int64  // ticks per second
}

func readInit(f io.ReaderAt, r video.Range) (initSegment, error) {
	var s initSegment
	hash := sha256.New()
	parsed, err := mp4.DecodeFile(io.TeeReader(io.NewSectionReader(f, r.Offset, r.Length), hash))
	if err != nil {
		return s, fmt.Errorf("reading the init segment: %w", err)
	}
	s.sum = hex.EncodeToString(hash.Sum(nil))
	if parsed.Moov == nil || len(parsed.Moov.Traks) != 1 || parsed.Moov.Mvex == nil {
		return s, errors.New("the init segment does not describe one fragmented track")
	}
	media := parsed.Moov.Trak.Mdia
	s.timescale = int64(media.Mdhd.Timescale)
	stsd := media.Minf.Stbl.Stsd
	if stsd.AvcX == nil || stsd.AvcX.AvcC == nil {
		return s, errors.New("the init segment does not describe H.264")
	}
	if s.kind, err = kindOf(parsed.Moov); err != nil {
		return s, fmt.Errorf("reading the init segment: %w", err)
	}
	c := stsd.AvcX.AvcC
	s.codecs = fmt.Sprintf("avc1.%02x%02x%02x", c.AVCProfileIndication, c.ProfileCompatibility, c.AVCLevelIndication)
	return s, nil
}

// kindOf sums up what a decoder needs of an init segment: size, clock, edit list, how the
// pictures are coded and what fragments leave out. Tags and bit rates are left out, which
// versions of ffmpeg write as they like.
func kindOf(moov *mp4.MoovBox) (string, error) {
	track := moov.Trak
	boxes := []mp4.Box{track.Tkhd, track.Mdia.Mdhd, moov.Mvex.Trex}
	if track.Edts != nil {
		boxes = append(boxes, track.Edts)
	}
	for _, box := range track.Mdia.Minf.Stbl.Stsd.AvcX.Children {
		if _, isRate := box.(*mp4.BtrtBox); !isRate {
			boxes = append(boxes, box)
		}
	}
	hash := sha256.New()
	for _, box := range boxes {
		if err := box.Encode(hash); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// segment is the timing of one media segment, in ticks of the init segment.
type segment struct {
	start   int64 // decode time of the first sample
	samples int64
}

func readSegment(f io.ReaderAt, r video.Range) (segment, error) {
	var s segment
	section := io.NewSectionReader(f, r.Offset, r.Length)
	seen := false
	for pos := int64(0); pos < r.Length; {
		box, err := mp4.DecodeBoxLazyMdat(uint64(pos), section)
		if err != nil {
			return s, fmt.Errorf("reading a segment: %w", err)
		}
		pos += int64(box.Size())
		if _, err := section.Seek(pos, io.SeekStart); err != nil {
			return s, fmt.Errorf("reading a segment: %w", err)
		}
		moof, ok := box.(*mp4.MoofBox)
		if !ok {
			continue
		}
		traf := moof.Traf
		if traf == nil || traf.Tfhd == nil || traf.Tfdt == nil {
			return s, errors.New("reading a segment: a fragment has no decode time")
		}
		if !seen {
			s.start, seen = int64(traf.Tfdt.BaseMediaDecodeTime()), true
		}
		for _, trun := range traf.Truns {
			s.samples += int64(trun.SampleCount())
		}
	}
	if !seen {
		return s, errors.New("reading a segment: it holds no fragment")
	}
	return s, nil
}
