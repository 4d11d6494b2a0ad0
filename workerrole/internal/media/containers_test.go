package media_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/testkit/mediatest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// file makes a small file in a format of ffmpeg, of pictures or, without any, of sound.
func file(t *testing.T, format string, options ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	mediatest.FFmpeg(t, mediatest.Moving("176x144", "25", 2), mediatest.Hum(44100, 2), options, []string{"-f", format, path})
	return read(t, path)
}

// inContainers are a video in each of the containers that are read, by ffmpeg's name.
func inContainers(t *testing.T) map[string][]byte {
	t.Helper()
	h264, mpeg2 := mediatest.X264(25), []string{"-c:v", "mpeg2video", "-c:a", "mp2"}
	return map[string][]byte{
		"mov":      file(t, "mov", h264...),
		"matroska": file(t, "matroska", h264...),
		"mpegts":   file(t, "mpegts", h264...),
		"mpeg":     file(t, "vob", mpeg2...),
		"avi":      file(t, "avi", "-c:v", "mpeg4"),
		"flv":      file(t, "flv", h264...),
		"ogg":      file(t, "ogg", "-c:v", "libtheora", "-c:a", "libvorbis"),
		"asf":      file(t, "asf", "-c:v", "wmv2", "-c:a", "wmav2"),
	}
}

// id3 is a tag before sound, which also stands before streams.
var id3 = append([]byte("ID3\x04\x00\x00\x00\x00\x02\x00"), make([]byte, 256)...)

// oddBeginnings are recordings that do not begin as their kind should. Only those of
// probed are shown to ffprobe: the rest differs in where it was cut.
func oddBeginnings(t *testing.T, whole map[string][]byte) (all map[string][]byte, probed []string) {
	t.Helper()
	all = map[string][]byte{}
	add := func(name string, show bool, parts ...[]byte) {
		all[name] = bytes.Join(parts, nil)
		if show {
			probed = append(probed, name)
		}
	}
	ts, ps := whole["mpegts"], whole["mpeg"]
	streams := map[string][]byte{"188": ts, "192": file(t, "mpegts", append(mediatest.X264(25), "-mpegts_m2ts_mode", "1")...), "204": padded(ts)}
	for size, stream := range streams {
		for cut := range 204 {
			add(fmt.Sprintf("packets of %s cut at %d", size, cut), cut == 1 || cut == 137, stream[cut:])
		}
		for _, n := range []int{1, 187, video.HeadBytes, 60_000} {
			add(fmt.Sprintf("packets of %s after %d zeros", size, n), size == "188", make([]byte, n), stream)
			add(fmt.Sprintf("packets of %s after %d bytes 0xff", size, n), size == "188" && n == video.HeadBytes, bytes.Repeat([]byte{0xff}, n), stream)
		}
	}
	for cut := range 188 {
		add(fmt.Sprintf("MPEG-TS cut at %d after a tag", cut), cut%60 == 0, id3, ts[cut:])
	}
	for cut := range 2048 {
		add(fmt.Sprintf("MPEG-PS cut at %d", cut), cut == 1 || cut%500 == 37, ps[cut:])
	}
	add("MPEG-PS after zeros", true, make([]byte, 3000), ps)
	for name, data := range whole {
		add(name+" after a tag", true, id3, data)
	}
	add("MOV after a box of free space", true, []byte("\x00\x00\x00\x10junk\x00\x00\x00\x00\x00\x00\x00\x00"), file(t, "mov", append(mediatest.X264(25), "-movflags", "+frag_keyframe+empty_moov")...))
	return all, probed
}

// padded is an MPEG-TS with the room for error correction behind each packet.
func padded(ts []byte) []byte {
	var out []byte
	for packet := range slices.Chunk(ts, 188) {
		out = append(append(out, packet...), make([]byte, 16)...)
	}
	return out
}

