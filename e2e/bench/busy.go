package bench

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
)

// Load says how much others do while a newcomer is measured (paper row Q5).
type Load struct {
	Films       int // long films with sound that wait, all of one channel
	FilmMinutes int // how long each of them is
	Clips       int // short clips of one channel, before one of another
	Burst       int // uploads at the same time
}

// The videos of these measurements are small pictures with sound: what is shown
// is who waits for whom, and every slot of every worker is taken all the time.
func (l Load) film() film {
	return film{width: 320, height: 180, fps: 24, rate: 60_000, seconds: 60, loops: l.FilmMinutes, cheap: true, thin: true}
}

var (
	tenSeconds = film{width: 640, height: 360, fps: 30, noise: 3, rate: 600_000, seconds: 10, cheap: true}
	oneMinute  = film{width: 320, height: 180, fps: 24, rate: 100_000, seconds: 60, cheap: true, thin: true}
)

// Clip makes the clip of ten seconds, once for each cache.
func Clip(ctx context.Context, cache string) (string, error) { return tenSeconds.make(ctx, cache) }

// Film makes one of the films of the load, once for each cache.
func (l Load) Film(ctx context.Context, cache string) (string, error) {
	return l.film().make(ctx, cache)
}

// Newcomer is how soon a video could be watched, on an idle stack and behind the
// films of others, from the last byte of its upload.
type Newcomer struct {
	Name       string
	Idle, Busy time.Duration
	Timeline   string // the steps of the busy one
}

// Newcomers measures videos on an idle stack, queues the films of load, and
// measures the same videos again. Paths are by name. The films stay.
func (l Load) Newcomers(ctx context.Context, s *stack.Stack, cache string, paths map[string]string) ([]Newcomer, error) {
	u, err := journey.New(s.BaseURL())
	if err != nil {
		return nil, err
	}
	defer u.Close()
	var found []Newcomer
	for name, path := range paths {
		n := Newcomer{Name: name}
		for try := range 2 { // the first try pays for what is done once in a process
			if n.Idle, _, err = soon(ctx, u, path, name); err != nil {
				return nil, fmt.Errorf("%s, idle, try %d: %w", name, try, err)
			}
		}
		found = append(found, n)
	}
	if err := awaitQuiet(ctx, s); err != nil {
		return nil, err
	}
	path, err := l.film().make(ctx, cache)
	if err != nil {
		return nil, err
	}
	films, err := bringMany(ctx, u, path, l.Films, oneChannel("films"))
	if err != nil {
		return nil, err
	}
	for i := range found {
		n := &found[i]
		if n.Busy, n.Timeline, err = soon(ctx, u, paths[n.Name], n.Name); err != nil {
			return nil, fmt.Errorf("%s behind %d films: %w", n.Name, l.Films, err)
		}
	}
	return found, stillWait(ctx, u, films, l.Films)
}

// stillWait returns an error when fewer than least of the load's videos are still in the making,
// or one failed: then less than that load was measured.
func stillWait(ctx context.Context, u *journey.User, ids []string, least int) error {
	n := 0
	for _, id := range ids {
		v, err := u.Video(ctx, id)
		switch {
		case err != nil:
			return err
		case v.State == client.Failed:
			return fmt.Errorf("%s of the load failed: %+v", id, v.Error)
		case v.State != client.Ready:
			n++
		}
	}
	if n < least {
		return fmt.Errorf("%d of %d videos of the load were still in the making at the end, want %d", n, len(ids), least)
	}
	return nil
}

// soon uploads a video, waits until it can be watched and deletes it.
func soon(ctx context.Context, u *journey.User, path, channel string) (time.Duration, string, error) {
	id, complete, err := bring(ctx, u, path, client.NewVideo{Title: "Newcomer", Channel: &channel})
	if err != nil {
		return 0, "", err
	}
	if _, err := u.Await(ctx, id, func(v client.Video) bool { return v.Playable }); err != nil {
		return 0, "", err
	}
	took := time.Since(complete)
	list, err := steps(ctx, u, id)
	if err != nil {
		return 0, "", err
	}
	return took, timeline(cost{steps: list, uploaded: complete}), remove(ctx, u, id)
}

