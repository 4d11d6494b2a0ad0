package blobstore

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the checksum of the protocol, not a secret
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
)

// Range is a run of bytes. Length 0 means to the end.
type Range struct {
	Offset int64
	Length int64
}

// MaxGet is the largest blob that Get reads: it stays in memory.
const MaxGet = 64 << 20

// resumes is how often a reader goes on after broken connections without
// getting a single byte in between.
const resumes = 5

// Open reads a range of a blob as a stream. When the connection breaks, or is silent for the
// time-out of a try, the stream goes on where it was, with the same version of the blob (paper
// rows Q13, Q14). ifMatch, if not empty, is the only version wanted: ErrChanged otherwise.
//
// A range that starts behind the end, and any range of an empty blob, is the
// service's 416 InvalidRange.
func (s *Store) Open(ctx context.Context, container, name string, r Range, ifMatch string) (io.ReadCloser, Info, error) {
	reply, err := s.blob(container, name).DownloadStream(ctx, &blob.DownloadStreamOptions{
		Range: blob.HTTPRange{Offset: r.Offset, Count: r.Length}, AccessConditions: conditions(false, ifMatch),
	})
	if err != nil {
		return nil, Info{}, s.fail("open", container, name, err)
	}
	info := s.info(name, reply.ContentLength, reply.ETag, reply.ContentType, reply.LastModified, reply.BlobContentMD5)
	if reply.ContentRange == nil {
		info.MD5 = reply.ContentMD5 // the whole blob comes
	} else if _, total, found := strings.Cut(*reply.ContentRange, "/"); found {
		if n, err := strconv.ParseInt(total, 10, 64); err == nil {
			info.Size = n
		}
	}
	body := reply.NewRetryReader(ctx, &blob.RetryReaderOptions{MaxRetries: resumes, EarlyCloseAsError: true})
	return &reader{body, func(err error) error { return s.fail("read", container, name, err) }}, info, nil
}

// reader names the blob in its errors.
type reader struct {
	io.ReadCloser
	fail func(error) error
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // the SDK's reader does not wrap it
		err = r.fail(err)
	}
	return n, err
}

// Get reads a small blob into memory and checks it by its MD5, if the service knows that. One
// that came damaged is asked for once more. ErrTooLarge above MaxGet, ErrCorrupt.
func (s *Store) Get(ctx context.Context, container, name string) ([]byte, error) {
	for range 2 {
		body, info, err := s.Open(ctx, container, name, Range{}, "")
		if err != nil {
			return nil, err
		}
		if info.Size > MaxGet {
			_ = body.Close()
			return nil, s.fail("get", container, name, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxGet))
		}
		content, err := io.ReadAll(body)
		if err := errors.Join(err, body.Close()); err != nil {
			return nil, err
		}
		if sum := md5.Sum(content); len(info.MD5) == 0 || bytes.Equal(sum[:], info.MD5) { //nolint:gosec // see the import
			return content, nil
		}
	}
	return nil, s.fail("get", container, name, ErrCorrupt)
}
