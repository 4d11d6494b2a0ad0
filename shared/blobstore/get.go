package blobstore

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/cutroom/cutroom/shared/azstorage"
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

// Open reads a range of a blob as a stream. When the connection breaks or is
// silent for half a minute the stream goes on where it was, with the same version of the blob (paper rows
// Q13, Q14). ifMatch, if not empty, is the only version wanted: 412 otherwise.
//
// A range that starts behind the end, and any range of an empty blob, is the
// service's 416 InvalidRange.
func (s *Store) Open(ctx context.Context, container, name string, r Range, ifMatch string) (io.ReadCloser, Info, error) {
	reply, err := s.download(ctx, container, name, r, ifMatch, false)
	if err != nil {
		return nil, Info{}, s.fail("open", container, name, err)
	}
	info := s.infoOf(name, reply)
	left := info.Size - r.Offset
	if r.Length > 0 {
		left = min(left, r.Length)
	}
	return &reader{ctx: ctx, store: s, container: container, name: name,
		etag: info.ETag, at: r.Offset, left: left, body: reply.Body}, info, nil
}

func (s *Store) download(ctx context.Context, container, name string, r Range, ifMatch string, sum bool) (blob.DownloadStreamResponse, error) {
	options := &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: r.Offset, Count: r.Length}}
	if sum {
		options.RangeGetContentMD5 = to.Ptr(true)
	}
	if ifMatch != "" {
		options.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: to.Ptr(azcore.ETag(ifMatch))}}
	}
	return s.blob(container, name).DownloadStream(ctx, options)
}

func (s *Store) infoOf(name string, reply blob.DownloadStreamResponse) Info {
	info := Info{Name: name, MD5: reply.BlobContentMD5}
	s.fill(&info, reply.ContentLength, reply.ETag, reply.ContentType, reply.LastModified)
	if reply.ContentRange == nil {
		info.MD5 = reply.ContentMD5 // the whole blob came
	} else if _, total, found := strings.Cut(*reply.ContentRange, "/"); found {
		if n, err := strconv.ParseInt(total, 10, 64); err == nil {
			info.Size = n
		}
	}
	return info
}

// reader is a stream that survives broken connections.
type reader struct {
	ctx             context.Context // of Open: an io.Reader cannot be given one per call
	store           *Store
	container, name string
	etag            string
	at, left        int64 // next byte of the blob; bytes still to come
	body            io.ReadCloser
	failures        int // since the last byte
	closed          bool
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if r.closed {
		return 0, os.ErrClosed
	}
	if len(p) == 0 {
		return 0, nil
	}
	for r.left > 0 {
		if r.body == nil {
			if err := r.reopen(); err != nil {
				return 0, err
			}
		}
		body := r.body
		watchdog := time.AfterFunc(r.store.stall, func() { _ = body.Close() }) // ends the Read
		n, err := body.Read(p[:min(int64(len(p)), r.left)])
		watchdog.Stop()
		r.at, r.left = r.at+int64(n), r.left-int64(n)
		if n > 0 {
			r.failures = 0
			return n, nil // an error, if there is one, comes again at the next Read
		}
		if err == nil {
			continue
		}
		// Also io.EOF is a broken connection while bytes are missing.
		_ = r.body.Close()
		r.body = nil
		if r.ctx.Err() != nil {
			return 0, context.Cause(r.ctx)
		}
		if r.failures++; r.failures > resumes {
			return 0, r.store.fail("read", r.container, r.name, azstorage.Unanswered(azstorage.Blobs, err))
		}
	}
	return 0, io.EOF
}

func (r *reader) reopen() error {
	reply, err := r.store.download(r.ctx, r.container, r.name, Range{Offset: r.at, Length: r.left}, r.etag, false)
	if err != nil {
		return r.store.fail("go on reading", r.container, r.name, err)
	}
	r.body = reply.Body
	return nil
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.closed = true
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}

// Get reads a small blob into memory, checking each part by MD5. ErrTooLarge
// above MaxGet, ErrCorrupt.
func (s *Store) Get(ctx context.Context, container, name string) ([]byte, error) {
	var content bytes.Buffer
	var etag string
	for {
		part, info, err := s.getPart(ctx, container, name, int64(content.Len()), etag)
		if content.Len() == 0 && azstorage.HasCode(err, azstorage.CodeInvalidRange) {
			return []byte{}, nil // the blob is empty
		}
		if err == nil && info.Size > MaxGet {
			err = tooLarge(MaxGet)
		}
		if err != nil {
			return nil, s.fail("get", container, name, err)
		}
		etag = info.ETag
		content.Write(part)
		if int64(content.Len()) >= info.Size {
			return content.Bytes(), nil
		}
	}
}

// getPart reads one part with the service's MD5 of it, which the service
// computes for at most 4 MiB. A part that came damaged or cut is asked for once more.
func (s *Store) getPart(ctx context.Context, container, name string, offset int64, etag string) (part []byte, info Info, err error) {
	for range 2 {
		var reply blob.DownloadStreamResponse
		if reply, err = s.download(ctx, container, name, Range{Offset: offset, Length: BlockSize}, etag, true); err != nil {
			return nil, Info{}, err
		}
		info = s.infoOf(name, reply)
		part, err = io.ReadAll(reply.Body)
		err = errors.Join(err, reply.Body.Close())
		if err != nil {
			err = azstorage.Unanswered(azstorage.Blobs, err)
			continue
		}
		if err = checkMD5(part, reply.ContentMD5); err == nil {
			return part, info, nil
		}
	}
	return nil, Info{}, err
}

func checkMD5(content, want []byte) error {
	if sum := md5.Sum(content); len(want) > 0 && !bytes.Equal(sum[:], want) {
		return fmt.Errorf("%w: have %x, want %x", ErrCorrupt, sum, want)
	}
	return nil
}
