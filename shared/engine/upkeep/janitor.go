package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
)

// Janitor removes blobs that no row names: the output of attempts that were killed or
// superseded, of replaced generations, of workers that wrote after a purge, and what the keys of
// an upload wrote in vain. It also removes the rows of replaced generations and of requests whose
// time is over. It lists whole containers, so it runs seldom.
type Janitor[V, P any] struct {
	Store *engine.Store[V, P]
	Blobs *blobstore.Store
	// Grace: blobs that are younger stay, because their attempt may not have committed. Parts of
	// uploads stay for sourceparts.KeyLife, if that is shorter.
	Grace time.Duration
	// RequestLife is how long that is kept which expires, after it was made. 0: for ever.
	RequestLife time.Duration
	// Named, if set, returns how the names of blobs begin that the product's own rows name, of a
	// generation that is needed.
	Named func(view engine.View[V, P], generation int) ([]string, error)
	Log   *slog.Logger
}

// Pass removes blobs, one container after the other. It counts the subjects with blobs in each.
func (j *Janitor[V, P]) Pass(ctx context.Context) (items int, _ error) {
	var failed []error
	for _, container := range []string{engine.MediaContainer, engine.SourcesContainer, azq.ClaimsContainer} {
		if err := j.clear(ctx, container, &items, &failed); err != nil {
			return items, errors.Join(firstErrors(failed), err)
		}
	}
	return items, firstErrors(failed)
}

// clear removes blobs of a container that are old enough and that no row names. Names begin
// with the owner, a subject's id, and are listed in order, so rows are read once for each. After
// an error all further blobs of this owner stay.
func (j *Janitor[V, P]) clear(ctx context.Context, container string, items *int, failed *[]error) error {
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
		if err != nil || time.Since(blob.LastModified) < j.graceOf(owner, blob.Name) {
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
			j.Log.Error("keep all blobs of a subject that cannot be read", "subject", owner, "error", err)
		case err != nil:
			*failed = append(*failed, fmt.Errorf("clear up after %s: %w", owner, err))
		}
	}
	return nil
}

// graceOf is how old a blob is at least that goes. An upload has its row before its first part, so
// a part waits for no commit: it stays while the keys of its upload may write more.
func (j *Janitor[V, P]) graceOf(owner, name string) time.Duration {
	if strings.HasPrefix(name, sourceparts.PrefixOfAll(engine.ID(owner))) {
		return min(j.Grace, sourceparts.KeyLife)
	}
	return j.Grace
}

// prefixes are how the names of blobs begin that the rows of one subject name: of attempts
// that run or are committed, of previews, of claim checks under way, and of an upload's parts.
type prefixes []string

func (p prefixes) have(name string) bool {
	return slices.ContainsFunc(p, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// named returns what the rows of a subject name, not nil. It removes rows whose time is over,
// before their blobs: a crash in between leaves blobs without a row, which the next pass finds.
func (j *Janitor[V, P]) named(ctx context.Context, owner string) (prefixes, error) {
	id, err := engine.ParseID(owner)
	if err != nil {
		return prefixes{}, nil // no subject has this id
	}
	view, err := j.Store.ViewWithRequests(ctx, id, true)
	if errors.Is(err, engine.ErrNotFound) {
		return prefixes{}, nil
	}
	if err != nil {
		return nil, err
	}
	kept := prefixes{}
	if l, inParts := sourceparts.LayoutOf(view.Meta().Upload); inParts {
		kept = append(kept, sourceparts.Prefix(id, l.Epoch))
		if view.Meta().State == engine.AwaitingUpload { // a complete upload has every part, in its right length
			if _, err := sourceparts.Held(ctx, j.Blobs, id, l); err != nil {
				return nil, err
			}
		}
	}
	if !view.Meta().State.Terminal() {
		for _, step := range j.Store.Steps { // a message may name a claim check: <subject>/<step>/<subject>.<row key>
			kept = append(kept, engine.Prefix(id)+step.Name+"/"+string(id)+".")
		}
	}
	over := j.over(view)
	for _, s := range view.Runs {
		onRequest := s.Key.OnRequest()
		if onRequest && j.expired(s) {
			switch err := j.Store.DropRequest(ctx, s); {
			case err == nil, errors.Is(err, engine.ErrNoRun):
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
			if j.Named != nil {
				names, err := j.Named(view, generation)
				if err != nil {
					return nil, err
				}
				kept = append(kept, names...)
			}
			continue
		}
		if err := j.Store.DropGeneration(ctx, id, generation); err != nil {
			return nil, err
		}
		j.Log.Info("removed rows of a replaced generation", "subject", id, "generation", generation)
	}
	return kept, nil
}

// over says of every generation that has rows whether they may go: no viewer still watches it.
func (j *Janitor[V, P]) over(view engine.View[V, P]) map[int]bool {
	over := map[int]bool{}
	replaced := time.Since(view.Meta().ReadyAt) >= j.Grace
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

// expired reports whether a run on request ended, made or failed, longer than RequestLife ago.
func (j *Janitor[V, P]) expired(s engine.Run) bool {
	step := j.Store.StepOf(s.Key)
	return j.RequestLife > 0 && step.Expires && s.Ended(step) && time.Since(s.FinishedAt) >= j.RequestLife
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
