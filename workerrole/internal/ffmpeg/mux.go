package ffmpeg

import (
	"context"
	"fmt"
	"path/filepath"

	ff "github.com/u2takey/ffmpeg-go"
)

// RemuxedDemuxer is the container that Remux writes.
const RemuxedDemuxer = "matroska"

// Remux copies the source's video and first audio stream, without decoding,
// into a Matroska file at out, which has the duration and the index that the
// source lacks. Repeating it overwrites the file.
func (t *Tool) Remux(ctx context.Context, src Source, out string, progress func(Progress)) error {
	in := t.guard(src)
	in["fflags"] = "+genpts"
	input := ff.Input(src.input(), in)
	cmd := ff.Output([]*ff.Stream{input.Get("V:0"), input.Get("a:0?")}, out, ff.KwArgs{
		"c": "copy", "sn": "", "dn": "", "map_metadata": "-1", "map_chapters": "-1",
		"fflags": "+bitexact", "max_muxing_queue_size": "4096", "f": RemuxedDemuxer,
	})
	return t.copy(ctx, "remuxing the source", command{source: src, progress: progress}, cmd, out)
}

// Mux joins a whole video track and a whole audio track (empty: none), both
// fragmented MP4 that we made, into an MP4 at out that starts playing before it
// is all there. Nothing is encoded. Repeating it overwrites the file.
func (t *Tool) Mux(ctx context.Context, videoFile, audioFile, out string, progress func(Progress)) error {
	streams := []*ff.Stream{ff.Input(Source{URL: videoFile}.input(), trusted()).Get("v:0")}
	if audioFile != "" {
		streams = append(streams, ff.Input(Source{URL: audioFile}.input(), trusted()).Get("a:0"))
	}
	cmd := ff.Output(streams, out, ff.KwArgs{
		"c": "copy", "map_metadata": "-1", "fflags": "+bitexact", "movflags": "+faststart", "f": "mp4",
	})
	// Without copyts each file is moved to start at 0 on its own, and the sound,
	// which starts with priming samples before 0, would come 21 ms late.
	return t.copy(ctx, "making the download", command{reads: []string{videoFile, audioFile}, progress: progress}, cmd, out, "-copyts")
}

func (t *Tool) copy(ctx context.Context, what string, c command, cmd *ff.Stream, out string, globals ...string) error {
	dir, err := filepath.Abs(filepath.Dir(out))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	args := append([]string{"-nostdin", "-hide_banner", "-v", "error", "-y", "-progress", "pipe:1", "-nostats"}, globals...)
	args = append(args, cmd.GetArgs()...)
	args[len(args)-1] = "file:" + filepath.Join(dir, filepath.Base(out)) // never an option, never another protocol
	bytes := c.source.size()
	for _, path := range c.reads {
		bytes += Source{URL: path}.size()
	}
	c.path, c.args, c.dir, c.progress, c.limits = t.FFmpeg, args, dir, quiet(c.progress), copyingOf(bytes)
	if _, err := t.run(ctx, c); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
