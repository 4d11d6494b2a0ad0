package soak

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// clip is a file that users upload. The picture of every frame of a good one is
// the frame's number: 16 bars, from left to right the bits from low to high,
// white for 1. Whatever the encoder and the size, the number can be read again.
type clip struct {
	name   string
	args   []string // of ffmpeg, without the output
	frames int      // 0: a bad file
	sound  bool
	length time.Duration
	code   string // of the failure that a bad file must end with; empty: refused when it is uploaded
	free   int64  // bytes behind the film that no player reads; the file is sent slowly, so that work begins before its end
	make   func(path string) error

	path string
	size int64
}

const bars = 16

// numbers is a source of frames that carry their numbers. Noise makes files
// large.
func numbers(size, rate string, frames int, noise bool) []string {
	graph := fmt.Sprintf("color=black:s=%dx2:r=%s,format=gray,geq=lum='255*mod(floor(N/pow(2,X)),2)',scale=%s:flags=neighbor,format=yuv420p", bars, rate, strings.ReplaceAll(size, "x", ":"))
	if noise {
		graph += ",noise=alls=12:allf=t"
	}
	return []string{"-f", "lavfi", "-i", fmt.Sprintf("%s,trim=end_frame=%d", graph, frames)}
}

func hum(seconds float64) []string {
	return []string{"-f", "lavfi", "-i", fmt.Sprintf("anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=%g", seconds)}
}

func x264(gop int) []string {
	return []string{"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", fmt.Sprint(gop)}
}

func args(parts ...[]string) []string {
	var all []string
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// good is a clip of so many frames at a whole rate.
func good(name, size string, rate, frames int, sound bool, rest ...string) *clip {
	seconds := float64(frames) / float64(rate)
	c := &clip{name: name, frames: frames, sound: sound, length: time.Duration(seconds * float64(time.Second))}
	c.args = numbers(size, fmt.Sprint(rate), frames, strings.HasPrefix(name, "large"))
	if sound {
		c.args = append(c.args, hum(seconds)...)
	}
	c.args = append(c.args, rest...)
	return c
}

// clips makes the recipes: every run has files of its own.
func clips() []*clip {
	aac := []string{"-c:a", "aac", "-b:a", "64k"}
	ntsc := &clip{name: "ntsc.mkv", frames: 150, length: 5005 * time.Millisecond, args: args(numbers("160x96", "30000/1001", 150, false), x264(60))}
	return []*clip{
		good("plain.mp4", "160x96", 15, 120, true, args(x264(30), aac, []string{"-movflags", "+faststart"})...),
		good("two-sizes.mp4", "640x368", 25, 50, true, args(x264(50), aac)...),
		ntsc,
		good("webm.webm", "160x96", 24, 96, true, "-c:v", "libvpx", "-deadline", "realtime", "-b:v", "600k", "-c:a", "libopus"),
		good("avi.avi", "160x96", 10, 200, false, "-c:v", "mpeg4", "-q:v", "3"),
		good("fast.mov", "160x96", 60, 120, true, args(x264(60), []string{"-c:a", "pcm_s16le"})...),
		good("no-index.mkv", "160x96", 25, 100, false, args(x264(50), []string{"-f", "matroska", "-live", "1"})...), // must be remuxed first
		good("large.avi", "640x368", 25, 60, false, "-c:v", "mjpeg", "-q:v", "3", "-pix_fmt", "yuvj420p"),
		good("long.mp4", "320x192", 15, 240, true, args(x264(60), aac)...),
		slow(good("sent-slowly.mp4", "160x96", 15, 180, true, args(x264(30), aac, []string{"-movflags", "+faststart"})...)),
		// No index, and 12 s without a keyframe: chunks are decoded from a copy, from far back.
		good("rare-keys.ts", "160x96", 10, 300, false, args(x264(1000), []string{"-sc_threshold", "0", "-force_key_frames", "0,1,2,3,15,20,25", "-f", "mpegts"})...),
		// Chunks begin at frames 60 and 140, of which the index says that they are decoded after
		// the keyframe of 63 or 143. The pictures before it need the group before, too: the first
		// try misses three, and the next one starts further back.
		good("open-groups.mp4", "160x96", 10, 200, false, args(x264(1000), []string{"-sc_threshold", "0", "-force_key_frames", "6.3,14.3",
			"-bf", "16", "-b_strategy", "0", "-x264-params", "open-gop=1:b-pyramid=normal:ref=4"})...),
		{name: "sound-only.mp4", code: "no_video_stream", args: args(hum(2), aac)},
		{name: "half.mp4", code: "corrupt_media", make: half},
		{name: "text.txt", make: func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("This is no video. ", 500)), 0o600)
		}},
	}
}

// slow is a clip with a part of its own for its film and several for nothing.
func slow(c *clip) *clip {
	c.free = 28 << 20
	return c
}

// pad appends a box of free space (ISO/IEC 14496-12, 8.1.2).
func pad(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("append free space: %w", err)
	}
	defer func() { _ = f.Close() }()
	if _, err = f.Write(append(binary.BigEndian.AppendUint32(nil, uint32(size)), "free"...)); err == nil {
		_, err = f.Write(make([]byte, size-8))
	}
	return err
}

// makeClips writes the files into dir.
func makeClips(ctx context.Context, dir string) ([]*clip, error) {
	list := clips()
	var errs []error
	for _, c := range list {
		c.path = filepath.Join(dir, c.name)
		if c.make != nil {
			errs = append(errs, c.make(c.path))
		} else {
			all := append([]string{"-nostdin", "-v", "error", "-y"}, c.args...)
			if out, err := exec.CommandContext(ctx, "ffmpeg", append(all, c.path)...).CombinedOutput(); err != nil {
				errs = append(errs, fmt.Errorf("make %s: %w\n%s", c.name, err, out))
			}
			if c.free > 0 {
				errs = append(errs, pad(c.path, c.free))
			}
		}
		info, err := os.Stat(c.path)
		if err == nil {
			c.size = info.Size()
		}
		errs = append(errs, err)
	}
	return list, errors.Join(errs...)
}

// half is an MP4 file without its end, where the index would be. It is made from
// a whole one beside it.
func half(path string) error {
	whole, err := os.ReadFile(filepath.Join(filepath.Dir(path), "two-sizes.mp4"))
	if err != nil {
		return fmt.Errorf("make half a file: %w", err)
	}
	return os.WriteFile(path, whole[:len(whole)/2], 0o600)
}
