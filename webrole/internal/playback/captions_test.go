package playback

import (
	"context"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/captions"
	"github.com/cutroom/cutroom/shared/engine"
	feature "github.com/cutroom/cutroom/webrole/internal/feature/captions"
	"github.com/cutroom/cutroom/webrole/internal/httpapi"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

func init() {
	long := "en-x-" + strings.TrimSuffix(strings.Repeat("aaaaaaaa-", 150), "-")
	folders = append(folders, folder{
		feature: func(core *httpapi.Server) web.Feature {
			f := feature.New(core)
			f.Extend = func(_ context.Context, _ engine.ID, master string) (string, error) { // a list, which the fixture has not
				return captions.AddTo(master, []captions.Track{{Language: "en", Name: "English"}}), nil
			}
			return f
		},
		add: func(f testing.TB, fix *fixture, id engine.ID) {
			key, err := captions.Key(id, "en")
			if err != nil {
				f.Fatal(err)
			}
			fix.row(f, id, key.RowKey(), map[string]any{"State": string(engine.RunDone), "Output": captions.Output{Blob: fix.blob(id, "captions"), Bytes: 100}})
		},
		served: "captions/en.vtt captions/EN.m3u8 captions/en/0.vtt",
		seeds: []string{
			"captions/en.m3u8", "captions/en/7.vtt", "captions/en/2.m3u8", "captions/EN-latn.vtt", "captions/en'.vtt",
			"captions/" + long + ".vtt", "captions//0.vtt",
		},
	})
}
