package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// film describes a generated video.
type film struct {
	width, height, fps int
	noise              int // strength; 0 is a picture that is easy to encode
	rate               int // bits per second at most
	seconds            int
	loops              int // copies of it in a row, without encoding again; 0 is 1
	silent             bool
	thin               bool // sound of a quarter of the usual rate: a small file
	cheap              bool // to make and to process, at the same rate: it looks worse, and ffmpeg encodes noise faster than a tone
}

func (f film) total() int { return f.seconds * max(1, f.loops) }

func (f film) name() string {
	more := ""
	if f.silent {
		more += "-silent"
	}
	if f.cheap {
		more += "-cheap"
	}
	if f.thin {
		more += "-thin"
	}
	return fmt.Sprintf("%dx%d-%dfps-n%d-%dk-%ds-x%d%s.mp4", f.width, f.height, f.fps, f.noise, f.rate/1000, f.seconds, max(1, f.loops), more)
}

// Film returns a video of 1280 × 720 pixels, 30 frames and two channels of sound
// a second, that lasts a number of minutes, generated into the folder cache if
// it is not there yet: one minute is encoded and the rest copied.
func Film(ctx context.Context, cache string, minutes int) (path string, err error) {
	return film{width: 1280, height: 720, fps: 30, noise: 3, rate: 1_000_000, seconds: 60, loops: minutes, cheap: true}.make(ctx, cache)
}

// make returns the path of the video in the folder, where it is generated once.
// It appears under its name only when it is whole.
func (f film) make(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, f.name())
	if _, err := os.Stat(path); err == nil {
		return path, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("look for a generated video: %w", err)
	}
	part, err := os.MkdirTemp(dir, "making-")
	if err != nil {
		return "", fmt.Errorf("generate a video: %w", err)
	}
	defer func() { _ = os.RemoveAll(part) }()
	whole := filepath.Join(part, "whole.mp4")
	args := f.encodeArgs()
	if f.loops > 1 {
		one := f
		one.loops = 0
		source, err := one.make(ctx, dir)
		if err != nil {
			return "", err
		}
		args = []string{"-stream_loop", strconv.Itoa(f.loops - 1), "-i", source, "-c", "copy"}
	}
	if err := ffmpeg(ctx, append(args, whole)...); err != nil {
		return "", fmt.Errorf("generate %s: %w", f.name(), err)
	}
	if err := os.Rename(whole, path); err != nil {
		return "", fmt.Errorf("generate %s: %w", f.name(), err)
	}
	return path, nil
}

// encodeArgs make moving bars and counters under noise: a hard case. The index
// is at the end of the file, where cameras put it.
func (f film) encodeArgs() []string {
	picture := fmt.Sprintf("testsrc2=size=%dx%d:rate=%d", f.width, f.height, f.fps)
	if f.noise > 0 {
		picture += fmt.Sprintf(",noise=alls=%d:allf=t", f.noise)
	}
	rate, preset := strconv.Itoa(f.rate), "veryfast"
	if f.cheap {
		preset = "ultrafast"
	}
	args := []string{"-f", "lavfi", "-i", picture}
	if !f.silent {
		sound, source := "128k", "sine=frequency=330:beep_factor=4:sample_rate=48000"
		if f.cheap {
			source = "anoisesrc=color=pink:amplitude=0.2:sample_rate=48000:seed=1"
		}
		if f.thin {
			sound = "32k"
		}
		args = append(args, "-f", "lavfi", "-i", source+",aformat=channel_layouts=stereo",
			"-c:a", "aac", "-b:a", sound)
	}
	return append(args, "-t", strconv.Itoa(f.seconds),
		"-c:v", "libx264", "-preset", preset, "-pix_fmt", "yuv420p", "-crf", "20",
		"-maxrate", rate, "-bufsize", rate, "-g", strconv.Itoa(3*f.fps))
}

// ffmpeg runs the program and quotes it when it fails.
func ffmpeg(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "ffmpeg", append([]string{"-nostdin", "-hide_banner", "-v", "error", "-y"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ffmpeg: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return nil
}
