package scenes

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// indexFollows shows copies in other partitions that follow the truth by an idempotent
// step (T8): late, interrupted, and repeated.
func indexFollows(ctx context.Context, s *Stage) error {
	worker := s.Account("worker")
	if err := worker.Ensure(Quiet(ctx), nil, nil, searchindex.Tables); err != nil {
		return err
	}
	film := video.Video{ID: video.NewID(), Title: "harbour", Channel: "ships", Visibility: video.Public, State: video.Ready, CreatedAt: time.Now(), DurationSeconds: 1}
	truth := indexrows.Current(func(context.Context) (video.Video, bool, error) { return film, true, nil })
	index, reader := searchindex.New(worker), searchindex.New(s.Account("reader"))
	finds := func(word string) bool {
		found, err := reader.Search(Quiet(ctx), searchindex.Query{Q: word}, 10, "")
		return err == nil && len(found.Hits) == 1
	}
	s.Say("A film with the title \"harbour\". Its row is the truth, in a partition of its own. The search needs a row for each word, in the partition of the word. No transaction covers both, so a step of the queue makes the copies follow.")
	if err := index.Sync(ctx, film.ID, truth); err != nil {
		return err
	}
	s.Claim(finds("harbour"), "the search finds \"harbour\"")

	s.Say("The title becomes \"lighthouse\". The truth has changed, and the index has not: for a moment a search finds what was.")
	film.Title = "lighthouse"
	s.Claim(finds("harbour") && !finds("lighthouse"), "the old word is found, the new one is not")
	if err := interrupted(ctx, s, film.ID, truth); err != nil {
		return err
	}
	s.Say("The message comes again, and the step is run again, by anybody. It reads the truth, compares it with the list of the rows that it has written, writes what is missing, and removes what is left over.")
	if err := index.Sync(ctx, film.ID, truth); err != nil {
		return err
	}
	s.Claim(!finds("harbour") && finds("lighthouse"), "the new word is found, the old one is not")

	s.Say("And once more, because a message may come twice.")
	before, err := everyRow(ctx, worker)
	if err != nil {
		return err
	}
	if err := index.Sync(Quiet(ctx), film.ID, truth); err != nil {
		return err
	}
	after, err := everyRow(ctx, worker)
	if err != nil {
		return err
	}
	s.Claim(maps.Equal(before, after), "all %d rows of the index are the same as before", len(after))
	return nil
}

// interrupted runs the step on a way that breaks at its second write.
func interrupted(ctx context.Context, s *Stage, id video.ID, truth indexrows.Current) error {
	s.Say("A worker runs the step, and dies at its second write.")
	var writes atomic.Int64 // partitions are written at the same time
	dying := searchindex.New(s.Account("dying worker", retrying(azstorage.Retry{Strategy: azstorage.NoRetry}), onTheWay(func(r *http.Request) outcome {
		if r.Method != http.MethodGet && writes.Add(1) >= 2 {
			return broken
		}
		return through
	})))
	err := dying.Sync(ctx, id, truth)
	s.Act("dying worker", "is gone")
	s.Claim(err != nil, "the step has not ended: its message stays in the queue")
	return nil
}

// everyRow lists the keys of the index.
func everyRow(ctx context.Context, account *azstorage.Account) (map[string]bool, error) {
	keys := map[string]bool{}
	for _, name := range slices.Sorted(slices.Values(searchindex.Tables)) {
		for row, err := range tablestore.New(account.Table(name)).Query(Quiet(ctx), tablestore.Query{}) {
			if err != nil {
				return nil, fmt.Errorf("list the index: %w", err)
			}
			keys[name+" "+row.PartitionKey+" "+row.RowKey] = true
		}
	}
	return keys, nil
}
