package catalog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

var january = time.Date(2026, 1, 31, 23, 59, 58, 0, time.UTC)

func TestTwoRowsOfAVideoAreWrittenInOneTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := newVideo(" The  Start", "sports", january)
	w.sync(t, v)
	got := w.dump(t)
	want := map[rowKey]engine.ID{
		{CatalogTable, "sports", "NEW:" + Place(v.CreatedAt, v.ID)}:                                       v.ID,
		{CatalogTable, "sports", "TITLE:the start  __" + string(v.ID)}:                                    v.ID,
		{CatalogTable, "~" + string(v.ID), "REF"}:                                                         "",
		{RecentTable, fmt.Sprintf("all~%d", tablestore.Shard(string(v.ID), 8)), Place(v.CreatedAt, v.ID)}: v.ID,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	// back-reference, note; one transaction for channel, one for recent; report.
	ctx, meter := azstore.WithCounter(t.Context())
	if err := w.Sync(ctx, v.ID, w.Current(v.ID)); err != nil {
		t.Fatal(err)
	}
	if got := meter.Requests(); got > 5 {
		t.Errorf("syncing again took %d requests, want at most 5", got)
	}
}

// T3: the newest videos are in all partitions, and none of these is
// far more loaded than the others, although they were made one after another.
func TestNewVideosAreSpreadOverPartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const videos = 160
	var wg sync.WaitGroup
	for i := range videos {
		v := newVideo(fmt.Sprint("Film ", i), "one", january.Add(-time.Duration(i)*time.Second))
		w.Put(v)
		wg.Go(func() {
			if err := w.Sync(t.Context(), v.ID, w.Current(v.ID)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	rows := map[string]int{}
	for key := range w.dump(t) {
		if key.table == RecentTable {
			rows[key.pk]++
		}
	}
	if len(rows) != RecentShards {
		t.Errorf("the rows are in %d partitions, want %d: %v", len(rows), RecentShards, rows)
	}
	for key, n := range rows {
		if n > 2*videos/RecentShards { // 20 are expected; more than 40 is 4.8 standard deviations
			t.Errorf("partition %s has %d of %d rows", key, n, videos)
		}
	}
}

func TestEditsLeaveNoOldRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := newVideo("First", "one", january)
	w.sync(t, v)
	for _, change := range []func(*video.Video){
		func(v *video.Video) { v.Title = "Second" },
		func(v *video.Video) { v.Channel = "two" },
		func(v *video.Video) { v.Title, v.Channel = "FIRST", "one" },
		func(v *video.Video) { v.State, v.Playable = engine.Ready, true },
		func(v *video.Video) { v.Visibility = video.Private },
		func(v *video.Video) { v.Visibility = video.Public },
		func(v *video.Video) { v.State = engine.Deleting },
	} {
		change(&v)
		w.sync(t, v)
		if diff := cmp.Diff(w.model(t), w.dump(t)); diff != "" {
			t.Fatalf("rows of %+v (-want +got):\n%s", v, diff)
		}
	}
	if got := w.dump(t); len(got) != 0 {
		t.Errorf("rows are left: %v", got)
	}
}

func TestRemoveLeavesNothingAndALateSyncBringsNothingBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := newVideo("Gone", "one", january)
	w.sync(t, v)
	w.Gone(v.ID)
	for range 2 {
		if err := w.Remove(t.Context(), v.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Sync(t.Context(), v.ID, w.Current(v.ID)); err != nil {
		t.Fatal(err)
	}
	if got := w.dump(t); len(got) != 0 {
		t.Errorf("rows are left: %v", got)
	}
}

func TestChannelPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all []video.Video
	for i, title := range []string{"banana", "Äpfel", "Cherry", "apple", "cherry pie"} {
		v := newVideo(title, "O'Brien's __ / ch?nnel", january.Add(time.Duration(i)*time.Second))
		all = append(all, v)
		w.sync(t, v)
	}
	w.sync(t, newVideo("elsewhere", "O'Brien", january))
	channel := all[0].Channel
	read := func(sort Sort, limit int, between func()) (got []string) {
		for token := ""; ; {
			page, next, err := w.Channel(t.Context(), channel, sort, limit, token)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > limit {
				t.Fatalf("page of %d, limit %d", len(page), limit)
			}
			got = append(got, w.titles(page)...)
			if token = next; token == "" {
				return got
			}
			between()
		}
	}
	newest := []string{"cherry pie", "apple", "Cherry", "Äpfel", "banana"}
	byTitle := []string{"Äpfel", "apple", "banana", "Cherry", "cherry pie"}
	for limit := 1; limit <= 6; limit++ {
		if diff := cmp.Diff(newest, read(Newest, limit, func() {})); diff != "" {
			t.Errorf("newest by %d (-want +got):\n%s", limit, diff)
		}
		if diff := cmp.Diff(byTitle, read(ByTitle, limit, func() {})); diff != "" {
			t.Errorf("by title, %d (-want +got):\n%s", limit, diff)
		}
	}
	n := 0
	got := read(Newest, 2, func() { // a newer video between the pages, and the row named by the token goes
		n++
		w.sync(t, newVideo(fmt.Sprint("new ", n), channel, january.Add(time.Hour)))
		if n == 1 {
			if err := w.Remove(t.Context(), all[3].ID); err != nil {
				t.Fatal(err)
			}
		}
	})
	if diff := cmp.Diff(newest, got); diff != "" {
		t.Errorf("under inserts (-want +got):\n%s", diff)
	}
}

func TestRecentIsNewestFirstOverMonths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	times := []time.Time{
		january, january.Add(time.Second), january.Add(2 * time.Second), january.Add(3 * time.Second), // over midnight
		january.AddDate(0, -14, 0), january.AddDate(-3, 0, 0), january.AddDate(-3, 0, 0).Add(time.Millisecond),
	}
	for i := range 12 {
		times = append(times, january.AddDate(0, 2, 0).Add(time.Duration(i)*time.Millisecond))
	}
	var want []string
	rand.Shuffle(len(times), func(i, j int) { times[i], times[j] = times[j], times[i] })
	byPlace := map[string]string{}
	var places []string
	for i, at := range times {
		v := newVideo(fmt.Sprint("v", i), "c", at)
		w.sync(t, v)
		place := Place(v.CreatedAt, v.ID)
		byPlace[place] = v.Title
		places = append(places, place)
	}
	hidden := newVideo("hidden", "c", january)
	hidden.Visibility = video.Unlisted
	w.sync(t, hidden)
	waiting := newVideo("waiting", "c", january)
	waiting.State = engine.AwaitingUpload
	w.sync(t, waiting)
	for _, p := range slices.Sorted(slices.Values(places)) {
		want = append(want, byPlace[p])
	}
	for _, limit := range []int{1, 3, 7, 100} {
		var got []string
		for token := ""; ; {
			ctx, meter := azstore.WithCounter(t.Context())
			page, next, err := w.Recent(ctx, limit, token)
			if err != nil {
				t.Fatal(err)
			}
			if meter.ByClass(tablestore.Scan)+meter.ByClass(tablestore.PartitionRange) != 0 {
				t.Errorf("Recent used more than row ranges")
			}
			got = append(got, w.titles(page)...)
			if token = next; token == "" {
				break
			}
			if len(page) != limit {
				t.Errorf("page of %d with a next one, limit %d", len(page), limit)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by %d (-want +got):\n%s", limit, diff)
		}
	}
}

func TestTokensAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 3 {
		w.sync(t, newVideo("v", "c", january.Add(time.Duration(i)*time.Second)))
	}
	_, channelToken, err := w.Channel(t.Context(), "c", Newest, 1, "")
	if err != nil || channelToken == "" {
		t.Fatal(channelToken, err)
	}
	_, recentToken, err := w.Recent(t.Context(), 1, "")
	if err != nil || recentToken == "" {
		t.Fatal(recentToken, err)
	}
	for name, token := range map[string]string{
		"garbage":       "!!!",
		"base64":        "AAAAAAAAAAAAAAAAAAAA",
		"damaged":       recentToken[:len(recentToken)-3],
		"other query":   channelToken,
		"forged place":  tablestore.Token(recentQuery, "' or true or '"),
		"forged number": tablestore.Token(recentQuery, "99999999999999__"+string(engine.NewID())+" "),
		"very long":     strings.Repeat("A", 100_000),
	} {
		if _, _, err := w.Recent(t.Context(), 1, token); !errors.Is(err, tablestore.ErrToken) {
			t.Errorf("Recent with %s token: %v, want ErrToken", name, err)
		}
	}
	for name, token := range map[string]string{
		"recent":       recentToken,
		"forged":       tablestore.Token("channel NEW:c", "TITLE:"),
		"forged place": tablestore.Token("channel NEW:c", "NEW:\x00__"+string(engine.NewID())),
	} {
		if _, _, err := w.Channel(t.Context(), "c", Newest, 1, token); !errors.Is(err, tablestore.ErrToken) {
			t.Errorf("Channel with %s token: %v, want ErrToken", name, err)
		}
	}
	if _, _, err := w.Channel(t.Context(), "c", ByTitle, 1, channelToken); !errors.Is(err, tablestore.ErrToken) {
		t.Errorf("Channel in another order: %v, want ErrToken", err)
	}
}

func TestHostileTitlesAndChannels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range []string{
		"", "!", "__", "___", "O'Brien", "a/b\\c#d?e%f+g", "🎬 film 🎞", "' or 1 eq 1 or '", "~", "REF", "NEW:", "TITLE:",
		strings.Repeat("x", 300), strings.Repeat("長", 300), strings.Repeat("🎬", 300), strings.Repeat("__", 300),
		strings.Repeat("long", 200) + "1", strings.Repeat("long", 200) + "2", "tab\tnewline\n\x00\x7f", "\xff\xfe",
	} {
		v := newVideo(s, s, january)
		v.Title, v.Channel = strings.ToValidUTF8(s, "?"), strings.ToValidUTF8(s, "?") // the API refuses other text
		w.sync(t, v)
		for _, sort := range []Sort{Newest, ByTitle} {
			page, next, err := w.Channel(t.Context(), v.Channel, sort, 10, "")
			if err != nil || next != "" {
				t.Errorf("channel %q: next %q, %v", s, next, err)
			}
			if diff := cmp.Diff([]engine.ID{v.ID}, page); diff != "" {
				t.Errorf("channel %q (-want +got):\n%s", s, diff)
			}
		}
	}
}
