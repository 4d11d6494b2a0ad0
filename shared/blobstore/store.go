package blobstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// Errors that callers act on. The wrapped errors also answer azstorage.Describe
// with the status and code of the service.
var (
	ErrNotFound = errors.New("blob not found")
	ErrExists   = errors.New("blob exists already")                 // Options.IfNoneMatch
	ErrChanged  = errors.New("blob was changed in the meantime")    // stale ETag: 412
	ErrTooLarge = errors.New("content is larger than allowed")      // Get
	ErrCorrupt  = errors.New("blob content does not match its MD5") // paper row Q12
)

// Store gives access to the blobs of an account. It is safe for concurrent use.
type Store struct {
	account *azstorage.Account
	stall   time.Duration // how long a download may bring nothing
}

// downloadStall is when a silent connection counts as broken. The time-out of a
// try ends with the reply's first byte, for a stream may well take hours.
const downloadStall = 30 * time.Second

// New returns the blob store of an account. Containers must exist: see
// azstorage.Account.Ensure.
func New(a *azstorage.Account) *Store { return &Store{account: a, stall: downloadStall} }

// Options says how a blob is written. The zero value overwrites.
type Options struct {
	ContentType string // default application/octet-stream
	IfNoneMatch bool   // refuse to overwrite: ErrExists
	IfMatch     string // overwrite this version only
}

// Info describes a blob.
type Info struct {
	Name         string
	Size         int64 // bytes of the whole blob, also when a range was opened
	ETag         string
	ContentType  string
	LastModified time.Time // by this machine's clock
	MD5          []byte    // of the whole blob, when the service knows it
	mark         string    // of the conditional write that made it, see markKey; Head only
}

func (s *Store) block(container, name string) *blockblob.Client {
	return s.account.Container(container).NewBlockBlobClient(name)
}

func (s *Store) blob(container, name string) *blob.Client {
	return s.account.Container(container).NewBlobClient(name)
}

// fail names the blob and adds the sentinel that belongs to the reply.
func (s *Store) fail(verb, container, name string, err error) error {
	if kind := kindOf(err); kind != nil {
		err = fmt.Errorf("%w: %w", kind, err)
	}
	return fmt.Errorf("%s blob %s/%s: %w", verb, s.account.Name(container), name, err)
}

func kindOf(err error) error {
	switch {
	case azstorage.HasCode(err, azstorage.CodeBlobAlreadyExists):
		return ErrExists
	case azstorage.HasCode(err, azstorage.CodeMd5Mismatch):
		return ErrCorrupt
	case azstorage.IsNotFound(err) && !azstorage.HasCode(err, azstorage.CodeContainerNotFound):
		return ErrNotFound
	case azstorage.IsPrecondition(err):
		return ErrChanged
	}
	return nil
}

// Head returns what is known of a blob without reading it.
func (s *Store) Head(ctx context.Context, container, name string) (Info, error) {
	p, err := s.blob(container, name).GetProperties(ctx, nil)
	if err != nil {
		return Info{}, s.fail("look at", container, name, err)
	}
	info := Info{Name: name, MD5: p.ContentMD5}
	s.fill(&info, p.ContentLength, p.ETag, p.ContentType, p.LastModified)
	for k, v := range p.Metadata {
		if v != nil && strings.EqualFold(k, markKey) {
			info.mark = *v
		}
	}
	return info, nil
}

func (s *Store) fill(info *Info, size *int64, etag *azcore.ETag, contentType *string, modified *time.Time) {
	if size != nil {
		info.Size = *size
	}
	if etag != nil {
		info.ETag = string(*etag)
	}
	if contentType != nil {
		info.ContentType = *contentType
	}
	if modified != nil {
		info.LastModified = s.account.LocalTime(modified.UTC())
	}
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
				if !yield(s.infoIn(item), nil) {
					return
				}
			}
		}
	}
}

// infoIn is what a list says of a blob.
func (s *Store) infoIn(item *container.BlobItem) Info {
	info := Info{Name: *item.Name}
	if p := item.Properties; p != nil {
		info.MD5 = p.ContentMD5
		s.fill(&info, p.ContentLength, p.ETag, p.ContentType, p.LastModified)
		info.ETag = quoted(info.ETag)
	}
	return info
}

