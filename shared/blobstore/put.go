package blobstore

import (
	"bytes"
	"context"
	"crypto/md5"
	"io"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
)

// BlockSize is how many bytes of a file one request of PutFile carries: 4 MiB, as in the papers.
const BlockSize = 4 << 20

// blocksInFlight is how many blocks one upload sends at a time: two keep the
// line busy in 8 MiB of memory.
const blocksInFlight = 2

// Options says how a blob is written. The zero value overwrites.
type Options struct {
	ContentType string // default application/octet-stream
	IfNoneMatch bool   // refuse to overwrite: ErrExists
}

// Put writes a blob in one call and returns its ETag. The service checks the content by
// its MD5 and keeps that. ErrExists, ErrCorrupt. Safe to repeat. After a lost reply ErrExists
// may speak of the blob that this call wrote: compare what is there (paper row Q13).
func (s *Store) Put(ctx context.Context, container, name string, content []byte, o Options) (etag string, err error) {
	reply, err := s.block(container, name).Upload(ctx, streaming.NopCloser(bytes.NewReader(content)), &blockblob.UploadOptions{
		HTTPHeaders: headers(o.ContentType, nil), AccessConditions: conditions(o.IfNoneMatch, ""),
	})
	return s.written(container, name, reply.ETag, err)
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
	if _, err = io.Copy(whole, file); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", s.fail("put", container, name, err)
	}
	reply, err := s.block(container, name).UploadStream(ctx, file, &blockblob.UploadStreamOptions{
		BlockSize: BlockSize, Concurrency: blocksInFlight, HTTPHeaders: headers(contentType, whole.Sum(nil)),
	})
	return s.written(container, name, reply.ETag, err)
}

func headers(contentType string, md5 []byte) *blob.HTTPHeaders {
	h := &blob.HTTPHeaders{BlobContentMD5: md5}
	if contentType != "" {
		h.BlobContentType = to.Ptr(contentType)
	}
	return h
}
