package media_test

import (
	"bytes"
	"context"
	"image/jpeg"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/testkit/mediatest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
)

func tool(t testing.TB) *ffmpeg.Tool {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: encodes real media")
	}
	held, err := sandbox.Open(sandbox.Try)
	if err != nil {
		t.Fatal(err)
	}
	tool, err := ffmpeg.Open(context.Background(), held, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// Chunks that workers encode on their own join into the same frames, at the
// same times, as one pass over the source (Q16c).
func TestChunksJoinSeamlessly(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	for _, clip := range mediatest.Clips() {
		t.Run(clip.Name, func(t *testing.T) {
			t.Parallel()
			src, info := probe(t, tool, clip.Make(t, t.TempDir()))
			plan, err := media.Plan(info)
			if err != nil {
				t.Fatalf("Plan(%+v): %v", info, err)
			}
			if plan.HasAudio == clip.Silent {
				t.Errorf("HasAudio = %v", plan.HasAudio)
			}
			plan = manySeams(plan)
			e := encode(t, tool, src, plan)

			want := onePass(t, src, plan)
			for plan.Pictures > 0 && int64(len(want)) < plan.Frames { // the last picture stays while sound goes on
				want = append(want, want[len(want)-1])
			}
			if off := int64(len(want)) - plan.Frames; off < -2 || off > 2 {
				t.Errorf("the plan promises %d frames, one pass has %d", plan.Frames, len(want))
			}
			for r, path := range e.joined {
				frames := decodedFrames(t, path, plan.FPS, plan.Renditions[r])
				if len(frames) != len(want) {
					t.Fatalf("%s: %d frames, one pass has %d", plan.Renditions[r].Name, len(frames), len(want))
				}
				for i, n := range frames {
					if n != int64(i) {
						t.Fatalf("%s: frame %d is at the time of frame %d", plan.Renditions[r].Name, i, n)
					}
				}
				if r > 0 || plan.ToneMap { // the same decoding and the same frames; only the size differs
					continue
				}
				got := thumbs(t, "-i", path, "-vf", "scale="+strconv.Itoa(thumbWidth)+":"+strconv.Itoa(thumbHeight)+",format=gray")
				samePictures(t, plan, want, got)
			}
			checkStills(t, e)
			checkAudio(t, e)
		})
	}
}

// samePictures compares chunk by chunk: the pictures are the source's own, and
// match better than those of the frame before or after.
func samePictures(t *testing.T, plan video.Plan, want, got [][]byte) {
	t.Helper()
	for i, c := range plan.Chunks {
		to := int(c.To)
		if plan.Last(i) {
			to = len(want)
		}
		w, g := want[c.From:to], got[c.From:to]
		d := distance(w, g, 0)
		if d > 7 {
			t.Errorf("chunk %d: pictures differ by %.2f of 255", i, d)
		}
		for _, shift := range []int{-1, 1} {
			if s := distance(w, g, shift); s < d-0.05 { // a gap is a still picture
				t.Errorf("chunk %d: pictures shifted by %d match better (%.2f) than in place (%.2f)", i, shift, s, d)
			}
		}
	}
}

func checkStills(t *testing.T, e encoding) {
	t.Helper()
	var strips []media.Strip
	posters, frames := 0, int64(0)
	for _, c := range e.chunks {
		frames += c.Frames
		if c.Poster != "" {
			posters++
		}
		if c.Tiles != "" {
			data, err := os.ReadFile(c.Tiles)
			if err != nil {
				t.Fatal(err)
			}
			strips = append(strips, media.Strip{JPEG: bytes.NewReader(data), Tiles: c.TileCount})
		}
	}
	if posters != 1 {
		t.Errorf("%d posters, want 1", posters)
	}
	sprite, vtt, err := media.Sprite(strips, e.plan, frames, "sprite.jpg")
	if err != nil {
		t.Fatalf("Sprite: %v", err)
	}
	tiles := int((frames + e.plan.TileEvery - 1) / e.plan.TileEvery)
	if n := strings.Count(vtt, "#xywh="); n != tiles && n != tiles-1 { // one may lie beyond the promised end
		t.Errorf("the storyboard has %d tiles, want %d", n, tiles)
	}
	picture, err := jpeg.Decode(bytes.NewReader(sprite))
	if err != nil {
		t.Fatal(err)
	}
	if w := picture.Bounds().Dx(); w != min(tiles, 10)*e.plan.TileWidth {
		t.Errorf("the sprite is %d pixels wide", w)
	}
}

func checkAudio(t *testing.T, e encoding) {
	t.Helper()
	if e.audio == "" {
		return
	}
	next, samples := 0, int64(0)
	for i, p := range e.parts {
		if p.First != next || p.Codecs != "mp4a.40.2" || p.Channels != 2 || (p.Init.Length > 0) != (i == 0) {
			t.Errorf("part %d is %+v, want it to start with segment %d", i, p, next)
		}
		next += len(p.Segments)
		for _, s := range p.Segments {
			samples += s.Samples
			if s.Samples < video.SampleRate/10 {
				t.Errorf("an audio segment of %d samples was not dropped", s.Samples)
			}
		}
	}
	text := string(output(t, "ffprobe", "-v", "warning", "-show_entries", "stream=start_time,sample_rate,channels", "-of", "default=nw=1:nk=1", e.audio))
	f := strings.Fields(text)
	start, err := strconv.ParseFloat(f[2], 64)
	// One frame of priming samples comes before 0 and is not heard. ffprobe 7 leaves it out.
	const priming = 1024.0 / video.SampleRate
	if err != nil || math.Abs(start+priming) > 0.001 && start != 0 || f[0] != "48000" || f[1] != "2" {
		t.Errorf("the audio track starts at %s, at %s Hz with %s channels", f[2], f[0], f[1])
	}
	if got, want := float64(samples)/video.SampleRate, e.plan.DurationSeconds; math.Abs(got-want) > 1.2 {
		t.Errorf("%.2f s of audio for %.2f s of video", got, want)
	}
}

// Where the source has an index the first try finds every frame, so that no chunk is
// encoded twice: also with pictures that are shown long after they were decoded, and
// after keyframes that the pictures before them are decoded from, too. Only where many of
// those come before a keyframe does a chunk that begins among them need another try.
func TestTheFirstTrySuffices(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	const deep = "mp4, many B-frames in open groups"
	for name, how := range map[string]string{
		"mp4, as x264 makes it":    "-c:v libx264 -preset ultrafast -bf 3 -b_strategy 0 -f mp4",
		"mp4, many B-frames":       "-c:v libx264 -preset ultrafast -bf 16 -b_strategy 0 -x264-params b-pyramid=normal:ref=4 -f mp4",
		"mp4, open groups":         "-c:v libx264 -preset ultrafast -bf 3 -b_strategy 0 -x264-params open-gop=1:b-pyramid=normal:ref=4 -f mp4",
		deep:                       "-c:v libx264 -preset ultrafast -bf 16 -b_strategy 0 -x264-params open-gop=1:b-pyramid=normal:ref=4 -f mp4",
		"mkv, open groups of HEVC": "-c:v libx265 -preset ultrafast -x265-params log-level=error:bframes=4:b-adapt=0:b-pyramid=1:ref=4:open-gop=1 -f matroska",
		"webm":                     "-c:v libvpx -deadline realtime -cpu-used 8 -f webm",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "clip")
			mediatest.FFmpeg(t, mediatest.Moving("192x108", "25", 16), []string{"-g", "26", "-keyint_min", "26", "-sc_threshold", "0", "-pix_fmt", "yuv420p"}, strings.Fields(how), []string{path})
			src, info := probe(t, tool, path)
			plan, err := media.Plan(info)
			if err != nil {
				t.Fatal(err)
			}
			plan = manySeams(plan)
			most := 0
			for i := 1; i < len(plan.Chunks); i++ { // the first one has a program for each half
				ctx, used := ffmpeg.WithRuns(t.Context())
				if _, err := media.EncodeChunk(ctx, tool, src, plan, i, t.TempDir()); err != nil {
					t.Fatal(err)
				}
				most = max(most, used.Usage().Runs)
			}
			if want := name == deep; most > 1 != want {
				t.Errorf("a chunk took %d tries; more than one wanted: %v", most, want)
			}
		})
	}
}

