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
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// joinBoth writes pictures and sound into files of the attempt. audio is empty when there is
// no sound.
func joinBoth(ctx context.Context, blobs *blobstore.Store, w *pipeline.Work, pictures, sound []media.Piece) (picture, audio string, err error) {
	picture = filepath.Join(w.Dir, "video.mp4")
	err = join(ctx, blobs, picture, pictures, w.Progress)
	if err == nil && len(sound) > 0 {
		audio = filepath.Join(w.Dir, "audio.mp4")
		err = join(ctx, blobs, audio, sound, w.Progress)
	}
	return picture, audio, err
}

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
