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
// part from its start to its end, so it never waits for another upload half way,
// and borrows up to two more, one by one, while no upload waits for its first one.
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
	return &buffers{memory: m, held: 1, returned: make(chan struct{}, 1)}, nil
}

// buffers are those of one upload.
type buffers struct {
	memory   *memory
	returned chan struct{} // says that take may try again

	mu   sync.Mutex
	held int // parts of memory: 1 at least
	busy int // of those, in use
}

// take returns a buffer of one part. It waits for a buffer of the same upload
// when there are no others.
func (b *buffers) take(ctx context.Context) (*[]byte, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if b.mayTake() {
			buffer, _ := b.memory.pool.Get().(*[]byte)
			return buffer, nil
		}
		select {
		case <-b.returned:
		case <-ctx.Done():
		}
	}
}

func (b *buffers) mayTake() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy == b.held {
		if b.held > partsInFlight || !b.memory.parts.TryAcquire(1) {
			return false
		}
		b.held++
	}
	b.busy++
	return true
}

// returnBuffer takes a buffer back. What was borrowed goes to the upload that needs it most.
func (b *buffers) returnBuffer(buffer *[]byte) {
	b.memory.pool.Put(buffer)
	b.mu.Lock()
	b.busy--
	if b.held > 1 {
		b.held--
		b.memory.parts.Release(1)
	}
	b.mu.Unlock()
	select {
	case b.returned <- struct{}{}:
	default:
	}
}

// close ends the reservation; every buffer must have been given back.
func (b *buffers) close() { b.memory.parts.Release(int64(b.held)) }
