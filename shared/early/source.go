package early

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
)

// notYetError says that a run needs bytes of the source that have not arrived. It says
// nothing about the file: what the run made is thrown away, and the step is done again
// when they are there, at no cost.
type notYetError struct {
	// parts are to be sent first: the one that was asked for and the missing ones behind
	// it, because what reads there goes on.
	parts []int
}

func (e *notYetError) Error() string {
	return fmt.Sprintf("part %d of the source has not arrived", e.parts[0])
}

const (
	// mostWanted is how many parts one refusal asks for: with more the next try is later,
	// with fewer there are more tries.
	mostWanted = 4
	// lookEvery is the pause between two looks for a part that is on its way.
	lookEvery = 250 * time.Millisecond
	// patience is how long a run waits for bytes without making progress before it is
	// given up. The first step has none: it says what it needs, and that is sent first.
	patience = 6 * time.Second
)

// source is the file of an upload that is going on. Each part is read in the version that
// was seen first.
type source struct {
	blobs    *blobstore.Store
	id       engine.ID
	layout   sourceparts.Layout
	patience time.Duration
	moved    func() time.Time // when the run last made progress

	etags sync.Map // of the parts that were seen, by number
}

// Open returns the source of a run at a step: a read of a part that is not there waits for it
// while the run makes progress (moved says when it last did), and a little longer.
func (u *Uploads) Open(ctx context.Context, v video.Video, step engine.Step, moved func() time.Time) (sourceparts.Source, error) {
	layout, _ := sourceparts.LayoutOf(v.Upload)
	s := &source{blobs: u.blobs, id: v.ID, layout: layout, patience: patience, moved: moved}
	if step.Stage == engine.First {
		s.patience = 0
	}
	return s.open(ctx)
}

func (s *source) open(ctx context.Context) (sourceparts.Source, error) {
	held, err := sourceparts.Held(ctx, s.blobs, s.id, s.layout)
	if err != nil {
		return sourceparts.Source{}, fmt.Errorf("look at the source: %w", err)
	}
	for _, p := range held {
		s.etags.Store(p.Number, p.ETag)
	}
	return sourceparts.Source{Layout: s.layout, Has: s.has, Open: s.openPart}, nil
}

func (s *source) has(part int) bool {
	_, seen := s.etags.Load(part)
	return seen
}

func (s *source) openPart(ctx context.Context, part int, want blobstore.Range) (io.ReadCloser, error) {
	if err := s.await(ctx, part); err != nil {
		return nil, err
	}
	etag, _ := s.etags.Load(part)
	body, _, err := s.blobs.Open(ctx, engine.SourcesContainer, sourceparts.Name(s.id, s.layout, part), want, etag.(string))
	return body, err
}

func (s *source) await(ctx context.Context, part int) error {
	for began := time.Now(); !s.has(part); {
		info, err := s.blobs.Head(ctx, engine.SourcesContainer, sourceparts.Name(s.id, s.layout, part))
		switch {
		case err == nil && info.Size == s.layout.Range(part).Length:
			s.etags.LoadOrStore(part, info.ETag)
			continue
		case err != nil && !errors.Is(err, blobstore.ErrNotFound):
			return err
		case !s.waits(began):
			return s.notYet(part)
		}
		if err := azstore.Sleep(ctx, lookEvery); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) waits(began time.Time) bool {
	if moved := s.moved(); moved.After(began) {
		began = moved
	}
	return time.Since(began) < s.patience
}

func (s *source) notYet(part int) error {
	missing := []int{part}
	for part++; part < s.layout.Count() && !s.has(part) && len(missing) < mostWanted; part++ {
		missing = append(missing, part)
	}
	return &notYetError{missing}
}
