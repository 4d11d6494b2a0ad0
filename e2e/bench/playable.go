package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/film"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/load"
	"github.com/cutroom/cutroom/e2e/report"
	"github.com/cutroom/cutroom/e2e/stack"
)

// Film returns a video of 1280 × 720 pixels, 30 frames and two channels of sound
// a second, that lasts a number of minutes, generated into the folder cache if
// it is not there yet: one minute is encoded and the rest copied.
func Film(ctx context.Context, cache string, minutes int) (path string, err error) {
	return film.Film{Width: 1280, Height: 720, FPS: 30, Noise: 3, Rate: 1_000_000, Seconds: 60, Loops: minutes, Cheap: true}.Make(ctx, cache)
}

// Start is how soon a video could be watched, counted from the last part of its
// upload.
type Start struct {
	Answered     time.Duration // the web role had written the manifest and promised the probe
	Playable     time.Duration // the API said so
	FirstSegment time.Duration // playlists, init segment and first media segment were fetched
	Timeline     string        // the steps so far
}

// TimeToPlay uploads the file with valet keys and watches the API until the
// video can be played, then does what a player does before the first frame. It
// deletes the video, so that the rest is not encoded, and waits until the workers
// have nothing to do any more.
func TimeToPlay(ctx context.Context, s *stack.Stack, path string, minutes int) (start Start, err error) {
	u, err := journey.New(s.BaseURL())
	if err != nil {
		return start, err
	}
	defer u.Close()
	t, err := load.Generator{User: u, Until: load.Playable}.One(ctx, load.Upload{Path: path, Video: client.NewVideo{Title: fmt.Sprintf("%d minutes", minutes)}})
	if err != nil {
		return start, err
	}
	start.Answered, start.Playable = t.Answered.Sub(t.Arrived), t.Playable.Sub(t.Arrived)
	if _, err := u.FirstSegment(ctx, t.ID); err != nil {
		return start, err
	}
	start.FirstSegment = time.Since(t.Arrived)
	steps, err := u.Steps(ctx, t.ID)
	if err != nil {
		return start, err
	}
	start.Timeline = timeline(steps, t.Arrived)
	if err := u.Delete(ctx, t.ID); err != nil {
		return start, err
	}
	return start, awaitQuiet(ctx, s)
}

// playable compares videos of very different lengths: what a viewer waits for
// must not depend on how much else there is to do.
func playable(ctx context.Context, b *bench) (report.Section, error) {
	lengths := pick(b, []int{1, 10}, []int{1, 10, 60})
	films := map[int]string{}
	for _, minutes := range lengths {
		b.say("generating %d minutes of 720p, once", minutes)
		path, err := Film(ctx, b.Cache, minutes)
		if err != nil {
			return report.Section{}, err
		}
		films[minutes] = path
	}
	times := map[int][]float64{}
	result := report.Section{Rows: [][]string{{"minutes", "upload answered", "playable", "first segment fetched"}}}
	err := b.with(ctx, stack.Options{Workers: 2}, func(s *stack.Stack, _ *journey.User) error {
		for run := range b.Runs + 1 {
			for _, minutes := range lengths {
				b.say("%d minutes, run %d of %d", minutes, run+1, b.Runs+1)
				start, err := TimeToPlay(ctx, s, films[minutes], minutes)
				if err != nil {
					return err
				}
				times[minutes] = append(times[minutes], start.FirstSegment.Seconds())
				result.Rows = append(result.Rows, []string{strconv.Itoa(minutes), seconds(start.Answered), seconds(start.Playable), seconds(start.FirstSegment)})
				result.Notes = append(result.Notes, fmt.Sprintf("%d minutes, run %d: %s", minutes, run+1, start.Timeline))
			}
		}
		return nil
	})
	if err != nil {
		return report.Section{}, err
	}
	for _, minutes := range lengths {
		result.Bounds = append(result.Bounds, report.Bound{Name: fmt.Sprintf("%d minutes, median", minutes), Value: median(times[minutes]), Target: 1.5, AtMost: true, Unit: " s"})
	}
	last := lengths[len(lengths)-1]
	result.Bounds = append(result.Bounds, report.Bound{Name: fmt.Sprintf("%d minutes against 1", last), Value: median(times[last]) / median(times[1]), Target: 1.2, AtMost: true})
	return result, nil
}
