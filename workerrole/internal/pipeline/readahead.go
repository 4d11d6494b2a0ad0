package pipeline

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
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

// readAhead reads one version of a source for one attempt. ffmpeg asks for everything
// from a byte on, reads a little, goes away and asks again elsewhere, and each run of an
// attempt begins with the same head and index. So requests to storage are small after a
// jump and grow with what is really read, so that what is read in vain is less than what
// is read. What was read last is kept for the next run.
//
// A request is read to its end even when ffmpeg has gone: Azurite opens a file for each
// block of a reply, and never closes those of a reply that is not read to its end. With
// requests for all the rest it had no files left after some eighty runs on an hour of
// film, and answered no read any more.
//
// Every request names the version, so a change of the blob is also noticed in the middle.
type readAhead struct {
	ctx  context.Context // of the attempt: what it reads is counted there
	from origin
	size int64

	mu     sync.Mutex
	blocks map[int64]*block // by place in the blob, in blocks
	used   []*block         // those that have come, the last used last
}

// block is a piece of the source that has come, or is on its way.
type block struct {
	number int64
	came   chan struct{} // closed when data or err are there
	data   []byte
	err    error
}

func newReadAhead(ctx context.Context, from origin) *readAhead {
	return &readAhead{ctx: ctx, from: from, size: from.size(), blocks: map[int64]*block{}}
}

// open starts reading at a byte, which is below the size, and fails when that cannot be
// read.
func (s *readAhead) open(offset int64) (io.ReadCloser, error) {
	r := &aheadReader{source: s, start: offset, at: offset, ahead: offset / blockSize}
	_, err := s.wait(r.block())
	return r, err
}

// block returns a block, and sees to it that count blocks from one on, which is not
// before it, are there or on their way; next is the first block behind those.
func (s *readAhead) block(number, from, count int64) (b *block, next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocks[number] == nil {
		from, count = number, max(count, firstRun/blockSize) // perhaps it was there, and is no longer kept
	}
	last := (s.size + blockSize - 1) / blockSize
	for ; from < last && s.blocks[from] != nil; from++ {
		count--
	}
	var run []*block
	for next = from; next < min(from+count, last) && s.blocks[next] == nil; next++ {
		if next != number && !s.from.there(next*blockSize, s.length(next)) {
			break // only who needs it waits for it
		}
		b := &block{number: next, came: make(chan struct{})}
		s.blocks[next] = b
		run = append(run, b)
	}
	if len(run) > 0 {
		go s.receive(run)
	}
	b = s.blocks[number]
	s.use(b)
	return b, next
}

// length is how many bytes a block has.
func (s *readAhead) length(number int64) int64 { return min(blockSize, s.size-number*blockSize) }

// use moves a block to the end of those that are kept.
func (s *readAhead) use(b *block) {
	if i := slices.Index(s.used, b); i >= 0 && i < len(s.used)/2 {
		s.used = append(slices.Delete(s.used, i, i+1), b)
	}
}

// receive reads a run, and hands on each block as soon as it is there.
func (s *readAhead) receive(run []*block) {
	at := run[0].number * blockSize
	body, err := s.from.open(s.ctx, at, min(int64(len(run))*blockSize, s.size-at))
	if err == nil {
		defer func() { _ = body.Close() }()
	}
	for _, b := range run {
		if err == nil {
			b.data = make([]byte, s.length(b.number))
			_, err = io.ReadFull(body, b.data)
		}
		if err != nil {
			b.err = changed(fmt.Errorf("read the source: %w", err))
		}
		s.keep(b)
		close(b.came)
	}
}

// keep makes room for a block that has come. One that failed is forgotten.
func (s *readAhead) keep(b *block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.err != nil {
		delete(s.blocks, b.number)
		return
	}
	s.used = append(s.used, b)
	for len(s.used) > kept/blockSize {
		delete(s.blocks, s.used[0].number)
		s.used = s.used[1:]
	}
}

// wait returns the content of a block.
func (s *readAhead) wait(b *block) ([]byte, error) {
	select {
	case <-b.came:
		return b.data, b.err
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	}
}

// aheadReader is one reader of the source: one request of ffmpeg's.
type aheadReader struct {
	source    *readAhead
	start, at int64 // bytes
	ahead     int64 // the first block that this reader has not asked for
	run       int64 // blocks that it asked for last
	data      []byte
}

// block returns the block where the reader is, and asks for what follows before it is
// needed.
func (r *aheadReader) block() *block {
	number, count := r.at/blockSize, int64(0)
	if number >= r.ahead-r.run/4 {
		read := max(r.at-r.start, 2*firstRun)
		count = min(read/2, longestRun) / blockSize
		r.run = count
	}
	b, next := r.source.block(number, max(number, r.ahead), count)
	if count > 0 {
		r.ahead = next
	}
	return b
}

func (r *aheadReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		if r.at >= r.source.size {
			return 0, io.EOF
		}
		data, err := r.source.wait(r.block())
		if err != nil {
			return 0, err
		}
		r.data = data[r.at%blockSize:]
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	r.at += int64(n)
	return n, nil
}

// Close does nothing: what is on its way is wanted by the next reader.
func (r *aheadReader) Close() error { return nil }