// Neighbours measures how long a clip takes until it is ready on an idle stack,
// and again behind the clips of another channel.
func (l Load) Neighbours(ctx context.Context, s *stack.Stack, cache string) (n Newcomer, err error) {
	u, err := journey.New(s.BaseURL())
	if err != nil {
		return n, err
	}
	defer u.Close()
	path, err := tenSeconds.make(ctx, cache)
	if err != nil {
		return n, err
	}
	n.Name = "quiet channel"
	for range 2 {
		if n.Idle, _, err = whole(ctx, u, path, "quiet"); err != nil {
			return n, err
		}
	}
	clips, err := bringMany(ctx, u, path, l.Clips, oneChannel("noisy"))
	if err != nil {
		return n, err
	}
	if n.Busy, n.Timeline, err = whole(ctx, u, path, "quiet"); err != nil {
		return n, err
	}
	return n, stillWait(ctx, u, clips, 1)
}

// whole uploads a video and waits until it is ready.
func whole(ctx context.Context, u *journey.User, path, channel string) (time.Duration, string, error) {
	id, complete, err := bring(ctx, u, path, client.NewVideo{Title: "Whole", Channel: &channel})
	if err != nil {
		return 0, "", err
	}
	v, err := awaitReady(ctx, u, id)
	if err != nil {
		return 0, "", err
	}
	list, err := steps(ctx, u, id)
	return v.ReadyAt.Sub(complete), timeline(cost{steps: list, uploaded: complete}), err // one machine, one clock
}

// Together is what happened to uploads that came at the same time.
type Together struct {
	Playable int // how many could be watched when the first had its fourth chunk
	// Began is the time from the first step's start until all of them could be watched.
	Began time.Duration
	// Overtaken is how many later chunks, of any of them, were begun while the
	// unluckiest one's first chunk was waiting: after its probe, before its start.
	Overtaken int
}

