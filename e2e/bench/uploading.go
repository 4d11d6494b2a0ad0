package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/testkit/azurite"
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
func uploading(ctx context.Context, b *bench) (_ Result, err error) {
	megabytes := b.Megabytes
	if megabytes == 0 {
		megabytes = pick(b, 24, 60)
	}
	// A minute of it has 60 MB. The pictures are small, so that cores keep up with the line.
	base := film{width: 320, height: 180, fps: 30, noise: 60, rate: 8_000_000, seconds: min(60, megabytes), loops: (megabytes + 59) / 60, cheap: true}
	dir, err := os.MkdirTemp("", "cutroom-bench-azurite-")
	if err != nil {
		return Result{}, fmt.Errorf("make a folder for Azurite: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	emulator, err := azurite.Start(ctx, azurite.Options{Dir: dir})
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, emulator.Stop()) }()
	counter, err := startCounter(emulator)
	if err != nil {
		return Result{}, err
	}
	defer counter.stop()
	s, err := b.start(ctx, stack.Options{Workers: 2, ConnectionString: counter.connection})
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = s.Stop() }()

	result := Result{Rows: [][]string{{fmt.Sprintf("%d MB/s", lineRate/1_000_000), "size", "upload", "playable after the first byte", "before", "ready after the last byte", "before", "ratio", "requests for each GB", "before", "runs thrown away"}}}
	for _, kind := range kinds {
		if len(b.Kinds) > 0 && !slices.Contains(b.Kinds, kind.ext) {
			continue
		}
		b.say("%s: generating, once", kind.name)
		path, size, err := container(ctx, b.Cache, base, kind.ext, kind.args, kind.anew)
		if err != nil {
			return Result{}, err
		}
		var ways [2]sent
		for i, early := range []bool{false, true} {
			b.say("%s: %d MB, early: %t", kind.name, size/1_000_000, early)
			if ways[i], err = send(ctx, s, counter, path, size, early); err != nil {
				return Result{}, fmt.Errorf("%s: %w", kind.name, err)
			}
			if err := awaitQuiet(ctx, s); err != nil {
				return Result{}, err
			}
		}
		result.add(kind.name, kind.waits, size, ways[0], ways[1])
	}
	return result, nil
}

// add reports one kind. Its target is that of a machine that keeps up with the line, or
// a fifth of what it was. A film that waits for its last byte has no target before it.
func (r *Result) add(name string, waits bool, size int64, before, early sent) {
	perGB := func(n int) string { return fmt.Sprintf("%.0f", float64(n)/float64(size)*1e9) }
	ratio := early.ready.Seconds() / before.ready.Seconds()
	r.Rows = append(r.Rows, []string{
		name, fmt.Sprintf("%d MB", size/1_000_000), seconds(early.upload), seconds(early.playable), seconds(before.playable),
		seconds(early.ready), seconds(before.ready), fmt.Sprintf("%.2f", ratio), perGB(early.requests), perGB(before.requests),
		fmt.Sprintf("%d of %d", early.thrown, early.thrown+early.runs),
	})
	if !waits {
		r.Ratios = append(r.Ratios, Ratio{Name: name + ", playable after the first byte", Value: early.playable.Seconds(), Target: 5, AtMost: true, Unit: " s"})
	}
	r.Ratios = append(r.Ratios,
		Ratio{Name: name + ", ready after the last byte, or five times of it by what it was in 10 s", Value: min(early.ready.Seconds()/10, 5*ratio), Target: 1, AtMost: true})
	r.Notes = append(r.Notes, name+", since the last byte: "+early.timeline)
}

