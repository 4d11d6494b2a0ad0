package media

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/Eyevinn/mp4ff/mp4"

	"github.com/cutroom/cutroom/shared/video"
)

// track is what a rendition's file holds: an init segment, then the segments.
type track struct {
	video.RenditionOutput         // complete but for its names
	timescale             int64   // ticks per second
	starts                []int64 // decode times of the segments' first samples, in ticks
}

// readBoxes reads an MP4 that ffmpeg wrote, without its pictures and sound.
func readBoxes(path string) (*mp4.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening what was encoded: %w", err)
	}
	defer func() { _ = f.Close() }()
	parsed, err := mp4.DecodeFile(f, mp4.WithDecodeMode(mp4.DecModeLazyMdat))
	if err != nil {
		return nil, fmt.Errorf("reading the boxes: %w", err)
	}
	return parsed, nil
}

// readTrack reads a rendition's file, which has no segments when there were no pictures.
func readTrack(path string) (t track, _ error) {
	parsed, err := readBoxes(path)
	if err != nil || parsed.Init == nil || len(parsed.Segments) == 0 {
		return t, err
	}
	at := int64(parsed.Init.Size())
	t.Init = video.Range{Length: at}
	for _, segment := range parsed.Segments {
		for _, f := range segment.Fragments {
			if f.Moof == nil || f.Mdat == nil || f.Moof.Traf == nil || f.Moof.Traf.Tfdt == nil {
				return t, errors.New("a segment has no pictures or no decode time")
			}
			t.starts = append(t.starts, int64(f.Moof.Traf.Tfdt.BaseMediaDecodeTime()))
			end := int64(f.StartPos + f.Size())
			s := video.Segment{Range: video.Range{Offset: at, Length: end - at}}
			for _, trun := range f.Moof.Traf.Truns {
				s.Frames += int64(trun.SampleCount())
			}
			t.Segments = append(t.Segments, s)
			at = end
		}
	}
	return t, t.describe(parsed.Moov)
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
	// fragments leave out; not tags and bit rates, which versions of ffmpeg write as they like.
	hash := sha256.New()
	for _, box := range slices.Concat(moov.Trak.Children, media.Children, moov.Mvex.Children, avc.Children) {
		if slices.Contains([]string{"mdia", "hdlr", "minf", "btrt"}, box.Type()) {
			continue
		}
		if err := box.Encode(hash); err != nil {
			return fmt.Errorf("reading the init segment: %w", err)
		}
	}
	t.InitKind = hex.EncodeToString(hash.Sum(nil))
	return nil
}
