package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/film"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/load"
	"github.com/cutroom/cutroom/e2e/report"
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
func (l Load) film() film.Film {
	return film.Film{Width: 320, Height: 180, FPS: 24, Rate: 60_000, Seconds: 60, Loops: l.FilmMinutes, Cheap: true, Thin: true}
}

var (
	tenSeconds = film.Film{Width: 640, Height: 360, FPS: 30, Noise: 3, Rate: 600_000, Seconds: 10, Cheap: true}
	oneMinute  = film.Film{Width: 320, Height: 180, FPS: 24, Rate: 100_000, Seconds: 60, Cheap: true, Thin: true}
	// firstChunk is as long as the first chunk of a film: all of its work is urgent, but for
	// what follows the chunk.
	firstChunk = film.Film{Width: 320, Height: 180, FPS: 24, Rate: 100_000, Seconds: 2, Cheap: true, Thin: true}
)

// Clip makes the clip of ten seconds, once for each cache.
func Clip(ctx context.Context, cache string) (string, error) { return tenSeconds.Make(ctx, cache) }

// Film makes one of the films of the load, once for each cache.
func (l Load) Film(ctx context.Context, cache string) (string, error) {
	return l.film().Make(ctx, cache)
}

// uploadsAtOnce is how many uploads of a load are under way at the same time.
const uploadsAtOnce = 6

// many uploads the same file many times, each to the channel that channel names.
func many(ctx context.Context, u *journey.User, path string, count int, channel func(i int) string) ([]load.Times, error) {
	return load.Generator{User: u, AtOnce: uploadsAtOnce}.Run(ctx, count, func(i int) load.Upload {
		name := channel(i)
		return load.Upload{Path: path, Video: client.NewVideo{Title: fmt.Sprintf("%s %d", name, i), Channel: &name}}
	})
}

func oneChannel(name string) func(int) string { return func(int) string { return name } }

// Newcomer is how long a video took from the last byte of its upload, on an idle stack and
// behind the films of others.
type Newcomer struct {
	Name       string
	Idle, Busy time.Duration
	Timeline   string // the steps of the busy one
}

// measure uploads a video to a channel of its own, follows it, and deletes it when it need
// not become ready. On an idle stack the second of two counts: the first pays for what is
// done once in a process.
func (n *Newcomer) measure(ctx context.Context, u *journey.User, path string, until load.Goal, busy bool) error {
	tries := 2
	if busy {
		tries = 1
	}
	for range tries {
		t, err := load.Generator{User: u, Until: until}.One(ctx, load.Upload{Path: path, Video: client.NewVideo{Title: "Newcomer", Channel: &n.Name}})
		if err != nil {
			return fmt.Errorf("%s, behind others: %t: %w", n.Name, busy, err)
		}
		steps, err := u.Steps(ctx, t.ID)
		if err != nil {
			return err
		}
		took := t.Ready.Sub(t.Arrived)
		if until == load.Playable {
			took = t.Playable.Sub(t.Arrived)
			if err := u.Delete(ctx, t.ID); err != nil {
				return err
			}
		}
		if busy {
			n.Busy, n.Timeline = took, timeline(steps, t.Arrived)
		} else {
			n.Idle = took
		}
	}
	return nil
}

// Newcomers measures how soon videos can be watched on an idle stack, queues the films of
// load, and measures the same videos again. Paths are by name. The films stay.
func (l Load) Newcomers(ctx context.Context, s *stack.Stack, cache string, paths map[string]string) (found []Newcomer, _ error) {
	u, err := journey.New(s.BaseURL())
	if err != nil {
		return nil, err
	}
	defer u.Close()
	for name, path := range paths {
		n := Newcomer{Name: name}
		if err := n.measure(ctx, u, path, load.Playable, false); err != nil {
			return nil, err
		}
		found = append(found, n)
	}
	if err := awaitQuiet(ctx, s); err != nil {
		return nil, err
	}
	path, err := l.Film(ctx, cache)
	if err != nil {
		return nil, err
	}
	films, err := many(ctx, u, path, l.Films, oneChannel("films"))
	if err != nil {
		return nil, err
	}
	for i := range found {
		if err := found[i].measure(ctx, u, paths[found[i].Name], load.Playable, true); err != nil {
			return nil, err
		}
	}
	return found, stillWait(ctx, u, films, l.Films)
}

// Neighbours measures how long a clip takes until it is ready on an idle stack,
// and again behind the clips of another channel.
func (l Load) Neighbours(ctx context.Context, s *stack.Stack, cache string) (n Newcomer, err error) {
	u, err := journey.New(s.BaseURL())
	if err != nil {
		return n, err
	}
	defer u.Close()
	path, err := Clip(ctx, cache)
	if err != nil {
		return n, err
	}
	n.Name = "quiet channel"
	if err := n.measure(ctx, u, path, load.Ready, false); err != nil {
		return n, err
	}
	clips, err := many(ctx, u, path, l.Clips, oneChannel("noisy"))
	if err != nil {
		return n, err
	}
	if err := n.measure(ctx, u, path, load.Ready, true); err != nil {
		return n, err
	}
	return n, stillWait(ctx, u, clips, 1)
}

// stillWait returns an error when fewer than least of the load's videos are still in the making,
// or one failed: then less than that load was measured.
func stillWait(ctx context.Context, u *journey.User, uploads []load.Times, least int) error {
	n := 0
	for _, t := range uploads {
		v, err := u.Video(ctx, t.ID)
		switch {
		case err != nil:
			return err
		case v.State == client.Failed:
			return fmt.Errorf("%s of the load failed: %+v", t.ID, v.Error)
		case v.State != client.Ready:
			n++
		}
	}
	if n < least {
		return fmt.Errorf("%d of %d videos of the load were still in the making at the end, want %d", n, len(uploads), least)
	}
	return nil
}

