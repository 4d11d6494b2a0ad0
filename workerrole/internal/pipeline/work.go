package pipeline

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
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

// Early lets steps run on an upload that is still going on: package early. Without it, no
// step is promised before an upload is complete.
type Early interface {
	// Open opens the file that is being sent. moved says when the run last made progress.
	Open(ctx context.Context, v video.Video, step workflow.Step, moved func() time.Time) (sourceparts.Source, error)
	// Verify returns a *video.Failure when steps of a generation read what was not committed.
	Verify(ctx context.Context, view videostore.View, generation int) error
	// Settle returns what the message of a step is settled with that ended with err.
	Settle(ctx context.Context, key workflow.Key, snoozes int, err error) error
	// Exhausted reports whether a step whose attempts are used up is done again all the same.
	Exhausted(ctx context.Context, key workflow.Key, asked time.Time) (again bool, err error)
}

// Growing reports whether the upload was going on when the step was claimed.
func (w *Work) Growing() bool { return growing(w.Video, w.Key) }

func growing(v video.Video, key workflow.Key) bool {
	return v.SourceETag == "" && key.Declared().Stage != workflow.OnRequest
}

// VerifySource fails with a *video.Failure, source_changed, when steps of the plan were made
// from a file that is not the one that was committed.
func (w *Work) VerifySource(ctx context.Context, view videostore.View) error {
	if w.early == nil {
		return nil
	}
	return w.early.Verify(ctx, view, w.Plan.Generation)
}

// OpenSource lets ffmpeg read the upload or its remuxed copy until ctx ends, in the version
// that was verified. If the source was replaced the run fails with a *video.Failure,
// source_changed. Call it once in an attempt.
func (w *Work) OpenSource(ctx context.Context) (_ ffmpeg.Source, err error) {
	switch {
	case w.Plan.Copy != nil:
		w.source, err = openCopy(ctx, w.blobs, *w.Plan.Copy)
	case w.Video.SourceETag != "":
		w.source, err = openUpload(ctx, w.blobs, w.Video)
	default:
		w.source, err = w.early.Open(ctx, w.Video, w.Key.Declared(), w.moved)
	}
	if err != nil {
		return ffmpeg.Source{}, err
	}
	served, err := serve(ctx, w.source)
	served.Demuxer, served.Heard = w.Plan.Demuxer, w.Plan.Heard
	return served, err
}

// ReadUpload opens the upload in the version that was verified. Every request counts as
// progress.
func (w *Work) ReadUpload(ctx context.Context) (io.Reader, error) {
	whole, err := openUpload(ctx, w.blobs, w.Video)
	return newReadAhead(azstore.OnRequest(ctx, w.Progress), whole).reader(), err
}

// openUpload opens the parts of a complete upload, in the versions that were verified, or fails
// with source_changed. Other errors of a read fail the run with an ffmpeg.DependencyError.
func openUpload(ctx context.Context, blobs *blobstore.Store, v video.Video) (sourceparts.Source, error) {
	manifest, err := sourceparts.Committed(ctx, blobs, v)
	return sourceparts.Pinned(blobs, manifest.Layout, func(part int) video.Blob {
		return video.Blob{Name: sourceparts.Name(v.ID, manifest.Layout, part), ETag: manifest.Parts[part].ETag}
	}), err
}

// openCopy opens a remuxed copy, with the errors of openUpload.
func openCopy(ctx context.Context, blobs *blobstore.Store, from video.Blob) (sourceparts.Source, error) {
	head, err := blobs.Head(ctx, video.SourcesContainer, from.Name)
	if err == nil && head.ETag != from.ETag {
		err = blobstore.ErrChanged
	}
	if err != nil {
		return sourceparts.Source{}, sourceparts.Changed(fmt.Errorf("look at the copy of the source: %w", err))
	}
	whole := sourceparts.Layout{Bytes: head.Size, PartBytes: max(1, head.Size)}
	return sourceparts.Pinned(blobs, whole, func(int) video.Blob { return from }), nil
}

func serve(ctx context.Context, from sourceparts.Source) (ffmpeg.Source, error) {
	ahead := newReadAhead(ctx, from)
	return ffmpeg.Serve(ctx, from.Layout.Bytes, func() io.ReadSeeker { return ahead.reader() })
}
