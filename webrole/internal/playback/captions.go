package playback

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/recent"
)

// captions is {language}.vtt, the whole file, {language}.m3u8, its playlist, or
// {language}/{number}.vtt, a segment: each costs a point read more than a segment of the
// video.
func (s *Service) captions(ctx context.Context, q request, path string) (resource, error) {
	file, isPlaylist := strings.CutSuffix(path, ".m3u8")
	name, isText := strings.CutSuffix(file, ".vtt")
	language, segment, isSegment := strings.Cut(name, "/")
	key, err := videostore.CaptionsKey(q.video.ID, language)
	if isPlaylist == isText || isPlaylist && isSegment || err != nil {
		return resource{}, missing()
	}
	step, err := s.videos.Requested(ctx, key)
	if err != nil {
		return resource{}, err
	}
	out, err := videostore.OutputOf[video.CaptionsOutput](step)
	if err != nil {
		return resource{}, err
	}
	if out == nil {
		return resource{}, missing()
	}
	if isPlaylist {
		text := playlist.Captions(language, out.SegmentSeconds, q.video.DurationSeconds)
		return resource{text: text, contentType: playlist.ContentType, cache: neverStore}, nil
	}
	// Another file may take the place of this one at the same address.
	res := resource{blob: out.Blob, length: out.Bytes, contentType: typeCaption, cache: askAgain}
	if isSegment {
		number, err := strconv.Atoi(segment)
		if err != nil || number < 0 {
			return res, missing()
		}
		at := out.Segment(number)
		if at.Length == 0 {
			return resource{text: playlist.CaptionsHeader, contentType: typeCaption, cache: askAgain}, nil
		}
		res.offset, res.length = at.Offset, at.Length
	}
	return res, nil
}

// newTracks reads the captions that a player may offer, for all who ask at once.
func newTracks(videos *videostore.Store) *recent.Cache[video.ID, []playlist.CaptionsTrack] {
	return recent.New(maxViews, func(ctx context.Context, id video.ID) (tracks []playlist.CaptionsTrack, _ error) {
		all, err := videos.AllCaptions(ctx, id)
		for _, step := range all {
			if language := step.Key.Language; len(step.Output) > 0 {
				tracks = append(tracks, playlist.CaptionsTrack{Language: language, Name: videostore.LanguageName(language)})
			}
		}
		return tracks, err
	})
}

// withCaptions adds the captions that are there now to a multivariant playlist. A
// list that was read before may lack some.
func (s *Service) withCaptions(ctx context.Context, id video.ID, master string) (string, error) {
	tracks, err := s.tracks.Get(ctx, id, func([]playlist.CaptionsTrack, time.Duration) bool { return false })
	if err != nil {
		return "", err
	}
	return playlist.WithCaptions(master, tracks), nil
}
