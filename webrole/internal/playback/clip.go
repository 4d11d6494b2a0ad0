package playback

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
)

// clip answers for a clip that is ready: one point read more than for a segment.
// Its address names the generation, so the bytes there never change.
func (s *Service) clip(w http.ResponseWriter, r *http.Request, q request, file string) error {
	name, ok := strings.CutSuffix(file, ".mp4")
	key, err := videostore.ParseClipID(q.video.ID, name)
	if !ok || err != nil {
		return missing()
	}
	clip, err := s.videos.Clip(r.Context(), key)
	if err != nil {
		return err
	}
	if clip.State != videostore.StepDone {
		return missing()
	}
	var out video.ClipOutput
	if err := json.Unmarshal(clip.Output, &out); err != nil {
		return fmt.Errorf("decode output of %s: %w", key, err)
	}
	q.pinned = true
	s.send(w, r, resource{blob: out.Blob, length: out.Bytes, contentType: typeVideo, cache: q.cache()})
	return nil
}