// Together uploads a burst, each video of a channel of its own, to a stack without
// workers, starts two of them and waits until all can be watched and one has its fourth
// chunk. Uploads that arrive one after the other would measure how fast they arrive: the
// first may be far ahead before the last is there.
func (l Load) Together(ctx context.Context, s *stack.Stack, cache string) (t Together, err error) {
	u, err := journey.New(s.BaseURL())
	if err != nil {
		return t, err
	}
	defer u.Close()
	path, err := oneMinute.make(ctx, cache)
	if err != nil {
		return t, err
	}
	ids, err := bringMany(ctx, u, path, l.Burst, func(i int) string { return fmt.Sprint("burst ", i) })
	if err != nil {
		return t, err
	}
	for range 2 {
		if _, err := s.AddWorker(ctx); err != nil {
			return t, err
		}
	}
	for _, id := range ids {
		if _, err := u.Await(ctx, id, func(v client.Video) bool { return v.Playable }); err != nil {
			return t, err
		}
	}
	for { // all have begun; what comes after the first fourth chunk tells nothing
		all := make([][]client.Step, len(ids))
		for i, id := range ids {
			if all[i], err = steps(ctx, u, id); err != nil {
				return t, err
			}
		}
		if t, decided := together(all); decided {
			return t, nil
		}
		select {
		case <-ctx.Done():
			return t, fmt.Errorf("wait for a fourth chunk: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// together counts what overtook what in the timelines of videos. It is decided when one
// of them has its fourth chunk.
func together(all [][]client.Step) (t Together, decided bool) {
	type beginning struct{ probed, started, playable time.Time }
	var beginnings []beginning
	var later []time.Time // when chunks after the first were begun
	var first time.Time   // when the first step of all was begun
	var fourth time.Time  // when the first of all had its fourth
	for _, list := range all {
		var b beginning
		for _, step := range list {
			if step.Started == nil {
				continue
			}
			started, finished := *step.Started, time.Time{}
			if step.Finished != nil {
				finished = *step.Finished
			}
			switch {
			case step.Step == "probe":
				b.probed = finished
				first = earliest(first, started)
			case step.Step == "encode" && step.Index == 0:
				b.started = started
				b.playable = latest(b.playable, finished)
			case step.Step == "audio" && step.Index == 0:
				b.playable = latest(b.playable, finished)
			case step.Step == "encode":
				later = append(later, started)
				if step.Index == 3 && !finished.IsZero() {
					fourth = earliest(fourth, finished)
				}
			}
		}
		beginnings = append(beginnings, b)
	}
	for _, b := range beginnings {
		if !b.playable.After(fourth) {
			t.Playable++
		}
		t.Began = max(t.Began, b.playable.Sub(first))
		overtaken := 0
		for _, started := range later {
			if started.After(b.probed) && started.Before(b.started) {
				overtaken++
			}
		}
		t.Overtaken = max(t.Overtaken, overtaken)
	}
	return t, !fourth.IsZero()
}

// earliest of two times; a is zero when there was none yet.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func oneChannel(name string) func(int) string { return func(int) string { return name } }

// bringMany uploads the same file many times, some at a time, each to the channel that
// channel names.
func bringMany(ctx context.Context, u *journey.User, path string, count int, channel func(i int) string) ([]string, error) {
	ids := make([]string, count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(6)
	for i := range count {
		group.Go(func() (err error) {
			name := channel(i)
			ids[i], _, err = bring(ctx, u, path, client.NewVideo{Title: fmt.Sprintf("%s %d", name, i), Channel: &name})
			return err
		})
	}
	return ids, group.Wait()
}

// busy prints what waiting is like behind others.
func busy(ctx context.Context, b *bench) (Result, error) {
	load := pick(b, Load{Films: 10, FilmMinutes: 120, Clips: 40, Burst: 20}, Load{Films: 50, FilmMinutes: 120, Clips: 200, Burst: 50})
	var result Result
	clip, err := tenSeconds.make(ctx, b.Cache)
	if err != nil {
		return result, err
	}
	b.say("generating an hour of 720p, once")
	hour, err := Film(ctx, b.Cache, pick(b, 1, 60))
	if err != nil {
		return result, err
	}
	result.Rows = [][]string{{"newcomer", "behind", "idle", "busy"}}
	row := func(n Newcomer, behind string) {
		result.Rows = append(result.Rows, []string{n.Name, behind, seconds(n.Idle), seconds(n.Busy)})
	}

	b.say("behind %d films of %d minutes", load.Films, load.FilmMinutes)
	err = b.with(ctx, 2, func(s *stack.Stack) error {
		found, err := load.Newcomers(ctx, s, b.Cache, map[string]string{"10 s clip": clip, "hour of film": hour})
		for _, n := range found {
			row(n, fmt.Sprintf("%d films", load.Films))
			result.Notes = append(result.Notes, n.Name+", since its last byte: "+n.Timeline)
			// Twice the idle time and two seconds: the target of the project.
			result.Ratios = append(result.Ratios, Ratio{Name: n.Name + " playable: busy ÷ (2 × idle + 2 s)", Value: n.Busy.Seconds() / (2*n.Idle.Seconds() + 2), Target: 1, AtMost: true})
		}
		return err
	})
	if err != nil {
		return result, err
	}
	b.say("behind %d clips of another channel", load.Clips)
	err = b.with(ctx, 2, func(s *stack.Stack) error {
		n, err := load.Neighbours(ctx, s, b.Cache)
		row(n, fmt.Sprintf("%d clips", load.Clips))
		result.Notes = append(result.Notes, "quiet channel, since its last byte: "+n.Timeline)
		result.Ratios = append(result.Ratios, Ratio{Name: "a quiet channel's clip ready: busy ÷ idle", Value: n.Busy.Seconds() / n.Idle.Seconds(), Target: 4, AtMost: true})
		return err
	})
	if err != nil {
		return result, err
	}
	b.say("%d uploads at once", load.Burst)
	err = b.with(ctx, 0, func(s *stack.Stack) error {
		t, err := load.Together(ctx, s, b.Cache)
		result.Ratios = append(result.Ratios, Ratio{
			Name:  fmt.Sprintf("%d uploads at once: playable when the first has its fourth chunk", load.Burst),
			Value: float64(t.Playable), Target: float64(load.Burst),
		})
		result.Notes = append(result.Notes, fmt.Sprintf("%d uploads at once: all playable %s after the first was begun; at most %d later chunks began while a first one waited", load.Burst, seconds(t.Began), t.Overtaken))
		return err
	})
	return result, err
}

// with runs f on a stack of its own with that many workers.
func (b *bench) with(ctx context.Context, workers int, f func(*stack.Stack) error) error {
	s, err := b.start(ctx, stack.Options{Workers: workers})
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	return f(s)
}
