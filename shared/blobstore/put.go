package blobstore

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// BlockSize is how many bytes of a file one request of PutFile carries: 4 MiB, as in the papers.
const BlockSize = 4 << 20

// blocksInFlight is how many blocks one upload sends at a time: two keep the
// line busy in 8 MiB of memory.
const blocksInFlight = 2

// Put writes a blob in one call and returns its ETag. The service checks the content by
// its MD5 and keeps that. ErrExists, ErrCorrupt. Safe to repeat.
func (s *Store) Put(ctx context.Context, container, name string, content []byte, o Options) (etag string, err error) {
	mark := newMark()
	try, tries := azstorage.WithAttempts(ctx)
	reply, err := s.block(container, name).Upload(try, streaming.NopCloser(bytes.NewReader(content)), &blockblob.UploadOptions{
		HTTPHeaders:      o.headers(nil),
		Metadata:         o.metadata(mark),
		AccessConditions: o.conditions(),
	})
	return s.settle(ctx, "put", container, name, o, mark, *tries, reply.ETag, err)
}

// PutFile overwrites a blob with a file and returns its ETag. A large file goes in blocks,
// of which each is checked and repeated by itself (paper row Q14). Only one writer may write
// to a name at a time: names of outputs have the attempt's id. Safe to repeat. ErrCorrupt.
func (s *Store) PutFile(ctx context.Context, container, name, path, contentType string) (etag string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", s.fail("put", container, name, err)
	}
	defer func() { _ = file.Close() }() // read only
	whole := md5.New()
	_, err = io.Copy(whole, file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", s.fail("put", container, name, err)
	}
	reply, err := s.block(container, name).UploadStream(ctx, file, &blockblob.UploadStreamOptions{
		BlockSize: BlockSize, Concurrency: blocksInFlight, HTTPHeaders: Options{ContentType: contentType}.headers(whole.Sum(nil)),
	})
	if err == nil && reply.ETag == nil {
		err = errors.New("the reply names no version")
	}
	if err != nil {
		return "", s.fail("put", container, name, err)
	}
	return string(*reply.ETag), nil
}

func tooLarge(limit int64) error { return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit) }
