package step

import (
	"bytes"
	"context"
	"errors"
	"time"

	"golang.org/x/text/language"

	"github.com/cutroom/cutroom/shared/charset"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/workerrole/internal/captions"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// Captions makes clean WebVTT of an uploaded subtitle file.
//
//	Reads   the file that came with the request: WebVTT or SRT
//	Writes  media/{attempt}/captions.vtt: the whole file, then its segments
//	Next    nothing
//	Errors  *video.Failure invalid_captions when there is nothing to read, or
//	        undecodable_text; the captions fail, the video does not
//	Repeat  writes the same to a name of its own; only one attempt's row commits
type Captions struct{}

// captionsSegment is a compromise: a player that seeks reads one segment, and a
// film of two hours has 120.
const captionsSegment = time.Minute

// Run implements pipeline.Step.
func (Captions) Run(ctx context.Context, w *pipeline.Work) (videostore.Commit, error) {
	file, err := w.ReadInput(ctx)
	if err != nil {
		return videostore.Commit{}, err
	}
	track, err := captions.Read(file, language.Make(w.Key.Language))
	var segments [][]byte
	if err == nil {
		segments, err = track.Segments(captionsSegment)
	}
	var undecodable *charset.Error
	switch {
	case errors.As(err, &undecodable):
		err = video.Fail(video.UndecodableText, "The file cannot be read: %v.", undecodable)
	case errors.Is(err, captions.ErrUnreadable):
		err = video.Fail(video.InvalidCaptions, "The file cannot be read: %v.", err)
	}
	if err != nil {
		return videostore.Commit{}, err
	}
	whole := track.Whole()
	out := video.CaptionsOutput{
		Bytes: int64(len(whole)), Cues: track.Cues(), LeftOut: track.LeftOut, Charset: track.Charset,
		SegmentSeconds: int(captionsSegment.Seconds()),
	}
	for _, s := range segments {
		out.Segments = append(out.Segments, int64(len(s)))
	}
	stored, err := w.PutData(ctx, "captions.vtt", append(whole, bytes.Join(segments, nil)...), "text/vtt; charset=utf-8")
	out.Blob = stored.Blob
	return videostore.Commit{Output: out}, err
}
