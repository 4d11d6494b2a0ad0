// Package mediatest makes small media files for tests, of every kind that the product
// accepts. Nothing is downloaded; ffmpeg draws the pictures and hums the sound.
package mediatest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Clip is a recipe for a good source.
type Clip struct {
	Name string
	// Make writes the clip into dir and returns its path. The name has no
	// extension, like an uploaded blob.
	Make func(t testing.TB, dir string) string
	// Silent says that the clip has no audio.
	Silent bool
	// Remux says that the clip must be remuxed before it can be planned.
	Remux bool
}

// Seconds is the length of most clips.
const Seconds = 10

// Moving is a lavfi source whose every frame differs from its neighbours.
func Moving(size, rate string, seconds int) []string {
	return []string{"-f", "lavfi", "-i", fmt.Sprintf("testsrc2=s=%s:r=%s:d=%d", size, rate, seconds)}
}

// Hum is a lavfi source of sound. ffmpeg takes five times as long to encode a pure tone.
func Hum(rate, seconds int) []string {
	return []string{"-f", "lavfi", "-i", fmt.Sprintf("anoisesrc=c=pink:a=0.2:r=%d:seed=1:d=%d", rate, seconds)}
}

// X264 are options for a quick H.264 encoding with a keyframe every gop frames.
func X264(gop int) []string {
	return []string{"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", fmt.Sprint(gop)}
}

// FFmpeg runs ffmpeg, which must succeed. The last argument is the output.
func FFmpeg(t testing.TB, args ...[]string) {
	t.Helper()
	all := []string{"-nostdin", "-hide_banner", "-v", "error", "-y"}
	for _, a := range args {
		all = append(all, a...)
	}
	cmd := exec.CommandContext(t.Context(), "ffmpeg", all...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("ffmpeg %s: %v\n%s", strings.Join(all, " "), err, stderr.String())
	}
}

// recipe makes a clip with one run of ffmpeg.
func recipe(name, format string, args ...[]string) Clip {
	return Clip{Name: name, Make: func(t testing.TB, dir string) string {
		path := filepath.Join(dir, name)
		FFmpeg(t, append(args, []string{"-f", format, path})...)
		return path
	}}
}

