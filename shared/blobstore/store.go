// Package blobstore moves bytes to and from blobs: checked against corruption on
// the way (paper row Q12), in small calls that resume where they stopped (Q14),
// and with the lost replies of the network told apart from real conflicts (Q13).
//
// Containers are given by their base names, such as video.MediaContainer.
//
// Next: shared/tablestore, the same for tables.
package blobstore

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the service's checksum, not a secret
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// What callers act on. Each wraps the service's own error.
var (
	ErrNotFound = errors.New("blob not found")
	ErrExists   = errors.New("blob exists already")
	ErrChanged  = errors.New("blob was changed by someone else")
	ErrCorrupt  = errors.New("blob content does not have its checksum")
	ErrTooLarge = errors.New("content is larger than allowed")
)

// Store is safe for concurrent use.
type Store struct{ account *azstorage.Account }

// New returns a store on the account. It makes no request.
func New(a *azstorage.Account) *Store { return &Store{account: a} }

// Options of a write. The zero value overwrites and sets no headers.
type Options struct {
	ContentType  string
	CacheControl string
	Metadata     map[string]string
	IfNoneMatch  bool  // only if the blob does not exist, else ErrExists
	MaxSize      int64 // of PutStream, in bytes; 0: no limit. More is ErrTooLarge
}

func (o Options) headers(sum []byte) *blob.HTTPHeaders {
	h := &blob.HTTPHeaders{BlobContentMD5: sum}
	if o.ContentType != "" {
		h.BlobContentType = &o.ContentType
	}
	if o.CacheControl != "" {
		h.BlobCacheControl = &o.CacheControl
	}
	return h
}

func (o Options) metadata() map[string]*string {
	if len(o.Metadata) == 0 {
		return nil
	}
	m := make(map[string]*string, len(o.Metadata))
	for k, v := range o.Metadata {
		m[k] = to.Ptr(v)
	}
	return m
}

func (o Options) conditions() *blob.AccessConditions {
	if !o.IfNoneMatch {
		return nil
	}
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}}
}

// Info is what is known of a blob without reading it.
type Info struct {
	Name         string
	Size         int64 // bytes of the whole blob
	ETag         string
	ContentType  string
	LastModified time.Time
	MD5          []byte // of the whole content, when it was written with one
}

// Range is a run of bytes. Length 0 means to the end.
type Range struct{ Offset, Length int64 }

func (s *Store) block(container, name string) *blockblob.Client {
	return s.account.Container(container).NewBlockBlobClient(name)
}

// Put writes a blob with one call, for content of up to some megabytes. The
// service compares the content with its MD5, which is stored with the blob.
// Safe to repeat; with IfNoneMatch, a write of our own whose reply was lost is
// recognised by its checksum and is no error.
func (s *Store) Put(ctx context.Context, container, name string, body io.ReadSeeker, size int64, o Options) (string, error) {
	hash := md5.New() //nolint:gosec // see above
	if n, err := io.Copy(hash, body); err != nil || n != size {
		return "", fmt.Errorf("put blob %s: read %d of %d bytes: %w", name, n, size, errors.Join(err, io.ErrUnexpectedEOF))
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("put blob %s: %w", name, err)
	}
	sum := hash.Sum(nil)
	ctx, tries := azstorage.WithAttempts(ctx)
	done, err := s.block(container, name).Upload(ctx, streaming.NopCloser(body), &blockblob.UploadOptions{
		HTTPHeaders: o.headers(sum), Metadata: o.metadata(), AccessConditions: o.conditions(),
		TransactionalValidation: blob.TransferValidationTypeMD5(sum),
	})
	if err == nil {
		return string(*done.ETag), nil
	}
	if o.IfNoneMatch && *tries > 1 && azstorage.IsConflict(err) {
		if info, headErr := s.Head(ctx, container, name); headErr == nil && bytes.Equal(info.MD5, sum) {
			return info.ETag, nil
		}
	}
	return "", fmt.Errorf("put blob %s: %w", name, classify(err))
}

// Head reads what is known of a blob.
func (s *Store) Head(ctx context.Context, container, name string) (Info, error) {
	p, err := s.block(container, name).GetProperties(ctx, nil)
	if err != nil {
		return Info{}, fmt.Errorf("look at blob %s: %w", name, classify(err))
	}
	info := Info{Name: name, MD5: p.ContentMD5}
	set(&info.Size, p.ContentLength)
	set(&info.ContentType, p.ContentType)
	set(&info.LastModified, p.LastModified)
	if p.ETag != nil {
		info.ETag = string(*p.ETag)
	}
	return info, nil
}