// The same chunk gives the same bytes on every try, wherever decoding starts (Q8).
func TestChunkIsDeterministic(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	src, info := probe(t, tool, mediatest.Clips()[0].Make(t, t.TempDir()))
	plan, err := media.Plan(info)
	if err != nil {
		t.Fatal(err)
	}
	plan = manySeams(plan)
	for _, index := range []int{0, 2, len(plan.Chunks) - 1} {
		var all []string
		add := func(files ...string) {
			var sum bytes.Buffer
			for _, path := range files {
				sum.Write(read(t, path))
			}
			all = append(all, sum.String())
		}
		for nice := range 2 { // in two processes, or in one
			ctx, runs := ffmpeg.WithRuns(t.Context())
			runs.Nice = nice
			c, err := media.EncodeChunk(ctx, tool, src, plan, index, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			add(c.Renditions[0].Blob, c.Renditions[1].Blob, c.Tiles)
		}
		for _, margin := range []float64{1, 3} {
			job := ffmpeg.ChunkJob{Source: src, Plan: plan, Index: index, Dir: t.TempDir(), Margin: margin, End: plan.Chunks[index].To, Renditions: plan.Renditions[:2], Stills: true}
			if err := tool.Chunk(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			in := func(name string) string { return filepath.Join(job.Dir, name) }
			add(in(ffmpeg.RenditionFile(plan.Renditions[0].Name)), in(ffmpeg.RenditionFile(plan.Renditions[1].Name)), in(ffmpeg.TilesFile))
		}
		for try, bytes := range all {
			if bytes != all[0] {
				t.Errorf("chunk %d: try %d gave other bytes", index, try)
			}
		}
	}
}