// quoted returns an ETag as headers have it: a list of blobs leaves the quotes out.
func quoted(etag string) string {
	if etag == "" || strings.HasSuffix(etag, `"`) {
		return etag
	}
	return `"` + etag + `"`
}

// Delete removes a blob with its snapshots. A missing blob is fine, so it may
// be repeated.
func (s *Store) Delete(ctx context.Context, container, name string) error {
	_, err := s.remove(ctx, container, name, Options{})
	return err
}

// DeleteVersion removes one version of a blob: ErrChanged when another is there, which
// stays. A missing blob is fine, so it may be repeated.
func (s *Store) DeleteVersion(ctx context.Context, container, name, etag string) error {
	_, err := s.remove(ctx, container, name, Options{IfMatch: etag})
	return err
}

func (s *Store) remove(ctx context.Context, container, name string, o Options) (found bool, err error) {
	_, err = s.blob(container, name).Delete(ctx, &blob.DeleteOptions{
		DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude), AccessConditions: o.conditions(),
	})
	if azstorage.HasCode(err, azstorage.CodeBlobNotFound) {
		return false, nil
	}
	if err != nil {
		return false, s.fail("delete", container, name, err)
	}
	return true, nil
}

// deletesInFlight bounds DeletePrefix: a purge must not crowd out playback.
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
			found, err := s.remove(groupCtx, container, info.Name, Options{})
			if err != nil || found {
				return err
			}
			// Blocks that were never committed: an empty blob takes their place and goes.
			if _, err := s.Put(groupCtx, container, info.Name, nil, Options{}); err != nil {
				return err
			}
			return s.Delete(groupCtx, container, info.Name)
		})
	}
	return group.Wait()
}

// markKey is the metadata name of a conditional write's own mark: after a lost
// reply it tells our blob from another writer's (paper row Q13).
const markKey = "writemark"

func newMark() string {
	var raw [12]byte
	_, _ = rand.Read(raw[:]) // never fails since Go 1.24
	return hex.EncodeToString(raw[:])
}

// ownWrite reports whether a blob carries mark, and its ETag.
func (s *Store) ownWrite(ctx context.Context, container, name, mark string) (etag string, ok bool) {
	info, err := s.Head(ctx, container, name)
	if err != nil || info.mark != mark {
		return "", false
	}
	return info.ETag, true
}

// conditional reports whether repeating the write can meet its own first try.
func (o Options) conditional() bool { return o.IfNoneMatch || o.IfMatch != "" }

func (o Options) headers(md5 []byte) *blob.HTTPHeaders {
	h := &blob.HTTPHeaders{BlobContentMD5: md5}
	if o.ContentType != "" {
		h.BlobContentType = to.Ptr(o.ContentType)
	}
	return h
}

func (o Options) metadata(mark string) map[string]*string {
	if !o.conditional() {
		return nil
	}
	return map[string]*string{markKey: to.Ptr(mark)}
}

func (o Options) conditions() *blob.AccessConditions {
	if !o.conditional() {
		return nil
	}
	m := &blob.ModifiedAccessConditions{}
	if o.IfNoneMatch {
		m.IfNoneMatch = to.Ptr(azcore.ETagAny)
	}
	if o.IfMatch != "" {
		m.IfMatch = to.Ptr(azcore.ETag(o.IfMatch))
	}
	return &blob.AccessConditions{ModifiedAccessConditions: m}
}

// settle turns the outcome of a write into an ETag or an error.
func (s *Store) settle(ctx context.Context, verb, container, name string, o Options, mark string, tries int, etag *azcore.ETag, err error) (string, error) {
	if err == nil {
		if etag == nil {
			return "", nil
		}
		return string(*etag), nil
	}
	refused := azstorage.IsConflict(err) || azstorage.IsPrecondition(err)
	if o.conditional() && refused && tries > 1 {
		if own, ok := s.ownWrite(ctx, container, name, mark); ok {
			return own, nil
		}
	}
	return "", s.fail(verb, container, name, err)
}
