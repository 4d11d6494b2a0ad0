package early

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
)

func fateOf(err error) azq.Fate {
	fate, _ := azq.FateOf(err)
	return fate
}

// sent is an upload of six parts, of which a test sends one after the other.
type sent struct {
	*testing.T
	source
	content []byte
}

func newSent(t *testing.T) *sent {
	t.Helper()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), azstore.Names{Containers: []string{engine.SourcesContainer}}); err != nil {
		t.Fatal(err)
	}
	s := &sent{T: t, content: make([]byte, 550)}
	for i := range s.content {
		s.content[i] = byte(i)
	}
	s.blobs, s.id = blobstore.New(account), engine.NewID()
	s.layout = sourceparts.Layout{Bytes: int64(len(s.content)), PartBytes: 100, Epoch: "e"}
	began := time.Now()
	s.moved = func() time.Time { return began }
	return s
}

func (s *sent) put(n int) {
	s.Helper()
	r := s.layout.Range(n)
	_, err := s.blobs.Put(s.T.Context(), engine.SourcesContainer, sourceparts.Name(s.id, s.layout, n), s.content[r.Offset:r.Offset+r.Length], blobstore.Options{IfNoneMatch: true})
	if err != nil {
		s.Error(err)
	}
}

// opened is the source with a patience.
func (s *sent) opened(patience time.Duration) sourceparts.Source {
	s.Helper()
	from := &source{blobs: s.blobs, id: s.id, layout: s.layout, moved: s.moved, patience: patience}
	opened, err := from.open(s.T.Context())
	if err != nil {
		s.Fatal(err)
	}
	return opened
}

// read reads a part.
func read(ctx context.Context, from sourceparts.Source, part int) ([]byte, error) {
	body, err := from.Open(ctx, part, blobstore.Range{Length: from.Layout.Range(part).Length})
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	return io.ReadAll(body)
}

// A read of a part that is on its way waits for it, and one whose part does not come
// names what is missing.
func TestGrowingSourceWaits(t *testing.T) {
	t.Parallel()
	s := newSent(t)
	s.put(0)
	s.put(4)
	from := s.opened(30 * time.Second)
	type result struct {
		got []byte
		err error
	}
	done := make(chan result)
	go func() {
		got, err := read(t.Context(), from, 1)
		done <- result{got, err}
	}()
	s.put(1)
	if r := <-done; r.err != nil || !bytes.Equal(r.got, s.content[100:200]) {
		t.Errorf("%d bytes, %v", len(r.got), r.err)
	}
	_, err := read(t.Context(), s.opened(0), 2)
	if missing := new(notYetError); !errors.As(err, &missing) || len(missing.parts) != 2 || missing.parts[0] != 2 || missing.parts[1] != 3 {
		t.Errorf("parts 2 and 3 are missing: %v", err)
	}
}
