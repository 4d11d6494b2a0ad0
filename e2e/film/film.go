// Package film makes videos with ffmpeg, each once: for benchmarks, the lab and
// the demo.
package film

import (
	"bytes"
	"cmp"
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

// Film describes a generated video.
type Film struct {
	Width, Height, FPS int
	Noise              int // strength; 0 is a picture that is easy to encode
	Rate               int // bits per second at most
	Seconds            int
	Loops              int // copies of it in a row, without encoding again; 0 is 1
	Silent             bool
	Thin               bool // sound of a quarter of the usual rate: a small file
	Cheap              bool // to make and to process, at the same rate: it looks worse, and ffmpeg encodes noise faster than a tone
}

// Total is the length in seconds.
func (f Film) Total() int { return f.Seconds * max(1, f.Loops) }

// Name is that of the file.
func (f Film) Name() string {
	more := ""
	if f.Silent {
		more += "-silent"
	}
	if f.Cheap {
		more += "-cheap"
	}
	if f.Thin {
		more += "-thin"
	}
	return fmt.Sprintf("%dx%d-%dfps-n%d-%dk-%ds-x%d%s.mp4", f.Width, f.Height, f.FPS, f.Noise, f.Rate/1000, f.Seconds, max(1, f.Loops), more)
}

// Make returns the path of the video in the folder, where it is generated once.
func (f Film) Make(ctx context.Context, dir string) (string, error) {
	args := f.encodeArgs()
	if f.Loops > 1 {
		one := f
		one.Loops = 0
		source, err := one.Make(ctx, dir)
		if err != nil {
			return "", err
		}
		args = []string{"-stream_loop", strconv.Itoa(f.Loops - 1), "-i", source, "-c", "copy"}
	}
	path := filepath.Join(dir, f.Name())
	return path, Once(ctx, path, args...)
}

// Once makes a file unless it is there. It appears under its name only when it is whole.
func Once(ctx context.Context, path string, args ...string) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	making, err := os.MkdirTemp(filepath.Dir(path), "making-")
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	defer func() { _ = os.RemoveAll(making) }()
	whole := filepath.Join(making, filepath.Base(path))
	if err := FFmpeg(ctx, append(args, whole)...); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	if err := os.Rename(whole, path); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return nil
}

// encodeArgs make moving bars and counters under noise: a hard case. The index
// is at the end of the file, where cameras put it.
func (f Film) encodeArgs() []string {
	picture := fmt.Sprintf("testsrc2=size=%dx%d:rate=%d", f.Width, f.Height, f.FPS)
	if f.Noise > 0 {
		picture += fmt.Sprintf(",noise=alls=%d:allf=t", f.Noise)
	}
	rate, preset := strconv.Itoa(f.Rate), "veryfast"
	if f.Cheap {
		preset = "ultrafast"
	}
	args := []string{"-f", "lavfi", "-i", picture}
	if !f.Silent {
		sound, source := "128k", "sine=frequency=330:beep_factor=4:sample_rate=48000"
		if f.Cheap {
			source = "anoisesrc=color=pink:amplitude=0.2:sample_rate=48000:seed=1"
		}
		if f.Thin {
			sound = "32k"
		}
		args = append(args, "-f", "lavfi", "-i", source+",aformat=channel_layouts=stereo",
			"-c:a", "aac", "-b:a", sound)
	}
	return append(args, "-t", strconv.Itoa(f.Seconds),
		"-c:v", "libx264", "-preset", preset, "-pix_fmt", "yuv420p", "-crf", "20",
		"-maxrate", rate, "-bufsize", rate, "-g", strconv.Itoa(3*f.FPS))
}

// FFmpeg runs the program of FFMPEG_PATH and quotes it when it fails.
func FFmpeg(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, cmp.Or(os.Getenv("FFMPEG_PATH"), "ffmpeg"), append([]string{"-nostdin", "-hide_banner", "-v", "error", "-y"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ffmpeg: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return nil
}
