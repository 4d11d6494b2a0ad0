package upload

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cutroom/cutroom/shared/video"
)

// TestSniff goes through the start of every container that we advertise, and
// through what has to be refused before ffmpeg sees it.
func TestSniff(t *testing.T) {
	t.Parallel()
	ts := bytes.Repeat(append([]byte{0x47}, make([]byte, 187)...), 3)
	m2ts := bytes.Repeat(append([]byte{0, 0, 0, 0, 0x47}, make([]byte, 187)...), 2)
	m2ts = append(m2ts, 0, 0, 0, 0, 0x47)
	for name, head := range map[string][]byte{
		"mp4":    []byte("\x00\x00\x00\x20ftypisom\x00\x00\x02\x00"),
		"mov":    []byte("\x00\x00\x00\x08wide\x00\x00\x00\x00mdat"),
		"mkv":    {0x1a, 0x45, 0xdf, 0xa3, 0x01},
		"mpegts": ts, "m2ts": m2ts,
		"avi": []byte("RIFF\x00\x00\x00\x00AVI LIST"),
		"flv": []byte("FLV\x01\x05"),
		"ogv": []byte("OggS\x00\x02"),
		"mpg": {0, 0, 1, 0xba, 0x44},
		"wmv": {0x30, 0x26, 0xb2, 0x75, 0x8e, 0x66, 0xcf, 0x11, 0xa6},
	} {
		if err := sniff(head); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, head := range map[string][]byte{
		"zero bytes": nil, "one byte": {0x47},
		"text": []byte("hello, this is a text"), "html": []byte("<!doctype html><video>"),
		"svg": []byte(`<svg xmlns="http://www.w3.org/2000/svg">`), "zip": []byte("PK\x03\x04"),
		"png": []byte("\x89PNG\r\n\x1a\n"), "hls": []byte("#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n"),
		"ffconcat": []byte("ffconcat version 1.0\nfile 'a'\n"), "concat": []byte("concat:a|b"),
		"dash": []byte(`<?xml version="1.0"?><MPD>`), "sdp": []byte("v=0\no=- 0 0 IN IP4 127.0.0.1\n"),
		"xbin": []byte("XBIN\x1a\x50\x00"), "wav": []byte("RIFF\x00\x00\x00\x00WAVEfmt "),
		"heic": []byte("\x00\x00\x00\x18ftypheic"), "vtt": []byte("WEBVTT\n\n"),
		"letters G": bytes.Repeat([]byte("G not a stream "), 5),
	} {
		var failure *video.Failure
		if err := sniff(head); !errors.As(err, &failure) || failure.Code != video.UnsupportedMedia {
			t.Errorf("%s: %v, want %s", name, err, video.UnsupportedMedia)
		}
	}
}

func FuzzSniff(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x20ftypisom"))
	f.Fuzz(func(_ *testing.T, head []byte) { _ = sniff(head) })
}
