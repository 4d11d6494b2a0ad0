package blobstore

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// singlePut is the largest file that PutFile sends as one Put Blob.
const singlePut = 2 * BlockSize

// blocksInFlight is how many blocks one upload sends at a time: two keep the
// line busy in 8 MiB of memory.
const blocksInFlight = 2

// Put writes a blob in one call and returns its ETag. body holds size bytes from
// its start and is read twice: for the MD5, which the service checks and keeps,
// and for the transfer. ErrExists, ErrCorrupt. Safe to repeat.
func (s *Store) Put(ctx context.Context, container, name string, body io.ReadSeeker, size int64, o Options) (etag string, err error) {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", s.fail("put", container, name, err)
	}
	hash := md5.New()
	n, err := io.Copy(hash, body)
	if err == nil && n != size {
		err = fmt.Errorf("body has %d bytes, not %d", n, size)
	}
	if err == nil {
		_, err = body.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", s.fail("put", container, name, err)
	}
	sum := hash.Sum(nil)
	mark := newMark()
	try, tries := azstorage.WithAttempts(ctx)
	reply, err := s.block(container, name).Upload(try, streaming.NopCloser(body), &blockblob.UploadOptions{
		TransactionalValidation: blob.TransferValidationTypeMD5(sum),
		HTTPHeaders:             o.headers(sum),
		Metadata:                o.metadata(mark),
		AccessConditions:        o.conditions(),
	})
	return s.settle(ctx, "put", container, name, o, mark, *tries, reply.ETag, err)
}

// PutFile writes a blob from a file; a large one in blocks, of which each is checked and
// repeated by itself (paper row Q14). Only one writer may write to a name at a time: names
// of outputs have the attempt's id. Safe to repeat. ErrExists, ErrCorrupt, ErrTooLarge.
func (s *Store) PutFile(ctx context.Context, container, name, path string, o Options) error {
	file, err := os.Open(path)
	if err != nil {
		return s.fail("put", container, name, err)
	}
	defer func() { _ = file.Close() }() // read only
	stat, err := file.Stat()
	if err != nil {
		return s.fail("put", container, name, err)
	}
	if stat.Size() <= singlePut {
		_, err = s.Put(ctx, container, name, file, stat.Size(), o)
		return err
	}
	return s.putBlocks(ctx, container, name, file, o)
}

func tooLarge(limit int64) error { return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit) }

// putBlocks stages the blocks of r and commits them.
func (s *Store) putBlocks(ctx context.Context, container, name string, r io.Reader, o Options) error {
	whole := md5.New()
	var ids []string
	group, stage := errgroup.WithContext(ctx)
	// free holds the buffers: waiting for one is what bounds memory.
	free := make(chan []byte, blocksInFlight)
	for range blocksInFlight {
		free <- make([]byte, BlockSize)
	}
	var err error
	for last := false; !last; {
		var content []byte
		if content, last, err = nextBlock(stage, r, free); err != nil {
			break
		}
		if len(content) == 0 {
			break
		}
		if len(ids) == MaxBlocks {
			err = tooLarge(MaxBlocks * BlockSize)
			break
		}
		_, _ = whole.Write(content) // a hash never fails
		sum := md5.Sum(content)
		id := BlockID(len(ids))
		ids = append(ids, id)
		group.Go(func() error {
			defer func() { free <- content[:BlockSize] }()
			return s.stage(stage, container, name, id, content, sum)
		})
	}
	if failed := group.Wait(); failed != nil {
		return failed // it also ended the reading
	}
	if err != nil {
		return s.fail("put", container, name, err)
	}
	_, err = s.commit(ctx, container, name, ids, whole.Sum(nil), o)
	return err
}

// nextBlock reads one block into a free buffer. last says that the stream ended.
func nextBlock(ctx context.Context, r io.Reader, free <-chan []byte) (content []byte, last bool, err error) {
	var buffer []byte
	select {
	case buffer = <-free:
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	n, err := io.ReadFull(r, buffer)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return buffer[:n], true, nil
	}
	return buffer[:n], false, err
}
