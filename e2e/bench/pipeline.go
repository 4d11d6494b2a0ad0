package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/film"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/load"
	"github.com/cutroom/cutroom/e2e/proc"
	"github.com/cutroom/cutroom/e2e/report"
	"github.com/cutroom/cutroom/e2e/stack"
)

// cost is what one run took.
type cost struct {
	wall, cpu    time.Duration
	web, azurite time.Duration // CPU time of the others
	note         string
}

// pipeline compares the whole way of a video, from the last byte of its upload
// until it is ready, with one ffmpeg that makes the same renditions and audio
// from the same file with the same settings and as many threads as it likes. The
// pipeline also makes a storyboard, a poster, a downloadable MP4 and verifies
// all of it; that is in its time.
func pipeline(ctx context.Context, b *bench) (report.Section, error) {
	f := film.Film{Width: 1280, Height: 720, FPS: 30, Noise: 8, Rate: 12_000_000, Seconds: pick(b, 40, 120)}
	b.say("generating %d s of 720p, once", f.Seconds)
	path, err := f.Make(ctx, b.Cache)
	if err != nil {
		return report.Section{}, err
	}
	var ours, theirs []cost
	err = b.with(ctx, stack.Options{Workers: 1, Env: []string{"WORKERROLE_POOLS=light=4,heavy=2"}}, func(s *stack.Stack, u *journey.User) error {
		for run := range b.Runs {
			b.say("run %d of %d: pipeline", run+1, b.Runs)
			c, ladder, err := throughPipeline(ctx, s, u, path)
			if err != nil {
				return err
			}
			ours = append(ours, c)
			b.say("run %d of %d: one ffmpeg", run+1, b.Runs)
			if c, err = throughOneFFmpeg(ctx, path, ladder, f.FPS); err != nil {
				return err
			}
			theirs = append(theirs, c)
		}
		return nil
	})
	if err != nil {
		return report.Section{}, err
	}
	result := report.Section{Rows: [][]string{{fmt.Sprintf("median of %d", b.Runs), "pipeline", "one ffmpeg", "ratio"}}}
	compare := func(name, bound string, of func(cost) time.Duration) {
		a, z := medianOf(ours, of), medianOf(theirs, of)
		result.Rows = append(result.Rows, []string{name, fmt.Sprintf("%.1f s", a), fmt.Sprintf("%.1f s", z), fmt.Sprintf("%.3f", a/z)})
		result.Bounds = append(result.Bounds, report.Bound{Name: bound, Value: a / z, Target: 1.00, AtMost: true})
	}
	compare("wall", "wall", func(c cost) time.Duration { return c.wall })
	compare("CPU (worker and its ffmpegs)", "CPU", func(c cost) time.Duration { return c.cpu })
	result.Notes = append(result.Notes, fmt.Sprintf("besides, in the pipeline's runs: web role %.2f s, Azurite %.2f s of CPU",
		medianOf(ours, func(c cost) time.Duration { return c.web }), medianOf(ours, func(c cost) time.Duration { return c.azurite })))
	for _, c := range slices.Concat(ours, theirs) {
		result.Notes = append(result.Notes, fmt.Sprintf("wall %.1f s, CPU %.1f s%s", c.wall.Seconds(), c.cpu.Seconds(), c.note))
	}
	return result, nil
}

func medianOf(costs []cost, of func(cost) time.Duration) float64 {
	values := make([]float64, len(costs))
	for i, c := range costs {
		values[i] = of(c).Seconds()
	}
	return median(values)
}

// meters reads the CPU time of every process of the stack.
func meters(s *stack.Stack) (workers, web, azurite time.Duration, err error) {
	var errs []error
	read := func(name string) (d time.Duration) {
		if pid := s.Pid(name); pid != 0 {
			var err error
			d, err = proc.CPUTime(pid)
			errs = append(errs, err)
		}
		return d
	}
	for _, name := range s.Workers() {
		workers += read(name)
	}
	return workers, read(stack.Web), read(stack.Azurite), errors.Join(errs...)
}

