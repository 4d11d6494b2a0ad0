package mediatest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cutroom/cutroom/shared/video"
)

// BadClip is a recipe for a source that must be refused for good, with Code.
type BadClip struct {
	Name string
	Code video.Code
	Make func(t testing.TB, dir string) string
}

func bytesOf(data string) func(testing.TB, string) string {
	return func(t testing.TB, dir string) string { return Write(t, dir, "bytes", []byte(data)) }
}

func made(args ...[]string) func(testing.TB, string) string {
	return func(t testing.TB, dir string) string {
		path := filepath.Join(dir, "made")
		FFmpeg(t, append(args, []string{path})...)
		return path
	}
}

// good makes an ordinary clip, with its index in front or at the end.
func good(t testing.TB, dir string, movflags string) string {
	path := filepath.Join(dir, "good")
	FFmpeg(t, Moving(small, "30", Seconds), Hum(48000, Seconds), X264(60), []string{"-c:a", "aac", "-movflags", movflags, "-f", "mp4", path})
	return path
}

// BadClips are sources that must be refused.
func BadClips() []BadClip {
	tiny := Moving("64x64", "10", 1)
	mp4 := []string{"-f", "mp4"}
	return []BadClip{
		{"zero-bytes", video.UnsupportedMedia, bytesOf("")},
		{"one-byte", video.UnsupportedMedia, bytesOf("x")},
		{"text", video.UnsupportedMedia, bytesOf("This is not a video.\n")},
		{"html", video.UnsupportedMedia, bytesOf("<!doctype html><title>video</title><script>1</script>")},
		{"svg", video.UnsupportedMedia, bytesOf(`<svg xmlns="http://www.w3.org/2000/svg"/>`)},
		{"ffconcat", video.UnsupportedMedia, bytesOf("ffconcat version 1.0\nfile good\n")},
		{"sdp", video.UnsupportedMedia, bytesOf("v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\na=rtpmap:96 H264/90000\n")},
		{"playlist-of-itself", video.UnsupportedMedia, bytesOf("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nbytes\n#EXT-X-ENDLIST\n")},
		{"png", video.UnsupportedMedia, made(tiny, []string{"-frames:v", "1", "-f", "image2", "-c:v", "png", "-update", "1"})},
		{"audio-only", video.NoVideoStream, made(Hum(48000, 2), []string{"-c:a", "aac"}, mp4)},
		{"mp3-with-cover", video.NoVideoStream, made(Hum(48000, 2), tiny, []string{
			"-map", "0", "-map", "1", "-frames:v", "1", "-c:v", "mjpeg", "-disposition:v", "attached_pic", "-f", "mp3",
		})},
		{"m4a-with-cover", video.NoVideoStream, made(Hum(48000, 2), tiny, []string{
			"-map", "0", "-map", "1", "-frames:v", "1", "-c:v", "mjpeg", "-disposition:v", "attached_pic",
		}, mp4)},
		{"sound-that-no-decoder-opens", video.UnsupportedMedia, func(t testing.TB, dir string) string {
			path := filepath.Join(dir, "sound")
			FFmpeg(t, Hum(48000, 1), []string{"-c:a", "aac", "-f", "mp4", path})
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			// Lossless by name, without the description that such a decoder needs:
			// ffprobe (5.1) ends with status 1 and names no reason.
			data = bytes.Replace(data, []byte("mp4a"), []byte("alac"), 1)
			return Write(t, dir, "alac", bytes.Replace(data, []byte("esds"), []byte("free"), 1))
		}},
		{"cut-index-last", video.CorruptMedia, func(t testing.TB, dir string) string { return Cut(t, good(t, dir, "0"), 0.5) }},
		{"cut-index-first", video.CorruptMedia, func(t testing.TB, dir string) string { return Cut(t, good(t, dir, "+faststart"), 0.5) }},
		{"cut-mkv", video.CorruptMedia, func(t testing.TB, dir string) string {
			path := filepath.Join(dir, "whole")
			FFmpeg(t, Moving(small, "30", Seconds), Hum(48000, Seconds), X264(60), []string{"-c:a", "aac", "-f", "matroska", path})
			return Cut(t, path, 0.5)
		}},
		{"random-after-ftyp", video.CorruptMedia, func(t testing.TB, dir string) string {
			noise := make([]byte, 1<<20)
			source := rand.NewChaCha8([32]byte{1})
			_, _ = source.Read(noise)
			return Write(t, dir, "noise", append([]byte("\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isomiso2"), noise...))
		}},
		{"atom-size-1", video.CorruptMedia, bytesOf("\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isomiso2\x00\x00\x00\x01moov\x00\x00\x00\x00\x00\x00\x00\x01")},
		{"encrypted", video.EncryptedMedia, made(tiny, X264(10), []string{
			"-encryption_scheme", "cenc-aes-ctr", "-encryption_key", "76a6c65c5ea762046bd749a2e632ccbb", "-encryption_kid", "a7e61c373e219033c21091fa607bf3b8",
		}, mp4)},
		{"8192x8192", video.TooManyPixels, made([]string{"-f", "lavfi", "-i", "color=s=8192x8192:r=1:d=1"}, X264(1), mp4)},
		{"1x1", video.TooSmall, made(tiny, []string{"-vf", "format=rgb24,scale=1:1", "-c:v", "libx264", "-pix_fmt", "yuv444p"}, mp4)},
		{"gap-of-10-hours", video.TooLong, made(Moving("64x64", "1", 2), []string{"-vf", "setpts='N*36000/TB'", "-fps_mode", "passthrough"}, X264(1), mp4)},
		{"300-streams", video.TooManyStreams, func(t testing.TB, dir string) string { return manyStreams(t, dir, 300) }},
		{"20-streams", video.TooManyStreams, func(t testing.TB, dir string) string { return manyStreams(t, dir, 20) }},
		{"1000-fps", video.TooManyFrames, made([]string{"-f", "lavfi", "-i", "color=s=64x64:r=1000:d=1"}, X264(250), mp4)},
	}
}

func manyStreams(t testing.TB, dir string, n int) string {
	one, path := filepath.Join(dir, "one.mp4"), filepath.Join(dir, "many")
	FFmpeg(t, Moving("64x64", "1", 1), X264(1), []string{one})
	FFmpeg(t, []string{"-i", one}, slices.Repeat([]string{"-map", "0"}, n), []string{"-c", "copy", "-f", "mp4", path})
	return path
}

// PlaylistTo is an HLS playlist whose only segment is at the address.
func PlaylistTo(address string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n%s\n#EXT-X-ENDLIST\n", address)
	return b.Bytes()
}
