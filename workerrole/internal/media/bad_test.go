package media_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/testkit/mediatest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
)

// badClip is a recipe for a source that must be refused for good, with Code.
type badClip struct {
	Name string
	Code engine.Code
	Make func(t testing.TB, dir string) string
}

func bytesOf(data string) func(testing.TB, string) string {
	return func(t testing.TB, dir string) string { return mediatest.Write(t, dir, "bytes", []byte(data)) }
}

func made(args ...[]string) func(testing.TB, string) string {
	return func(t testing.TB, dir string) string {
		path := filepath.Join(dir, "made")
		mediatest.FFmpeg(t, append(args, []string{path})...)
		return path
	}
}

// badClips are sources that must be refused: what the web role refuses to accept, and
// containers that the corpus of whole uploads (e2e/hostile) lacks.
func badClips() []badClip {
	tiny := mediatest.Moving("64x64", "10", 1)
	return []badClip{
		{"zero-bytes", video.UnsupportedMedia, bytesOf("")},
		{"one-byte", video.UnsupportedMedia, bytesOf("x")},
		{"text", video.UnsupportedMedia, bytesOf("This is not a video.\n")},
		{"html", video.UnsupportedMedia, bytesOf("<!doctype html><title>video</title><script>1</script>")},
		{"svg", video.UnsupportedMedia, bytesOf(`<svg xmlns="http://www.w3.org/2000/svg"/>`)},
		{"ffconcat", video.UnsupportedMedia, bytesOf("ffconcat version 1.0\nfile good\n")},
		{
			"sdp", video.UnsupportedMedia,
			bytesOf("v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\na=rtpmap:96 H264/90000\n"),
		},
		{
			"playlist-of-itself", video.UnsupportedMedia,
			bytesOf("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nbytes\n#EXT-X-ENDLIST\n"),
		},
		{"png", video.UnsupportedMedia, made(tiny, []string{"-frames:v", "1", "-f", "image2", "-c:v", "png", "-update", "1"})},
		{"mp3-with-cover", video.NoVideoStream, made(mediatest.Hum(48000, 2), tiny, []string{
			"-map", "0", "-map", "1", "-frames:v", "1", "-c:v", "mjpeg", "-disposition:v", "attached_pic", "-f", "mp3",
		})},
		{"sound-that-no-decoder-opens", video.UnsupportedMedia, func(t testing.TB, dir string) string {
			path := filepath.Join(dir, "sound")
			mediatest.FFmpeg(t, mediatest.Hum(48000, 1), []string{"-c:a", "aac", "-f", "mp4", path})
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			// Lossless by name, without the description that such a decoder needs:
			// ffprobe (5.1) ends with status 1 and names no reason.
			data = bytes.Replace(data, []byte("mp4a"), []byte("alac"), 1)
			return mediatest.Write(t, dir, "alac", bytes.Replace(data, []byte("esds"), []byte("free"), 1))
		}},
		{"cut-mkv", video.CorruptMedia, func(t testing.TB, dir string) string {
			path := filepath.Join(dir, "whole")
			mediatest.FFmpeg(t, mediatest.Moving("160x90", "30", mediatest.Seconds), mediatest.Hum(48000, mediatest.Seconds), mediatest.X264(60), []string{"-c:a", "aac", "-f", "matroska", path})
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return mediatest.Write(t, dir, "cut", whole[:len(whole)/2])
		}},
	}
}

// playlistTo is an HLS playlist whose only segment is at the address.
func playlistTo(address string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n%s\n#EXT-X-ENDLIST\n", address)
	return b.Bytes()
}

// probeAndPlan is what the probe step does with an upload.
func probeAndPlan(t *testing.T, tool *ffmpeg.Tool, src ffmpeg.Source) (video.Plan, error) {
	t.Helper()
	info, err := tool.Probe(t.Context(), src)
	if err != nil {
		return video.Plan{}, err
	}
	return media.Plan(info)
}

