package searchindex

import (
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/video"
)

// typicalVideo has 60 different words.
func typicalVideo(age time.Duration) video.Video {
	v := newVideo("A quiet morning at the old harbour", age)
	v.Description = `We follow three fishermen from the first light until the market opens. Filmed with one
		camera and no crew during a single week in March, in the small town where my grandfather was born.
		Music by the local brass band; thanks to everybody who let us into their boats and kitchens.`
	v.Actors, v.Directors = []string{"Anna Lindqvist", "Seán O'Brien"}, []string{"Zoë Müller"}
	v.Tags, v.Channel = []string{"documentary", "sea", "fishing", "small town"}, "Sea & Ships"
	return v
}

// What one video costs: the first one with its words, one that only brings words that
// others have, and a new title.
func TestCostOfIndexing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cost := func(name string, v video.Video) {
		before := len(w.dump(t))
		w.Put(v)
		ctx, meter := azstore.WithCounter(t.Context())
		if err := w.Sync(ctx, v.ID, w.Current(v.ID)); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d new rows, %d requests, %d rows read", name, len(w.dump(t))-before, meter.Requests(), meter.Counts().Rows)
	}
	cost("the first", typicalVideo(0))
	v := typicalVideo(0)
	cost("another with the same words", v)
	v.Title = "A quiet evening at the old harbour"
	cost("another title", v)
}
