package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cutroom/cutroom/e2e/film"
)

// clipSeconds is long enough for the ramp of chunks (2, 4, 8 s, rest) to show.
const clipSeconds = 30

// fonts are where systems keep a font that can draw the title; without any the
// clip has none.
var fonts = []string{
	"/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf",
	"/usr/share/fonts/truetype/liberation/LiberationSans-Bold.ttf",
	"/usr/share/fonts/TTF/DejaVuSans-Bold.ttf",
	"/usr/share/fonts/dejavu-sans-fonts/DejaVuSans-Bold.ttf",
	"/System/Library/Fonts/Helvetica.ttc",
}

// generateClip makes the demo's own video once: a moving test picture with a
// clock, a title where a font is found, and a beep every second.
func generateClip(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "cutroom-demo.mp4")
	if _, err := os.Stat(path); err != nil {
		fmt.Println("generating a clip of", clipSeconds, "s (FILE=clip.mp4 uploads one of yours)")
	}
	title := "null"
	for _, font := range fonts {
		if _, err := os.Stat(font); err == nil {
			title = "drawtext=fontfile=" + font + ":text=Cutroom:fontsize=96:fontcolor=white:borderw=6:x=(w-text_w)/2:y=h/3"
			break
		}
	}
	err := encodeClip(ctx, path, title)
	if err != nil && ctx.Err() == nil {
		err = encodeClip(ctx, path, "null") // this ffmpeg has no drawtext
	}
	return path, err
}

func encodeClip(ctx context.Context, path, filter string) error {
	return film.Once(ctx, path,
		"-f", "lavfi", "-i", fmt.Sprintf("testsrc2=size=1280x720:rate=30:duration=%d", clipSeconds),
		"-f", "lavfi", "-i", fmt.Sprintf("sine=frequency=880:sample_rate=48000:duration=%d,volume=volume=0:enable='gt(mod(t,1),0.1)'", clipSeconds),
		"-vf", filter, "-c:v", "libx264", "-preset", "veryfast", "-crf", "26", "-pix_fmt", "yuv420p",
		"-c:a", "aac", "-b:a", "96k", "-movflags", "+faststart")
}
