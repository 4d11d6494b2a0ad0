package upkeep_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/workerrole/internal/upkeep"
)

// Rows with the words of an earlier release are made again, although the
// video is at rest. One that cannot be read keeps its rows and holds up no other.
func TestVideosOfAnEarlierReleaseAreIndexedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.account.Ensure(t.Context(), nil, nil, searchindex.Tables); err != nil {
		t.Fatal(err)
	}
	search, postings := searchindex.New(b.account), tablestore.New(b.account.Table(searchindex.PostingsTable))
	var ids []video.ID
	for i := range 4 {
		v := video.Video{
			ID: video.NewID(), Title: fmt.Sprintf("เรือสีแดง %d", i), Visibility: video.Public, State: video.Ready,
			CreatedAt: time.Now(), Priority: video.Normal,
		}
		if _, err := b.videos.Create(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, v.ID)
		v.Title = "other words"
		if err := search.Sync(t.Context(), v.ID, func(context.Context) (video.Video, bool, error) { return v, true, nil }); err != nil {
			t.Fatal(err)
		}
	}
	for row, err := range postings.Query(t.Context(), tablestore.Query{Filter: "Words ge 0"}) {
		if err == nil {
			delete(row.Props, "Words") // an earlier release did not write it
			_, err = postings.Update(t.Context(), row, row.ETag)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	meta := tablestore.New(b.account.Table(videostore.VideosTable))
	if _, err := meta.Merge(t.Context(), tablestore.Entity{
		PartitionKey: string(ids[0]), RowKey: "META", Props: map[string]any{"Doc": "no JSON"},
	}, tablestore.AnyETag); err != nil {
		t.Fatal(err)
	}
	if err := meta.Delete(t.Context(), string(ids[1]), "META", tablestore.AnyETag); err != nil {
		t.Fatal(err)
	}

	renewer := upkeep.Renewer{Search: search, Videos: b.videos, Log: slog.New(slog.DiscardHandler)}
	for _, want := range []upkeep.Pass{{Items: 3}, {}} {
		pass, err := renewer.Pass(t.Context())
		if err != nil || pass != want {
			t.Errorf("pass: %+v, %v; want %+v", pass, err, want)
		}
	}
	if r, err := search.Search(t.Context(), searchindex.Query{Q: "other words"}, 5, ""); err != nil || len(r.Hits) != 1 || r.Hits[0].ID != ids[0] {
		t.Errorf("the other words find %+v, %v; want the video that cannot be read", r.Hits, err)
	}
	for i, found := range []bool{false, false, true, true} {
		r, err := search.Search(t.Context(), searchindex.Query{Q: fmt.Sprintf("สีแดง %d", i)}, 5, "")
		if err != nil {
			t.Fatal(err)
		}
		if (len(r.Hits) == 1) != found {
			t.Errorf("video %d has %d hits by its title; should be found: %v", i, len(r.Hits), found)
		}
	}
}
