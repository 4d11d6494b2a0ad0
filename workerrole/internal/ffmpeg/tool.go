package ffmpeg

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	ff "github.com/u2takey/ffmpeg-go"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
)

func init() {
	ff.LogCompiledCommand = false // it would log the input's address
}

// Tool is a pair of ffmpeg and ffprobe programs that Open has checked.
// It is safe for concurrent use; do not change it after Open.
type Tool struct {
	FFmpeg  string // absolute path
	FFprobe string // absolute path
	Version string // as the program prints it: "5.1.9-0+deb12u1"

	HasToneMap bool // it can show HDR on ordinary screens

	decodes map[string]bool  // by the name of the codec
	sandbox *sandbox.Sandbox // what holds the programs
}

// needed are the parts of ffmpeg without which no video can be processed.
var needed = map[string][]string{
	"-filters":  {"fps", "trim", "scale", "split", "select", "tile", "aresample", "atrim", "asetpts", "aformat", "pan", "join", "ebur128", "bwdif", "tpad", "pad", "setparams"},
	"-encoders": {"libx264", "aac", "mjpeg", "pcm_f32le", "pcm_s16le", "flac"},
	"-muxers":   {"hls", "mp4", "matroska", "image2", "framecrc", "tee", "f32le", "null"},
}

// Open finds the two programs and checks that they can do the work inside the sandbox:
// an error says what is missing. An empty path means the program of that name in PATH.
func Open(ctx context.Context, held *sandbox.Sandbox, ffmpegPath, ffprobePath string) (*Tool, error) {
	t := &Tool{sandbox: held}
	var err error
	if t.FFmpeg, err = find(ffmpegPath, "ffmpeg"); err != nil {
		return nil, err
	}
	if t.FFprobe, err = find(ffprobePath, "ffprobe"); err != nil {
		return nil, err
	}
	for _, program := range []string{t.FFprobe, t.FFmpeg} {
		out, err := t.ask(ctx, program, "-version")
		if err != nil {
			return nil, err
		}
		// "ffmpeg version 5.1.9-0+deb12u1 Copyright …"
		words := strings.Fields(out)
		if len(words) < 3 || words[1] != "version" {
			return nil, fmt.Errorf("%s does not look like ffmpeg: it prints no version", program)
		}
		t.Version = words[2]
	}
	for list, names := range needed {
		have, err := t.names(ctx, list, "")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if !have[name] {
				return nil, fmt.Errorf("%s %s lacks %q (see %s %s)", t.FFmpeg, t.Version, name, filepath.Base(t.FFmpeg), list)
			}
		}
		if list == "-filters" {
			t.HasToneMap = have["zscale"] && have["tonemap"]
		}
	}
	t.decodes, err = t.names(ctx, "-codecs", "D") // "DEV.L. h264": it can decode that
	return t, err
}

func find(path, name string) (string, error) {
	found, err := exec.LookPath(cmp.Or(path, name))
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", name, err)
	}
	return absolute(found), nil
}

// names returns the second column of one of ffmpeg's lists, where the first has a prefix.
func (t *Tool) names(ctx context.Context, list, prefix string) (map[string]bool, error) {
	out, err := t.ask(ctx, t.FFmpeg, "-hide_banner", list)
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) >= 2 && strings.HasPrefix(f[0], prefix) {
			names[f[1]] = true
		}
	}
	return names, nil
}

// Check starts both programs. That they cannot be started is trouble: azq.Host.
func (t *Tool) Check(ctx context.Context) error {
	for _, program := range []string{t.FFprobe, t.FFmpeg} {
		if _, err := t.ask(ctx, program, "-version"); err != nil {
			return surroundings(azq.Host, err)
		}
	}
	return nil
}

func (t *Tool) ask(ctx context.Context, program string, args ...string) (string, error) {
	var out bytes.Buffer
	_, err := t.run(ctx, command{path: program, args: args, stdout: &out, limits: probing})
	if err != nil {
		return "", fmt.Errorf("asking %s %s: %w", program, strings.Join(args, " "), err)
	}
	return out.String(), nil
}
