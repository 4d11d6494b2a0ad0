package step

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// Finish is the fan-in: it verifies the video and writes what needs all of its parts.
//
//	Reads   all step rows; the chunks' tiles; the top rendition and the audio
//	Writes  media/{attempt}/: storyboard, sprite, MP4 download
//	Next    index
//	Repeat  writes to names of its own; only one attempt's row commits
type Finish struct{ Needs }

// Run implements pipeline.Step.
func (s Finish) Run(ctx context.Context, w *pipeline.Work) (videostore.Commit, error) {
	view, err := s.Videos.View(ctx, w.Subject.ID)
	if err != nil {
		return videostore.Commit{}, fmt.Errorf("read steps of %s: %w", w.Subject.ID, err)
	}
	whole, err := videostore.Presentation(view, w.Plan.Generation)
	if err != nil {
		return videostore.Commit{}, err
	}
	if !whole.Complete() {
		return videostore.Commit{}, fmt.Errorf("finish %s: not every part is committed", w.Subject.ID)
	}
	var out video.FinishOutput
	if out.Frames, err = verify(whole); err != nil {
		return videostore.Commit{}, err
	}
	if err := s.pictures(ctx, w, whole, &out); err != nil {
		return videostore.Commit{}, err
	}
	if err := s.download(ctx, w, whole, &out); err != nil {
		return videostore.Commit{}, err
	}
	duration := w.Plan.FPS.Seconds(out.Frames)
	return videostore.Commit{
		Output: out,
		Edit:   func(v *video.Video) { v.DurationSeconds = duration },
	}, nil
}

// verify counts the frames, which each chunk has verified, and compares the chunks' init
// segments, of which a player reads only the first.
func verify(p playlist.Presentation) (frames int64, err error) {
	for i, chunk := range p.Chunks {
		frames += chunk.Frames
		for r, out := range chunk.Renditions {
			if out.InitKind != p.Chunks[0].Renditions[r].InitKind {
				return 0, fmt.Errorf("chunk %d of rendition %s has another init segment than chunk 0", i, out.Name)
			}
		}
	}
	return frames, nil
}

// pictures makes the storyboard from the chunks' tiles, so that nothing is decoded a
// second time.
func (s Finish) pictures(ctx context.Context, w *pipeline.Work, p playlist.Presentation, out *video.FinishOutput) error {
	var strips []media.Strip
	for _, chunk := range p.Chunks {
		if chunk.Tiles == "" {
			continue
		}
		strip, err := s.Blobs.Get(ctx, engine.MediaContainer, chunk.Tiles)
		if err != nil {
			return fmt.Errorf("read tiles: %w", err)
		}
		strips = append(strips, media.Strip{JPEG: bytes.NewReader(strip), Tiles: chunk.TileCount})
	}
	if len(strips) == 0 {
		return nil
	}
	sprite, vtt, err := media.Sprite(strips, p.Plan, out.Frames, "storyboard.jpg")
	if err != nil {
		return err
	}
	picture, err := w.PutData(ctx, "storyboard.jpg", sprite, "image/jpeg")
	if err != nil {
		return err
	}
	text, err := w.PutData(ctx, "storyboard.vtt", []byte(vtt), "text/vtt")
	out.Sprite, out.Storyboard = picture.Blob, text.Blob
	return err
}

func (s Finish) download(ctx context.Context, w *pipeline.Work, p playlist.Presentation, out *video.FinishOutput) error {
	pictures, sound := media.Pictures(p, 0, math.MaxInt64), media.Sound(p, 0, math.MaxInt64)
	// The parts and the download, which has the same bytes once more.
	if err := w.CheckFreeSpace(2 * (media.BytesOf(pictures) + media.BytesOf(sound))); err != nil {
		return err
	}
	picture, audio, err := JoinBoth(ctx, s.Blobs, w, pictures, sound)
	if err != nil {
		return err
	}
	path := filepath.Join(w.Dir, "download.mp4")
	if err := s.Tool.Mux(ctx, picture, audio, path); err != nil {
		return err
	}
	file, err := w.Put(ctx, path, "video/mp4")
	out.Download = file.Blob
	return err
}

// JoinBoth writes pictures and sound into files of the attempt. audio is empty when there is
// no sound.
func JoinBoth(ctx context.Context, blobs *blobstore.Store, w *pipeline.Work, pictures, sound []media.Piece) (picture, audio string, err error) {
	picture = filepath.Join(w.Dir, "video.mp4")
	err = join(ctx, blobs, picture, pictures, w.Progress)
	if err == nil && len(sound) > 0 {
		audio = filepath.Join(w.Dir, "audio.mp4")
		err = join(ctx, blobs, audio, sound, w.Progress)
	}
	return picture, audio, err
}

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
		body, _, err := blobs.Open(ctx, engine.MediaContainer, p.Blob, blobstore.Range{Offset: p.Offset, Length: p.Length}, "")
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
