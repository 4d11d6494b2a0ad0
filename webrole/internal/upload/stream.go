package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
)

// blocksInFlight is how many blocks of one upload are sent at a time; one more
// is being filled, while memory allows. With one buffer they take turns.
const blocksInFlight = 2

// stream stages r, of size bytes, block by block and commits on the condition that
// o holds. A block's id has its number, so an upload that breaks off here can be
// gone on with by valet key (paper row Q14). It also has a hash of the content, so
// of two uploads at once, also through two web roles, each commits its own blocks
// only. Each block carries its MD5 (Q12).
func (s *Service) stream(ctx context.Context, id video.ID, r io.Reader, size int64, buffers *buffers, o blobstore.Options) (etag string, _ error) {
	name := video.SourceBlob(id)
	ids := make([]string, (size+blobstore.BlockSize-1)/blobstore.BlockSize)
	group, stage := errgroup.WithContext(ctx)
	slots := make(chan struct{}, blocksInFlight)
	var err error
	for index := range ids {
		var buffer *[]byte
		if buffer, err = buffers.take(stage); err != nil {
			break
		}
		content := (*buffer)[:min(blobstore.BlockSize, size-int64(index)*blobstore.BlockSize)]
		if _, err = io.ReadFull(r, content); err != nil {
			buffers.give(buffer)
			break
		}
		group.Go(func() error {
			slots <- struct{}{}
			defer func() { <-slots; buffers.give(buffer) }()
			var err error
			ids[index], err = s.blobs.Stage(stage, video.SourcesContainer, name, index, content)
			return err
		})
	}
	if failed := group.Wait(); failed != nil {
		return "", failed // it also ended the reading
	}
	if err == nil {
		// One byte more than there is: the reader checks the end, and the checksum.
		_, err = io.ReadFull(r, make([]byte, 1))
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		return "", err
	}
	etag, err = s.blobs.Commit(ctx, video.SourcesContainer, name, ids, o)
	if err != nil {
		return "", fmt.Errorf("commit blocks of %s: %w", id, err)
	}
	return etag, nil
}

// ErrReplaced says that a newer upload of the same video took over.
var ErrReplaced = errors.New("a newer upload of this video took over")

// turns lets one upload per video write at a time in this process, and the
// newest one win: a client whose connection died comes back before we notice.
// Two web roles do not know of each other; there the first to commit wins.
type turns struct {
	mu     sync.Mutex
	active map[video.ID]*turn
}

type turn struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// take ends the upload that is under way, waits for it, and starts the caller's
// turn, which ends with the returned function.
func (t *turns) take(ctx context.Context, id video.ID) (context.Context, func()) {
	mine := &turn{done: make(chan struct{})}
	ctx, mine.cancel = context.WithCancelCause(ctx)
	for {
		t.mu.Lock()
		other := t.active[id]
		if other == nil {
			t.active[id] = mine
			t.mu.Unlock()
			return ctx, func() {
				t.mu.Lock()
				delete(t.active, id)
				t.mu.Unlock()
				mine.cancel(nil)
				close(mine.done)
			}
		}
		t.mu.Unlock()
		other.cancel(ErrReplaced)
		<-other.done
	}
}