// Open reads a range of a blob as a stream. A connection that breaks is opened
// again at the byte where it broke, on the same version of the blob. With
// ifMatch, only that version is read, else ErrChanged.
func (s *Store) Open(ctx context.Context, container, name string, at Range, ifMatch string) (io.ReadCloser, Info, error) {
	o := &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: at.Offset, Count: at.Length}}
	if ifMatch != "" {
		o.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: to.Ptr(azcore.ETag(ifMatch))}}
	}
	got, err := s.block(container, name).DownloadStream(ctx, o)
	if err != nil {
		return nil, Info{}, fmt.Errorf("open blob %s: %w", name, classify(err))
	}
	info := Info{Name: name, MD5: got.ContentMD5}
	set(&info.Size, got.ContentLength)
	if got.ContentRange != nil { // "bytes 0-9/1234"
		var first, last int64
		_, _ = fmt.Sscanf(*got.ContentRange, "bytes %d-%d/%d", &first, &last, &info.Size)
	}
	set(&info.ContentType, got.ContentType)
	set(&info.LastModified, got.LastModified)
	if got.ETag != nil {
		info.ETag = string(*got.ETag)
	}
	return got.NewRetryReader(ctx, &blob.RetryReaderOptions{MaxRetries: 5}), info, nil
}

// Get reads a small blob whole and compares it with its stored MD5, if any.
func (s *Store) Get(ctx context.Context, container, name string) ([]byte, error) {
	body, info, err := s.Open(ctx, container, name, Range{}, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("read blob %s: %w", name, azstorage.RedactError(err))
	}
	if sum := md5.Sum(data); len(info.MD5) > 0 && !bytes.Equal(sum[:], info.MD5) { //nolint:gosec // see above
		return nil, fmt.Errorf("read blob %s: %w", name, ErrCorrupt)
	}
	return data, nil
}

// List yields the blobs whose names start with prefix, in the order of their
// names. Continuation tokens are followed.
func (s *Store) List(ctx context.Context, containerName, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		pager := s.account.Container(containerName).NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &prefix})
		for pager.More() {
			page, err := pager.NextPage(ctx)
			if err != nil {
				yield(Info{}, fmt.Errorf("list blobs under %q: %w", prefix, classify(err)))
				return
			}
			for _, b := range page.Segment.BlobItems {
				info := Info{Name: *b.Name}
				set(&info.Size, b.Properties.ContentLength)
				set(&info.ContentType, b.Properties.ContentType)
				set(&info.LastModified, b.Properties.LastModified)
				if b.Properties.ETag != nil {
					info.ETag = string(*b.Properties.ETag)
				}
				if !yield(info, nil) {
					return
				}
			}
		}
	}
}

// Delete removes a blob. One that is not there is no error, so it is safe to
// repeat.
func (s *Store) Delete(ctx context.Context, container, name string) error {
	_, err := s.block(container, name).Delete(ctx, nil)
	if err != nil && !azstorage.IsNotFound(err) {
		return fmt.Errorf("delete blob %s: %w", name, classify(err))
	}
	return nil
}

// DeletePrefix removes every blob whose name starts with prefix, staged blocks
// included, and returns how many blobs there were. Safe to repeat.
func (s *Store) DeletePrefix(ctx context.Context, containerName, prefix string) (int, error) {
	removed := 0
	// Blobs of which only blocks exist are listed with the uncommitted ones and
	// vanish when something is committed in their place and deleted.
	pager := s.account.Container(containerName).NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
		Prefix: &prefix, Include: container.ListBlobsInclude{UncommittedBlobs: true},
	})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return removed, fmt.Errorf("list blobs under %q: %w", prefix, classify(err))
		}
		for _, b := range page.Segment.BlobItems {
			err := s.Delete(ctx, containerName, *b.Name)
			if err == nil && b.Properties.ETag == nil {
				err = s.dropStaged(ctx, containerName, *b.Name)
			}
			if err != nil {
				return removed, err
			}
			removed++
		}
	}
	return removed, nil
}

func set[T any](dst *T, src *T) {
	if src != nil {
		*dst = *src
	}
}

// classify adds what the caller acts on to the service's error, and takes
// signatures out of its text.
func classify(err error) error {
	var kind error
	switch {
	case azstorage.HasCode(err, "BlobAlreadyExists"):
		kind = ErrExists
	case azstorage.IsNotFound(err):
		kind = ErrNotFound
	case azstorage.IsPrecondition(err):
		kind = ErrChanged
	case azstorage.HasCode(err, "Md5Mismatch", "Crc64Mismatch"):
		kind = ErrCorrupt
	}
	err = azstorage.RedactError(err)
	if kind == nil {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}
