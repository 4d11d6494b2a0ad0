package upload

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// MinMemory is the least that New takes for the buffers of all uploads, in bytes:
// one part.
const MinMemory = sourceparts.PartBytes

// bufferWait is how long an upload waits for its first buffer before it is refused.
const bufferWait = 2 * time.Second

// memory bounds the buffers of all uploads of this process. An upload holds one
// part from its start to its end, so it never waits for another upload half way, and
// borrows more, one by one, while no upload waits for its first one.
type memory struct {
	parts *semaphore.Weighted
	pool  sync.Pool // of *[]byte: buffers that were used before
}

func newMemory(bytes int64) *memory {
	return &memory{
		parts: semaphore.NewWeighted(bytes / sourceparts.PartBytes),
		pool:  sync.Pool{New: func() any { b := make([]byte, sourceparts.PartBytes); return &b }},
	}
}

// reserve returns the buffers of one upload, or 429 too_busy. Nothing is allocated
// before the first take.
func (m *memory) reserve(ctx context.Context) (*buffers, error) {
	ctx, cancel := context.WithTimeout(ctx, bufferWait)
	defer cancel()
	if err := m.parts.Acquire(ctx, 1); err != nil {
		return nil, problem.New(problem.TooBusy, "Too many uploads are under way. Nothing was taken; try again soon.")
	}
	b := &buffers{memory: m, own: make(chan struct{}, 1)}
	b.own <- struct{}{}
	return b, nil
}

// buffers are those of one upload: its own, which it keeps to its end, and borrowed ones.
type buffers struct {
	memory *memory
	own    chan struct{} // holds something while the own buffer is not in use
}

// take returns a buffer of one part. When none can be borrowed it waits for the upload's own.
func (b *buffers) take(ctx context.Context) (*[]byte, error) {
	select {
	case <-b.own:
	default:
		if b.memory.parts.TryAcquire(1) {
			break
		}
		select {
		case <-b.own:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	buffer, _ := b.memory.pool.Get().(*[]byte)
	return buffer, nil
}

// returnBuffer takes a buffer back: as the own one, or else for the upload that needs it most.
func (b *buffers) returnBuffer(buffer *[]byte) {
	b.memory.pool.Put(buffer)
	select {
	case b.own <- struct{}{}:
	default:
		b.memory.parts.Release(1)
	}
}

// close ends the reservation; every buffer must have been given back.
func (b *buffers) close() { b.memory.parts.Release(1) }
