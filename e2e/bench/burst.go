package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/lab"
	"github.com/cutroom/cutroom/e2e/stack"
)

const (
	burstVideos = 60
	burstShare  = 0.3 // of a core for each worker: four fit on two cores beside the rest
	burstMost   = 4   // workers
	sampleEvery = 500 * time.Millisecond
)

// Fleet is how a number of workers met a burst of uploads.
type Fleet struct {
	Name     string
	Samples  []Sample
	Uploaded time.Duration   // when the last upload was complete
	Ready    []time.Duration // when each video was, in order, since the first upload began
	Charged  int             // attempts that did not end well and were not given back
	Released int             // attempts that were given back
	Hours    float64         // of worker processes, until the fleet was as small as before
}

// Sample is the fleet at a moment.
type Sample struct {
	At       time.Duration
	Workers  int   // processes
	Messages int64 // in all queues, visible and hidden; -1 when nobody could say
}

// Burst uploads 60 short videos at once to a fleet that follows the queues, from 1 to 4
// workers and back, and to fixed fleets of 1 and 4 (paper row Q18). Each worker is held
// to a part of a core, so that a worker more is more computing power.
func Burst(ctx context.Context, bin, cache string, say func(string)) (fleets []Fleet, _ error) {
	q, err := openQuotas()
	if err != nil {
		return nil, err
	}
	defer q.remove()
	f := film{width: 320, height: 180, fps: 12, rate: 200_000, seconds: 4, cheap: true}
	path, err := f.make(ctx, cache)
	if err != nil {
		return nil, err
	}
	for _, kind := range []struct {
		name        string
		least, most int
	}{{"1 to 4, by the queues", 1, burstMost}, {"1, fixed", 1, 1}, {"4, fixed", burstMost, burstMost}} {
		say(kind.name)
		fleet, err := burst(ctx, q, path, stack.Options{
			Bin: bin, BaseEnv: stack.Environ(), Workers: kind.least, MaxWorkers: kind.most,
			Env: []string{"WEBROLE_RATE_LIMIT=0", "WORKERROLE_POOLS=light=2,heavy=1"},
		})
		if err != nil {
			return nil, fmt.Errorf("fleet %s: %w", kind.name, err)
		}
		fleet.Name = kind.name
		fleets = append(fleets, fleet)
	}
	return fleets, nil
}

func burst(ctx context.Context, q *quotas, path string, o stack.Options) (f Fleet, err error) {
	s, err := lab.Start(ctx, o)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	user, err := journey.New(s.BaseURL())
	if err != nil {
		return f, err
	}
	defer user.Close()
	w := &watcher{s: s, q: q, held: map[int]bool{}, begun: time.Now(), until: make(chan struct{}), least: o.Workers}
	var group errgroup.Group
	group.Go(func() error { return w.watch(ctx, &f) })
	ids, err := bringMany(ctx, user, path, burstVideos, oneChannel("burst"))
	f.Uploaded = time.Since(w.begun)
	for _, id := range ids {
		var v client.Video
		if err == nil {
			if v, err = awaitReady(ctx, user, id); err == nil {
				f.Ready = append(f.Ready, v.ReadyAt.Sub(w.begun))
			}
		}
	}
	close(w.until)
	if err = errors.Join(err, group.Wait()); err != nil {
		return f, err
	}
	slices.Sort(f.Ready)
	for _, id := range ids {
		if err := f.count(ctx, user, id); err != nil {
			return f, err
		}
	}
	return f, nil
}

// count looks at every attempt of a video.
func (f *Fleet) count(ctx context.Context, user *journey.User, id string) error {
	res, err := user.API().GetJourneyWithResponse(ctx, id)
	if err != nil {
		return fmt.Errorf("journey of %s: %w", id, err)
	}
	if res.JSON200 == nil {
		return fmt.Errorf("journey of %s: %w", id, &journey.Refusal{Status: res.StatusCode(), Body: res.Body})
	}
	for _, item := range res.JSON200.Items {
		for _, a := range item.Attempts {
			switch a.Outcome {
			case client.AttemptDone, client.AttemptRunning:
			case client.AttemptReleased:
				f.Released++
			default:
				f.Charged++
			}
		}
	}
	return nil
}