// Sources that can never work are refused at the first try, with the reason.
func TestBadSourcesAreRefused(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	for _, clip := range badClips() {
		t.Run(clip.Name, func(t *testing.T) {
			t.Parallel()
			path := clip.Make(t, t.TempDir())
			for _, src := range []ffmpeg.Source{{URL: path}, served(t, path)} {
				_, err := probeAndPlan(t, tool, src)
				var failure *engine.Failure
				if !errors.As(err, &failure) || failure.Code != clip.Code {
					t.Errorf("got %v, want code %s", err, clip.Code)
				}
				if err != nil && strings.Contains(err.Error(), "/") {
					t.Errorf("the message tells too much: %v", err)
				}
			}
		})
	}
}

// A playlist that calls itself a video reaches neither our files nor our network.
func TestPlaylistsReachNothing(t *testing.T) {
	t.Parallel()
	tool(t) // or this test is skipped
	off, err := sandbox.Open(sandbox.Off)
	if err != nil {
		t.Fatal(err)
	}
	tool, err := ffmpeg.Open(t.Context(), off, "", "") // so that only the whitelists are in the way
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mediatest.FFmpeg(t, mediatest.Moving("64x64", "10", 1), mediatest.X264(10), []string{"-f", "mpegts", filepath.Join(dir, "private.ts")})
	var hits atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		http.ServeFile(w, r, filepath.Join(dir, "private.ts"))
	}))
	defer inside.Close()
	for name, target := range map[string]string{
		"file":     filepath.Join(dir, "private.ts"),
		"file-url": "file://" + filepath.Join(dir, "private.ts"),
		"relative": "private.ts",
		"http":     inside.URL + "/private.ts",
	} {
		for _, ext := range []string{"", ".mp4", ".m3u8"} {
			mediatest.Write(t, dir, name+ext, playlistTo(target))
			path := filepath.Join(dir, name+ext)
			for _, src := range []ffmpeg.Source{{URL: path}, served(t, path)} {
				if _, err := probeAndPlan(t, tool, src); !errors.As(err, new(*engine.Failure)) {
					t.Errorf("%s%s: probe said %v", name, ext, err)
				}
				// And nothing is reached when a plan exists already. It pins no
				// demuxer here, so that only the whitelists are in the way.
				plan := video.Plan{
					FPS: video.Rational{Num: 10, Den: 1}, Frames: 10, SegmentFrames: 10, HasAudio: true,
					Chunks: []video.Chunk{{To: 10}}, Renditions: []video.Rendition{{
						Name: "64p", Width: 64, Height: 64, MaxRate: 100000,
					}},
				}
				if _, err := media.EncodeChunk(t.Context(), tool, src, plan, 0, t.TempDir()); err == nil {
					t.Errorf("%s%s: a chunk was encoded", name, ext)
				}
			}
		}
	}
	if n := hits.Load(); n > 0 {
		t.Errorf("the address inside the playlist was asked for %d times", n)
	}
}

// A file whose video ends long before the container says fails at the chunk,
// even when the probe could not know.
func TestPromiseIsChecked(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	src, info := probe(t, tool, mediatest.Clips()[0].Make(t, t.TempDir()))
	for factor, want := range map[float64]engine.Code{2: video.CorruptMedia, 0.2: video.CorruptMedia} {
		src, lying := src, info
		lying.Video.End *= factor
		lying.Audio.End = 0 // else the last picture would stay while it goes on
		plan, err := media.Plan(lying)
		if err != nil {
			t.Fatal(err)
		}
		plan = manySeams(plan)
		if factor < 1 { // the slack is for small errors, so make the promise really short
			plan.Frames, plan.Chunks = 10, []video.Chunk{{To: 10}}
			plan.SegmentFrames = 10
			plan.FPS = video.Rational{Num: 5, Den: 1}
			long := filepath.Join(t.TempDir(), "long")
			mediatest.FFmpeg(t, mediatest.Moving("32x32", "5", 30), mediatest.X264(10), []string{"-f", "mp4", long})
			src = ffmpeg.Source{URL: long, Demuxer: "mov"}
		}
		var failure *engine.Failure
		for i := range plan.Chunks {
			if _, err = media.EncodeChunk(t.Context(), tool, src, plan, i, t.TempDir()); err != nil {
				break
			}
		}
		if !errors.As(err, &failure) || failure.Code != want {
			t.Errorf("promise × %v: got %v, want %s", factor, err, want)
		}
	}
}
