package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/film"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/load"
	"github.com/cutroom/cutroom/e2e/report"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/workflow"
)

// lineRate is how fast the slow line of the section uploading is, in bytes a second.
const lineRate = 4_000_000

// kinds are the containers of the section uploading: how ffmpeg makes each of an MP4
// whose index is at the end.
var kinds = []struct {
	name, ext string
	args      []string
	anew      []string // encodes the film before, once
	waits     bool     // it cannot be read before its last byte, so nothing is wanted of its beginning
}{
	{name: "MP4, index at the end", ext: "mp4"},
	{name: "MP4, index in front", ext: "front.mp4", args: []string{"-movflags", "+faststart"}},
	{name: "MOV", ext: "mov"},
	{name: "WebM", ext: "webm", anew: []string{"-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", "-b:v", "8M", "-g", "90", "-c:a", "libopus"}},
	{name: "MKV", ext: "mkv"},
	{name: "MPEG-TS", ext: "ts", waits: true},
	{name: "MP4, most bytes in its first half", ext: "first.mp4", anew: uneven("lt")},
	{name: "MP4, most bytes in its second half", ext: "second.mp4", anew: uneven("gt")},
	{name: "MP4 in fragments", ext: "fragments.mp4", args: []string{"-movflags", "+frag_keyframe+empty_moov+default_base_moof"}, waits: true},
}

// uneven encodes a film of which one half has nearly all bytes. %g is half of its length.
func uneven(half string) []string {
	return []string{"-vf", "boxblur=20,noise=alls=60:allf=t:enable=" + half + "(t\\,%g)", "-c:v", "libx264", "-preset", "ultrafast", "-crf", "20", "-maxrate", "16M", "-bufsize", "16M", "-g", "90", "-c:a", "copy"}
}

// sent is one upload of the section uploading.
type sent struct {
	upload   time.Duration // first byte to last
	playable time.Duration // since the first byte
	ready    time.Duration // since the last byte
	requests int           // of web role, workers and client, without looks at queues
	thrown   int           // runs that were thrown away because parts were missing
	runs     int           // all others
	timeline string
}

// uploading sends films on a slow line in two ways: in the order in which the web role
// asks for parts, so that they are made while they are sent, and with the last part
// last, which is an upload that is complete before anything is made.
func uploading(ctx context.Context, b *bench) (report.Section, error) {
	megabytes := b.Megabytes
	if megabytes == 0 {
		megabytes = pick(b, 24, 60)
	}
	// A minute of it has 60 MB. The pictures are small, so that cores keep up with the line.
	base := film.Film{Width: 320, Height: 180, FPS: 30, Noise: 60, Rate: 8_000_000, Seconds: min(60, megabytes), Loops: (megabytes + 59) / 60, Cheap: true}
	result := kindsOfFilm{report.Section{Rows: [][]string{{fmt.Sprintf("%d MB/s", lineRate/1_000_000), "size", "upload", "playable after the first byte", "before", "ready after the last byte", "before", "ratio", "requests for each GB", "before", "runs thrown away"}}}}
	counter := &counter{seen: map[request]int{}}
	err := b.with(ctx, stack.Options{Workers: 2, Through: counter.stand}, func(s *stack.Stack, u *journey.User) error {
		defer counter.Close()
		for _, kind := range kinds {
			if len(b.Kinds) > 0 && !slices.Contains(b.Kinds, kind.ext) {
				continue
			}
			b.say("%s: generating, once", kind.name)
			path, size, err := container(ctx, b.Cache, base, kind.ext, kind.args, kind.anew)
			if err != nil {
				return err
			}
			var ways [2]sent
			for i, early := range []bool{false, true} {
				b.say("%s: %d MB, early: %t", kind.name, size/1_000_000, early)
				if ways[i], err = send(ctx, s, u, counter, path, early); err != nil {
					return fmt.Errorf("%s: %w", kind.name, err)
				}
				if err := awaitQuiet(ctx, s); err != nil {
					return err
				}
			}
			result.add(kind.name, kind.waits, size, ways[0], ways[1])
		}
		return nil
	})
	return result.Section, err
}

// kindsOfFilm is the section as it grows.
type kindsOfFilm struct{ report.Section }

