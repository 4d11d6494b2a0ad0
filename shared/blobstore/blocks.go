package blobstore

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// BlockSize is the length of every block but the last: 4 MiB, as in the papers.
const BlockSize = 4 << 20

// MaxBlocks is the service's limit for one blob: with BlockSize, 195 GiB.
const MaxBlocks = 50000

// Block is one staged block.
type Block struct {
	ID    string // base64, as the service wants it
	Index int    // place in the blob, from 0
	Size  int64  // bytes
}

// A block's id is base64 of BlockIDDigits characters: all ids of a blob must have
// one length. Blocks put by valet key are numbered, "000000000000007", so that
// anybody can take the upload up again. Other uploads write six digits, a hyphen
// and a tag, "000007-9f86d081", which keeps them apart: of a file, and of an upload
// through the web role, the tag is a hash of the block, of a stream a random one.
const (
	BlockIDDigits = 15
	tagLength     = 8
)

// BlockID returns the id of block index of an upload by valet key: in
// JavaScript, btoa(String(index).padStart(15, "0")).
func BlockID(index int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%0*d", BlockIDDigits, index))
}

func taggedID(index int, tag string) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%06d-%s", index, tag))
}

// contentTag is the tag of a block that carries the hash of its content.
func contentTag(sum [md5.Size]byte) string { return hex.EncodeToString(sum[:tagLength/2]) }

// blockIndex undoes BlockID, or taggedID.
func blockIndex(id string) (index int, tagged, ok bool) {
	raw, err := base64.StdEncoding.DecodeString(id)
	if err != nil || len(raw) != BlockIDDigits {
		return 0, false, false
	}
	digits, _, tagged := strings.Cut(string(raw), "-")
	index, err = strconv.Atoi(digits)
	if err != nil || index < 0 || tagged != (len(digits) == 6) || !tagged && BlockID(index) != id {
		return 0, false, false
	}
	return index, tagged, true
}

// StagedBlocks lists the blocks of an upload that are staged and not committed,
// in their order and one for each place: a numbered one, put by valet key, before
// one that came through Stage. When two of those differ at any place, different
// files were sent, and none of them counts: a list never mixes them. A blob that
// was never written to has no blocks.
func (s *Store) StagedBlocks(ctx context.Context, container, name string) ([]Block, error) {
	staged, err := s.uncommitted(ctx, container, name)
	if err != nil {
		return nil, err
	}
	numbered, tagged := map[int]Block{}, map[int]Block{}
	differ := false
	for id, size := range staged {
		index, isTagged, ok := blockIndex(id)
		switch {
		case !ok:
		case isTagged:
			_, twice := tagged[index]
			differ = differ || twice
			tagged[index] = Block{ID: id, Index: index, Size: size}
		default:
			numbered[index] = Block{ID: id, Index: index, Size: size}
		}
	}
	if differ {
		clear(tagged)
	}
	maps.Copy(tagged, numbered)
	return slices.SortedFunc(maps.Values(tagged), func(a, b Block) int { return a.Index - b.Index }), nil
}

// uncommitted returns the sizes of all staged blocks by id.
func (s *Store) uncommitted(ctx context.Context, container, name string) (map[string]int64, error) {
	reply, err := s.block(container, name).GetBlockList(ctx, blockblob.BlockListTypeUncommitted, nil)
	if azstorage.HasCode(err, azstorage.CodeBlobNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, s.fail("list blocks of", container, name, err)
	}
	sizes := map[string]int64{}
	for _, b := range reply.UncommittedBlocks {
		if b.Name != nil && b.Size != nil {
			sizes[*b.Name] = *b.Size
		}
	}
	return sizes, nil
}

// Stage uploads block index of at most BlockSize bytes, with its MD5, and returns
// its id, which holds a hash of the content: two uploads to one name, of different
// files, never take each other's blocks. Safe to repeat. ErrCorrupt.
func (s *Store) Stage(ctx context.Context, container, name string, index int, content []byte) (id string, err error) {
	sum := md5.Sum(content)
	id = taggedID(index, contentTag(sum))
	return id, s.stage(ctx, container, name, id, content, sum)
}

func (s *Store) stage(ctx context.Context, container, name, id string, content []byte, sum [md5.Size]byte) error {
	_, err := s.block(container, name).StageBlock(ctx, id, streaming.NopCloser(bytes.NewReader(content)),
		&blockblob.StageBlockOptions{TransactionalValidation: blob.TransferValidationTypeMD5(sum[:])})
	if err != nil {
		return s.fail("stage block of", container, name, err)
	}
	return nil
}

// Commit makes the blob of staged blocks, in the order of ids, and returns its
// ETag. Repeating it with the same ids is fine, also long after a lost reply:
// the service then finds them among the committed blocks.
func (s *Store) Commit(ctx context.Context, container, name string, ids []string, o Options) (etag string, err error) {
	return s.commit(ctx, container, name, ids, nil, o)
}

func (s *Store) commit(ctx context.Context, container, name string, ids []string, sum []byte, o Options) (string, error) {
	if len(ids) > MaxBlocks {
		return "", s.fail("commit", container, name, fmt.Errorf("%w: %d blocks, at most %d", ErrTooLarge, len(ids), MaxBlocks))
	}
	mark := newMark()
	try, tries := azstorage.WithAttempts(ctx)
	reply, err := s.block(container, name).CommitBlockList(try, ids, &blockblob.CommitBlockListOptions{
		HTTPHeaders: o.headers(sum), Metadata: o.metadata(mark), AccessConditions: o.conditions(),
	})
	return s.settle(ctx, "commit", container, name, o, mark, *tries, reply.ETag, err)
}
