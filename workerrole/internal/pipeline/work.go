package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// Work is what a step works with. A step without rows has only Key, Progress, Log and
// Again.
type Work struct {
	Key      engine.Key
	Video    video.Video
	Plan     video.Plan // empty for the first step, which makes it, and for captions
	Input    string     // blob that came with the request
	Dir      string     // empty scratch directory, removed afterwards
	Prefix   string     // of the attempt's blob names; no other attempt has it
	Progress func()     // call it whenever the work moved: the lease is renewed only then
	Log      *slog.Logger
	Again    bool // an earlier delivery of the message may have done half of the work

	videos *videostore.Store
	blobs  *blobstore.Store
	room   int64 // bytes of scratch that must stay free
	moved  func() time.Time
	early  Early
}

func (r *Runner) newWork(key engine.Key, job *azq.RawJob) *Work {
	return &Work{
		Key: key, Progress: job.Progress, Again: job.DequeueCount > 1 && job.Item.Snoozes == 0,
		Log:    r.Log.With("video", key.ID, "step", key.Step, "index", key.Index),
		videos: r.Videos, blobs: r.Blobs, room: r.FreeSpace, moved: job.LastMoved, early: r.Early,
	}
}

func (w *Work) claimed(c *videostore.Claim) {
	w.Video, w.Plan, w.Input, w.Prefix = c.Subject, c.Plan, c.Run.Input, w.Key.BlobPrefix(c.Run.Attempt)
	w.Log = w.Log.With("attempt", c.Run.Attempts)
}

// mergePause is how long a step waits that merges what another step after ready has not made yet.
const mergePause = 3 * time.Second

// Outputs returns what the runs of a step have committed in the generation of w, by index, for a
// step that merges them: the last one, or one after ready. nil for a run that has failed. While
// runs of another step after ready are open, the error is an azq.Snooze: return it as it is.
func Outputs[T any](ctx context.Context, w *Work, step string) ([]*T, error) {
	view, err := w.videos.View(ctx, w.Key.ID)
	if err != nil {
		return nil, fmt.Errorf("read what %s made: %w", step, err)
	}
	for _, open := range view.OpenOptional() {
		if open.Step == step && open.Generation == w.Key.Generation {
			return nil, azq.Snooze(mergePause, fmt.Sprintf("%s has runs that have not ended", step))
		}
	}
	return engine.OutputsOf[T](view, w.Key.Generation, step)
}

