package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
)

// Work is what a step works with. A step without rows has only Key, Progress, Log and
// Again.
type Work[V, P any] struct {
	Key      engine.Key
	Subject  V
	Plan     P                // empty for the first step, which makes it, and for a variant
	Input    string           // blob that came with the request
	Queue    string           // base name of the queue that the message came through
	Dir      string           // empty scratch directory, removed afterwards
	Prefix   string           // of the attempt's blob names; no other attempt has it
	Progress func()           // call it whenever the work moved: the lease is renewed only then
	Moved    func() time.Time // when it moved last
	Log      *slog.Logger
	Again    bool // an earlier delivery of the message may have done half of the work
	Blobs    *blobstore.Store

	store   *engine.Store[V, P]
	meta    engine.Meta
	scratch string
	room    int64 // bytes of scratch that must stay free
}

func (r *Runner[V, P]) newWork(key engine.Key, job *azq.RawJob) *Work[V, P] {
	return &Work[V, P]{
		Key: key, Queue: job.Base, Progress: job.Progress, Moved: job.LastMoved,
		Again: job.DequeueCount > 1 && job.Item.Snoozes == 0,
		Log:   r.Log.With("subject", key.ID, "step", key.Step, "index", key.Index),
		Blobs: r.Blobs, store: r.Store, scratch: r.Scratch, room: r.FreeSpace,
	}
}

func (w *Work[V, P]) claimed(c *engine.Claim[V, P]) {
	w.Subject, w.meta, w.Plan, w.Input, w.Prefix = c.Subject, c.Meta(), c.Plan, c.Run.Input, w.Key.BlobPrefix(c.Run.Attempt)
	w.Log = w.Log.With("attempt", c.Run.Attempts)
}

// Growing reports whether the upload was going on when the step was claimed.
func (w *Work[V, P]) Growing() bool { return w.meta.SourceETag == "" && !w.Key.OnRequest() }

// WithScratch gives w a directory while do runs, unless the disk is nearly full.
func (w *Work[V, P]) WithScratch(do func() error) (err error) {
	if err := checkFreeSpace(w.scratch, w.room); err != nil {
		return err
	}
	if w.Dir, err = os.MkdirTemp(w.scratch, w.Key.Step+"-"); err != nil {
		return diskTrouble("make a directory for an attempt", err)
	}
	defer func() { _ = os.RemoveAll(w.Dir) }()
	return do()
}

// mergePause is how long a step waits that merges what another step after ready has not made yet.
const mergePause = 3 * time.Second

// Outputs returns what the runs of a step have committed in the generation of w, by index, for a
// step that merges them: the last one, or one after ready. nil for a run that has failed. While
// runs of another step after ready are open, the error is an azq.Snooze: return it as it is.
func Outputs[T, V, P any](ctx context.Context, w *Work[V, P], step string) ([]*T, error) {
	view, err := w.store.View(ctx, w.Key.ID)
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
func storeFacts[V, P any](ctx context.Context, w *Work[V, P], c *engine.Commit[V, P]) error {
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
func (w *Work[V, P]) ReadInput(ctx context.Context) ([]byte, error) {
	data, err := w.Blobs.Get(ctx, engine.SourcesContainer, w.Input)
	if err != nil {
		return nil, fmt.Errorf("read what came with %s: %w", w.Key, err)
	}
	return data, nil
}

// Put stores a local file under the attempt's prefix, in container "media".
func (w *Work[V, P]) Put(ctx context.Context, path, contentType string) (engine.File, error) {
	file, _, err := w.putFile(ctx, engine.MediaContainer, path, contentType)
	return file, err
}

// PutData is Put for data in memory.
func (w *Work[V, P]) PutData(ctx context.Context, name string, data []byte, contentType string) (engine.File, error) {
	file := engine.File{Name: name, Blob: w.Prefix + name, ContentType: contentType, Bytes: int64(len(data))}
	_, err := w.Blobs.Put(ctx, engine.MediaContainer, file.Blob, data, blobstore.Options{ContentType: contentType})
	if err != nil {
		return engine.File{}, fmt.Errorf("store %s of %s: %w", name, w.Key, err)
	}
	w.Progress()
	return file, nil
}

// PutSource stores a copy of the source that later steps read, and returns its version.
func (w *Work[V, P]) PutSource(ctx context.Context, path, contentType string) (engine.Blob, error) {
	file, etag, err := w.putFile(ctx, engine.SourcesContainer, path, contentType)
	return engine.Blob{Name: file.Blob, ETag: etag}, err
}

func (w *Work[V, P]) putFile(ctx context.Context, container, path, contentType string) (file engine.File, etag string, err error) {
	name := filepath.Base(path)
	info, err := os.Stat(path)
	if err == nil {
		etag, err = w.Blobs.PutFile(ctx, container, w.Prefix+name, path, contentType)
	}
	if err != nil {
		return engine.File{}, "", fmt.Errorf("store %s of %s: %w", name, w.Key, err)
	}
	w.Progress()
	return engine.File{Name: name, Blob: w.Prefix + name, ContentType: contentType, Bytes: info.Size()}, etag, nil
}
