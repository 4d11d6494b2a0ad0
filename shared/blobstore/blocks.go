package blobstore

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"

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

// blockIDDigits is the length of a block's id before base64: all ids of a blob must have
// one length.
const blockIDDigits = 15

// BlockID returns the id of block index: in JavaScript,
// btoa(String(index).padStart(15, "0")).
func BlockID(index int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%0*d", blockIDDigits, index))
}

// blockIndex undoes BlockID.
func blockIndex(id string) (index int, ok bool) {
	digits, err := base64.StdEncoding.DecodeString(id)
	if err == nil {
		index, err = strconv.Atoi(string(digits))
	}
	return index, err == nil && index >= 0 && BlockID(index) == id
}

// StagedBlocks lists the blocks of an upload that are staged and not committed, in their
// order. A blob that was never written to has none.
func (s *Store) StagedBlocks(ctx context.Context, container, name string) ([]Block, error) {
	staged, err := s.uncommitted(ctx, container, name)
	if err != nil {
		return nil, err
	}
	var blocks []Block
	for id, size := range staged {
		if index, ok := blockIndex(id); ok {
			blocks = append(blocks, Block{ID: id, Index: index, Size: size})
		}
	}
	slices.SortFunc(blocks, func(a, b Block) int { return a.Index - b.Index })
	return blocks, nil
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

// Stage uploads block index of at most BlockSize bytes, with its MD5, and returns its id.
// Safe to repeat. ErrCorrupt.
func (s *Store) Stage(ctx context.Context, container, name string, index int, content []byte) (id string, err error) {
	id = BlockID(index)
	return id, s.stage(ctx, container, name, id, content, md5.Sum(content))
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