// watcher samples a fleet, and holds each worker that comes to its part of a core.
type watcher struct {
	s     *lab.Stack
	q     *quotas
	held  map[int]bool
	begun time.Time
	until chan struct{} // closed when all videos are ready
	least int           // workers
}

// watch returns when all videos are ready and the fleet is as small as it began.
func (w *watcher) watch(ctx context.Context, f *Fleet) error {
	done := false
	for {
		sample := Sample{At: time.Since(w.begun), Messages: -1}
		for _, name := range w.s.Workers() {
			pid := w.s.Pid(name)
			if pid == 0 {
				continue
			}
			sample.Workers++
			if !w.held[pid] {
				w.held[pid] = true
				if err := w.q.hold(pid, burstShare); err != nil && w.s.Pid(name) == pid {
					return err
				}
			}
		}
		if scale, err := askScale(ctx, w.s.BaseURL()); err == nil {
			sample.Messages = 0
			for _, q := range scale.Queues {
				sample.Messages += q.Visible + q.Hidden
			}
		}
		if n := len(f.Samples); n > 0 {
			f.Hours += float64(f.Samples[n-1].Workers) * (sample.At - f.Samples[n-1].At).Hours()
		}
		f.Samples = append(f.Samples, sample)
		if done && sample.Workers <= w.least {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.until:
			done, w.until = true, nil
		case <-time.After(sampleEvery):
		}
	}
}

func askScale(ctx context.Context, base string) (scale client.Scale, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/v1/ops/scale", nil)
	if err != nil {
		return scale, fmt.Errorf("ask for the queues: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return scale, fmt.Errorf("ask for the queues: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return scale, fmt.Errorf("ask for the queues: %s", res.Status)
	}
	if err := json.NewDecoder(res.Body).Decode(&scale); err != nil {
		return scale, fmt.Errorf("ask for the queues: %w", err)
	}
	return scale, nil
}

// Most is the largest number of workers.
func (f Fleet) Most() (most int) {
	for _, s := range f.Samples {
		most = max(most, s.Workers)
	}
	return most
}

// Turns is how often the fleet stopped growing and began to shrink, or the other way.
func (f Fleet) Turns() (turns int) {
	direction := 0
	for i := 1; i < len(f.Samples); i++ {
		change := f.Samples[i].Workers - f.Samples[i-1].Workers
		if change*direction < 0 {
			turns++
		}
		if change != 0 {
			direction = change
		}
	}
	return turns
}

// Judge returns what the fleet that follows the queues did wrong: nil when it grew to
// four and became one by itself, in at most two turns, and no attempt was charged.
func (f Fleet) Judge() error {
	last := 0
	if n := len(f.Samples); n > 0 {
		last = f.Samples[n-1].Workers
	}
	if f.Most() != burstMost || last != 1 || f.Turns() > 2 || f.Charged > 0 {
		return fmt.Errorf("fleet %s: at most %d workers, %d in the end, %d turns, %d attempts charged", f.Name, f.Most(), last, f.Turns(), f.Charged)
	}
	return nil
}

// BurstTable is the fleets as a table in Markdown.
func BurstTable(fleets []Fleet) string {
	var b strings.Builder
	b.WriteString("| workers | half of the videos ready after | all after | worker hours | turns | attempts given back | attempts charged |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, f := range fleets {
		n := len(f.Ready)
		if n == 0 {
			continue
		}
		_, _ = fmt.Fprintf(&b, "| %s | %.0f s | %.0f s | %.3f | %d | %d | %d |\n", f.Name, f.Ready[n/2].Seconds(), f.Ready[n-1].Seconds(), f.Hours, f.Turns(), f.Released, f.Charged)
	}
	return b.String()
}

// BurstNote says what the machine was like: its processors, and its load before.
func BurstNote(load string) string {
	return fmt.Sprintf("%d videos of 4 s on %d processors; each worker is held to %.0f %% of one. Load of the machine before: %s.", burstVideos, runtime.NumCPU(), 100*burstShare, load)
}

// MachineLoad is the machine's load of the latest minute, as Linux tells it.
func MachineLoad() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "not known"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}
