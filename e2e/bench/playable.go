package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
)

// Start is how soon a video could be watched, counted from the last part of its
// upload.
type Start struct {
	Minutes      int           // length of the video
	Answered     time.Duration // the web role had written the manifest and promised the probe
	Playable     time.Duration // the API said so
	FirstSegment time.Duration // playlists, init segment and first media segment were fetched
	Timeline     string        // the steps so far
}

// TimeToPlay uploads the file with a valet key and watches the API until the
// video can be played, then does what a player does before the first frame. It
// deletes the video, so that the rest is not encoded, and waits until the workers
// have nothing to do any more.
func TimeToPlay(ctx context.Context, s *stack.Stack, path string, minutes int) (Start, error) {
	start := Start{Minutes: minutes}
	u, err := journey.New(s.BaseURL())
	if err != nil {
		return start, err
	}
	defer u.Close()
	id, complete, err := bring(ctx, u, path, client.NewVideo{Title: fmt.Sprintf("%d minutes", minutes)})
	if err != nil {
		return start, err
	}
	start.Answered = time.Since(complete)
	if _, err := u.Await(ctx, id, func(v client.Video) bool { return v.Playable }); err != nil {
		return start, err
	}
	start.Playable = time.Since(complete)
	if _, err := u.FirstSegment(ctx, id); err != nil {
		return start, err
	}
	start.FirstSegment = time.Since(complete)
	list, err := steps(ctx, u, id)
	if err != nil {
		return start, err
	}
	start.Timeline = timeline(cost{steps: list, uploaded: complete})
	if err := remove(ctx, u, id); err != nil {
		return start, err
	}
	return start, awaitQuiet(ctx, s)
}

// playable compares videos of very different lengths: what a viewer waits for
// must not depend on how much else there is to do.
func playable(ctx context.Context, b *bench) (Result, error) {
	lengths := pick(b, []int{1, 10}, []int{1, 10, 60})
	films := map[int]string{}
	for _, minutes := range lengths {
		b.say("generating %d minutes of 720p, once", minutes)
		path, err := Film(ctx, b.Cache, minutes)
		if err != nil {
			return Result{}, err
		}
		films[minutes] = path
	}
	s, err := b.start(ctx, stack.Options{Workers: 2})
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = s.Stop() }()

	times := map[int][]float64{}
	result := Result{Rows: [][]string{{"minutes", "upload answered", "playable", "first segment fetched"}}}
	for run := range b.Runs + 1 {
		for _, minutes := range lengths {
			b.say("%d minutes, run %d of %d", minutes, run+1, b.Runs+1)
			start, err := TimeToPlay(ctx, s, films[minutes], minutes)
			if err != nil {
				return Result{}, err
			}
			times[minutes] = append(times[minutes], start.FirstSegment.Seconds())
			result.Rows = append(result.Rows, []string{strconv.Itoa(minutes), seconds(start.Answered), seconds(start.Playable), seconds(start.FirstSegment)})
			result.Notes = append(result.Notes, fmt.Sprintf("%d minutes, run %d: %s", minutes, run+1, start.Timeline))
		}
	}
	for _, minutes := range lengths {
		result.Ratios = append(result.Ratios, Ratio{Name: fmt.Sprintf("%d minutes, median", minutes), Value: median(times[minutes]), Target: 1.5, AtMost: true, Unit: " s"})
	}
	last := lengths[len(lengths)-1]
	result.Ratios = append(result.Ratios, Ratio{Name: fmt.Sprintf("%d minutes against 1", last), Value: median(times[last]) / median(times[1]), Target: 1.2, AtMost: true})
	return result, nil
}
