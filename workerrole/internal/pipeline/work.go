package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Work is what a step works with. A step without rows has only Key, Progress, Log and
// Again.
type Work struct {
	Key      workflow.Key
	Video    video.Video
	Plan     video.Plan // empty for the first step, which makes it, and for captions
	Input    string     // blob that came with the request
	Dir      string     // empty scratch directory, removed afterwards
	Prefix   string     // of the attempt's blob names; no other attempt has it
	Progress func()     // call it whenever the work moved: the lease is renewed only then
	Log      *slog.Logger
	Again    bool // an earlier delivery of the message may have done half of the work

	blobs  *blobstore.Store
	room   int64 // bytes of scratch that must stay free
	moved  func() time.Time
	early  Early
	source sourceparts.Source // of OpenSource
}

func (r *Runner) newWork(key workflow.Key, job *azq.RawJob) *Work {
	return &Work{
		Key: key, Progress: job.Progress, Again: job.DequeueCount > 1 && job.Item.Snoozes == 0,
		Log:   r.Log.With("video", key.ID, "step", key.Step, "index", key.Index),
		blobs: r.Blobs, room: r.FreeSpace, moved: job.LastMoved, early: r.Early,
	}
}

func (w *Work) claimed(c *videostore.Claim) {
	w.Video, w.Plan, w.Input, w.Prefix = c.Video, c.Plan, c.Step.Input, w.Key.BlobPrefix(c.Step.Attempt)
	w.Log = w.Log.With("attempt", c.Step.Attempts)
}

// ReadInput returns what came with the request.
func (w *Work) ReadInput(ctx context.Context) ([]byte, error) {
	data, err := w.blobs.Get(ctx, video.SourcesContainer, w.Input)
	if err != nil {
		return nil, fmt.Errorf("read what came with %s: %w", w.Key, err)
	}
	return data, nil
}

// Put stores a local file under the attempt's prefix, in container "media".
func (w *Work) Put(ctx context.Context, path, contentType string) (video.File, error) {
	file, _, err := w.putFile(ctx, video.MediaContainer, path, contentType)
	return file, err
}

// PutData is Put for data in memory.
func (w *Work) PutData(ctx context.Context, name string, data []byte, contentType string) (video.File, error) {
	file := video.File{Name: name, Blob: w.Prefix + name, ContentType: contentType, Bytes: int64(len(data))}
	_, err := w.blobs.Put(ctx, video.MediaContainer, file.Blob, data, blobstore.Options{ContentType: contentType})
	if err != nil {
		return video.File{}, fmt.Errorf("store %s of %s: %w", name, w.Key, err)
	}
	w.Progress()
	return file, nil
}

// PutSource stores a copy of the source that later steps read, and returns its version.
func (w *Work) PutSource(ctx context.Context, path, contentType string) (video.Blob, error) {
	file, etag, err := w.putFile(ctx, video.SourcesContainer, path, contentType)
	return video.Blob{Name: file.Blob, ETag: etag}, err
}

func (w *Work) putFile(ctx context.Context, container, path, contentType string) (file video.File, etag string, err error) {
	name := filepath.Base(path)
	info, err := os.Stat(path)
	if err == nil {
		etag, err = w.blobs.PutFile(ctx, container, w.Prefix+name, path, contentType)
	}
	if err != nil {
		return video.File{}, "", fmt.Errorf("store %s of %s: %w", name, w.Key, err)
	}
	w.Progress()
	return video.File{Name: name, Blob: w.Prefix + name, ContentType: contentType, Bytes: info.Size()}, etag, nil
}
