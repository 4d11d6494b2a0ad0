package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/e2e/chart"
	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/film"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/lab"
	"github.com/cutroom/cutroom/e2e/load"
	"github.com/cutroom/cutroom/e2e/report"
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
	Ready    []time.Duration // when each video was, in order, since the first upload began
	Charged  int             // attempts that did not end well and were not given back
	Released int             // attempts that were given back
	Hours    float64         // of worker processes, until the fleet was as small as before
}

// Sample is the fleet at a moment.
type Sample struct {
	At       time.Duration
	Workers  int   // processes
	Messages int64 // in all queues, visible and hidden; -1 when it could not be read
}

// Burst uploads 60 short videos, six at once, to a fleet that follows the queues, from 1 to 4
// workers and back, and to fixed fleets of 1 and 4 (paper row Q18). Each worker is held
// to a part of a core, so that a worker more is more computing power.
func Burst(ctx context.Context, bin, cache string, say func(string)) (fleets []Fleet, _ error) {
	q, err := openQuotas()
	if err != nil {
		return nil, err
	}
	defer q.remove()
	path, err := film.Film{Width: 320, Height: 180, FPS: 12, Rate: 200_000, Seconds: 4, Cheap: true}.Make(ctx, cache)
	if err != nil {
		return nil, err
	}
	for _, kind := range []struct {
		name        string
		least, most int
	}{{"1 to 4, by the queues", 1, burstMost}, {"1, fixed", 1, 1}, {"4, fixed", burstMost, burstMost}} {
		say(kind.name)
		fleet, err := burst(ctx, q, path, stack.Options{
			Bin: bin, Workers: kind.least, MaxWorkers: kind.most,
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
	w := &watcher{s: s, user: user, q: q, held: map[int]bool{}, begun: time.Now(), until: make(chan struct{}), least: o.Workers}
	var group errgroup.Group
	group.Go(func() error { return w.watch(ctx, &f) })
	channel := "burst"
	videos, err := load.Generator{User: user, AtOnce: uploadsAtOnce, Until: load.Ready}.Run(ctx, burstVideos, func(i int) load.Upload {
		return load.Upload{Path: path, Video: client.NewVideo{Title: fmt.Sprint("burst ", i), Channel: &channel}}
	})
	close(w.until)
	if err = errors.Join(err, group.Wait()); err != nil {
		return f, err
	}
	for _, v := range videos {
		f.Ready = append(f.Ready, v.Ready.Sub(w.begun))
		if err := f.count(ctx, user, v.ID); err != nil {
			return f, err
		}
	}
	slices.Sort(f.Ready)
	return f, nil
}

// count looks at every attempt of a video.
func (f *Fleet) count(ctx context.Context, user *journey.User, id string) error {
	attempts, err := user.Attempts(ctx, id)
	for _, a := range attempts {
		switch a.Outcome {
		case client.AttemptDone, client.AttemptRunning:
		case client.AttemptReleased:
			f.Released++
		default:
			f.Charged++
		}
	}
	return err
}

// watcher samples a fleet, and holds each worker that comes to its part of a core.
type watcher struct {
	s     *stack.Stack
	user  *journey.User
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
		if scale, err := w.user.Scale(ctx); err == nil {
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

// BurstReport is the fleets as a table.
func BurstReport(fleets []Fleet) report.Section {
	r := report.Section{Rows: [][]string{{"workers", "half of the videos ready after", "all after", "worker hours", "turns", "attempts given back", "attempts charged"}}}
	for _, f := range fleets {
		if n := len(f.Ready); n > 0 {
			r.Rows = append(r.Rows, []string{
				f.Name, fmt.Sprintf("%.0f s", f.Ready[n/2].Seconds()), fmt.Sprintf("%.0f s", f.Ready[n-1].Seconds()),
				fmt.Sprintf("%.3f", f.Hours), fmt.Sprint(f.Turns()), fmt.Sprint(f.Released), fmt.Sprint(f.Charged),
			})
		}
	}
	return r
}

// BurstNote says what the machine was like: its processors, and its load before.
func BurstNote(load string) string {
	return fmt.Sprintf("%d videos of 4 s on %d processors; each worker is held to %.0f %% of one. Load of the machine before: %s.", burstVideos, runtime.NumCPU(), 100*burstShare, load)
}

// BurstPlot is the fleets over time as SVG: processes, messages, videos that are ready.
func BurstPlot(fleets []Fleet, note string) []byte {
	c := chart.Chart{
		Title: fmt.Sprintf("%d videos, %d uploads at once, to fleets of workers", burstVideos, uploadsAtOnce), Notes: []string{note},
		X: chart.Axis{Label: "seconds since the first upload began", High: 1},
		Panels: []chart.Panel{
			{Title: "worker processes", Y: chart.Axis{High: burstMost + 1}},
			{Title: "messages in the queues", Y: chart.Axis{High: 1}},
			{Title: "videos that are ready", Y: chart.Axis{High: burstVideos * 1.05}},
		},
	}
	colors := []string{"#0b62c4", "#b3261e", "#2e7d32"}
	for i, f := range fleets {
		line := chart.Series{Name: f.Name, Color: colors[i%len(colors)], Width: 2, Points: make([][][2]float64, 3)}
		add := func(panel int, at time.Duration, value float64) {
			line.Points[panel] = append(line.Points[panel], [2]float64{at.Seconds(), value})
		}
		for i, s := range f.Samples {
			c.X.High = max(c.X.High, s.At.Seconds())
			if i > 0 {
				add(0, s.At, float64(f.Samples[i-1].Workers))
			}
			add(0, s.At, float64(s.Workers))
			if s.Messages >= 0 {
				c.Panels[1].Y.High = max(c.Panels[1].Y.High, float64(s.Messages)*1.05)
				add(1, s.At, float64(s.Messages))
			}
		}
		for n, at := range f.Ready {
			add(2, at, float64(n))
			add(2, at, float64(n+1))
		}
		c.Series = append(c.Series, line)
	}
	return c.SVG()
}
