package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
)

const (
	// blockSize is the unit that is kept and handed on.
	blockSize = 64 << 10
	// firstRun is what is asked for after a jump: a film's head, or a keyframe.
	firstRun = 256 << 10
	// longestRun is the most that one request asks for.
	longestRun = 2 << 20
	// kept is how much of the source stays in memory, for each attempt. It is more than
	// two readers have asked for and not read: a first chunk is made by two.
	kept = 8 << 20
)

// readAhead reads a source for one attempt. ffmpeg asks for everything from a byte on,
// reads a little, goes away and asks again elsewhere, and each run of an attempt begins
// with the same head and index. So requests to storage are small after a jump and grow
// with what is really read, so that what is read in vain is less than what is read. What
// was read last is kept for the next run.
//
// A request is read to its end even when ffmpeg has gone: Azurite opens a file for each
// block of a reply, and never closes those of a reply that is not read to its end. With
// requests for all the rest it had no files left after some eighty runs on an hour of
// film, and answered no read any more.
type readAhead struct {
	ctx     context.Context // of the attempt: what it reads is counted there
	from    sourceparts.Source
	perPart int64 // blocks of a part; each part begins with a block of its own
	end     int64 // number of blocks

	mu     sync.Mutex
	blocks *simplelru.LRU[int64, *block]
}

// block is a piece of the source that has come, or is on its way.
type block struct {
	came chan struct{} // closed when data or err are there
	data []byte
	err  error
}

func newReadAhead(ctx context.Context, from sourceparts.Source) *readAhead {
	a := &readAhead{ctx: ctx, from: from, perPart: (from.Layout.PartBytes + blockSize - 1) / blockSize}
	a.end = a.numberOf(max(0, from.Layout.Bytes-1)) + 1
	a.blocks, _ = simplelru.NewLRU[int64, *block](kept/blockSize, nil) // an error only of a size below 1
	return a
}

// numberOf is the block that has a byte of the source.
func (a *readAhead) numberOf(at int64) int64 {
	part := int64(a.from.Layout.At(at))
	return part*a.perPart + (at-part*a.from.Layout.PartBytes)/blockSize
}

// place says in which part a block lies, and where in it.
func (a *readAhead) place(number int64) (part int, in blobstore.Range) {
	part, in.Offset = int(number/a.perPart), number%a.perPart*blockSize
	in.Length = min(blockSize, a.from.Layout.Range(part).Length-in.Offset)
	return part, in
}

// request returns a block, and sees to it that count blocks from one on, which is not
// before it, are there or on their way; next is the first block behind those.
func (a *readAhead) request(number, from, count int64) (b *block, next int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, found := a.blocks.Get(number)
	if !found {
		from, count = number, max(count, firstRun/blockSize) // perhaps it was there, and is no longer kept
	}
	for ; from < a.end && a.blocks.Contains(from); from++ {
		count--
	}
	var run []*block
	for next = from; next < min(from+count, a.end) && !a.blocks.Contains(next); next++ {
		part, in := a.place(next)
		if next != number && a.from.Has != nil && !a.from.Has(part) {
			break // only a reader that needs it waits for it
		}
		if in.Offset == 0 && len(run) > 0 {
			go a.receive(next-int64(len(run)), run)
			run = nil
		}
		added := &block{came: make(chan struct{})}
		a.blocks.Add(next, added)
		run = append(run, added)
		if next == number {
			b = added
		}
	}
	if len(run) > 0 {
		go a.receive(next-int64(len(run)), run)
	}
	return b, next
}

// receive reads blocks of one part, and hands on each as soon as it is there. One that
// failed is forgotten.
func (a *readAhead) receive(first int64, run []*block) {
	part, want := a.place(first)
	_, last := a.place(first + int64(len(run)) - 1)
	want.Length = last.Offset + last.Length - want.Offset
	body, err := a.from.Open(a.ctx, part, want)
	if err == nil {
		defer func() { _ = body.Close() }()
	}
	for i, b := range run {
		number := first + int64(i)
		if err == nil {
			_, in := a.place(number)
			b.data = make([]byte, in.Length)
			_, err = io.ReadFull(body, b.data)
		}
		if err != nil {
			b.err = sourceparts.Changed(fmt.Errorf("read the source: %w", err))
			a.forget(number)
		}
		close(b.came)
	}
}

func (a *readAhead) forget(number int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.blocks.Remove(number)
}

// reader returns a reader at the beginning of the source. What it has asked for and not
// read is wanted by the next one, so it need not be closed.
func (a *readAhead) reader() *reader { return &reader{source: a} }

// reader is an io.ReadSeeker. Not safe for concurrent use.
type reader struct {
	source    *readAhead
	start, at int64 // bytes; start is where the latest jump led
	ahead     int64 // the first block that this reader has not asked for
	run       int64 // blocks that it asked for last
}

// Seek implements io.Seeker.
func (r *reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.source.from.Layout.Bytes
	}
	if offset < 0 {
		return 0, errors.New("seek to before the beginning of the source")
	}
	*r = reader{source: r.source, start: offset, at: offset, ahead: r.source.numberOf(offset)}
	return offset, nil
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if r.at >= r.source.from.Layout.Bytes {
		return 0, io.EOF
	}
	number := r.source.numberOf(r.at)
	b := r.request(number)
	select {
	case <-b.came:
	case <-r.source.ctx.Done():
		return 0, context.Cause(r.source.ctx)
	}
	if b.err != nil {
		return 0, b.err
	}
	part, in := r.source.place(number)
	n := copy(p, b.data[r.at-r.source.from.Layout.Range(part).Offset-in.Offset:])
	r.at += int64(n)
	return n, nil
}

// request returns the block where the reader is, and asks for what follows before it is
// needed.
func (r *reader) request(number int64) *block {
	count := int64(0)
	if number >= r.ahead-r.run/4 {
		read := max(r.at-r.start, 2*firstRun)
		count = min(read/2, longestRun) / blockSize
		r.run = count
	}
	b, next := r.source.request(number, max(number, r.ahead), count)
	if count > 0 {
		r.ahead = next
	}
	return b
}
