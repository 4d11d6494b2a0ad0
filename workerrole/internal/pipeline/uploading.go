package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// NotYetError says that a run needs bytes of the source that have not arrived. It says
// nothing about the file: what the run made is thrown away, and the step is done again
// when they are there, at no cost.
type NotYetError struct {
	// Parts that are to be sent first: the one that was asked for and the missing ones
	// behind it, because what reads there goes on.
	Parts []int
}

func (e *NotYetError) Error() string {
	return fmt.Sprintf("part %d of the source has not arrived", e.Parts[0])
}

const (
	// mostWanted is how many parts one refusal asks for, and nextWanted when they come
	// next anyway: waiting for more would only delay the next try.
	mostWanted = 8
	nextWanted = 2
	// lookEvery is the pause between two looks for a part that is on its way.
	lookEvery = 250 * time.Millisecond
	// patience is how long a run waits for bytes without making progress before it is
	// given up. The first step has none: it says what it needs, and that is sent first.
	patience = 6 * time.Second
	// nextPatience is how long a run waits in all for parts that are sent next without
	// being asked for: asking for them and beginning anew takes longer. It is for all of
	// them together, or a file without an index, which is read from its beginning, would
	// hold a slot for as long as its upload lasts.
	nextPatience = 3 * time.Second
)

// partWaiter waits for the parts of an upload that is going on. Each part is read in the
// version that was seen first.
type partWaiter struct {
	*source
	patience, next time.Duration
	moved          func() time.Time // when the run last made progress
	nextUntil      time.Time        // when waits for parts that come next are over; set by the first
}

// openUploading returns a source that is still being sent.
func openUploading(ctx context.Context, blobs *blobstore.Store, id video.ID, layout sourceparts.Layout, wait partWaiter) (*source, error) {
	parts, err := sourceparts.Held(ctx, blobs, id, layout)
	if err != nil {
		return nil, fmt.Errorf("look at the source: %w", err)
	}
	wait.source = inParts(blobs, id, layout, parts)
	wait.missing = wait.await
	return wait.source, nil
}

// await returns the version of a part, and waits for the part when it is on its way.
func (a *partWaiter) await(ctx context.Context, part int) (etag string, _ error) {
	for began := time.Now(); ; {
		info, err := a.blobs.Head(ctx, video.SourcesContainer, a.name(part))
		switch {
		case err == nil && info.Size == a.layout.Range(part).Length:
			return a.note(part, info.ETag), nil
		case err != nil && !errors.Is(err, blobstore.ErrNotFound):
			return "", err
		}
		last := began
		if moved := a.moved(); moved.After(last) {
			last = moved
		}
		if time.Since(last) >= a.patience && !a.waitsForNext(part) {
			return "", a.notYet(part)
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// note keeps the version of a part that was seen, and returns the one that was seen first.
func (a *partWaiter) note(part int, etag string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.etags[part] == "" {
		a.etags[part] = etag
	}
	return a.etags[part]
}

// waitsForNext reports whether a part comes next, and the time for such waits is not over.
func (a *partWaiter) waitsForNext(part int) bool {
	if a.head() < part {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nextUntil.IsZero() {
		a.nextUntil = time.Now().Add(a.next)
	}
	return time.Now().Before(a.nextUntil)
}

func (a *partWaiter) notYet(part int) error {
	missing, most := &NotYetError{}, mostWanted
	if a.head() >= part {
		most = nextWanted
	}
	for ; part < a.layout.Count() && a.version(part) == "" && len(missing.Parts) < most; part++ {
		missing.Parts = append(missing.Parts, part)
	}
	if len(missing.Parts) == 0 { // it came meanwhile
		missing.Parts = []int{part}
	}
	return missing
}

// head is how many parts were seen from the first on without a gap.
func (s *source) head() (parts int) {
	for parts < s.layout.Count() && s.version(parts) != "" {
		parts++
	}
	return parts
}

// Arrived says what is there of an upload that is still going on: its layout, and how many
// parts from the first on without a gap. False when the source that was opened is complete.
func (w *Work) Arrived() (layout sourceparts.Layout, head int, still bool) {
	if w.source == nil || w.source.missing == nil {
		return layout, 0, false
	}
	return w.source.layout, w.source.head(), true
}

// used is what the attempt has read of an upload that was still going on.
func (w *Work) used() sourceparts.Versions {
	if _, _, still := w.Arrived(); !still {
		return ""
	}
	w.source.mu.Lock()
	defer w.source.mu.Unlock()
	return sourceparts.VersionsOf(w.source.layout.Epoch, w.source.read)
}

// SourceIsWhatWasRead compares the parts that steps of the plan have read while the upload
// was going on with those that were committed. Only the account's key can replace a part;
// then the run fails with a *video.Failure, source_changed.
func (w *Work) SourceIsWhatWasRead(ctx context.Context, view videostore.View) error {
	var manifest *sourceparts.Manifest
	for _, step := range view.Steps {
		if step.Read == "" || step.Key.Generation != w.Plan.Generation {
			continue
		}
		if manifest == nil {
			read, err := readManifest(ctx, w.blobs, w.Video)
			if err != nil {
				return err
			}
			manifest = &read
		}
		if !step.Read.Match(*manifest) {
			return changed(fmt.Errorf("%s was made from other parts: %w", step.Key, blobstore.ErrChanged))
		}
	}
	return nil
}

// How long a part of a video waits for bytes of the upload, at first and at most.
const (
	firstNotYet = 2 * time.Second
	lastNotYet  = 2 * time.Minute
)

// awaitUpload settles a step that needs bytes of an upload that is going on, or that
// failed on one, which is not final. The first step is promised again when its parts are
// there (videostore.Store.Arrived). Other steps were promised because their parts should
// be: they wait a little, longer each time, because the rest may never come.
func (r *Runner) awaitUpload(next handler) handler {
	return func(ctx context.Context, d *delivery) error {
		err := next(ctx, d)
		missing, isMissing := errors.AsType[*NotYetError](err)
		failure, failed := errors.AsType[*video.Failure](err)
		first := d.key.Declared().Stage == workflow.First
		waits, e := false, error(nil)
		switch {
		case isMissing && first:
			waits, e = r.Videos.RequestParts(ctx, d.key.ID, d.key.Generation, missing.Parts)
		case isMissing:
			waits, e = r.Videos.StillEarly(ctx, d.key.ID)
		case failed:
			waits, e = r.Videos.Postpone(ctx, d.key.ID)
		default:
			return err
		}
		switch {
		case e != nil:
			return e
		case !waits: // all of it has come meanwhile
			return workqueue.Snooze(time.Second, err.Error())
		case failed:
			return workqueue.Unwanted("waits for the whole upload: " + failure.Error())
		case first:
			return workqueue.Unwanted(err.Error())
		}
		return workqueue.Snooze(min(firstNotYet<<min(d.job.Item.Snoozes, 10), lastNotYet), err.Error())
	}
}
