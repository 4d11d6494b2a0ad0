package playback

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/recent"
)

// captions answers for {language}.vtt, the whole file, {language}.m3u8, its
// playlist, and {language}/{number}.vtt, a segment: each costs a point read more
// than a segment of the video.
func (s *Service) captions(w http.ResponseWriter, r *http.Request, q request, path string) error {
	file, isPlaylist := strings.CutSuffix(path, ".m3u8")
	name, isText := strings.CutSuffix(file, ".vtt")
	language, segment, isSegment := strings.Cut(name, "/")
	if isPlaylist == isText || isPlaylist && isSegment {
		return missing()
	}
	key, err := videostore.CaptionsKey(q.video.ID, language)
	if err != nil {
		return missing()
	}
	step, err := s.videos.Captions(r.Context(), key)
	if err != nil {
		return err
	}
	out, found, err := step.CaptionsOutput()
	if err != nil {
		return err
	}
	if !found {
		return missing()
	}
	if isPlaylist {
		writePlaylist(w, r, playlist.Captions(language, out.SegmentSeconds, q.video.DurationSeconds))
		return nil
	}
	// Another file may take the place of this one at the same address.
	res := resource{blob: out.Blob, length: out.Bytes, contentType: typeCaption, cache: askAgain}
	if isSegment {
		number, err := strconv.Atoi(segment)
		if err != nil || number < 0 {
			return missing()
		}
		at := out.Segment(number)
		if at.Length == 0 {
			w.Header().Set("Content-Type", typeCaption)
			w.Header().Set("Cache-Control", askAgain)
			_, _ = w.Write([]byte(playlist.CaptionsHeader)) // the client is gone; nothing to do
			return nil
		}
		res.offset, res.length = at.Offset, at.Length
	}
	s.send(w, r, res)
	return nil
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
