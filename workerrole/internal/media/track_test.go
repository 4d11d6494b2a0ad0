package media

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/Eyevinn/mp4ff/mp4"
)

// Two versions of ffmpeg describe one rendition in init segments that differ in tags and
// bit rates; a chunk of each can be played after either. Another picture size or another
// coding is another kind.
func TestKindsOfInitSegments(t *testing.T) {
	t.Parallel()
	type initSegment struct {
		kind  string
		bytes []byte
	}
	kind := func(level byte, change func(*mp4.MoovBox)) initSegment {
		t.Helper()
		init := mp4.CreateEmptyInit()
		init.AddEmptyTrack(90000, "video", "und")
		moov := init.Moov
		entry := mp4.CreateVisualSampleEntryBox("avc1", 160, 90, &mp4.AvcCBox{})
		entry.AvcC.AVCProfileIndication, entry.AvcC.AVCLevelIndication = 100, level
		moov.Trak.Mdia.Minf.Stbl.Stsd.AddChild(entry)
		change(moov)
		var data bytes.Buffer
		fragment, err := mp4.CreateFragment(1, mp4.DefaultTrakID)
		if err != nil {
			t.Fatal(err)
		}
		fragment.AddFullSample(mp4.FullSample{Data: []byte("a picture")})
		path := filepath.Join(t.TempDir(), "240p.m4s")
		if err := errors.Join(init.Encode(&data), fragment.Encode(&data), os.WriteFile(path, data.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
		got, err := readTrack(path)
		if err != nil {
			t.Fatal(err)
		}
		return initSegment{got.InitKind, data.Bytes()[:got.Init.Length]}
	}
	plain := kind(30, func(*mp4.MoovBox) {})
	noted := kind(30, func(m *mp4.MoovBox) {
		m.Trak.Mdia.Minf.Stbl.Stsd.AvcX.AddChild(&mp4.BtrtBox{MaxBitrate: 800_000})
	})
	if bytes.Equal(plain.bytes, noted.bytes) || plain.kind != noted.kind {
		t.Errorf("with a bit rate it is another kind")
	}
	for what, other := range map[string]initSegment{
		"level":    kind(31, func(*mp4.MoovBox) {}),
		"clock":    kind(30, func(m *mp4.MoovBox) { m.Trak.Mdia.Mdhd.Timescale = 1000 }),
		"size":     kind(30, func(m *mp4.MoovBox) { m.Trak.Tkhd.Width = 320 << 16 }),
		"defaults": kind(30, func(m *mp4.MoovBox) { m.Mvex.Trex.DefaultSampleDuration = 7 }),
	} {
		if plain.kind == other.kind {
			t.Errorf("another %s is the same kind", what)
		}
	}
}