// otherFiles are files that a user may take for a video by mistake.
func otherFiles(t *testing.T) map[string][]byte {
	t.Helper()
	picture := func(codec string) []byte {
		return file(t, "image2", "-frames:v", "1", "-c:v", codec, "-update", "1")
	}
	sound := func(format string, options ...string) []byte { return file(t, format, append(options, "-vn")...) }
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var zipped, packed, taped bytes.Buffer
	z, g, p := zip.NewWriter(&zipped), gzip.NewWriter(&packed), tar.NewWriter(&taped)
	inside, err := z.Create("a video.mp4")
	if err = errors.Join(err, p.WriteHeader(&tar.Header{Name: "a video.mp4", Size: 1000, Mode: 0o600})); err != nil {
		t.Fatal(err)
	}
	for _, to := range []io.Writer{inside, g, p} {
		if _, err := to.Write(bytes.Repeat([]byte("not "), 250)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), g.Close(), p.Close()); err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"nothing": nil, "a byte": {0x47}, "half of a name": []byte("\x00\x00\x00\x20ftypis"),
		"PNG": picture("png"), "JPEG": picture("mjpeg"), "GIF": picture("gif"), "BMP": picture("bmp"), "TIFF": picture("tiff"),
		"HEIC": append([]byte("\x00\x00\x00\x18ftypheic"), make([]byte, 12)...),
		"WAV":  sound("wav"), "FLAC": sound("flac"), "AIFF": sound("aiff"),
		"ZIP": zipped.Bytes(), "gzip": packed.Bytes(), "tar": taped.Bytes(),
		"PDF": []byte("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n\x00\x01\x02"), "program": read(t, program)[:100_000],
		"text": []byte("Dear Sir, this is no video at all.\n"), "text in Windows-1251": []byte("\xef\xf0\xe8\xe2\xe5\xf2, \xff \xe7\xe4\xe5\xf1\xfc\r\n"),
		"playlist": playlistTo("http://127.0.0.1/x.ts"), "long text": bytes.Repeat([]byte("G not a stream\n"), 1000),
		"ffconcat": []byte("ffconcat version 1.0\nfile 'another'\n"), "SVG": []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`),
		"captions": []byte("WEBVTT\n\n00:00.000 --> 00:01.000\nHello\n"), "DASH": []byte(`<?xml version="1.0"?><MPD></MPD>`),
		"SDP": []byte("v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\n"),
	}
}

// leftToTheWorkers are files of which only ffmpeg can tell that they are no video that
// is read.
func leftToTheWorkers(t *testing.T) map[string][]byte {
	t.Helper()
	raw := []string{"-an", "-c:v"}
	return map[string][]byte{
		"MP3 with a tag": file(t, "mp3", "-vn"), "AAC": file(t, "adts", "-vn", "-c:a", "aac"),
		"raw H.264": file(t, "h264", append(raw, "libx264", "-pix_fmt", "yuv420p")...), "raw MPEG-1": file(t, "mpeg1video", append(raw, "mpeg1video")...),
		"raw MPEG-2": file(t, "mpeg2video", append(raw, "mpeg2video")...), "raw MPEG-4": file(t, "m4v", append(raw, "mpeg4")...),
		"IVF": file(t, "ivf", append(raw, "libvpx", "-deadline", "realtime", "-cpu-used", "8")...),
	}
}

// TestRefusingAndReadingAgree: what the web role refuses by its first bytes ffprobe cannot
// read, with the workers' guards; what ffprobe reads is not refused, however it begins; and
// each container that texts name is read.
func TestRefusingAndReadingAgree(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	dir := t.TempDir()
	demuxerOf := func(name string, data []byte) (string, error) {
		info, err := tool.Probe(t.Context(), ffmpeg.Source{URL: mediatest.Write(t, dir, strings.ReplaceAll(name, " ", "-"), data)})
		if err != nil && !errors.As(err, new(*engine.Failure)) {
			t.Fatalf("%s: %v", name, err)
		}
		return info.Demuxer, err
	}
	refused := func(data []byte) (string, bool) { return video.OtherKind(data[:min(len(data), video.HeadBytes)]) }

	whole := inContainers(t)
	for _, c := range video.Containers {
		if got, err := demuxerOf(c.Demuxer, whole[c.Demuxer]); got != c.Demuxer || err != nil {
			t.Errorf("%s is read as %q, %v", c.Name, got, err)
		}
		if kind, is := refused(whole[c.Demuxer]); is {
			t.Errorf("%s is refused as %s", c.Name, kind)
		}
	}
	odd, probed := oddBeginnings(t, whole)
	for name, data := range odd {
		if kind, is := refused(data); is {
			t.Errorf("%s is refused as %s", name, kind)
		}
	}
	for _, name := range probed {
		if _, err := demuxerOf(name, odd[name]); err != nil {
			t.Errorf("%s cannot be read: %v", name, err)
		}
	}
	for name, data := range otherFiles(t) {
		if _, is := refused(data); !is {
			t.Errorf("%s is not refused", name)
		}
		if got, err := demuxerOf(name, data); err == nil {
			t.Errorf("%s is read, as %s", name, got)
		}
	}
	left := leftToTheWorkers(t)
	for _, name := range slices.Sorted(maps.Keys(left)) {
		kind, is := refused(left[name])
		got, err := demuxerOf(name, left[name])
		if is || err == nil {
			t.Errorf("%s: refused as %q, read as %q", name, kind, got)
		}
		t.Logf("%s: %v", name, err)
	}
}
