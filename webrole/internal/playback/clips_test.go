package playback

import (
	"testing"

	"github.com/cutroom/cutroom/shared/clips"
	"github.com/cutroom/cutroom/shared/engine"
	feature "github.com/cutroom/cutroom/webrole/internal/feature/clips"
)

func init() {
	folders = append(folders, folder{
		feature: feature.New, served: "clips/g1-0-50.mp4",
		add: func(f testing.TB, fix *fixture, id engine.ID) {
			key, err := clips.ParseID(id, "g1-0-50")
			if err != nil {
				f.Fatal(err)
			}
			fix.row(f, id, key.RowKey(), map[string]any{"State": string(engine.RunDone), "Output": engine.File{Blob: fix.blob(id, "clip"), Bytes: blobLength}})
		},
		seeds: []string{"clips/g1-0-50-1.mp4", "clips/g99999-999999999-999999.mp4", "clips/../../" + string(theirID) + "/clip.mp4"},
	})
}
