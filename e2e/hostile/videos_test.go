package hostile_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/client"
)

// kind is a kind of uploaded file, and what has to become of it.
type kind struct {
	name    string
	make    maker
	refused string                      // the upload's code, 415; or
	failed  []string                    // codes of the failed video, one of them; or
	any     bool                        // it may become ready, or fail with one of them; or
	ready   func(*testing.T, madeVideo) // it becomes ready, and this looks at it
}

// madeVideo is a ready video and how to read its files.
type madeVideo struct {
	client.Video
	file func(path string) []byte // of /v/{id}/
}

const (
	unsupported = "unsupported_media"
	corrupt     = "corrupt_media"
	noVideo     = "no_video_stream"
)

// kinds are the corpus: number, what it is, how it is made, what becomes of it. Targets
// are what a file must not reach: the path of a secret, and the address of a trap. Each
// of the two kinds that change bytes at random is made this many times.
//
// Over 60 lines: it is a table.
func kinds(secret, trap string, seeds int) []kind {
	whole := once(good("3"))
	last := once(made(moving, hum, x264, aac))
	ready := func(*testing.T, madeVideo) {}
	list := []kind{
		// Refused when they are uploaded: by their first bytes they certainly are no video.
		{name: name(1, "zero bytes"), make: text(""), refused: unsupported},
		{name: name(2, "one byte"), make: text("x"), refused: unsupported},
		{name: name(3, "text"), make: text(strings.Repeat("not a video at all\n", 100)), refused: unsupported},
		{name: name(4, "HTML"), make: text("<!doctype html><title>video</title><script>1</script>"), refused: unsupported},
		{name: name(5, "SVG"), make: text(`<svg xmlns="http://www.w3.org/2000/svg"/>`), refused: unsupported},
		{name: name(6, "ZIP"), make: text("PK\x03\x04" + strings.Repeat("\x00", 600)), refused: unsupported},
		{name: name(7, "PNG named mp4"), make: made(tiny, "-frames:v 1 -f image2 -c:v png -update 1"), refused: unsupported},
		{name: name(8, "playlist of itself"), make: playlist("clip.mp4"), refused: unsupported},
		{name: name(9, "playlist that points at a local file"), make: playlist("file://" + secret), refused: unsupported},
		{name: name(10, "playlist that points at a URL"), make: playlist(trap + "/x.ts"), refused: unsupported},
		{name: name(11, "concat protocol"), make: text("concat:file://" + secret + "|" + trap), refused: unsupported},
		{name: name(12, "ffconcat"), make: text("ffconcat version 1.0\nfile '" + secret + "'\n"), refused: unsupported},
		{name: name(13, "DASH manifest"), make: text(manifest(trap + "/x.mp4")), refused: unsupported},
		{name: name(14, "SDP"), make: text("v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\na=rtpmap:96 H264/90000\n"), refused: unsupported},
		{name: name(15, "playlist with a data URI"), make: playlist("data:text/plain;base64,I0VYVE0zVQo="), refused: unsupported},

		// Found out by the probe.
		{name: name(16, "XBIN"), make: text("XBIN\x1a\x50\x00\x19\x00\x10\x00" + strings.Repeat("\x01", 600)), failed: []string{unsupported}},
		{name: name(13, "disguised DASH manifest that points at a local file"), make: disguised("file://" + secret), failed: []string{unsupported}},
		{name: name(13, "disguised DASH manifest that points at a URL"), make: disguised(trap + "/x.mp4"), failed: []string{unsupported}},
		{name: name(17, "AVI with a playlist as subtitles"), make: gab2("file://" + secret), failed: []string{noVideo}},
		{name: name(18, "sound only"), make: made(hum, aac), failed: []string{noVideo}},
		{name: name(19, "MP3 with a cover"), make: made(hum, tiny, "-map 0 -map 1 -frames:v 1 -c:v mjpeg -disposition:v attached_pic -f mp3"), failed: []string{noVideo}},
		{name: name(19, "M4A with a cover"), make: made(hum, tiny, "-map 0 -map 1 -frames:v 1 -c:v mjpeg -disposition:v attached_pic"), failed: []string{noVideo}},
		{name: name(20, "subtitles only"), make: subtitles, failed: []string{noVideo}},
		{name: name(21, "init segment only"), make: of(made(moving, x264, "-movflags frag_keyframe+empty_moov"), until("moof")), failed: []string{corrupt}},
		{name: name(22, "cut, index at the end"), make: of(last, cut(0.5)), failed: []string{corrupt}},
		{name: name(23, "cut, index in front"), make: of(whole, cut(0.5)), failed: []string{corrupt}},
		{name: name(24, "noise after ftyp"), make: noise(1<<20, ftyp), failed: []string{corrupt}},
		{name: name(25, "box of size 0"), make: text(string(ftyp) + "\x00\x00\x00\x00moov"), failed: []string{noVideo}},
		{name: name(25, "box of size 1"), make: text(string(ftyp) + "\x00\x00\x00\x01moov\x00\x00\x00\x00\x00\x00\x00\x01"), failed: []string{corrupt}},
		{name: name(25, "box of size 2^32-1"), make: text(string(ftyp) + "\xff\xff\xff\xffmoov"), failed: []string{noVideo}},
		{name: name(26, "10,000 boxes in each other"), make: nested(10_000), failed: []string{corrupt, noVideo}},
		{name: name(27, "2^32-1 time stamps promised"), make: of(whole, overwrite("stts", 1, 4, 0xff, 0xff, 0xff, 0xff)), failed: []string{"too_much_metadata"}},
		{name: name(30, "8192 x 8192"), make: made("-f lavfi -i color=s=8192x8192:r=1:d=1", x264), failed: []string{"too_many_pixels"}},
		{name: name(31, "65535 x 65535 in the header"), make: of(made(tiny, "-c:v qtrle -f mov"), overwrite("rle ", 1, 24, 0xff, 0xff, 0xff, 0xff)), failed: []string{corrupt}},
		{name: name(32, "24 hours"), make: made("-f lavfi -i color=s=64x64:r=1/60:d=86400", x264), failed: []string{"too_long"}},
		{name: name(33, "a gap of ten hours"), make: made("-f lavfi -i testsrc2=s=64x64:r=1:d=2 -vf setpts=N*36000/TB -fps_mode passthrough", x264), failed: []string{"too_long"}},
		{name: name(34, "300 streams"), make: streams(300), failed: []string{"too_many_streams"}},
		{name: name(34, "20 streams"), make: streams(20), failed: []string{"too_many_streams"}},
		{name: name(35, "1000 frames a second"), make: made("-f lavfi -i color=s=64x64:r=1000:d=1", x264), ready: ready},
		{name: name(38, "1 x 1"), make: made(tiny, "-vf format=rgb24,scale=1:1 -c:v libx264 -pix_fmt yuv444p"), failed: []string{"too_small"}},
		{name: name(48, "encrypted"), make: made(tiny, x264, "-encryption_scheme cenc-aes-ctr -encryption_key 76a6c65c5ea762046bd749a2e632ccbb -encryption_kid a7e61c373e219033c21091fa607bf3b8"), failed: []string{"encrypted_media"}},

		{name: name(49, "sound of an unknown codec, and no picture"), make: of(made(hum, aac), unknownSound), failed: []string{noVideo, unsupported}},

		{name: name(52, "H.264 without a container"), make: made(moving, x264, "-f h264"), failed: []string{unsupported}},

		{name: name(50, "20 tags of 16 MiB"), make: of(made(moving, x264, "-live 1 -f matroska"), longTags(20, 16<<20)), failed: []string{"too_much_metadata"}},

		// Odd, and fine.
		{name: name(36, "1,000 cuts"), make: cuts, ready: fewThumbnails},
		{name: name(37, "161 x 91"), make: made("-f lavfi -i testsrc2=s=161x91:r=15:d=2 -c:v libx264 -preset ultrafast -pix_fmt yuv444p"), ready: ready},
		{name: name(39, "turned by 90 degrees"), make: of(made(moving, x264, "-movflags +faststart"), turned), ready: sized(90, 160)},
		{name: name(40, "pixels that are not square"), make: made(moving, "-vf setsar=2/1", x264), ready: sized(320, 90)},
		{name: name(41, "time stamps at uneven distances"), make: made(moving, "-vf setpts=(N+mod(N\\,3)/4)/15/TB -fps_mode passthrough", x264), ready: ready},
		{name: name(42, "sound that begins before the picture"), make: made("-itsoffset 0.5", moving, hum, x264, aac), ready: ready},
		{name: name(42, "edit list that leaves out the beginning"), make: of(made(moving, hum, "-c:v libx264 -preset ultrafast -bf 2 -g 30 -pix_fmt yuv420p", aac), overwrite("elst", 1, 12, 0, 0, 4, 0)), ready: ready},
		{name: name(43, "H.264 of 10 bits and 4:4:4"), make: made(moving, "-c:v libx264 -preset ultrafast -pix_fmt yuv444p10le"), ready: ready},
		{name: name(44, "two tracks of one number"), make: of(whole, overwrite("tkhd", 2, 12, 0, 0, 0, 1)), any: true, failed: []string{corrupt}},
		{name: name(45, "tracks that are switched off"), make: of(whole, overwrite("tkhd", 1, 1, 0, 0, 0)), ready: ready},
		{name: name(46, "no sound"), make: made(moving, x264), ready: ready},
		{name: name(46, "six channels"), make: made(moving, "-f lavfi -i anoisesrc=d=2:a=0.1 -af pan=5.1|c0=c0|c1=c0|c2=c0|c3=c0|c4=c0|c5=c0", x264, aac), ready: ready},
		{name: name(46, "sound that is ten seconds longer"), make: made(moving, "-f lavfi -i anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=12", x264, aac), ready: ready},
		{name: name(46, "sound whose end is destroyed"), make: of(
			made(moving, "-f lavfi -i anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=12", x264, aac, "-movflags +faststart"), damagedEnd), ready: noticed("audio_truncated")},
		{name: name(46, "sound of an unknown codec beside a picture"), make: of(whole, unknownSound), ready: noticed("audio_not_decodable")},
		{name: name(51, "pictures that change their size and format"), make: joined(
			made("-f lavfi -i color=black:s=160x90:r=10:d=3", x264, "-f mpegts"),
			made("-f lavfi -i color=white:s=320x240:r=10:d=3 -c:v libx264 -preset ultrafast -pix_fmt yuv444p -output_ts_offset 3 -f mpegts")), ready: ready},
		{name: name(53, "MPEG-TS that begins inside a packet"), make: of(made(moving, hum, x264, aac, "-f mpegts"), func(_ *testing.T, data []byte) []byte { return data[100:] }), ready: ready},
		{name: name(54, "WMV"), make: made(moving, hum, "-c:v wmv2 -c:a wmav2 -f asf"), ready: ready},
		{name: name(47, "tags with a script and a place"), make: made(moving, x264, "-metadata title=<script>alert(1)</script> -metadata location=+37.5665+126.9780/ -movflags use_metadata_tags"), ready: withoutTags},
	}
	for seed := range seeds {
		list = append(list,
			kind{name: name(28, fmt.Sprintf("100 bytes changed, seed %d", seed)), make: of(whole, scattered(uint64(seed))), any: true, failed: damaged},
			kind{name: name(29, fmt.Sprintf("times and durations changed, seed %d", seed)), make: of(whole, scattered(uint64(seed), "mvhd", "mdhd", "elst", "stts", "ctts")), any: true, failed: append(slices.Clone(damaged), "too_long", "too_many_frames")})
	}
	return list
}

