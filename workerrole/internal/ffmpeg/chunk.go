package ffmpeg

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	ff "github.com/u2takey/ffmpeg-go"

	"github.com/cutroom/cutroom/shared/video"
)

// ChunkJob is one run of ffmpeg over one chunk: it decodes once and writes any
// number of renditions, and the still images of the chunk.
type ChunkJob struct {
	Source Source
	Plan   video.Plan
	Index  int    // of the chunk
	Dir    string // where the files go; must exist

	// Margin is how many seconds before the chunk decoding starts; negative: at the start
	// of the source. Too small a one shows as missing leading frames, never as wrong ones.
	Margin float64
	// End is the frame to stop at, exclusive, when the source has that many.
	End        int64
	Renditions []video.Rendition // of the plan
	// Stills says that the chunk's tiles, and the poster if it is in the chunk, are made.
	Stills bool
	// Preview says that a viewer waits for it, as for the first chunk, and that it is not kept.
	Preview bool
}

// Names of the files that Chunk writes in ChunkJob.Dir.
const (
	TilesFile  = "tiles.jpg"  // one row of tiles
	PosterFile = "poster.jpg" //
)

// RenditionFile is the name of a rendition's file: the init segment, then the segments.
func RenditionFile(name string) string { return name + ".m4s" }

// TilesIn returns how many storyboard tiles fall into the frames [from, to).
func TilesIn(p video.Plan, from, to int64) int {
	if p.TileEvery <= 0 || to <= from {
		return 0
	}
	ceil := func(n int64) int64 { return (n + p.TileEvery - 1) / p.TileEvery }
	return int(ceil(to) - ceil(from))
}

// Chunk encodes. The same job gives the same bytes, whatever its Margin as long
// as that is large enough, so a redelivered item does no harm (Q8).
//
// A nil error does not mean that all frames are there: verify (package media).
func (t *Tool) Chunk(ctx context.Context, job ChunkJob) error {
	_, err := t.ffmpeg(ctx, fmt.Sprintf("encoding chunk %d", job.Index),
		command{dir: job.Dir, source: job.Source, limits: encoding(job.Plan.Width, job.Plan.Height)}, t.chunkLine(job), startAtZero...)
	return err
}

// startAtZero keeps the times of a source, but moved so that it starts at 0.
var startAtZero = []string{"-copyts", "-start_at_zero"}

// repeatable are options of what is encoded: the same bytes each time, without tags.
var repeatable = ff.KwArgs{"map_metadata": "-1", "fflags": "+bitexact", "flags": "+bitexact", "threads": "1"}

func with(options, more ff.KwArgs) ff.KwArgs {
	all := maps.Clone(options)
	maps.Copy(all, more)
	return all
}

func (t *Tool) chunkLine(job ChunkJob) *ff.Stream {
	plan, chunk := job.Plan, job.Plan.Chunks[job.Index]
	branches := t.chunkFrames(job).Split()
	var outputs []*ff.Stream // each has the branch of its number
	branch := func() *ff.Stream { return branches.Get(strconv.Itoa(len(outputs))) }
	for _, r := range job.Renditions {
		outputs = append(outputs, scaled(branch(), plan, r.Width, r.Height).
			Output(r.Name+".m3u8", renditionOptions(job, r)))
	}
	if n := TilesIn(plan, chunk.From, min(chunk.To, job.End)); job.Stills && n > 0 {
		tiles := branch().Filter("select", ff.Args{fmt.Sprintf("not(mod(pts,%d))", plan.TileEvery)})
		outputs = append(outputs, still(tiles, plan, plan.TileWidth, plan.TileHeight).
			Filter("tile", ff.Args{fmt.Sprintf("%dx1", n)}).
			Output(TilesFile, stillOptions(4)))
	}
	if job.Stills && plan.PosterFrame >= chunk.From && plan.PosterFrame < chunk.To {
		r := posterSize(plan)
		poster := branch().Filter("select", ff.Args{fmt.Sprintf("eq(pts,%d)", plan.PosterFrame)})
		outputs = append(outputs, still(poster, plan, r.Width, r.Height).
			Output(PosterFile, stillOptions(3)))
	}
	return ff.MergeOutputs(outputs...)
}

