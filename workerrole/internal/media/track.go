package media

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/Eyevinn/mp4ff/mp4"

	"github.com/cutroom/cutroom/shared/video"
)

// track is what a rendition's file holds: an init segment, then the segments.
type track struct {
	video.RenditionOutput         // complete but for its names
	timescale             int64   // ticks per second
	starts                []int64 // decode times of the segments' first samples, in ticks
}

// readTrack reads the boxes of a file that ffmpeg wrote.
func readTrack(f io.ReadSeeker) (t track, _ error) {
	parsed, err := mp4.DecodeFile(f, mp4.WithDecodeMode(mp4.DecModeLazyMdat))
	if err != nil {
		return t, fmt.Errorf("reading the boxes: %w", err)
	}
	at, from := int64(0), int64(0) // of the box, and of what it belongs to
	for _, box := range parsed.Children {
		at += int64(box.Size())
		switch box := box.(type) {
		case *mp4.MoovBox:
			t.Init = video.Range{Length: at}
			from = at
		case *mp4.MoofBox:
			if err := t.add(box.Traf); err != nil {
				return t, err
			}
		case *mp4.MdatBox:
			if len(t.Segments) == 0 {
				return t, errors.New("pictures come before the description of a segment")
			}
			t.Segments[len(t.Segments)-1].Range = video.Range{Offset: from, Length: at - from}
			from = at
		}
	}
	if parsed.Moov == nil || len(t.Segments) == 0 {
		return t, nil // there were no pictures
	}
	if at != from {
		return t, fmt.Errorf("the file does not end with its last segment at byte %d", from)
	}
	return t, t.describe(parsed.Moov)
}

// add describes a segment, except for its place.
func (t *track) add(traf *mp4.TrafBox) error {
	if traf == nil || traf.Tfhd == nil || traf.Tfdt == nil {
		return errors.New("a segment has no decode time")
	}
	t.starts = append(t.starts, int64(traf.Tfdt.BaseMediaDecodeTime()))
	var s video.Segment
	for _, trun := range traf.Truns {
		s.Frames += int64(trun.SampleCount())
	}
	t.Segments = append(t.Segments, s)
	return nil
}

// describe says what a player must know before the first segment.
func (t *track) describe(moov *mp4.MoovBox) error {
	if len(moov.Traks) != 1 || moov.Mvex == nil {
		return errors.New("the init segment does not describe one fragmented track")
	}
	media := moov.Trak.Mdia
	t.timescale = int64(media.Mdhd.Timescale)
	avc := media.Minf.Stbl.Stsd.AvcX
	if avc == nil || avc.AvcC == nil {
		return errors.New("the init segment does not describe H.264")
	}
	c := avc.AvcC
	t.Codecs = fmt.Sprintf("avc1.%02x%02x%02x", c.AVCProfileIndication, c.ProfileCompatibility, c.AVCLevelIndication)
	// What a decoder needs: size, clock, edit list, how the pictures are coded and what
	// fragments leave out. Tags and bit rates are left out, which versions of ffmpeg write
	// as they like.
	boxes := []mp4.Box{moov.Trak.Tkhd, media.Mdhd, moov.Mvex.Trex}
	if moov.Trak.Edts != nil {
		boxes = append(boxes, moov.Trak.Edts)
	}
	for _, box := range avc.Children {
		if _, isRate := box.(*mp4.BtrtBox); !isRate {
			boxes = append(boxes, box)
		}
	}
	hash := sha256.New()
	for _, box := range boxes {
		if err := box.Encode(hash); err != nil {
			return fmt.Errorf("reading the init segment: %w", err)
		}
	}
	t.InitKind = hex.EncodeToString(hash.Sum(nil))
	return nil
}
