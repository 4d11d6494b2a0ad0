package blobstore

import (
	"context"
	"crypto/md5"
	"time"
)

// SetStall shortens the patience with silent downloads.
func (s *Store) SetStall(d time.Duration) { s.stall = d }

// StageNumbered is what the holder of a valet key does.
func (s *Store) StageNumbered(ctx context.Context, container, name string, index int, content []byte) error {
	return s.stage(ctx, container, name, BlockID(index), content, md5.Sum(content))
}
