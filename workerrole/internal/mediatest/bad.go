package mediatest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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

// BadClips are sources that must be refused: what the web role refuses to accept, and
// containers that the corpus of whole uploads (e2e/hostile) lacks.
func BadClips() []BadClip {
	tiny := Moving("64x64", "10", 1)
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
		{"mp3-with-cover", video.NoVideoStream, made(Hum(48000, 2), tiny, []string{
			"-map", "0", "-map", "1", "-frames:v", "1", "-c:v", "mjpeg", "-disposition:v", "attached_pic", "-f", "mp3",
		})},
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
		{"cut-mkv", video.CorruptMedia, func(t testing.TB, dir string) string {
			path := filepath.Join(dir, "whole")
			FFmpeg(t, Moving(small, "30", Seconds), Hum(48000, Seconds), X264(60), []string{"-c:a", "aac", "-f", "matroska", path})
			return Cut(t, path, 0.5)
		}},
	}
}

// PlaylistTo is an HLS playlist whose only segment is at the address.
func PlaylistTo(address string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n%s\n#EXT-X-ENDLIST\n", address)
	return b.Bytes()
}
