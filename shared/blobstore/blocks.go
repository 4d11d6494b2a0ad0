package blobstore

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the service's checksum, not a secret
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// BlockSize is the size of every block but the last: small enough that a broken
// transfer repeats little, large enough that 50,000 of them (the service's
// limit) hold 195 GiB.
const BlockSize = 4 << 20

// inFlight is how many blocks of one transfer travel at once. Two keep the line
// busy while the next one is read; memory is inFlight × BlockSize.
const inFlight = 2

// Block is a staged block that is not committed yet.
type Block struct {
	ID    string // as the service wants it: base64
	Index int    // -1 when the id is not one of ours
	Size  int64
}

// blockDigits is the width of the number inside a block id. Ids of one blob must
// have one length.
const blockDigits = 6

// BlockID returns the id of block index: the same number always has the same id,
// so whoever takes up a transfer again knows which blocks are there (Q14).
func BlockID(index int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%0*d", blockDigits, index))
}

func blockIndex(id string) int {
	raw, err := base64.StdEncoding.DecodeString(id)
	if err != nil || len(raw) != blockDigits {
		return -1
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return -1
	}
	return n
}

// StagedBlocks lists the blocks that wait for a commit, by index. A blob that
// does not exist has none.
func (s *Store) StagedBlocks(ctx context.Context, container, name string) ([]Block, error) {
	list, err := s.block(container, name).GetBlockList(ctx, blockblob.BlockListTypeUncommitted, nil)
	if azstorage.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list blocks of %s: %w", name, classify(err))
	}
	var blocks []Block
	for _, b := range list.UncommittedBlocks {
		blocks = append(blocks, Block{ID: *b.Name, Index: blockIndex(*b.Name), Size: *b.Size})
	}
	sort.Slice(blocks, func(i, j int) bool { return blocks[i].Index < blocks[j].Index })
	return blocks, nil
}

// Stage uploads one block. Repeating it replaces the block.
func (s *Store) Stage(ctx context.Context, container, name string, index int, data []byte) error {
	sum := md5.Sum(data) //nolint:gosec // see above
	_, err := s.block(container, name).StageBlock(ctx, BlockID(index), streaming.NopCloser(bytes.NewReader(data)),
		&blockblob.StageBlockOptions{TransactionalValidation: blob.TransferValidationTypeMD5(sum[:])})
	if err != nil {
		return fmt.Errorf("stage block %d of %s: %w", index, name, classify(err))
	}
	return nil
}

// Commit makes the first count staged blocks the content of the blob. Repeating
// it after a lost reply is no error: with IfNoneMatch a blob of the same length
// as the blocks counts as ours.
func (s *Store) Commit(ctx context.Context, container, name string, count int, o Options) (string, error) {
	ids := make([]string, count)
	for i := range ids {
		ids[i] = BlockID(i)
	}
	ctx, tries := azstorage.WithAttempts(ctx)
	done, err := s.block(container, name).CommitBlockList(ctx, ids, &blockblob.CommitBlockListOptions{
		HTTPHeaders: o.headers(nil), Metadata: o.metadata(), AccessConditions: o.conditions(),
	})
	if err == nil {
		return string(*done.ETag), nil
	}
	if o.IfNoneMatch && *tries > 1 && azstorage.IsConflict(err) {
		if info, headErr := s.Head(ctx, container, name); headErr == nil {
			return info.ETag, nil
		}
	}
	return "", fmt.Errorf("commit %d blocks of %s: %w", count, name, classify(err))
}

// PutStream writes content of unknown length in blocks and commits it at its
// end: constant memory, whatever the length. It returns the number of bytes. On
// an error nothing is committed; what was staged goes after a week, or with
// DeletePrefix, and a later PutStream replaces it.
func (s *Store) PutStream(ctx context.Context, container, name string, r io.Reader, o Options) (int64, error) {
	work, groupCtx := errgroup.WithContext(ctx)
	buffers := make(chan []byte, inFlight)
	for range inFlight {
		buffers <- make([]byte, BlockSize)
	}
	var size int64
	count := 0
	var readErr error
	for readErr == nil {
		var buffer []byte
		select {
		case buffer = <-buffers:
		case <-groupCtx.Done():
			readErr = groupCtx.Err()
			continue
		}
		var n int
		n, readErr = io.ReadFull(r, buffer[:BlockSize])
		size += int64(n)
		if o.MaxSize > 0 && size > o.MaxSize {
			readErr = ErrTooLarge
		}
		if n == 0 || readErr != nil && !errors.Is(readErr, io.ErrUnexpectedEOF) {
			continue
		}
		index := count
		count++
		work.Go(func() error {
			defer func() { buffers <- buffer }()
			return s.Stage(groupCtx, container, name, index, buffer[:n])
		})
	}
	if err := work.Wait(); err != nil {
		return size, err
	}
	if !errors.Is(readErr, io.EOF) && !errors.Is(readErr, io.ErrUnexpectedEOF) {
		return size, fmt.Errorf("read content of %s: %w", name, readErr)
	}
	_, err := s.Commit(ctx, container, name, count, o)
	return size, err
}

// singlePut is up to where PutFile uses one call: a call that fails at its end
// is repeated whole.
const singlePut = 2 * BlockSize

// PutFile writes a file. A large one goes in blocks, of which those that an
// earlier, interrupted call staged with the same size are not sent again.
func (s *Store) PutFile(ctx context.Context, container, name, path string, o Options) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("put blob %s: %w", name, err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("put blob %s: %w", name, err)
	}
	if info.Size() <= singlePut {
		_, err := s.Put(ctx, container, name, file, info.Size(), o)
		return err
	}
	held, err := s.StagedBlocks(ctx, container, name)
	if err != nil {
		return err
	}
	sizes := map[int]int64{}
	for _, b := range held {
		sizes[b.Index] = b.Size
	}
	work, groupCtx := errgroup.WithContext(ctx)
	work.SetLimit(inFlight)
	count := 0
	for offset := int64(0); offset < info.Size(); offset += BlockSize {
		index, length := count, min(BlockSize, info.Size()-offset)
		count++
		if sizes[index] == length {
			continue
		}
		work.Go(func() error {
			data := make([]byte, length)
			if _, err := file.ReadAt(data, offset); err != nil {
				return fmt.Errorf("read block %d of %s: %w", index, name, err)
			}
			return s.Stage(groupCtx, container, name, index, data)
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	_, err = s.Commit(ctx, container, name, count, o)
	return err
}

// dropStaged removes the staged blocks of a blob that was never committed: the
// service has no call for it, but an empty commit lets go of them.
func (s *Store) dropStaged(ctx context.Context, container, name string) error {
	if _, err := s.Commit(ctx, container, name, 0, Options{}); err != nil {
		return err
	}
	return s.Delete(ctx, container, name)
}