// throughPipeline uploads the file, waits until it is ready and deletes it.
func throughPipeline(ctx context.Context, s *stack.Stack, u *journey.User, path string) (c cost, _ []client.Rendition, err error) {
	workers, web, azurite, err := meters(s)
	if err != nil {
		return c, nil, err
	}
	t, err := load.Generator{User: u, Until: load.Ready}.One(ctx, load.Upload{Path: path, Video: client.NewVideo{Title: "Benchmark"}})
	if err != nil {
		return c, nil, err
	}
	workers2, web2, azurite2, err := meters(s)
	if err != nil {
		return c, nil, err
	}
	c = cost{wall: t.Ready.Sub(t.Arrived), cpu: workers2 - workers, web: web2 - web, azurite: azurite2 - azurite}
	steps, err := u.Steps(ctx, t.ID)
	if err != nil {
		return c, nil, err
	}
	paid, err := u.Cost(ctx, t.ID)
	if err != nil {
		return c, nil, err
	}
	var programs []string
	for _, p := range paid {
		if p.CpuSeconds > 0 {
			programs = append(programs, fmt.Sprintf("%s %.1f", p.Step, p.CpuSeconds))
		}
	}
	c.note = fmt.Sprintf(", of which ffmpeg: %s; %s", strings.Join(programs, ", "), timeline(steps, t.Arrived))
	return c, t.Video.Renditions, u.Delete(ctx, t.ID)
}

// timeline says when the steps of a video began and ended, in seconds since a moment.
func timeline(steps []client.Step, since time.Time) string {
	steps = slices.DeleteFunc(slices.Clone(steps), func(s client.Step) bool { return s.Started == nil || s.Finished == nil })
	slices.SortStableFunc(steps, func(a, b client.Step) int { return a.Started.Compare(*b.Started) })
	texts := make([]string, len(steps))
	for i, s := range steps {
		name := s.Step
		if name == "encode" {
			name += " " + strconv.Itoa(s.Index)
		}
		texts[i] = fmt.Sprintf("%s %.1f–%.1f", name, s.Started.Sub(since).Seconds(), s.Finished.Sub(since).Seconds())
	}
	return strings.Join(texts, ", ")
}

// throughOneFFmpeg makes the same ladder and audio in one process.
func throughOneFFmpeg(ctx context.Context, path string, ladder []client.Rendition, fps int) (cost, error) {
	dir, err := os.MkdirTemp("", "cutroom-bench-ffmpeg-")
	if err != nil {
		return cost{}, fmt.Errorf("make a folder for one ffmpeg: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	var labels, branches strings.Builder
	for i, r := range ladder {
		fmt.Fprintf(&labels, "[s%d]", i)
		fmt.Fprintf(&branches, ";[s%d]scale=%d:%d,format=yuv420p[v%d]", i, r.Width, r.Height, i)
	}
	args := []string{
		"-nostdin", "-hide_banner", "-v", "error", "-y", "-i", path,
		"-filter_complex", fmt.Sprintf("[0:v]split=%d%s%s", len(ladder), labels.String(), branches.String()),
	}
	segment := strconv.Itoa(4 * fps)
	for i, r := range ladder {
		args = append(args, "-map", fmt.Sprintf("[v%d]", i), "-an",
			"-c:v", "libx264", "-preset", "veryfast", "-profile:v", "high", "-crf", "23",
			"-maxrate", strconv.Itoa(r.Bandwidth), "-bufsize", strconv.Itoa(2*r.Bandwidth),
			"-g", segment, "-keyint_min", segment, "-sc_threshold", "0")
		args = append(args, hls(dir, r.Name)...)
	}
	args = append(args, "-map", "0:a:0", "-vn", "-af", "aresample=48000:async=1:first_pts=0", "-ac", "2", "-c:a", "aac", "-b:a", "128k")
	args = append(args, hls(dir, "audio")...)

	cmd := exec.CommandContext(ctx, "ffmpeg", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return cost{}, fmt.Errorf("one ffmpeg: %w: %s", err, stderr.String())
	}
	wall := time.Since(began)
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return cost{wall: wall, cpu: time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), note: ": one ffmpeg"}, nil
}

func hls(dir, name string) []string {
	return []string{
		"-f", "hls", "-hls_time", "4", "-hls_list_size", "0", "-hls_playlist_type", "event", "-hls_segment_type", "fmp4",
		"-hls_flags", "independent_segments+single_file", "-hls_segment_filename", filepath.Join(dir, name+".m4s"),
		filepath.Join(dir, name+".m3u8"),
	}
}