// damaged are the codes that a file with wrong bytes anywhere may have.
var damaged = []string{corrupt, unsupported, noVideo, "too_many_pixels", "too_small", "too_many_streams", "too_much_metadata", "encrypted_media"}

// turned puts a rotation by 90 degrees into the matrix of a film's first track.
func turned(t *testing.T, data []byte) []byte {
	t.Helper()
	matrix := bytes.Join([][]byte{{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}, {0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, nil)
	return overwrite("tkhd", 1, 40, matrix...)(t, data)
}

// unknownSound gives a film's first track of sound a codec that no program knows.
func unknownSound(_ *testing.T, data []byte) []byte {
	data = bytes.Replace(data, []byte("mp4a"), []byte("zzzz"), 1)
	return bytes.Replace(data, []byte("\x40\x15"), []byte("\xc0\x15"), 1) // esds says once more that it is AAC
}

// damagedEnd overwrites the last third of a file.
func damagedEnd(_ *testing.T, data []byte) []byte {
	from := len(data) * 2 / 3
	return append(data[:from], bytes.Repeat([]byte{0xff}, len(data)-from)...)
}

// noticed wants that the video says what of its source is missing.
func noticed(code string) func(*testing.T, madeVideo) {
	return func(t *testing.T, v madeVideo) {
		t.Helper()
		if v.Notices == nil || len(*v.Notices) != 1 || (*v.Notices)[0].Code != code {
			t.Errorf("it says %v, want %s", v.Notices, code)
		}
	}
}

// sized wants that the picture is shown in this shape.
func sized(width, height int) func(*testing.T, madeVideo) {
	return func(t *testing.T, v madeVideo) {
		t.Helper()
		master := string(v.file("master.m3u8"))
		var w, h int
		if _, after, found := strings.Cut(master, "RESOLUTION="); found {
			_, _ = fmt.Sscanf(after, "%dx%d", &w, &h)
		}
		if w == 0 || h == 0 || w*height < h*width*9/10 || w*height > h*width*11/10 {
			t.Errorf("shown as %d x %d, want the shape of %d x %d:\n%s", w, h, width, height, master)
		}
	}
}

// fewThumbnails: the storyboard of a film with many cuts has no more pictures than others.
func fewThumbnails(t *testing.T, v madeVideo) {
	t.Helper()
	if n := bytes.Count(v.file("storyboard.vtt"), []byte("-->")); n < 1 || n > 100 {
		t.Errorf("%d thumbnails", n)
	}
}

// withoutTags: what a file says about itself is in nothing that we make of it.
func withoutTags(t *testing.T, v madeVideo) {
	t.Helper()
	for _, path := range []string{"download.mp4", "master.m3u8"} {
		if data := v.file(path); len(data) == 0 || bytes.Contains(data, []byte("script")) || bytes.Contains(data, []byte("126.97")) {
			t.Errorf("%s has %d bytes, and the tags of the source", path, len(data))
		}
	}
}
