package upload

import (
	"bytes"
	"encoding/binary"

	"github.com/cutroom/cutroom/shared/video"
)

// sniffLen is how many of the first bytes say what a file is: two MPEG-TS
// packets of 192 bytes and the start of a third.
const sniffLen = 512

// sniff refuses what does not begin like one of the containers that we advertise
// (mp4, mov, 3gp, mkv, webm, mpegts, avi, flv, ogv, mpg, wmv). It is a
// plausibility check of the first bytes, not a parser: the probe step has the
// last word. What it must keep out is text — playlists, SDP, DASH, captions —
// which ffmpeg would follow to other files.
func sniff(head []byte) error {
	if isMP4(head) || isTransportStream(head) || isRIFFVideo(head) {
		return nil
	}
	for _, magic := range [][]byte{
		{0x1a, 0x45, 0xdf, 0xa3},         // EBML: Matroska, WebM
		[]byte("FLV\x01"),                // Flash video
		[]byte("OggS\x00"),               // Ogg
		{0, 0, 1, 0xba}, {0, 0, 1, 0xb3}, // MPEG program stream, MPEG video
		{0x30, 0x26, 0xb2, 0x75, 0x8e, 0x66, 0xcf, 0x11}, // ASF: WMV
	} {
		if bytes.HasPrefix(head, magic) {
			return nil
		}
	}
	return video.Fail(video.UnsupportedMedia, "The file does not begin like a video that we can read (MP4, MOV, Matroska, WebM, MPEG-TS, MPEG-PS, AVI, FLV, Ogg, WMV).")
}

// isMP4 accepts a file whose first box is one that ISO base media and QuickTime
// files begin with, with a size that the standard allows.
func isMP4(head []byte) bool {
	if len(head) < 8 {
		return false
	}
	size := binary.BigEndian.Uint32(head)
	if size != 0 && size != 1 && size < 8 {
		return false
	}
	switch string(head[4:8]) {
	case "ftyp", "styp", "moov", "mdat", "wide", "free", "skip", "pnot", "sidx":
		return !isImageBrand(head)
	}
	return false
}

// isImageBrand tells HEIC and AVIF pictures from videos: they share the box.
func isImageBrand(head []byte) bool {
	if len(head) < 12 || string(head[4:8]) != "ftyp" {
		return false
	}
	switch string(head[8:12]) {
	case "heic", "heix", "mif1", "avif":
		return true
	}
	return false
}

// isTransportStream looks for the sync byte at the start of two packets: of 188
// bytes, or of 192 with a time code before each.
func isTransportStream(head []byte) bool {
	const sync, packet = 0x47, 188
	if len(head) > packet && head[0] == sync && head[packet] == sync {
		return true
	}
	return len(head) > 4+192 && head[4] == sync && head[4+192] == sync
}

func isRIFFVideo(head []byte) bool {
	return len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "AVI "
}
