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
// is being filled. Memory per upload is three blocks whatever the file's size.
const blocksInFlight = 2

// stream stages r block by block and commits. The blocks have the ids that a
// valet key's holder uses, so an upload that breaks off here can be gone on with
// there: that is why it does not use blobstore.PutStream, whose blocks nobody
// else can find (paper row Q14). Each block carries its MD5 (Q12).
func (s *Service) stream(ctx context.Context, id video.ID, r io.Reader) (size int64, etag string, err error) {
	name := video.SourceBlob(id)
	var ids []string
	group, stage := errgroup.WithContext(ctx)
	free := make(chan []byte, blocksInFlight+1)
	for range cap(free) {
		free <- nil
	}
	slots := make(chan struct{}, blocksInFlight)
	for last := false; !last; {
		var buffer []byte
		select {
		case buffer = <-free:
		case <-stage.Done():
			return 0, "", errors.Join(group.Wait(), ctx.Err())
		}
		if buffer == nil {
			buffer = make([]byte, blobstore.BlockSize)
		}
		n, readErr := io.ReadFull(r, buffer)
		// ReadFull returns these two bare. An error that wraps one of them is a
		// connection that broke, and must never look like the end of the file.
		last = readErr == io.EOF || readErr == io.ErrUnexpectedEOF //nolint:errorlint // see above
		if readErr != nil && !last {
			err = readErr
			break
		}
		if n == 0 {
			break
		}
		index := len(ids)
		ids = append(ids, blobstore.BlockID(index))
		size += int64(n)
		group.Go(func() error {
			slots <- struct{}{}
			defer func() { <-slots; free <- buffer }()
			return s.blobs.Stage(stage, video.SourcesContainer, name, index, buffer[:n])
		})
	}
	if err := errors.Join(group.Wait(), err); err != nil {
		return 0, "", err
	}
	etag, err = s.blobs.Commit(ctx, video.SourcesContainer, name, ids, blobstore.Options{ContentType: sourceType})
	if err != nil {
		return 0, "", fmt.Errorf("commit blocks of %s: %w", id, err)
	}
	return size, etag, nil
}

// ErrReplaced says that a newer upload of the same video took over.
var ErrReplaced = errors.New("a newer upload of this video took over")

// turns lets one upload per video write at a time in this process, and the
// newest one win: a client whose connection died comes back before we notice.
// Two web roles do not know of each other; there the size check and the probe
// catch a mixture.
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
