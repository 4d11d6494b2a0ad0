package step

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/workerrole/internal/failpoint"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// Audio encodes the whole first audio track and commits it as it grows.
//
//	Reads   the source blob
//	Writes  media/{attempt}/{first segment}.m4s, and a PART row for each
//	Next    finish, when every chunk is done already
//	Errors  *video.Failure when the track cannot be decoded
//	Repeat  the encoder is deterministic, so a repetition encodes again (60 times
//	        faster than real time) and commits only what is not committed yet:
//	        the track is the same to the byte, see docs/decisions
type Audio struct {
	Videos  *videostore.Store
	Sources Sources
	Tool    *ffmpeg.Tool
}

// Name implements pipeline.Step.
func (Audio) Name() string { return videostore.StepAudio }

// AudioOutput is the Output of the audio step's row.
type AudioOutput struct {
	Segments int `json:"segments"`
}

// Run implements pipeline.Step.
func (s Audio) Run(ctx context.Context, w *pipeline.Work) (videostore.Commit, error) {
	view, err := s.Videos.View(ctx, w.Video.ID)
	if err != nil {
		return videostore.Commit{}, fmt.Errorf("read committed audio of %s: %w", w.Video.ID, err)
	}
	held := 0 // segments that earlier attempts committed
	for _, part := range view.Parts[w.Plan.Generation] {
		held += len(part.Segments)
	}
	source, _, err := s.Sources.Open(ctx, sourceOf(w.Plan), w.Plan.Demuxer)
	if err != nil {
		return videostore.Commit{}, err
	}
	playable := w.Video.Playable
	err = media.EncodeAudio(ctx, s.Tool, source, w.Plan, w.Dir, held, func(run media.AudioRun) error {
		if err := s.commit(ctx, w, run); err != nil {
			return err
		}
		held += len(run.Part.Segments)
		if playable {
			return nil
		}
		playable = true // the chunks look after themselves from here on
		return s.Videos.MarkPlayable(ctx, w.Video.ID)
	}, func(int64) { w.Progress() })
	if err != nil {
		return videostore.Commit{}, err
	}
	return videostore.Commit{Output: AudioOutput{Segments: held}}, nil
}

// commit stores a run of segments, then the row that makes it count.
func (s Audio) commit(ctx context.Context, w *pipeline.Work, run media.AudioRun) error {
	part := run.Part
	part.Blob = fmt.Sprintf("%s%05d.m4s", w.Prefix, part.First)
	file, err := os.Open(run.Path)
	if err != nil {
		return fmt.Errorf("open encoded audio: %w", err)
	}
	defer func() { _ = file.Close() }()
	data := io.NewSectionReader(file, run.Offset, run.Length)
	if _, err := s.Sources.Blobs.Put(ctx, video.MediaContainer, part.Blob, data, run.Length, blobstore.Options{ContentType: "audio/mp4"}); err != nil {
		return fmt.Errorf("store audio from segment %d of %s: %w", part.First, w.Video.ID, err)
	}
	failpoint.Hit("audio/part")
	if err := w.AddPart(ctx, part); err != nil {
		return err
	}
	w.Progress()
	return nil
}

// After implements pipeline.Follower.
func (s Audio) After(ctx context.Context, c *videostore.Claim) error {
	return followPart(ctx, s.Videos, c)
}