// add reports one kind. Its target is that of a machine that keeps up with the line, or
// a fifth of what it was. A film that waits for its last byte has no target before it.
func (r *kindsOfFilm) add(name string, waits bool, size int64, before, early sent) {
	perGB := func(n int) string { return fmt.Sprintf("%.0f", float64(n)/float64(size)*1e9) }
	ratio := early.ready.Seconds() / before.ready.Seconds()
	r.Rows = append(r.Rows, []string{
		name, fmt.Sprintf("%d MB", size/1_000_000), seconds(early.upload), seconds(early.playable), seconds(before.playable),
		seconds(early.ready), seconds(before.ready), fmt.Sprintf("%.2f", ratio), perGB(early.requests), perGB(before.requests),
		fmt.Sprintf("%d of %d", early.thrown, early.thrown+early.runs),
	})
	if !waits {
		r.Bounds = append(r.Bounds, report.Bound{Name: name + ", playable after the first byte", Value: early.playable.Seconds(), Target: 5, AtMost: true, Unit: " s"})
	}
	r.Bounds = append(r.Bounds,
		report.Bound{Name: name + ", time to ready after the last byte: 10 s, or a fifth of what it was", Value: min(early.ready.Seconds()/10, 5*ratio), Target: 1, AtMost: true})
	r.Notes = append(r.Notes, name+", since the last byte: "+early.timeline)
}

// container returns a film in another container, made once.
func container(ctx context.Context, cache string, base film.Film, ext string, args, anew []string) (path string, size int64, err error) {
	source, loops := base, []string(nil)
	if len(anew) > 0 { // encoded again, then repeated
		source.Loops = 0
	}
	from, err := source.Make(ctx, cache)
	if err != nil {
		return "", 0, err
	}
	if len(anew) > 0 {
		one := filepath.Join(cache, "one-"+source.Name()+"."+ext)
		lines := strings.Split(strings.ReplaceAll(strings.Join(anew, "\n"), "%g", strconv.Itoa(base.Seconds/2)), "\n")
		if err := film.Once(ctx, one, append([]string{"-i", from}, lines...)...); err != nil {
			return "", 0, err
		}
		from, loops = one, []string{"-stream_loop", strconv.Itoa(max(1, base.Loops) - 1)}
	}
	path = strings.TrimSuffix(filepath.Join(cache, base.Name()), "mp4") + ext
	if err := film.Once(ctx, path, slices.Concat(loops, []string{"-i", from, "-c", "copy"}, args)...); err != nil {
		return "", 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", 0, fmt.Errorf("look at %s: %w", path, err)
	}
	return path, info.Size(), nil
}

// send uploads a film on a slow line, waits until it is ready, and deletes it.
func send(ctx context.Context, s *stack.Stack, u *journey.User, counter *counter, path string, early bool) (sent, error) {
	before := counter.work()
	t, err := load.Generator{User: u}.One(ctx, load.Upload{Path: path, Video: client.NewVideo{Title: "On a slow line"}, BytesPerSecond: lineRate, LastPartLast: !early})
	if err != nil {
		return sent{}, err
	}
	// Asking for the video costs requests, asking the workers none.
	for t.Ready.IsZero() {
		if err := awaitQuiet(ctx, s); err != nil {
			return sent{}, err
		}
		v, err := u.Video(ctx, t.ID)
		if err != nil || v.State == client.Failed {
			return sent{}, errors.Join(err, fmt.Errorf("video %s is %s: %+v", t.ID, v.State, v.Error))
		}
		if v.ReadyAt != nil {
			t.Ready = *v.ReadyAt
		}
	}
	out := sent{upload: t.Arrived.Sub(t.Begun), ready: t.Ready.Sub(t.Arrived), requests: counter.work() - before}
	if err := out.look(ctx, u, t); err != nil {
		return sent{}, err
	}
	return out, u.Delete(ctx, t.ID)
}

// look counts runs, and says when each of them was. A video is playable when its first
// pictures and its first sound are there.
func (s *sent) look(ctx context.Context, u *journey.User, t load.Times) error {
	steps, err := u.Steps(ctx, t.ID)
	if err != nil {
		return err
	}
	s.timeline = timeline(steps, t.Arrived)
	for _, step := range steps {
		if step.Index == 0 && step.Finished != nil && (step.Step == workflow.StepEncode || step.Step == workflow.StepAudio) {
			s.playable = max(s.playable, step.Finished.Sub(t.Begun))
		}
	}
	attempts, err := u.Attempts(ctx, t.ID)
	for _, attempt := range attempts {
		if attempt.Outcome == client.AttemptReleased {
			s.thrown++
		} else {
			s.runs++
		}
	}
	return err
}

// work is how many requests were made that an idle stack does not make.
func (c *counter) work() int {
	n := 0
	for r, count := range c.counts() {
		if r != looks && r != lengths && r != leases && r != bells {
			n += count
		}
	}
	return n
}
