package bench

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/film"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/load"
	"github.com/cutroom/cutroom/e2e/report"
	"github.com/cutroom/cutroom/e2e/stack"
)

// share is what each worker gets: eight of them leave room for Azurite and the
// web role on two cores.
const share = 0.2 // of a core

// scale encodes one video with 1, 2, 4 and 8 workers, each held to a fifth of a
// core, so that adding workers adds computing power also on a small machine
// (paper row Q1). The picture is small, so that even one worker is done soon;
// the chunks are as long as always.
func scale(ctx context.Context, b *bench) (report.Section, error) {
	q, err := openQuotas()
	if err != nil {
		return report.Section{Skipped: err.Error()}, nil //nolint:nilerr // a machine without quotas is no failure
	}
	// 4, 8 and 16 s, then chunks of 32 s, and shorter ones at the end: so many that
	// it hardly counts when eight workers are not done at the same moment.
	f := film.Film{Width: 192, Height: 108, FPS: 12, Rate: 200_000, Seconds: pick(b, 28+13*32, 28+93*32), Silent: true}
	path, err := f.Make(ctx, b.Cache)
	if err != nil {
		return report.Section{}, err
	}
	defer q.remove() // after the processes have ended
	// What bare ffmpegs under the same quotas make of this machine: its two "cores"
	// may be threads of one, and then eight do not do eight times the work.
	b.say("bare ffmpeg, 1 and 8 processes")
	alone, err := bareFFmpeg(ctx, q, path, 1)
	if err != nil {
		return report.Section{}, err
	}
	together, err := bareFFmpeg(ctx, q, path, 8)
	if err != nil {
		return report.Section{}, err
	}
	bare := 8 * alone.Seconds() / together.Seconds()
	var result report.Section
	err = b.with(ctx, stack.Options{}, func(s *stack.Stack, u *journey.User) (err error) {
		result, err = grow(ctx, b, s, q, u, path, float64(f.Total()), bare)
		return err
	})
	result.Notes = []string{
		fmt.Sprintf("bare ffmpeg under the same quotas: 8 processes do %.2f times the work of 1 (%s and %s for the same piece each)", bare, seconds(together), seconds(alone)),
		fmt.Sprintf("%d × %d pixels at %d frames/s, %d s; control groups version %d", f.Width, f.Height, f.FPS, f.Total(), q.version),
		"busy: how much of the time the workers held a chunk; the rest is waiting for one, at the start, between two and at the end",
		"high priority: all chunks are on a queue that idle workers look at every second",
	}
	return result, err
}

// grow encodes the film with more and more workers. length is its length in
// seconds, bare what eight bare ffmpegs are against one.
func grow(ctx context.Context, b *bench, s *stack.Stack, q *quotas, u *journey.User, path string, length, bare float64) (report.Section, error) {
	result := report.Section{Rows: [][]string{{"workers", "chunks", "first claim to last commit", "busy", "media s per s", "against 1"}}}
	var one float64
	workers := 0
	for _, want := range pick(b, []int{1, 8}, []int{1, 2, 4, 8}) {
		for ; workers < want; workers++ {
			name, err := s.AddWorker(ctx, "WORKERROLE_POOLS=light=1,heavy=1")
			if err != nil {
				return report.Section{}, err
			}
			if err := q.hold(s.Pid(name), share); err != nil {
				return report.Section{}, err
			}
		}
		b.say("%d workers", workers)
		chunks, took, busy, err := encodeAll(ctx, u, path)
		if err != nil {
			return report.Section{}, err
		}
		rate := length / took.Seconds()
		if want == 1 {
			one = rate
		}
		result.Rows = append(result.Rows, []string{strconv.Itoa(want), strconv.Itoa(chunks), seconds(took), fmt.Sprintf("%.0f %%", 100*busy.Seconds()/took.Seconds()/float64(want)), fmt.Sprintf("%.1f", rate), fmt.Sprintf("%.2f×", rate/one)})
		if want == 8 {
			result.Bounds = []report.Bound{
				{Name: "8 workers against 1", Value: rate / one, Target: 7},
				{Name: "the same, by what 8 bare ffmpegs are against 1", Value: rate / one / bare, Target: 0.9},
			}
		}
	}
	return result, nil
}

// bareFFmpeg runs n processes that encode the same piece of the film, each held
// like a worker, and returns how long they take together.
func bareFFmpeg(ctx context.Context, q *quotas, path string, n int) (time.Duration, error) {
	var group errgroup.Group
	began := time.Now()
	for i := range n {
		dir, err := q.group(fmt.Sprintf("bare-%d-%d", n, i), share)
		if err != nil {
			return 0, err
		}
		group.Go(func() error {
			// The shell enters the group, then becomes ffmpeg.
			run := exec.CommandContext(ctx, "sh", "-c", `echo $$ >"$0/cgroup.procs" && exec ffmpeg "$@"`, dir,
				"-nostdin", "-v", "error", "-t", "240", "-i", path, "-c:v", "libx264", "-preset", "veryfast", "-f", "null", "-")
			if out, err := run.CombinedOutput(); err != nil {
				return fmt.Errorf("bare ffmpeg: %w: %s", err, out)
			}
			return nil
		})
	}
	err := group.Wait()
	return time.Since(began), err
}

// encodeAll uploads a video and returns how many chunks it had, how long they
// took from the first claim to the last commit, and the sum of their own times.
func encodeAll(ctx context.Context, u *journey.User, path string) (chunks int, took, busy time.Duration, err error) {
	high := client.High
	t, err := load.Generator{User: u, Until: load.Ready}.One(ctx, load.Upload{Path: path, Video: client.NewVideo{Title: "Benchmark", Priority: &high}})
	if err != nil {
		return 0, 0, 0, err
	}
	list, err := u.Steps(ctx, t.ID)
	if err != nil {
		return 0, 0, 0, err
	}
	var first, last time.Time
	for _, step := range list {
		if step.Step != "encode" || step.Started == nil || step.Finished == nil {
			continue
		}
		chunks++
		busy += step.Finished.Sub(*step.Started)
		if first.IsZero() || step.Started.Before(first) {
			first = *step.Started
		}
		if step.Finished.After(last) {
			last = *step.Finished
		}
	}
	if chunks == 0 {
		return 0, 0, 0, fmt.Errorf("video %s has no encode steps", t.ID)
	}
	return chunks, last.Sub(first), busy, u.Delete(ctx, t.ID)
}