// Together is how long uploads that came at the same time took until all could be watched,
// counted from the start of the first step.
type Together struct {
	Urgent time.Duration // of videos that are one chunk: the urgent work of all
	Last   time.Duration // of longer ones, whose other chunks wait beside it
}

// Ratio is what the other chunks cost the last video that begins.
func (t Together) Ratio() float64 { return t.Last.Seconds() / t.Urgent.Seconds() }

// Together uploads a burst, each video of a channel of its own, to a stack without workers,
// and starts two of them: first with videos of one chunk, then with longer ones. Uploads that
// arrive one after the other would measure how fast they arrive.
func (l Load) Together(ctx context.Context, s *stack.Stack, cache string) (t Together, err error) {
	u, err := journey.New(s.BaseURL())
	if err != nil {
		return t, err
	}
	defer u.Close()
	var took [2]time.Duration
	for i, f := range []film.Film{firstChunk, oneMinute} {
		path, err := f.Make(ctx, cache)
		if err != nil {
			return t, err
		}
		if took[i], err = l.burst(ctx, s, u, path); err != nil {
			return t, err
		}
	}
	return Together{Urgent: took[0], Last: took[1]}, nil
}

func (l Load) burst(ctx context.Context, s *stack.Stack, u *journey.User, path string) (time.Duration, error) {
	for _, name := range s.Workers() {
		if err := s.StopRole(name); err != nil {
			return 0, err
		}
	}
	videos, err := many(ctx, u, path, l.Burst, func(i int) string { return fmt.Sprint("burst ", i) })
	if err != nil {
		return 0, err
	}
	for range 2 {
		if _, err := s.AddWorker(ctx); err != nil {
			return 0, err
		}
	}
	var first, last time.Time
	for _, v := range videos {
		if _, err := u.Await(ctx, v.ID, func(v client.Video) bool { return v.Playable }); err != nil {
			return 0, err
		}
		steps, err := u.Steps(ctx, v.ID)
		if err != nil {
			return 0, err
		}
		for _, step := range steps {
			if step.Index != 0 || step.Started == nil || step.Finished == nil {
				continue
			}
			switch step.Step {
			case "probe":
				if first.IsZero() || step.Started.Before(first) {
					first = *step.Started
				}
			case "encode", "audio":
				if step.Finished.After(last) {
					last = *step.Finished
				}
			}
		}
	}
	for _, v := range videos { // the remaining ones must not run into the next burst
		if err := u.Delete(ctx, v.ID); err != nil {
			return 0, err
		}
	}
	return last.Sub(first), awaitQuiet(ctx, s)
}

// busy prints what waiting is like behind others.
func busy(ctx context.Context, b *bench) (report.Section, error) {
	others := pick(b, Load{Films: 10, FilmMinutes: 120, Clips: 40, Burst: 20}, Load{Films: 50, FilmMinutes: 120, Clips: 200, Burst: 50})
	result := report.Section{Rows: [][]string{{"newcomer", "behind", "idle", "busy"}}}
	clip, err := Clip(ctx, b.Cache)
	if err != nil {
		return result, err
	}
	b.say("generating an hour of 720p, once")
	hour, err := Film(ctx, b.Cache, pick(b, 1, 60))
	if err != nil {
		return result, err
	}
	add := func(n Newcomer, behind, bound string, value, target float64) {
		result.Rows = append(result.Rows, []string{n.Name, behind, seconds(n.Idle), seconds(n.Busy)})
		result.Bounds = append(result.Bounds, report.Bound{Name: bound, Value: value, Target: target, AtMost: true})
		result.Notes = append(result.Notes, n.Name+", since its last byte: "+n.Timeline)
	}
	b.say("behind %d films of %d minutes", others.Films, others.FilmMinutes)
	err = b.with(ctx, stack.Options{Workers: 2}, func(s *stack.Stack, _ *journey.User) error {
		found, err := others.Newcomers(ctx, s, b.Cache, map[string]string{"10 s clip": clip, "hour of film": hour})
		for _, n := range found { // twice the idle time and two seconds: the target of the project
			add(n, fmt.Sprintf("%d films", others.Films), n.Name+" playable: busy ÷ (2 × idle + 2 s)", n.Busy.Seconds()/(2*n.Idle.Seconds()+2), 1)
		}
		return err
	})
	if err != nil {
		return result, err
	}
	b.say("behind %d clips of another channel", others.Clips)
	err = b.with(ctx, stack.Options{Workers: 2}, func(s *stack.Stack, _ *journey.User) error {
		n, err := others.Neighbours(ctx, s, b.Cache)
		add(n, fmt.Sprintf("%d clips", others.Clips), "a quiet channel's clip ready: busy ÷ idle", n.Busy.Seconds()/n.Idle.Seconds(), 4)
		return err
	})
	if err != nil {
		return result, err
	}
	b.say("%d uploads at once", others.Burst)
	err = b.with(ctx, stack.Options{}, func(s *stack.Stack, _ *journey.User) error {
		t, err := others.Together(ctx, s, b.Cache)
		result.Bounds = append(result.Bounds, report.Bound{
			Name:  fmt.Sprintf("%d uploads at once: the last playable ÷ the urgent work of all", others.Burst),
			Value: t.Ratio(), Target: 1.5, AtMost: true,
		})
		result.Notes = append(result.Notes, fmt.Sprintf("%d uploads at once: the last playable %s after the first was begun; urgent work alone %s", others.Burst, seconds(t.Last), seconds(t.Urgent)))
		return err
	})
	return result, err
}