func scaled(s *ff.Stream, plan video.Plan, width, height int) *ff.Stream {
	s = fitted(s, plan, width, height, "bt709", "tv").Filter("format", ff.Args{"yuv420p"})
	if converted(plan) {
		primaries := plan.Primaries
		if plan.ToneMap {
			primaries = "bt709"
		}
		s = s.Filter("setparams", nil, ff.KwArgs{"range": "tv", "colorspace": "bt709", "color_primaries": primaries, "color_trc": "bt709"})
	}
	return s
}

func still(s *ff.Stream, plan video.Plan, width, height int) *ff.Stream {
	return fitted(s, plan, width, height, "bt601", "pc").Filter("format", ff.Args{"yuvj420p"})
}

// converted reports whether scaling converts colours. Those of HDR are before, or stay.
func converted(plan video.Plan) bool { return plan.Primaries != "" && plan.HDR == "" }

// fitted makes pictures of square pixels. One that has another shape than the film, after
// a change on the way, keeps it, between black bars. Colours are converted exactly: the
// scaler's quick way is off by up to 6 of 255. It takes a tenth more processor time than
// that, a hundredth of what encoding takes.
func fitted(s *ff.Stream, plan video.Plan, width, height int, matrix, levels string) *ff.Stream {
	side := func(whole int, ofOther string) string {
		return fmt.Sprintf("if(lt(abs(dar*%d/%d-1),0.06),%d,min(%d,2*trunc(%s/2)))", height, width, whole, whole, ofOther)
	}
	options := ff.KwArgs{"w": side(width, fmt.Sprintf("%d*dar", height)), "h": side(height, fmt.Sprintf("%d/dar", width)), "eval": "frame"}
	if converted(plan) {
		options = with(options, ff.KwArgs{"out_color_matrix": matrix, "out_range": levels, "flags": "bicubic+accurate_rnd+full_chroma_int+full_chroma_inp"})
	}
	return s.Filter("scale", nil, options).
		Filter("pad", ff.Args{strconv.Itoa(width), strconv.Itoa(height), "(ow-iw)/2", "(oh-ih)/2"}, ff.KwArgs{"eval": "frame"}).
		Filter("setsar", ff.Args{"1"})
}

// chunkFrames are the pictures of a chunk, each of which has its number as its time.
func (t *Tool) chunkFrames(job ChunkJob) *ff.Stream {
	plan, chunk := job.Plan, job.Plan.Chunks[job.Index]
	in := t.guard(job.Source)
	// Of a damaged source several threads make other pictures each time.
	in["threads"] = "1"
	if job.Preview {
		in["threads"] = "4"
	}
	if !plan.Rotated {
		// When pictures change their size or pixel format, ffmpeg (5.1) makes the filters
		// anew, and the count of frames starts again. Without that they reach the same
		// filters. Scale adapts, so each branch must start with it. The filter that ffmpeg
		// adds for a rotated source does not adapt.
		in["reinit_filter"] = "0"
	}
	grid := ff.KwArgs{}
	if at := plan.FPS.Seconds(chunk.From) - job.Margin; job.Margin >= 0 && at > 0 && chunk.From > 0 {
		// Seconds are good enough to start decoding; frames are picked by number.
		in["noaccurate_seek"] = ""
		in["ss"] = strconv.FormatFloat(at, 'f', 6, 64)
	} else {
		grid["start_time"] = 0
	}

	frames := ff.Input(job.Source.input(), in).Get("V:0") // V: video that is not cover art
	if plan.Interlaced {
		frames = frames.Filter("bwdif", nil, ff.KwArgs{"deint": "interlaced"})
	}
	frames = frames.Filter("fps", ff.Args{plan.FPS.String()}, grid)
	if plan.Pictures > 0 && job.End > plan.Pictures {
		frames = frames.Filter("tpad", nil, ff.KwArgs{"stop": -1, "stop_mode": "clone"})
	}
	frames = frames.Trim(ff.KwArgs{"start_pts": chunk.From, "end_pts": job.End})
	if plan.ToneMap {
		frames = toneMap(frames, plan)
	}
	return frames
}

