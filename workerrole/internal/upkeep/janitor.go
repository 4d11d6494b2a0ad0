package upkeep

import (
	"context"
	"errors"
	"fmt"
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
//
// Between passes it keeps in memory where it stopped; a new leader starts over. Not safe
// for concurrent use.
type Janitor struct {
	Videos *videostore.Store
	Blobs  *blobstore.Store
	// Budget ends a pass; the next continues there. 0: no end.
	Budget time.Duration
	// Grace: blobs that are younger stay, because their attempt may not have committed.
	Grace time.Duration
	// ClipLife is how long a clip is kept after it was made. 0: for ever.
	ClipLife time.Duration
	Log      *slog.Logger

	from   string   // owner at which the next pass begins, "" for the first
	places [3]shelf // where the pages with that owner begin
}

// containers are read side by side. Names begin with the owner, a video's id, and are
// listed in order, so the rows of each video are read once for all three.
var containers = [3]string{video.MediaContainer, video.SourcesContainer, workqueue.ClaimsContainer}

// shelf is how far one container was read.
type shelf struct {
	container string
	marker    string // of the page
	next      string // marker of the page after it
	read      bool   // whether there is a page
	page      []blobstore.Info
}

// first returns the blob that comes next, or false at the end.
func (s *shelf) first(ctx context.Context, blobs *blobstore.Store) (blobstore.Info, bool, error) {
	for len(s.page) == 0 {
		if s.read {
			if s.next == "" {
				return blobstore.Info{}, false, nil
			}
			s.marker = s.next
		}
		var err error
		if s.page, s.next, err = blobs.ListPage(ctx, s.container, s.marker); err != nil {
			return blobstore.Info{}, false, err
		}
		s.read = true
	}
	return s.page[0], true, nil
}

func ownerOf(name string) string {
	owner, _, _ := strings.Cut(name, "/")
	return owner
}

// Pass removes blobs, video by video.
func (j *Janitor) Pass(ctx context.Context) (Pass, error) {
	end := time.Now().Add(j.Budget)
	shelves := j.places
	for i := range shelves {
		shelves[i] = shelf{container: containers[i], marker: j.places[i].marker}
	}
	from := j.from
	j.from, j.places = "", [3]shelf{} // after an error of the list the next pass starts over
	var pass Pass
	var errs []error
	removed := 0
	defer func() {
		if removed > 0 {
			j.Log.Info("removed blobs that no row names", "count", removed)
		}
	}()
	for {
		owner, found, err := nextOwner(ctx, j.Blobs, &shelves)
		if err != nil || !found {
			return pass, errors.Join(append(errs, err)...)
		}
		if owner >= from && (len(errs) == maxErrors || j.Budget > 0 && pass.Items > 0 && time.Now().After(end)) {
			for i := range shelves {
				shelves[i].page = nil
			}
			j.from, j.places = owner, shelves
			return pass, errors.Join(errs...)
		}
		o := &estate{j: j, owner: owner, skip: owner < from} // on the first page, but done in the pass before
		for i := range shelves {
			if err := o.clear(ctx, &shelves[i]); err != nil {
				return pass, errors.Join(append(errs, err)...)
			}
		}
		if o.skip {
			continue
		}
		pass.Items++
		removed += o.removed
		switch {
		case errors.Is(o.err, tablestore.ErrUnreadable):
			j.Log.Error("keep all blobs of a video that cannot be read", "video", owner, "error", o.err)
		case ctx.Err() != nil:
			return pass, ctx.Err()
		case o.err != nil:
			errs = append(errs, fmt.Errorf("clear up after %s: %w", owner, o.err))
		}
	}
}

// nextOwner returns the owner whose blobs come next in any container.
func nextOwner(ctx context.Context, blobs *blobstore.Store, shelves *[3]shelf) (owner string, found bool, _ error) {
	for i := range shelves {
		blob, more, err := shelves[i].first(ctx, blobs)
		if err != nil {
			return "", false, err
		}
		if o := ownerOf(blob.Name); more && (!found || o < owner) {
			owner, found = o, true
		}
	}
	return owner, found, nil
}

// estate is the blobs of one owner.
type estate struct {
	j       *Janitor
	owner   string
	skip    bool   // take the blobs off the shelves without removing them
	named   *names // nil until a blob is old enough to be removed
	removed int
	err     error // after an error all further blobs stay
}

// clear takes the owner's blobs off a shelf and removes those that are old enough and
// that no row names. It returns errors of the list; errors with this owner are in e.err.
func (e *estate) clear(ctx context.Context, s *shelf) error {
	for {
		blob, more, err := s.first(ctx, e.j.Blobs)
		if err != nil {
			return err
		}
		if !more || ownerOf(blob.Name) != e.owner {
			return nil
		}
		s.page = s.page[1:]
		if e.skip || e.err != nil || time.Since(blob.LastModified) < e.j.Grace {
			continue
		}
		if e.named == nil {
			if e.named, e.err = e.j.named(ctx, e.owner); e.err != nil {
				continue
			}
		}
		if e.named.has(blob.Name) {
			continue
		}
		if e.err = e.j.Blobs.Delete(ctx, s.container, blob.Name); e.err == nil {
			e.removed++
		}
	}
}

// names is what the rows of one video name.
type names struct {
	blobs    map[string]bool
	prefixes []string // of attempts that run or are committed, of claim checks under way, and of an upload's parts
}

func (n names) has(name string) bool {
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
func (j *Janitor) named(ctx context.Context, owner string) (*names, error) {
	id, err := video.ParseID(owner)
	if err != nil {
		return &names{}, nil // no video has this id
	}
	view, err := j.Videos.ViewWithRequests(ctx, id)
	if errors.Is(err, videostore.ErrNotFound) {
		return &names{}, nil
	}
	if err != nil {
		return nil, err
	}
	if view, err = j.dropRequests(ctx, view); err != nil {
		return nil, err
	}
	// Somebody may still watch a generation that was replaced a short time ago.
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

func (n *names) addPreview(p video.Preview) {
	for _, r := range p.Pictures.Renditions {
		n.blobs[r.Blob] = true
	}
	if p.Sound != nil {
		n.blobs[p.Sound.Blob] = true
	}
}

// namesIn collects what the rows of the generations name that keeps says to keep,
// and which other generations have rows.
func namesIn(view videostore.View, keeps func(generation int) bool) (n *names, over map[int]bool) {
	id := view.Video.ID
	n, over = &names{blobs: map[string]bool{video.SourceBlob(id): true}}, map[int]bool{}
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
		if kept(generation) {
			n.blobs[plan.Source] = true
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