// storeFacts moves facts that are too large for META into a file of the step, facts.json.
func (w *Work) storeFacts(ctx context.Context, c *videostore.Commit) error {
	if c.Facts == nil {
		return nil
	}
	data, err := json.Marshal(c.Facts)
	if err != nil || len(data) <= engine.MaxFacts {
		return err
	}
	file, err := w.PutData(ctx, "facts.json", data, "application/json")
	c.Facts, c.Files = nil, append(c.Files, file)
	return err
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
func (w *Work) Put(ctx context.Context, path, contentType string) (engine.File, error) {
	file, _, err := w.putFile(ctx, video.MediaContainer, path, contentType)
	return file, err
}

// PutData is Put for data in memory.
func (w *Work) PutData(ctx context.Context, name string, data []byte, contentType string) (engine.File, error) {
	file := engine.File{Name: name, Blob: w.Prefix + name, ContentType: contentType, Bytes: int64(len(data))}
	_, err := w.blobs.Put(ctx, video.MediaContainer, file.Blob, data, blobstore.Options{ContentType: contentType})
	if err != nil {
		return engine.File{}, fmt.Errorf("store %s of %s: %w", name, w.Key, err)
	}
	w.Progress()
	return file, nil
}

// PutSource stores a copy of the source that later steps read, and returns its version.
func (w *Work) PutSource(ctx context.Context, path, contentType string) (video.Blob, error) {
	file, etag, err := w.putFile(ctx, video.SourcesContainer, path, contentType)
	return video.Blob{Name: file.Blob, ETag: etag}, err
}

func (w *Work) putFile(ctx context.Context, container, path, contentType string) (file engine.File, etag string, err error) {
	name := filepath.Base(path)
	info, err := os.Stat(path)
	if err == nil {
		etag, err = w.blobs.PutFile(ctx, container, w.Prefix+name, path, contentType)
	}
	if err != nil {
		return engine.File{}, "", fmt.Errorf("store %s of %s: %w", name, w.Key, err)
	}
	w.Progress()
	return engine.File{Name: name, Blob: w.Prefix + name, ContentType: contentType, Bytes: info.Size()}, etag, nil
}

// Early lets steps run on an upload that is still going on: package early. Without it, no
// step is promised before an upload is complete.
type Early interface {
	// Open opens the file that is being sent. moved says when the run last made progress.
	Open(ctx context.Context, v video.Video, step engine.Step, moved func() time.Time) (sourceparts.Source, error)
	// Settle returns what the message of a step is settled with that ended with err.
	Settle(ctx context.Context, key engine.Key, snoozes int, err error) error
	// Exhausted reports whether a step whose attempts are used up is done again all the same.
	Exhausted(ctx context.Context, key engine.Key, asked time.Time) (again bool, err error)
}

// Growing reports whether the upload was going on when the step was claimed.
func (w *Work) Growing() bool { return growing(w.Video, w.Key) }

func growing(v video.Video, key engine.Key) bool {
	return v.SourceETag == "" && workflow.Declaration.StepOf(key).Stage != engine.OnRequest
}

// OpenSource lets ffmpeg read the upload or its remuxed copy until ctx ends, in the version
// that was verified. If the source was replaced the run fails with a *engine.Failure,
// source_changed. Call it once in an attempt.
func (w *Work) OpenSource(ctx context.Context) (_ ffmpeg.Source, err error) {
	var source sourceparts.Source
	switch {
	case w.Plan.Copy != nil:
		source, err = openCopy(ctx, w.blobs, *w.Plan.Copy)
	case w.Video.SourceETag != "":
		source, err = openUpload(ctx, w.blobs, w.Video)
	default:
		source, err = w.early.Open(ctx, w.Video, workflow.Declaration.StepOf(w.Key), w.moved)
	}
	if err != nil {
		return ffmpeg.Source{}, err
	}
	served, err := serve(ctx, source)
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

const (
	// blockSize is what one request asks for, and what is kept: short, because much of what
	// follows a jump is read in vain, and not shorter, because requests cost.
	blockSize = 512 << 10
	// kept is how much of the source stays in memory, for each attempt. It is more than
	// two readers have asked for and not read: a first chunk is made by two.
	kept = 8 << 20
)

// readAhead reads a source for one attempt. ffmpeg asks for everything from a byte on,
// reads a little, goes away and asks again elsewhere, and each run of an attempt begins
// with the same head and index. So the source is read in blocks, each by one request, with
// the next one asked for before it is needed, and those that were used last are kept for
// the next run. Each part of an upload begins with a block of its own.
//
// A request is read to its end even when ffmpeg has gone: Azurite opens a file for each
// block of a reply, and never closes those of a reply that is not read to its end. With
// requests for all the rest it had no files left after some eighty runs on an hour of
// film, and answered no read any more.
type readAhead struct {
	ctx    context.Context // of the attempt: what it reads is counted there
	from   sourceparts.Source
	blocks *lru.Cache[int64, func() ([]byte, error)] // by where they begin; each waits until it has come
}

func newReadAhead(ctx context.Context, from sourceparts.Source) *readAhead {
	blocks, _ := lru.New[int64, func() ([]byte, error)](kept / blockSize) // an error only of a size below 1
	return &readAhead{ctx: ctx, from: from, blocks: blocks}
}

func (a *readAhead) reader() io.ReadSeeker { return io.NewSectionReader(a, 0, a.from.Layout.Bytes) }

// ReadAt implements io.ReaderAt.
func (a *readAhead) ReadAt(p []byte, at int64) (n int, _ error) {
	for n < len(p) {
		if at >= a.from.Layout.Bytes {
			return n, io.EOF
		}
		in, block := a.block(at)
		next := in.Offset + in.Length
		if next < a.from.Layout.Bytes && (a.from.Has == nil || a.from.Has(a.from.Layout.At(next))) {
			a.block(next) // only a reader that needs a part waits for it
		}
		data, err := block()
		if err != nil {
			return n, err
		}
		copied := copy(p[n:], data[at-in.Offset:])
		n, at = n+copied, at+int64(copied)
	}
	return n, nil
}

// block returns the block that has a byte of the source, and where it lies. Unless it is
// there, or on its way, it is asked for.
func (a *readAhead) block(at int64) (in blobstore.Range, wait func() ([]byte, error)) {
	part := a.from.Layout.At(at)
	whole := a.from.Layout.Range(part)
	in.Offset = at - (at-whole.Offset)%blockSize
	in.Length = min(blockSize, whole.Offset+whole.Length-in.Offset)
	if wait, found := a.blocks.Get(in.Offset); found {
		return in, wait
	}
	wait = sync.OnceValues(func() ([]byte, error) {
		data, err := a.receive(part, blobstore.Range{Offset: in.Offset - whole.Offset, Length: in.Length})
		if err != nil {
			a.blocks.Remove(in.Offset) // the next reader tries again
			return nil, sourceparts.Changed(fmt.Errorf("read the source: %w", err))
		}
		return data, nil
	})
	if other, found, _ := a.blocks.PeekOrAdd(in.Offset, wait); found {
		return in, other
	}
	go wait()
	return in, wait
}

func (a *readAhead) receive(part int, want blobstore.Range) ([]byte, error) {
	body, err := a.from.Open(a.ctx, part, want)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	data := make([]byte, want.Length)
	_, err = io.ReadFull(body, data)
	return data, err
}
