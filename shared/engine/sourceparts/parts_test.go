package sourceparts_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

func open(t *testing.T) *blobstore.Store {
	t.Helper()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Containers: []string{engine.SourcesContainer}}); err != nil {
		t.Fatal(err)
	}
	return blobstore.New(a)
}

// put writes a part, whatever its length.
func put(ctx context.Context, t *testing.T, blobs *blobstore.Store, name string, content []byte) string {
	t.Helper()
	etag, err := blobs.Put(ctx, engine.SourcesContainer, name, content, blobstore.Options{IfNoneMatch: true})
	if err != nil {
		t.Fatal(err)
	}
	return etag
}

func TestLayout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes, part int64
		count       int
		last        blobstore.Range
	}{
		{1, 10, 1, blobstore.Range{Offset: 0, Length: 1}},
		{10, 10, 1, blobstore.Range{Offset: 0, Length: 10}},
		{11, 10, 2, blobstore.Range{Offset: 10, Length: 1}},
		{5 << 30, sourceparts.PartBytes, 1280, blobstore.Range{Offset: 5<<30 - 4<<20, Length: 4 << 20}},
	} {
		l := sourceparts.Layout{Bytes: c.bytes, PartBytes: c.part, Epoch: "e"}
		if err := l.Check(); err != nil {
			t.Error(err)
		}
		if got := l.Count(); got != c.count {
			t.Errorf("%+v: %d parts, want %d", l, got, c.count)
		}
		if diff := cmp.Diff(c.last, l.Range(l.Count()-1)); diff != "" {
			t.Errorf("%+v: last part (-want +got):\n%s", l, diff)
		}
		if got := l.At(c.bytes - 1); got != c.count-1 {
			t.Errorf("%+v: the last byte is in part %d", l, got)
		}
	}
	for _, bad := range []sourceparts.Layout{
		{}, {Bytes: 1, PartBytes: 1}, {Bytes: 1, Epoch: "e"}, {PartBytes: 1, Epoch: "e"},
		{Bytes: 1, PartBytes: 1, Epoch: "e/f"}, {Bytes: 1 << 60, PartBytes: 1, Epoch: "e"},
	} {
		if err := bad.Check(); err == nil {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestHeldAndManifest: only whole parts count, of one epoch and one subject; a manifest
// names their versions and is written once.
func TestHeldAndManifest(t *testing.T) {
	t.Parallel()
	ctx, blobs, id := t.Context(), open(t), engine.NewID()
	l := sourceparts.Layout{Bytes: 25, PartBytes: 10, Epoch: "one"}
	held := func() []sourceparts.Part {
		t.Helper()
		found, err := sourceparts.Held(ctx, blobs, id, l)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if got := held(); len(got) != 0 {
		t.Errorf("before anything came: %+v", got)
	}
	ten := []byte("0123456789")
	put(ctx, t, blobs, sourceparts.Name(id, l, 2), ten[:5])
	first := put(ctx, t, blobs, sourceparts.Name(id, l, 0), ten)
	put(ctx, t, blobs, sourceparts.Name(id, l, 1), ten[:9]) // too short
	put(ctx, t, blobs, sourceparts.Name(id, l, 3), ten)     // behind the end
	put(ctx, t, blobs, sourceparts.Name(id, sourceparts.Layout{Epoch: "two"}, 1), ten)
	odd, err := blobs.Head(ctx, engine.SourcesContainer, sourceparts.Name(id, l, 1))
	if err != nil {
		t.Fatal(err)
	}
	found := held()
	var numbers []int
	for _, p := range found {
		numbers = append(numbers, p.Number)
	}
	if diff := cmp.Diff([]int{0, 2}, numbers); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	if p := found[0]; p.ETag != first || len(p.MD5) != 16 || sourceparts.Head(found) != 1 {
		t.Errorf("part 0: %+v, want version %s", p, first)
	}
	if _, err := sourceparts.PutManifest(ctx, blobs, id, sourceparts.Manifest{Layout: l, Parts: found}); err == nil {
		t.Errorf("manifest of two of three parts: %v", err)
	}
	if _, err := blobs.Head(ctx, engine.SourcesContainer, odd.Name); !errors.Is(err, blobstore.ErrNotFound) {
		t.Errorf("the odd part is there still: %v", err)
	}
	put(ctx, t, blobs, sourceparts.Name(id, l, 1), ten)
	if _, err := blobs.Delete(ctx, engine.SourcesContainer, odd.Name, odd.ETag); !errors.Is(err, blobstore.ErrChanged) {
		t.Errorf("remove the odd part when the right one is there: %v", err)
	}
	manifest(ctx, t, blobs, id, sourceparts.Manifest{Layout: l, Parts: held()})
}

func manifest(ctx context.Context, t *testing.T, blobs *blobstore.Store, id engine.ID, m sourceparts.Manifest) {
	t.Helper()
	etag, err := sourceparts.PutManifest(ctx, blobs, id, m)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := sourceparts.PutManifest(ctx, blobs, id, m); err != nil || again != etag {
		t.Errorf("the same manifest again: %s, %v; want %s", again, err, etag)
	}
	other := m
	other.Parts = append([]sourceparts.Part{}, m.Parts...)
	other.Parts[1].ETag = "another"
	if _, err := sourceparts.PutManifest(ctx, blobs, id, other); !errors.Is(err, blobstore.ErrExists) {
		t.Errorf("another manifest: %v", err)
	}
	name := sourceparts.ManifestName(id, m.Epoch)
	got, err := sourceparts.ReadManifest(ctx, blobs, name, etag)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	if _, err := sourceparts.ReadManifest(ctx, blobs, name, `"0x1"`); !errors.Is(err, blobstore.ErrChanged) {
		t.Errorf("another version: %v", err)
	}
	// A manifest is no part.
	if held, err := sourceparts.Held(ctx, blobs, id, m.Layout); err != nil || len(held) != m.Count() {
		t.Errorf("held beside the manifest: %d, %v", len(held), err)
	}
}