func join(parts ...[]string) []string {
	var all []string
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

const small = "160x90"

// Clips are good sources of many kinds, of half a megabyte each.
func Clips() []Clip { return clips(Moving) }

// HeavyClips are the same with pictures that do not compress: several megabytes each, for
// tests of what is read of them.
func HeavyClips() []Clip {
	return clips(func(size, rate string, seconds int) []string {
		return []string{"-f", "lavfi", "-i", fmt.Sprintf("testsrc2=s=%s:r=%s:d=%d,noise=alls=60:allf=t", size, rate, seconds)}
	})
}

// clips makes their pictures with moving.
func clips(moving func(size, rate string, seconds int) []string) []Clip {
	video, hum := moving(small, "30", Seconds), Hum(48000, Seconds)
	aac := []string{"-c:a", "aac", "-b:a", "64k"}
	silent := recipe("silent", "mp4", video, X264(90))
	silent.Silent = true
	hdr := recipe("hdr", "mp4", moving(small, "25", 6), hum, []string{
		"-c:v", "libx265", "-preset", "ultrafast", "-pix_fmt", "yuv420p10le",
		"-x265-params", "log-level=none:keyint=50:pools=1",
		"-color_primaries", "bt2020", "-color_trc", "smpte2084", "-colorspace", "bt2020nc", "-shortest",
	}, aac)
	remuxed := func(c Clip) Clip {
		c.Remux = true
		return c
	}
	return []Clip{
		recipe("mp4-30", "mp4", video, hum, X264(90), aac, []string{"-movflags", "+faststart"}),
		recipe("mp4-23.976", "mp4", moving(small, "24000/1001", Seconds), hum, X264(240), aac),
		recipe("mp4-29.97", "mp4", moving(small, "30000/1001", Seconds), hum, X264(60), aac),
		recipe("mp4-60-bframes", "mp4", moving(small, "60", Seconds), hum,
			[]string{"-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-g", "120", "-bf", "3"}, aac),
		recipe("vfr-gap", "mp4", video, hum,
			[]string{"-vf", "select='not(between(t,3,7.5))*(mod(n,3)+gt(t,8))'", "-fps_mode", "vfr"}, X264(60), aac),
		editList(join(video, hum, X264(30), aac)),
		recipe("late-video", "mp4", []string{"-itsoffset", "0.5"}, video, hum, X264(90), aac),
		recipe("late-audio", "mp4", video, []string{"-itsoffset", "0.7"}, hum, X264(90), aac),
		rotated(join(video, hum, X264(90), aac)),
		recipe("portrait-odd", "mp4", moving("91x161", "30", Seconds), hum,
			[]string{"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv444p", "-g", "90"}, aac),
		recipe("anamorphic", "mp4", moving("120x90", "25", 6), hum, []string{"-vf", "setsar=4/3", "-shortest"}, X264(50), aac),
		recipe("hevc-10bit", "mp4", video, hum, []string{
			"-c:v", "libx265", "-preset", "ultrafast", "-pix_fmt", "yuv420p10le", "-x265-params", "log-level=none:keyint=60:open-gop=1:pools=1",
		}, aac),
		recipe("webm-vp9-opus", "webm", video, hum, []string{
			"-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-b:v", "200k", "-g", "60", "-c:a", "libopus",
		}),
		remuxed(recipe("ts-open-gop", "mpegts", video, hum, []string{
			"-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-g", "45", "-bf", "3", "-flags", "-cgop", "-x264-params", "open-gop=1",
		}, aac)),
		unaligned(remuxed(recipe("ts", "mpegts", video, hum, X264(60), aac))),
		remuxed(recipe("wmv", "asf", video, hum, []string{"-c:v", "wmv2", "-g", "60", "-c:a", "wmav2"})),
		recipe("mkv-44.1k", "matroska", video, Hum(44100, Seconds), X264(60), aac),
		remuxed(recipe("mkv-live", "matroska", video, hum, X264(60), aac, []string{"-live", "1"})),
		remuxed(recipe("avi", "avi", video, hum, []string{"-c:v", "mpeg4", "-g", "60", "-c:a", "libmp3lame"})),
		remuxed(recipe("flv", "flv", video, Hum(44100, Seconds), X264(60), aac)),
		remuxed(recipe("ogg-theora-vorbis", "ogg", video, hum, []string{"-c:v", "libtheora", "-q:v", "6", "-g", "60", "-c:a", "libvorbis"})),
		remuxed(recipe("mpeg-ps", "vob", moving("176x144", "25", Seconds), hum, []string{"-c:v", "mpeg2video", "-g", "15", "-bf", "2", "-b:v", "1M", "-c:a", "mp2"})),
		recipe("mp4-fragmented", "mp4", video, hum, X264(60), aac, []string{"-movflags", "+frag_keyframe+empty_moov"}),
		recipe("two-audio-tracks", "mp4", video, hum, Hum(44100, Seconds), []string{"-map", "0", "-map", "1", "-map", "2"}, X264(90), aac),
		recipe("short-audio", "mp4", video, Hum(48000, 2), X264(90), aac),
		recipe("empty-audio", "matroska", video, hum, []string{"-af", "atrim=start=5:end=5.00001", "-c:a", "pcm_s16le"}, X264(90)),
		silent,
		hdr,
	}
}

// editList cuts the start of a file off by copying: the samples stay, and an
// edit list hides them.
func editList(args []string) Clip {
	return Clip{Name: "edit-list", Make: func(t testing.TB, dir string) string {
		whole := filepath.Join(dir, "edit-list-whole.mp4")
		FFmpeg(t, args, []string{whole})
		path := filepath.Join(dir, "edit-list")
		FFmpeg(t, []string{"-ss", "0.57", "-i", whole, "-c", "copy", "-f", "mp4", path})
		return path
	}}
}

// unaligned cuts a stream inside its first packet, as a recording may begin.
func unaligned(stream Clip) Clip {
	return Clip{Name: "ts-unaligned", Make: func(t testing.TB, dir string) string {
		data, err := os.ReadFile(stream.Make(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		return Write(t, dir, "ts-unaligned", data[100:])
	}}
}

// rotated marks a clip as filmed with the camera on its side.
func rotated(args []string) Clip {
	return Clip{Name: "rotated-90", Make: func(t testing.TB, dir string) string {
		whole, path := filepath.Join(dir, "rotated-whole.mp4"), filepath.Join(dir, "rotated-90")
		FFmpeg(t, args, []string{whole})
		// Newer releases of ffmpeg have an option for it, older ones a tag.
		newer := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error", "-y",
			"-display_rotation", "90", "-i", whole, "-c", "copy", "-f", "mp4", path)
		if newer.Run() != nil {
			FFmpeg(t, []string{"-i", whole, "-c", "copy", "-metadata:s:v:0", "rotate=90", "-f", "mp4", path})
		}
		return path
	}}
}

// Write puts bytes into a file of dir and returns its path.
func Write(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
