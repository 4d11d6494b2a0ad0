package step

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/media"
)

// join writes pieces of blobs into a file, one after another.
func join(ctx context.Context, blobs *blobstore.Store, path string, pieces []media.Piece, progress func()) (err error) {
	name := filepath.Base(path)
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	defer func() {
		if e := file.Close(); err == nil && e != nil {
			err = fmt.Errorf("close %s: %w", name, e)
		}
	}()
	for _, p := range pieces {
		body, _, err := blobs.Open(ctx, video.MediaContainer, p.Blob, blobstore.Range{Offset: p.Offset, Length: p.Length}, "")
		if err != nil {
			return fmt.Errorf("read %s: %w", filepath.Base(p.Blob), err)
		}
		_, err = io.Copy(file, body)
		_ = body.Close()
		if err != nil {
			return fmt.Errorf("join %s: %w", name, err)
		}
		progress()
	}
	return nil
}