// container returns a film in another container, made once.
func container(ctx context.Context, cache string, base film, ext string, args, anew []string) (string, int64, error) {
	source := base
	if len(anew) > 0 {
		source.loops = 0
	}
	from, err := source.make(ctx, cache)
	if err != nil {
		return "", 0, err
	}
	path := strings.TrimSuffix(filepath.Join(cache, base.name()), "mp4") + ext
	if _, err := os.Stat(path); err != nil && path != from {
		part := filepath.Join(cache, "making."+ext)
		defer func() { _ = os.Remove(part) }()
		if len(anew) > 0 {
			one := filepath.Join(cache, "one."+ext)
			defer func() { _ = os.Remove(one) }()
			how := slices.Clone(anew)
			for i := range how {
				how[i] = strings.ReplaceAll(how[i], "%g", strconv.Itoa(base.seconds/2))
			}
			if err := ffmpeg(ctx, slices.Concat([]string{"-i", from}, how, []string{one})...); err != nil {
				return "", 0, err
			}
			from = one
		}
		in := []string{"-i", from}
		if len(anew) > 0 && base.loops > 1 {
			in = append([]string{"-stream_loop", strconv.Itoa(base.loops - 1)}, in...)
		}
		if err := ffmpeg(ctx, slices.Concat(in, []string{"-c", "copy"}, args, []string{part})...); err != nil {
			return "", 0, err
		}
		if err := os.Rename(part, path); err != nil {
			return "", 0, fmt.Errorf("make %s: %w", path, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", 0, fmt.Errorf("look at %s: %w", path, err)
	}
	return path, info.Size(), nil
}

// send uploads a film on a slow line, waits until it is ready, and deletes it.
func send(ctx context.Context, s *stack.Stack, counter *counter, path string, size int64, early bool) (sent, error) {
	u, err := journey.New(s.BaseURL())
	if err != nil {
		return sent{}, err
	}
	defer u.Close()
	file, err := os.Open(path)
	if err != nil {
		return sent{}, fmt.Errorf("upload: %w", err)
	}
	defer func() { _ = file.Close() }()
	v, err := u.Announce(ctx, client.NewVideo{Title: "On a slow line", SizeBytes: &size})
	if err != nil {
		return sent{}, err
	}
	before, begun := counter.work(), time.Now()
	var last time.Time
	way := u.UploadParts
	if !early {
		way = u.UploadLastPartLast
	}
	if err := way(ctx, v.Id, &line{ReaderAt: file}, size, func(int64) { last = time.Now() }); err != nil {
		return sent{}, err
	}
	// Asking for the video costs requests, asking the workers none.
	ready := client.Video{}
	for ready.ReadyAt == nil {
		if err := quietFor(ctx, s); err != nil {
			return sent{}, err
		}
		if ready, err = u.Video(ctx, v.Id); err != nil || ready.State == client.Failed {
			return sent{}, errors.Join(err, fmt.Errorf("video %s is %s: %+v", v.Id, ready.State, ready.Error))
		}
	}
	out := sent{upload: last.Sub(begun), ready: ready.ReadyAt.Sub(last), requests: counter.work() - before}
	if err := out.look(ctx, u, v.Id, begun, last); err != nil {
		return sent{}, err
	}
	return out, remove(ctx, u, v.Id)
}

// look counts runs, and says when each of them was. A video is playable when its first
// pictures and its first sound are there.
func (s *sent) look(ctx context.Context, u *journey.User, id string, begun, last time.Time) error {
	list, err := steps(ctx, u, id)
	if err != nil {
		return err
	}
	s.timeline = timeline(cost{steps: list, uploaded: last})
	for _, step := range list {
		if step.Index == 0 && step.Finished != nil && (step.Step == workflow.StepEncode || step.Step == workflow.StepAudio) {
			s.playable = max(s.playable, step.Finished.Sub(begun))
		}
	}
	res, err := u.API().GetJourneyWithResponse(ctx, id)
	if err != nil {
		return fmt.Errorf("get the journey of %s: %w", id, err)
	}
	if res.JSON200 == nil {
		return fmt.Errorf("get the journey of %s: %w", id, &journey.Refusal{Status: res.StatusCode(), Body: res.Body})
	}
	for _, item := range res.JSON200.Items {
		for _, attempt := range item.Attempts {
			if attempt.Outcome == client.AttemptReleased {
				s.thrown++
			} else {
				s.runs++
			}
		}
	}
	return nil
}

// line hands on a file as slowly as a slow line would. It is for one reader.
type line struct{ io.ReaderAt }

func (l *line) ReadAt(p []byte, at int64) (int, error) {
	time.Sleep(time.Duration(float64(len(p)) / lineRate * float64(time.Second)))
	return l.ReaderAt.ReadAt(p, at)
}

// work is how many requests were made that an idle stack does not make.
func (c *counter) work() int {
	n := 0
	for r, count := range c.counts() {
		if r.what != looks.what && r.what != lengths.what && r.what != leases.what {
			n += count
		}
	}
	return n
}
