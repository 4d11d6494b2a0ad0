package pipeline

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workqueue/consumer"
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

	blobs *blobstore.Store
	room  int64        // bytes of scratch that must stay free
	moved atomic.Int64 // when Progress was last called, in Unix nanoseconds

	early  Early
	source sourceparts.Source // of OpenSource
}

func (r *Runner) newWork(key workflow.Key, job *consumer.Job) *Work {
	work := &Work{
		Key: key, Again: job.DequeueCount > 1 && job.Item.Snoozes == 0, blobs: r.Blobs, room: r.FreeSpace, early: r.Early,
		Log: r.Log.With("video", key.ID, "step", key.Step, "index", key.Index),
	}
	work.Progress = func() {
		work.moved.Store(time.Now().UnixNano())
		job.Progress()
	}
	return work
}

func (w *Work) claimed(c *videostore.Claim) {
	w.Video, w.Plan, w.Input, w.Prefix = c.Video, c.Plan, c.Step.Input, w.Key.BlobPrefix(c.Step.Attempt)
	w.Log = w.Log.With("attempt", c.Step.Attempts)
}

// ReadInput returns what came with the request, at most limit bytes of it.
func (w *Work) ReadInput(ctx context.Context, limit int64) ([]byte, error) {
	body, _, err := w.blobs.Open(ctx, video.SourcesContainer, w.Input, blobstore.Range{}, "")
	if err != nil {
		return nil, fmt.Errorf("open what came with %s: %w", w.Key, err)
	}
	defer body.Close() //nolint:errcheck // reading only
	data, err := io.ReadAll(io.LimitReader(body, limit))
	if err != nil {
		return nil, fmt.Errorf("read what came with %s: %w", w.Key, err)
	}
	w.Progress()
	return data, nil
}

// Put stores a local file under the attempt's prefix, in container "media".
func (w *Work) Put(ctx context.Context, path, contentType string) (video.File, error) {
	return w.PutAs(ctx, path, filepath.Base(path), contentType)
}

// PutAs is Put under another name than the file's.
func (w *Work) PutAs(ctx context.Context, path, name, contentType string) (video.File, error) {
	file, _, err := w.putFile(ctx, video.MediaContainer, path, w.Prefix+name, contentType)
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
	file, etag, err := w.putFile(ctx, video.SourcesContainer, path, w.Prefix+filepath.Base(path), contentType)
	return video.Blob{Name: file.Blob, ETag: etag}, err
}

func (w *Work) putFile(ctx context.Context, container, path, blob, contentType string) (file video.File, etag string, err error) {
	name := filepath.Base(blob)
	info, err := os.Stat(path)
	if err == nil {
		etag, err = w.blobs.PutFile(ctx, container, blob, path, contentType)
	}
	if err != nil {
		return video.File{}, "", fmt.Errorf("store %s of %s: %w", name, w.Key, err)
	}
	w.Progress()
	return video.File{Name: name, Blob: blob, ContentType: contentType, Bytes: info.Size()}, etag, nil
}
