// Package blobstore moves blobs: whole ones, files and ranges. Every transfer is checked by MD5
// (paper row Q12), is made of small calls (Q14), and may be repeated after a
// lost reply (Q13).
//
// Containers are given by base name, before which stands the account's prefix.
package blobstore

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the checksum of the protocol, not a secret
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstore"
)

// Errors that callers act on. The wrapped errors also answer azstore.Describe
// with the status and code of the service.
var (
	ErrNotFound = errors.New("blob not found")
	ErrExists   = errors.New("blob exists already")                 // Options.IfNoneMatch
	ErrChanged  = errors.New("blob was changed in the meantime")    // stale ETag: 412
	ErrCorrupt  = errors.New("blob content does not match its MD5") // paper row Q12
)

// Store gives access to the blobs of an account. It is safe for concurrent use.
type Store struct{ account *azstore.Account }

// New returns the blob store of an account. Containers must exist: see
// azstore.Account.Ensure.
func New(a *azstore.Account) *Store { return &Store{a} }

// Info describes a blob.
type Info struct {
	Name         string
	Size         int64 // bytes of the blob, or of the range that was opened
	ETag         string
	LastModified time.Time // by this machine's clock
	MD5          []byte    // of the whole blob, when the service tells it
}

func (s *Store) block(container, name string) *blockblob.Client {
	return s.account.Container(container).NewBlockBlobClient(name)
}

func (s *Store) blob(container, name string) *blob.Client {
	return s.account.Container(container).NewBlobClient(name)
}

// fail names the blob and adds the sentinel that belongs to the reply. No error stays none.
func (s *Store) fail(verb, container, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case azstore.HasCode(err, bloberror.BlobAlreadyExists):
		err = fmt.Errorf("%w: %w", ErrExists, err)
	case azstore.HasCode(err, bloberror.MD5Mismatch):
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	case azstore.IsNotFound(err) && !azstore.HasCode(err, bloberror.ContainerNotFound):
		err = fmt.Errorf("%w: %w", ErrNotFound, err)
	case azstore.IsPrecondition(err):
		err = fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return fmt.Errorf("%s blob %s/%s: %w", verb, s.account.Name(container), name, err)
}

// Head returns what is known of a blob without reading it.
func (s *Store) Head(ctx context.Context, container, name string) (Info, error) {
	p, err := s.blob(container, name).GetProperties(ctx, nil)
	return s.info(name, p.ContentLength, p.ETag, p.LastModified, p.ContentMD5), s.fail("look at", container, name, err)
}

func (s *Store) info(name string, size *int64, etag *azcore.ETag, modified *time.Time, md5 []byte) Info {
	return Info{
		Name: name, Size: value(size), ETag: string(value(etag)),
		LastModified: s.account.LocalTime(value(modified).UTC()), MD5: md5,
	}
}

// value is what p points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// List returns the blobs whose names start with prefix, in the order of names,
// without blobs that have uncommitted blocks only. An error ends the sequence.
func (s *Store) List(ctx context.Context, container, prefix string) iter.Seq2[Info, error] {
	return s.list(ctx, container, prefix, false)
}

func (s *Store) list(ctx context.Context, base, prefix string, uncommitted bool) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		pages := s.account.Container(base).NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
			Prefix: &prefix, Include: container.ListBlobsInclude{UncommittedBlobs: uncommitted},
		})
		for pages.More() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(Info{}, s.fail("list", base, prefix+"*", err))
				return
			}
			for _, item := range page.Segment.BlobItems {
				p := item.Properties
				info := s.info(*item.Name, p.ContentLength, p.ETag, p.LastModified, p.ContentMD5)
				if !strings.HasSuffix(info.ETag, `"`) {
					info.ETag = `"` + info.ETag + `"` // as headers have it: a list leaves the quotes out
				}
				if !yield(info, nil) {
					return
				}
			}
		}
	}
}

