package page

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cutroom/cutroom/shared/video"
)

// media gives the page for uploads the lists by which files are judged.
func media() (map[string]any, error) {
	kinds, err := json.Marshal(video.OtherKinds)
	if err != nil {
		return nil, fmt.Errorf("list kinds of files: %w", err)
	}
	accept := []string{"video/*"}
	for _, c := range video.Containers {
		accept = slices.Concat(accept, c.Types, c.Suffixes)
	}
	return map[string]any{
		"Accept": strings.Join(accept, ","), "Containers": video.ContainerNames(), "Kinds": string(kinds), "Head": video.HeadBytes,
	}, nil
}
