package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
)

// cost is what one run took.
type cost struct {
	wall, cpu    time.Duration
	web, azurite time.Duration // CPU time of the others
	steps        []client.Step
	programs     []client.StepCost // CPU time of ffmpeg, by step
	uploaded     time.Time
}

// pipeline compares the whole way of a video, from the last byte of its upload
// until it is ready, with one ffmpeg that makes the same renditions and audio
// from the same file with the same settings and as many threads as it likes. The
// pipeline also makes a storyboard, a poster, a downloadable MP4 and verifies
// all of it; that is in its time.
func pipeline(ctx context.Context, b *bench) (Result, error) {
	f := film{width: 1280, height: 720, fps: 30, noise: 8, rate: 12_000_000, seconds: pick(b, 40, 120)}
	b.say("generating %d s of 720p, once", f.seconds)
	path, err := f.make(ctx, b.Cache)
	if err != nil {
		return Result{}, err
	}
	s, err := b.start(ctx, stack.Options{Workers: 1, Env: []string{"WORKERROLE_POOLS=light=4,heavy=2"}})
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = s.Stop() }()

	var ours, theirs []cost
	for run := range b.Runs {
		b.say("run %d of %d: pipeline", run+1, b.Runs)
		c, ladder, err := throughPipeline(ctx, s, path)
		if err != nil {
			return Result{}, err
		}
		ours = append(ours, c)
		b.say("run %d of %d: one ffmpeg", run+1, b.Runs)
		if c, err = throughOneFFmpeg(ctx, path, ladder, f.fps); err != nil {
			return Result{}, err
		}
		theirs = append(theirs, c)
	}
	wall := func(c cost) float64 { return c.wall.Seconds() }
	cpu := func(c cost) float64 { return c.cpu.Seconds() }
	row := func(name string, of func(cost) float64, ours, theirs []cost) []string {
		a, z := medianOf(ours, of), medianOf(theirs, of)
		return []string{name, fmt.Sprintf("%.1f s", a), fmt.Sprintf("%.1f s", z), fmt.Sprintf("%.3f", a/z)}
	}
	result := Result{
		Rows: [][]string{
			{fmt.Sprintf("median of %d", b.Runs), "pipeline", "one ffmpeg", "ratio"},
			row("wall", wall, ours, theirs),
			row("CPU (worker and its ffmpegs)", cpu, ours, theirs),
		},
		Ratios: []Ratio{
			{Name: "wall", Value: medianOf(ours, wall) / medianOf(theirs, wall), Target: 1.00, AtMost: true},
			{Name: "CPU", Value: medianOf(ours, cpu) / medianOf(theirs, cpu), Target: 1.00, AtMost: true},
		},
	}
	result.Notes = append(result.Notes, fmt.Sprintf("besides, in the pipeline's runs: web role %.2f s, Azurite %.2f s of CPU",
		medianOf(ours, func(c cost) float64 { return c.web.Seconds() }), medianOf(ours, func(c cost) float64 { return c.azurite.Seconds() })))
	for _, c := range ours {
		result.Notes = append(result.Notes, fmt.Sprintf("wall %.1f s, CPU %.1f s, of which ffmpeg: %s; %s", c.wall.Seconds(), c.cpu.Seconds(), c.byStep(), timeline(c)))
	}
	for _, c := range theirs {
		result.Notes = append(result.Notes, fmt.Sprintf("one ffmpeg: wall %.1f s, CPU %.1f s", c.wall.Seconds(), c.cpu.Seconds()))
	}
	return result, nil
}

// byStep says how much CPU time the programs of each step took.
func (c cost) byStep() string {
	var texts []string
	for _, s := range c.programs {
		if s.CpuSeconds > 0 {
			texts = append(texts, fmt.Sprintf("%s %.1f", s.Step, s.CpuSeconds))
		}
	}
	return strings.Join(texts, ", ")
}

func medianOf(costs []cost, of func(cost) float64) float64 {
	values := make([]float64, len(costs))
	for i, c := range costs {
		values[i] = of(c)
	}
	return median(values)
}

// meters reads the CPU time of every process of the stack.
func meters(s *stack.Stack) (workers, web, azurite time.Duration, err error) {
	var errs []error
	read := func(name string) time.Duration {
		d, err := cpuTime(s.Pid(name))
		errs = append(errs, err)
		return d
	}
	for _, name := range s.Names() {
		if strings.HasPrefix(name, "workerrole-") && s.Pid(name) != 0 {
			workers += read(name)
		}
	}
	web = read(stack.Web)
	if s.Pid(stack.Azurite) != 0 {
		azurite = read(stack.Azurite)
	}
	return workers, web, azurite, errors.Join(errs...)
}