// Delete removes a blob with its snapshots, or one version of it: ErrChanged when another is
// there, which stays. An empty etag is every version. A missing blob is fine, so it may be
// repeated.
func (s *Store) Delete(ctx context.Context, container, name, etag string) (found bool, err error) {
	_, err = s.blob(container, name).Delete(ctx, &blob.DeleteOptions{
		DeleteSnapshots: new(blob.DeleteSnapshotsOptionTypeInclude), AccessConditions: conditions(false, etag),
	})
	if azstore.HasCode(err, bloberror.BlobNotFound) {
		return false, nil
	}
	return err == nil, s.fail("delete", container, name, err)
}

// conditions ask for no blob at all, or for one version, or for nothing.
func conditions(ifNone bool, ifMatch string) *blob.AccessConditions {
	m := &blob.ModifiedAccessConditions{}
	if ifNone {
		m.IfNoneMatch = new(azcore.ETagAny)
	}
	if ifMatch != "" {
		m.IfMatch = new(azcore.ETag(ifMatch))
	}
	return &blob.AccessConditions{ModifiedAccessConditions: m}
}

// deletesInFlight bounds DeletePrefix: it must not crowd out readers.
const deletesInFlight = 4

// DeletePrefix removes every blob whose name starts with prefix, which must not
// be empty, and blocks that were staged under such a name. Safe to repeat.
func (s *Store) DeletePrefix(ctx context.Context, container, prefix string) error {
	if prefix == "" {
		return errors.New("delete blobs: an empty prefix would delete everything")
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(deletesInFlight)
	for info, err := range s.list(ctx, container, prefix, true) {
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		group.Go(func() error {
			found, err := s.Delete(groupCtx, container, info.Name, "")
			if err != nil || found {
				return err
			}
			// Blocks that were never committed: an empty blob takes their place and goes.
			if _, err := s.Put(groupCtx, container, info.Name, nil, Options{}); err != nil {
				return err
			}
			_, err = s.Delete(groupCtx, container, info.Name, "")
			return err
		})
	}
	return group.Wait()
}

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
	return string(value(reply.ETag)), s.fail("put", container, name, err)
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
	return string(value(reply.ETag)), s.fail("put", container, name, err)
}

func headers(contentType string, md5 []byte) *blob.HTTPHeaders {
	h := &blob.HTTPHeaders{BlobContentMD5: md5}
	if contentType != "" {
		h.BlobContentType = new(contentType)
	}
	return h
}

// Range is a run of bytes. Length 0 means to the end.
type Range struct {
	Offset int64
	Length int64
}

// maxGet is the largest blob that Get reads, in bytes: it stays in memory.
const maxGet = 64 << 20

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
	info := s.info(name, reply.ContentLength, reply.ETag, reply.LastModified, reply.ContentMD5)
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
	if err == io.EOF { //nolint:errorlint // the SDK's reader does not wrap it
		return n, err
	}
	return n, r.fail(err)
}

// Get reads a small blob into memory and checks it by its MD5, if the service knows that. One
// that came damaged is asked for once more. ErrCorrupt.
func (s *Store) Get(ctx context.Context, container, name string) ([]byte, error) {
	content, _, err := s.GetVersion(ctx, container, name, "")
	return content, err
}

// GetVersion is Get for one version of a blob, ErrChanged when another is there; or for any,
// with an empty etag, and says which that is.
func (s *Store) GetVersion(ctx context.Context, container, name, etag string) ([]byte, Info, error) {
	for range 2 {
		body, info, err := s.Open(ctx, container, name, Range{}, etag)
		if err != nil {
			return nil, info, err
		}
		if info.Size > maxGet {
			_ = body.Close()
			return nil, info, s.fail("get", container, name, fmt.Errorf("more than %d bytes", maxGet))
		}
		content, err := io.ReadAll(body)
		if err := errors.Join(err, body.Close()); err != nil {
			return nil, info, err
		}
		if sum := md5.Sum(content); len(info.MD5) == 0 || bytes.Equal(sum[:], info.MD5) { //nolint:gosec // see the import
			return content, info, nil
		}
	}
	return nil, Info{}, s.fail("get", container, name, ErrCorrupt)
}
