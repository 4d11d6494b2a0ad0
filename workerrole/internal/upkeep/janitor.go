package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Janitor removes blobs that no row names: the output of attempts that were killed or
// superseded, of replaced generations, and of workers that wrote after a purge. It also
// removes the rows of replaced generations and of clips whose time is over. It lists
// whole containers, so it runs seldom.
type Janitor struct {
	Videos *videostore.Store
	Blobs  *blobstore.Store
	// Grace: blobs that are younger stay, because their attempt may not have committed.
	Grace time.Duration
	// ClipLife is how long a clip is kept after it was made. 0: for ever.
	ClipLife time.Duration
	Log      *slog.Logger
}

// Pass removes blobs, one container after the other. It counts the videos with blobs in each.
func (j *Janitor) Pass(ctx context.Context) (items int, _ error) {
	var failed []error
	for _, container := range []string{video.MediaContainer, video.SourcesContainer, azq.ClaimsContainer} {
		if err := j.clear(ctx, container, &items, &failed); err != nil {
			return items, errors.Join(firstErrors(failed), err)
		}
	}
	return items, firstErrors(failed)
}

// clear removes blobs of a container that are old enough and that no row names. Names begin
// with the owner, a video's id, and are listed in order, so rows are read once for each. After
// an error all further blobs of this owner stay.
func (j *Janitor) clear(ctx context.Context, container string, items *int, failed *[]error) error {
	owner, removed := "", 0
	defer func() {
		if removed > 0 {
			j.Log.Info("removed blobs that no row names", "container", container, "count", removed)
		}
	}()
	var kept prefixes // nil until a blob of the owner is old enough to be removed
	var err error     // with this owner
	for blob, failure := range j.Blobs.List(ctx, container, "") {
		if failure = cmp.Or(failure, ctx.Err()); failure != nil {
			return failure
		}
		if of, _, _ := strings.Cut(blob.Name, "/"); of != owner {
			owner, kept, err = of, nil, nil
			*items++
		}
		if err != nil || time.Since(blob.LastModified) < j.Grace {
			continue
		}
		if kept == nil {
			kept, err = j.named(ctx, owner)
		}
		if err == nil && !kept.have(blob.Name) {
			if _, err = j.Blobs.Delete(ctx, container, blob.Name, ""); err == nil {
				removed++
			}
		}
		switch {
		case errors.Is(err, tablestore.ErrUnreadable):
			j.Log.Error("keep all blobs of a video that cannot be read", "video", owner, "error", err)
		case err != nil:
			*failed = append(*failed, fmt.Errorf("clear up after %s: %w", owner, err))
		}
	}
	return nil
}

// prefixes are how the names of blobs begin that the rows of one video name: of attempts
// that run or are committed, of previews, of claim checks under way, and of an upload's parts.
type prefixes []string

func (p prefixes) have(name string) bool {
	return slices.ContainsFunc(p, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// named returns what the rows of a video name, not nil. It removes rows whose time is over,
// before their blobs: a crash in between leaves blobs without a row, which the next pass finds.
func (j *Janitor) named(ctx context.Context, owner string) (prefixes, error) {
	id, err := engine.ParseID(owner)
	if err != nil {
		return prefixes{}, nil // no video has this id
	}
	view, err := j.Videos.ViewWithRequests(ctx, id, true)
	if errors.Is(err, engine.ErrNotFound) {
		return prefixes{}, nil
	}
	if err != nil {
		return nil, err
	}
	kept := prefixes{}
	if l, inParts := sourceparts.LayoutOf(view.Subject.Upload); inParts {
		kept = append(kept, sourceparts.Prefix(id, l.Epoch))
	}
	if !view.Subject.State.Terminal() {
		// A message may name a claim check, whose name begins with its item's id:
		// <video>.<row key>.
		kept = append(kept, engine.Prefix(id)+string(id)+".")
	}
	over := j.over(view)
	for _, s := range view.Runs {
		onRequest := s.Key.OnRequest()
		if onRequest && j.expired(s) {
			switch err := j.Videos.DropRequest(ctx, s); {
			case err == nil, errors.Is(err, videostore.ErrNoClip), errors.Is(err, videostore.ErrNoCaptions):
				continue
			case !errors.Is(err, engine.ErrChanged):
				return nil, err
			}
		}
		if onRequest || !over[s.Key.Generation] { // what was asked for outlives the generation that it reads
			kept = append(kept, ofStep(s)...)
		}
	}
	for generation, over := range over {
		if !over {
			previews, err := videostore.Previewed(view, generation)
			if err != nil {
				return nil, err
			}
			for _, p := range previews {
				for _, r := range p.Pictures.Renditions {
					kept = append(kept, path.Dir(r.Blob)+"/") // with its sound
				}
			}
			continue
		}
		if err := j.Videos.DropGeneration(ctx, id, generation); err != nil {
			return nil, err
		}
		j.Log.Info("removed rows of a replaced generation", "video", id, "generation", generation)
	}
	return kept, nil
}

// over says of every generation that has rows whether they may go: no viewer still watches it.
func (j *Janitor) over(view videostore.View) map[int]bool {
	over := map[int]bool{}
	replaced := time.Since(view.Subject.ReadyAt) >= j.Grace
	for generation := range view.Plans {
		over[generation] = replaced && !view.Keeps(generation)
	}
	for _, s := range view.Runs {
		if !s.Key.OnRequest() {
			over[s.Key.Generation] = replaced && !view.Keeps(s.Key.Generation)
		}
	}
	return over
}

// expired reports whether a clip ended, made or failed, longer than ClipLife ago.
func (j *Janitor) expired(s engine.Run) bool {
	step := workflow.Declaration.StepOf(s.Key)
	return j.ClipLife > 0 && step.Expires && s.Ended(step) && time.Since(s.FinishedAt) >= j.ClipLife
}

// ofStep is what came with a request, and what the attempt wrote that runs or is committed:
// parts and the copy of the source, too.
func ofStep(s engine.Run) (kept prefixes) {
	if s.Input != "" {
		kept = append(kept, s.Input)
	}
	switch {
	case s.State != engine.RunDone && len(s.Output) > 0: // asked for anew: what an earlier attempt made still serves
		kept = append(kept, s.Key.BlobFolder())
	case s.State == engine.RunRunning || s.State == engine.RunDone:
		kept = append(kept, s.Key.BlobPrefix(s.Attempt))
	}
	return kept
}