// throughPipeline uploads the file, waits until it is ready and deletes it.
func throughPipeline(ctx context.Context, s *stack.Stack, path string) (cost, []client.Rendition, error) {
	var c cost
	u, err := journey.New(s.BaseURL())
	if err != nil {
		return c, nil, err
	}
	defer u.Close()
	workers, web, azurite, err := meters(s)
	if err != nil {
		return c, nil, err
	}
	id, uploaded, err := bring(ctx, u, path, client.NewVideo{Title: "Benchmark"})
	if err != nil {
		return c, nil, err
	}
	c.uploaded = uploaded
	v, err := awaitReady(ctx, u, id)
	if err != nil {
		return c, nil, err
	}
	c.wall = v.ReadyAt.Sub(uploaded) // one machine, one clock
	workers2, web2, azurite2, err := meters(s)
	if err != nil {
		return c, nil, err
	}
	c.cpu, c.web, c.azurite = workers2-workers, web2-web, azurite2-azurite
	if c.steps, err = steps(ctx, u, id); err != nil {
		return c, nil, err
	}
	paid, err := u.API().GetCostWithResponse(ctx, id)
	if err != nil {
		return c, nil, fmt.Errorf("ask what %s cost: %w", id, err)
	}
	if paid.JSON200 == nil {
		return c, nil, fmt.Errorf("ask what %s cost: %w", id, &journey.Refusal{Status: paid.StatusCode(), Body: paid.Body})
	}
	c.programs = paid.JSON200.Steps
	return c, v.Renditions, remove(ctx, u, id)
}

// awaitReady waits for a ready video by asking seldom: asking costs the machine
// that is being measured. The video says itself when it became ready.
func awaitReady(ctx context.Context, u *journey.User, id string) (client.Video, error) {
	for {
		v, err := u.Video(ctx, id)
		switch {
		case err != nil:
			return v, err
		case v.State == client.Ready && v.ReadyAt != nil:
			return v, nil
		case v.State == client.Failed:
			return v, fmt.Errorf("video %s failed: %+v", id, v.Error)
		}
		if err := sleep(ctx, time.Second); err != nil {
			return v, err
		}
	}
}

// bring announces a video and uploads the file with valet keys, part by part.
// The upload is complete when the last part has arrived and before the web role
// is told so: what it has to do then is ours to be fast at. (Through the web role
// that moment cannot be seen: kernels hold many megabytes on the way.)
func bring(ctx context.Context, u *journey.User, path string, v client.NewVideo) (id string, complete time.Time, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", complete, fmt.Errorf("upload: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return "", complete, fmt.Errorf("upload: %w", err)
	}
	size := info.Size()
	v.SizeBytes = &size
	announced, err := u.Announce(ctx, v)
	if err != nil {
		return "", complete, err
	}
	err = u.UploadParts(ctx, announced.Id, file, size, func(int64) { complete = time.Now() })
	return announced.Id, complete, err
}

func steps(ctx context.Context, u *journey.User, id string) ([]client.Step, error) {
	res, err := u.API().ListStepsWithResponse(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("list the steps of %s: %w", id, err)
	}
	if res.JSON200 == nil {
		return nil, fmt.Errorf("list the steps of %s: %w", id, &journey.Refusal{Status: res.StatusCode(), Body: res.Body})
	}
	return res.JSON200.Items, nil
}

// remove deletes a video and waits until it is not found any more.
func remove(ctx context.Context, u *journey.User, id string) error {
	res, err := u.API().DeleteVideoWithResponse(ctx, id, nil)
	if err != nil {
		return fmt.Errorf("delete %s: %w", id, err)
	}
	if res.StatusCode() != http.StatusAccepted {
		return fmt.Errorf("delete %s: %w", id, &journey.Refusal{Status: res.StatusCode(), Body: res.Body})
	}
	return nil
}

// timeline says when the steps of a run began and ended, in seconds since the
// upload was complete.
func timeline(c cost) string {
	type span struct{ from, to float64 }
	spans := map[string]span{}
	var order []string
	for _, s := range c.steps {
		if s.Started == nil || s.Finished == nil {
			continue
		}
		name := s.Step
		if name == "encode" {
			name += " " + strconv.Itoa(s.Index)
		}
		spans[name] = span{s.Started.Sub(c.uploaded).Seconds(), s.Finished.Sub(c.uploaded).Seconds()}
		order = append(order, name)
	}
	slices.SortStableFunc(order, func(a, b string) int {
		if spans[a].from < spans[b].from {
			return -1
		}
		return 1
	})
	texts := make([]string, len(order))
	for i, name := range order {
		texts[i] = fmt.Sprintf("%s %.1f–%.1f", name, spans[name].from, spans[name].to)
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
	return cost{wall: wall, cpu: time.Duration(usage.Utime.Nano() + usage.Stime.Nano())}, nil
}

func hls(dir, name string) []string {
	return []string{
		"-f", "hls", "-hls_time", "4", "-hls_list_size", "0", "-hls_playlist_type", "event", "-hls_segment_type", "fmp4",
		"-hls_flags", "independent_segments+single_file", "-hls_segment_filename", filepath.Join(dir, name+".m4s"),
		filepath.Join(dir, name+".m3u8"),
	}
}
