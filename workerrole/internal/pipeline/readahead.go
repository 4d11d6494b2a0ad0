package pipeline

import (
	"context"
	"fmt"
	"io"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
)

const (
	// blockSize is what one request asks for, and what is kept: short, because much of what
	// follows a jump is read in vain, and not shorter, because requests cost.
	blockSize = 512 << 10
	// kept is how much of the source stays in memory, for each attempt. It is more than
	// two readers have asked for and not read: a first chunk is made by two.
	kept = 8 << 20
)

// readAhead reads a source for one attempt. ffmpeg asks for everything from a byte on,
// reads a little, goes away and asks again elsewhere, and each run of an attempt begins
// with the same head and index. So the source is read in blocks, each by one request, with
// the next one asked for before it is needed, and those that were used last are kept for
// the next run. Each part of an upload begins with a block of its own.
//
// A request is read to its end even when ffmpeg has gone: Azurite opens a file for each
// block of a reply, and never closes those of a reply that is not read to its end. With
// requests for all the rest it had no files left after some eighty runs on an hour of
// film, and answered no read any more.
type readAhead struct {
	ctx    context.Context // of the attempt: what it reads is counted there
	from   sourceparts.Source
	blocks *lru.Cache[int64, func() ([]byte, error)] // by where they begin; each waits until it has come
}

func newReadAhead(ctx context.Context, from sourceparts.Source) *readAhead {
	blocks, _ := lru.New[int64, func() ([]byte, error)](kept / blockSize) // an error only of a size below 1
	return &readAhead{ctx: ctx, from: from, blocks: blocks}
}

func (a *readAhead) reader() io.ReadSeeker { return io.NewSectionReader(a, 0, a.from.Layout.Bytes) }

// ReadAt implements io.ReaderAt.
func (a *readAhead) ReadAt(p []byte, at int64) (n int, _ error) {
	for n < len(p) {
		if at >= a.from.Layout.Bytes {
			return n, io.EOF
		}
		in, block := a.block(at)
		next := in.Offset + in.Length
		if next < a.from.Layout.Bytes && (a.from.Has == nil || a.from.Has(a.from.Layout.At(next))) {
			a.block(next) // only a reader that needs a part waits for it
		}
		data, err := block()
		if err != nil {
			return n, err
		}
		copied := copy(p[n:], data[at-in.Offset:])
		n, at = n+copied, at+int64(copied)
	}
	return n, nil
}

// block returns the block that has a byte of the source, and where it lies. Unless it is
// there, or on its way, it is asked for.
func (a *readAhead) block(at int64) (in blobstore.Range, wait func() ([]byte, error)) {
	part := a.from.Layout.At(at)
	whole := a.from.Layout.Range(part)
	in.Offset = at - (at-whole.Offset)%blockSize
	in.Length = min(blockSize, whole.Offset+whole.Length-in.Offset)
	if wait, found := a.blocks.Get(in.Offset); found {
		return in, wait
	}
	wait = sync.OnceValues(func() ([]byte, error) {
		data, err := a.receive(part, blobstore.Range{Offset: in.Offset - whole.Offset, Length: in.Length})
		if err != nil {
			a.blocks.Remove(in.Offset) // the next reader tries again
			return nil, sourceparts.Changed(fmt.Errorf("read the source: %w", err))
		}
		return data, nil
	})
	if other, found, _ := a.blocks.PeekOrAdd(in.Offset, wait); found {
		return in, other
	}
	go wait()
	return in, wait
}

func (a *readAhead) receive(part int, want blobstore.Range) ([]byte, error) {
	body, err := a.from.Open(a.ctx, part, want)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	data := make([]byte, want.Length)
	_, err = io.ReadFull(body, data)
	return data, err
}
