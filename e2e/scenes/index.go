package scenes

import (
	"context"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/video"
)

var _ = register(programs, "index-follows", indexFollows)

// indexFollows shows copies in other partitions that follow the truth by an idempotent
// step (T8): late, interrupted, and repeated.
func indexFollows(s *Stage) {
	s.Ensure(nil, searchindex.Tables...)
	film := video.Video{
		Meta:  engine.Meta{ID: engine.NewID(), Channel: "ships", State: engine.Ready, CreatedAt: time.Now()},
		Title: "harbour", Visibility: video.Public, DurationSeconds: 1,
	}
	truth := indexrows.Current(func(context.Context) (video.Video, bool, error) { return film, true, nil })
	index, reader := searchindex.New(s.Account("worker")), searchindex.New(s.Account("reader"))
	finds := func(word string) bool {
		return len(get(reader.Search(Quiet(s.ctx), searchindex.Query{Q: word}, 10, "")).Hits) == 1
	}
	must(index.Sync(s.ctx, film.ID, truth))
	s.Claim(finds("harbour"))
	film.Title = "lighthouse"
	s.Claim(finds("harbour") && !finds("lighthouse"))

	var writes atomic.Int64 // partitions are written at the same time
	dying := searchindex.New(s.Account("dying worker", retrying(azstore.Retry{Strategy: azstore.NoRetry}), onTheWay(func(r *http.Request) inject.Fault {
		if r.Method != http.MethodGet && writes.Add(1) >= 2 {
			return inject.Reset
		}
		return inject.None
	})))
	err := dying.Sync(s.ctx, film.ID, truth)
	s.Next()
	s.Claim(err != nil)
	must(index.Sync(s.ctx, film.ID, truth))
	s.Claim(!finds("harbour") && finds("lighthouse"))

	before := everyRow(s)
	must(index.Sync(Quiet(s.ctx), film.ID, truth))
	after := everyRow(s)
	s.Claim(maps.Equal(before, after), len(after))
}

// everyRow lists the keys of the index.
func everyRow(s *Stage) map[string]bool {
	keys := map[string]bool{}
	for _, name := range searchindex.Tables {
		for row, err := range s.Table("worker", name).Query(Quiet(s.ctx), tablestore.Query{}) {
			must(err)
			keys[name+" "+row.PartitionKey+" "+row.RowKey] = true
		}
	}
	return keys
}