func renditionOptions(job ChunkJob, r video.Rendition) ff.KwArgs {
	plan := job.Plan
	segment := strconv.FormatInt(plan.SegmentFrames, 10)
	// Half a frame less than a segment, so that rounding never delays a cut to the next keyframe.
	cut := (float64(plan.SegmentFrames) - 0.5) / plan.FPS.Float()
	// A viewer waits for the first chunk: a quarter less time is worth more bits in its 2 s.
	// The picture is no worse, and the init segment is the same, as one for all chunks must be.
	preset := "veryfast"
	if job.Index == 0 || job.Preview {
		preset = "superfast"
	}
	return with(repeatable, ff.KwArgs{
		"map_chapters": "-1",
		"c:v":          "libx264", "preset": preset, "profile:v": "high",
		"crf": "23", "maxrate": strconv.Itoa(r.MaxRate), "bufsize": strconv.Itoa(2 * r.MaxRate),
		"g": segment, "keyint_min": segment, "sc_threshold": "0",
		"avoid_negative_ts": "disabled",
		"f":                 "hls", "hls_time": strconv.FormatFloat(cut, 'f', 6, 64),
		// Written once, at the end: rewriting a file waits for the disk on some systems.
		"hls_list_size": "0", "hls_playlist_type": "vod",
		"hls_segment_type": "fmp4",
		// Without it every chunk's decode time starts at 0 and its init segment differs. With
		// the flag cmaf as well, players built on ffmpeg show the picture two frames late.
		"hls_segment_options":  "movflags=+frag_discont",
		"hls_flags":            "independent_segments+single_file",
		"hls_segment_filename": RenditionFile(r.Name),
	})
}

func stillOptions(quality int) ff.KwArgs {
	return with(repeatable, ff.KwArgs{"c:v": "mjpeg", "q:v": strconv.Itoa(quality), "f": "image2", "update": "1", "frames:v": "1"})
}

// posterSize is the tallest rendition of at most 720p, or the smallest.
func posterSize(plan video.Plan) video.Rendition {
	for _, r := range plan.Renditions {
		if min(r.Width, r.Height) <= 720 {
			return r
		}
	}
	return plan.Renditions[len(plan.Renditions)-1]
}

// toneMap turns HDR and wide colours into those of BT.709. It works in floating point on
// every pixel, so the picture is made as small as the largest rendition first.
func toneMap(s *ff.Stream, plan video.Plan) *ff.Stream {
	top, levels := plan.Renditions[0], "limited"
	if plan.FullRange {
		levels = "full"
	}
	s = s.Filter("scale", ff.Args{strconv.Itoa(top.Width), strconv.Itoa(top.Height)})
	if plan.HDR == "" {
		return s.Filter("zscale", nil, ff.KwArgs{
			"pin": plan.Primaries, "tin": "bt709", "rin": levels, "p": "bt709", "t": "bt709", "m": "bt709", "r": "limited",
		}).Filter("format", ff.Args{"yuv420p"})
	}
	return s.
		Filter("zscale", nil, ff.KwArgs{
			"tin": plan.HDR, "pin": "bt2020", "min": "bt2020nc", "rin": levels, "t": "linear", "npl": "100",
		}).
		Filter("format", ff.Args{"gbrpf32le"}).
		Filter("zscale", nil, ff.KwArgs{"p": "bt709"}).
		Filter("tonemap", ff.Args{"hable"}, ff.KwArgs{"desat": "0"}).
		Filter("zscale", nil, ff.KwArgs{"t": "bt709", "m": "bt709", "r": "limited"}).
		Filter("format", ff.Args{"yuv420p"})
}
