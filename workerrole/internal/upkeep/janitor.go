package upkeep

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workqueue"
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

// containers are read side by side. Names begin with the owner, a video's id, and are
// listed in order, so the rows of each video are read once for all three.
var containers = [3]string{video.MediaContainer, video.SourcesContainer, workqueue.ClaimsContainer}

// containerList is one container, as far as it was read.
type containerList struct {
	container string
	next      func() (blobstore.Info, error, bool)
	blob      blobstore.Info // the next one; has no name at the end
	err       error          // of the list, which ends there
}

func (s *containerList) advance() { s.blob, s.err, _ = s.next() }

func (s *containerList) owner() string {
	owner, _, _ := strings.Cut(s.blob.Name, "/")
	return owner
}

// Pass removes blobs, video by video.
func (j *Janitor) Pass(ctx context.Context) (pass Pass, _ error) {
	var shelves [3]*containerList
	for i, container := range containers {
		next, stop := iter.Pull2(j.Blobs.List(ctx, container, ""))
		defer stop()
		shelves[i] = &containerList{container: container, next: next}
		shelves[i].advance()
	}
	removed := 0
	defer func() {
		if removed > 0 {
			j.Log.Info("removed blobs that no row names", "count", removed)
		}
	}()
	var failed failures
	for {
		owner := ""
		for _, s := range shelves {
			if s.err != nil {
				return pass, errors.Join(failed.err(), s.err)
			}
			if o := s.owner(); o != "" && (owner == "" || o < owner) {
				owner = o
			}
		}
		if owner == "" {
			return pass, failed.err()
		}
		pass.Items++
		n, err := j.clear(ctx, owner, shelves)
		removed += n
		switch {
		case ctx.Err() != nil:
			return pass, ctx.Err()
		case errors.Is(err, tablestore.ErrUnreadable):
			j.Log.Error("keep all blobs of a video that cannot be read", "video", owner, "error", err)
		case err != nil:
			failed.add(fmt.Errorf("clear up after %s: %w", owner, err))
		}
	}
}

// clear takes the owner's blobs off the shelves and removes those that are old enough and
// that no row names. After an error all further blobs of this owner stay.
func (j *Janitor) clear(ctx context.Context, owner string, shelves [3]*containerList) (removed int, err error) {
	var named *keptBlobs // nil until a blob is old enough to be removed
	for _, s := range shelves {
		for ; s.err == nil && s.owner() == owner; s.advance() {
			if err != nil || time.Since(s.blob.LastModified) < j.Grace {
				continue
			}
			if named == nil {
				if named, err = j.named(ctx, owner); err != nil {
					continue
				}
			}
			if named.has(s.blob.Name) {
				continue
			}
			if err = j.Blobs.Delete(ctx, s.container, s.blob.Name); err == nil {
				removed++
			}
		}
	}
	return removed, err
}

// keptBlobs is what the rows of one video name.
type keptBlobs struct {
	blobs    map[string]bool
	prefixes []string // of attempts that run or are committed, of claim checks under way, and of an upload's parts
}

func (n keptBlobs) has(name string) bool {
	for _, p := range n.prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return n.blobs[name]
}

// named returns the blobs that the rows of a video name. Before that it removes rows whose
// time is over. Rows go before blobs: a crash in between leaves blobs without a row, which
// the next pass finds.
func (j *Janitor) named(ctx context.Context, owner string) (*keptBlobs, error) {
	id, err := video.ParseID(owner)
	if err != nil {
		return &keptBlobs{}, nil // no video has this id
	}
	view, err := j.Videos.ViewWithRequests(ctx, id)
	if errors.Is(err, videostore.ErrNotFound) {
		return &keptBlobs{}, nil
	}
	if err != nil {
		return nil, err
	}
	if view, err = j.dropRequests(ctx, view); err != nil {
		return nil, err
	}
	// A viewer may still watch a generation that was replaced a short time ago.
	replaced := time.Since(view.Video.ReadyAt) >= j.Grace
	n, over := namesIn(view, func(generation int) bool { return !replaced || view.Keeps(generation) })
	for generation := range over {
		if err := j.Videos.DropGeneration(ctx, id, generation); err != nil {
			return nil, err
		}
		j.Log.Info("removed rows of a replaced generation", "video", id, "generation", generation)
	}
	return n, nil
}

func (n *keptBlobs) addPreview(p video.Preview) {
	for _, r := range p.Pictures.Renditions {
		n.blobs[r.Blob] = true
	}
	if p.Sound != nil {
		n.blobs[p.Sound.Blob] = true
	}
}

// namesIn returns the blobs that the rows of retained generations reference,
// and which other generations have rows.
func namesIn(view videostore.View, keeps func(generation int) bool) (n *keptBlobs, over map[int]bool) {
	id := view.Video.ID
	n, over = &keptBlobs{blobs: map[string]bool{}}, map[int]bool{}
	if l, inParts := sourceparts.LayoutOf(view.Video.Upload); inParts {
		n.prefixes = append(n.prefixes, sourceparts.Prefix(id, l.Epoch))
	}
	kept := func(generation int) bool {
		if keeps(generation) {
			return true
		}
		over[generation] = true
		return false
	}
	if !view.Video.State.Terminal() {
		// A message may name a claim check, whose name begins with its item's id:
		// <video>.<generation>.<step>.<index>.
		n.prefixes = append(n.prefixes, video.Prefix(id)+string(id)+".")
	}
	for generation, parts := range view.Parts {
		if kept(generation) {
			for _, part := range parts {
				n.blobs[part.Blob] = true
			}
		}
	}
	for generation, plan := range view.Plans {
		if kept(generation) && plan.Copy != nil {
			n.blobs[plan.Copy.Name] = true
		}
	}
	for generation := range view.Previews {
		if !kept(generation) {
			continue
		}
		for _, preview := range view.Previewed(generation) {
			n.addPreview(preview)
		}
	}
	for _, s := range view.Steps {
		// What was asked for stays when the generation that it reads is replaced.
		if s.Key.Declared().Stage != workflow.OnRequest && !kept(s.Key.Generation) {
			continue
		}
		if s.Input != "" {
			n.blobs[s.Input] = true
		}
		switch {
		case s.State != videostore.StepDone && len(s.Output) > 0: // asked for anew: what an earlier attempt made still serves
			n.prefixes = append(n.prefixes, s.Key.BlobFolder())
		case s.State == videostore.StepRunning || s.State == videostore.StepDone:
			n.prefixes = append(n.prefixes, s.Key.BlobPrefix(s.Attempt))
		}
	}
	return n, over
}

// dropRequests removes clips that ended, made or failed, longer than ClipLife ago. Who
// asks again gets a new one.
func (j *Janitor) dropRequests(ctx context.Context, view videostore.View) (videostore.View, error) {
	if j.ClipLife == 0 {
		return view, nil
	}
	kept := make([]videostore.Step, 0, len(view.Steps))
	for _, s := range view.Steps {
		if s.Key.Declared().Expires && s.Ended() && time.Since(s.FinishedAt) >= j.ClipLife {
			gone, err := j.Videos.DropRequest(ctx, s)
			if err != nil {
				return view, err
			}
			if gone {
				continue
			}
		}
		kept = append(kept, s)
	}
	view.Steps = kept
	return view, nil
}
