package searchindex

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

func TestSearchFindsWhatAPersonExpects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := map[engine.ID]string{}
	add := func(name string, v video.Video) {
		names[v.ID] = name
		w.sync(t, v)
	}
	bunny := newVideo("Big Buck Bunny", 3*time.Hour)
	bunny.Description, bunny.Directors = "A giant rabbit with a heart bigger than himself.", []string{"Sacha Goedegebure"}
	bunny.Tags = []string{"animation", "open movie"}
	add("bunny", bunny)
	marathon := newVideo("New York City Marathon", 2*time.Hour)
	marathon.Actors, marathon.Channel = []string{"Seán O'Brien", "Zoë Müller"}, "Sports & Fun"
	marathon.Tags = []string{"running", "big city"}
	add("marathon", marathon)
	tokyo := newVideo("東京タワーの夜 🎬", time.Hour)
	tokyo.Description = "Big lights, bigger buildings. node.js __proto__"
	add("tokyo", tokyo)
	for _, change := range []func(*video.Video){
		func(v *video.Video) { v.Visibility = video.Unlisted },
		func(v *video.Video) { v.Visibility = video.Private },
		func(v *video.Video) { v.State = engine.Processing },
		func(v *video.Video) { v.State = engine.Deleting },
	} {
		hidden := newVideo("big hidden bunny", 0)
		change(&hidden)
		add("hidden", hidden)
	}
	for _, c := range []struct {
		q    Query
		want []string
	}{
		{Query{Q: "big"}, []string{"tokyo", "marathon", "bunny"}},
		{Query{Q: "bigger"}, []string{"tokyo", "bunny"}},
		{Query{Q: "big bu"}, []string{"tokyo", "bunny"}},
		{Query{Q: "BIG  bück"}, []string{"bunny"}},
		{Query{Q: "bunny big"}, []string{"bunny"}},
		{Query{Q: "bun big"}, nil}, // only the last word is a beginning
		{Query{Q: `"big buck"`}, []string{"bunny"}},
		{Query{Q: `"buck big"`}, nil},
		{Query{Q: `“big city”`}, []string{"marathon"}},
		{Query{Q: `"big" giant rab`}, []string{"bunny"}},
		{Query{Q: `"big buc"`}, nil},
		{Query{Q: `"big buc`}, []string{"bunny"}},               // not closed: words
		{Query{Q: `"brien zoe"`}, nil},                          // no phrase over two actors
		{Query{Actor: "obrien"}, []string{"marathon"}},          // O'Brien
		{Query{Actor: "O’Brien"}, []string{"marathon"}},         //
		{Query{Actor: "brien"}, []string{"marathon"}},           //
		{Query{Actor: "muller zoe"}, []string{"marathon"}},      //
		{Query{Actor: "sacha"}, nil},                            // he directs
		{Query{Director: "sach"}, []string{"bunny"}},            //
		{Query{Q: "sacha", Tag: "open"}, []string{"bunny"}},     //
		{Query{Tag: "big"}, []string{"marathon"}},               //
		{Query{Title: "big"}, []string{"bunny"}},                //
		{Query{Channel: "sports fun"}, []string{"marathon"}},    //
		{Query{Q: "東京"}, []string{"tokyo"}},                     //
		{Query{Q: "京タワー"}, []string{"tokyo"}},                   //
		{Query{Q: "夜"}, []string{"tokyo"}},                      // the last of a run
		{Query{Q: "東 big"}, []string{"tokyo"}},                  //
		{Query{Q: "京東"}, nil},                                   //
		{Query{Q: "🎬"}, []string{"tokyo"}},                      //
		{Query{Q: "nodejs"}, []string{"tokyo"}},                 //
		{Query{Q: "js"}, []string{"tokyo"}},                     //
		{Query{Q: "__proto__"}, []string{"tokyo"}},              //
		{Query{Q: "b"}, []string{"tokyo", "marathon", "bunny"}}, // one letter
		{Query{Q: "big nowhere"}, nil},
		{Query{}, nil},
		{Query{Q: ` "" ' ! `}, nil},
	} {
		var got []string
		for _, id := range w.pages(t, c.q, 2) {
			got = append(got, names[id])
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.q, diff)
		}
	}
	r, err := w.Search(t.Context(), Query{Q: "marathon"}, 10, "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]engine.ID{marathon.ID}, r.Hits); diff != "" {
		t.Errorf("hit (-want +got):\n%s", diff)
	}
}

// Titles of scripts with and without spaces, and words with signs. Each is found by all of
// it, as a phrase too, and by its parts; none is found by the words of another.
func TestTitlesInEveryScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	titles := map[string][]string{ // the parts that find it
		"เรือสีแดงออกจากท่าเรือ": {
			"เรือ", "สีแดง", "ท่าเรือ", "แดงออก", "แด",
			"สีแด", "ท่",
		},
		"แมวน้อยบนหลังคา ตอนที่ ๑๒": {
			"แมว", "หลังคา", "น้อยบน", "ตอนที่ 12", "แมวน",
		},
		"ເຮືອສີແດງ": {"ເຮືອ", "ແດງ", "ອສີ"},
		"ទូកក្រហមចេញពីកំពង់ផែ": {
			"ទូក", "ក្រហម", "កំពង់ផែ", "ចេញពី",
		},
		"သင်္ဘောနီ ထွက်ခွာ": {
			"သင်္ဘော", "နီ", "ခွာ", "ထွက်",
		},
		"서울에서부산까지 2부":        {"서울", "부산", "에서부", "까지", "2", "산"},
		"東京タワーの夜":            {"東京", "タワー", "京タ", "夜", "ーの"},
		"佐々木の船":              {"佐々木", "々木", "の船"},
		"红色的船在港口":            {"红色", "港口", "在港"},
		"Красный корабль ४७": {"красный", "47", "корабли", "кора"},
		"अध्याय ३":           {"अध्याय", "3", "अध्"},
		"السفينة الحمراء ١٩": {"السفينة", "19"},
		"𞤀𞤣𞤤𞤢𞤥 𞤆𞤵𞤤𞤢𞤪": {
			"𞤣𞤤𞤢", "𞤆𞤵𞤤𞤢𞤪", "𞤀𞤣",
		}, // younger than the tables of the segmenter
		"C++ for beginners": {"c++", "C+", "c++ beginners", `"c++ for"`, `"c for"`},
		"C# in a day":       {"c#", "C# day", `"C# in"`},
		"F# and ASP.NET":    {"f#", "asp.net", "asp", `"asp.net"`, "aspnet"},
		"Reactive .NET":     {"reactive .net", "reactive net", `"reactive .net"`},
		"Rock+Pop #1":       {"rock pop", "rock+pop", `"rock pop"`, "rock #1"},
	}
	ids := map[string]engine.ID{}
	var all []video.Video
	for title := range titles {
		v := newVideo(title, time.Duration(len(ids))*time.Minute)
		ids[title] = v.ID
		all = append(all, v)
	}
	if err := w.Load(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for title, parts := range titles {
		for _, q := range append(parts, title, `"`+title+`"`, strings.ToUpper(title)) {
			if diff := cmp.Diff([]engine.ID{ids[title]}, w.pages(t, Query{Title: q}, 5)); diff != "" {
				t.Errorf("%q by %q (-want +got):\n%s", title, q, diff)
			}
		}
	}
	for q, want := range map[string]int{".net": 2, "net": 2, "c": 2, `"c"`: 2, "船": 2, "c++ in": 0, "ดแ": 0, "เรือแดง": 0, "부서": 0, "夜京": 0} {
		if got := w.pages(t, Query{Title: q}, 5); len(got) != want {
			t.Errorf("%q finds %d titles, want %d", q, len(got), want)
		}
	}
}

func TestHostileTexts(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	w := newWorld(t)
	for i, s := range []string{
		"O'Brien", "__", "a/b\\c#d?e%f+g", "🎬🎞️👩‍🚀", "' or 1 eq 1 or '", "'; DROP TABLE videos;--", "any:x~1", "~all:",
		strings.Repeat("x", 300), strings.Repeat("長い", 150), strings.Repeat("🎬", 300), strings.Repeat("it's ", 60),
		"null\x00 tab\t \x7f del", "\xff\xfe", "ﷺ" + strings.Repeat("a\u0301", 100), "𠮷野家 𠮷", "e\u0301\u0327\u0323", "١٢٣ ৪৫",
	} {
		v := newVideo(strings.ToValidUTF8(s, "?"), time.Duration(i)*time.Minute)
		v.Actors, v.Tags = []string{v.Title, v.Title}, []string{v.Title}
		v.Description, v.Channel = strings.Repeat(v.Title+" ", 50), v.Title
		w.sync(t, v)
		for _, q := range []Query{{Q: s}, {Actor: s}, {Title: s, Tag: s, Channel: s, Q: `"` + s + `"`}} {
			got, want := w.pages(t, q, 3), w.scan(t, q)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%+v (-want +got):\n%s", q, diff)
			}
			if len(splitWords(s)) > 0 && len(got) == 0 {
				t.Errorf("%q does not find itself", s)
			}
		}
	}
	if diff := cmp.Diff(w.model(t), w.dump(t)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	for id := range w.Videos() {
		if err := w.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if rows := w.dump(t); len(rows) != 0 {
		t.Errorf("%d rows are left: %v", len(rows), rows)
	}
}

func TestTheRareWordDecidesTheCost(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	w := newWorld(t)
	cost := func(q Query) Result {
		r, err := w.Search(t.Context(), q, 10, "")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var before Result
	for i := range 150 {
		title := "common words everywhere"
		if i%50 == 7 { // 3 of them
			title += " unicorn"
		}
		w.sync(t, newVideo(title, time.Duration(i)*time.Minute))
		if i == 57 {
			before = cost(Query{Q: "common words everywhere unicorn"})
		}
	}
	after := cost(Query{Q: "common words everywhere unicorn"})
	if len(before.Hits) != 2 || len(after.Hits) != 3 {
		t.Fatalf("%d and %d hits, want 2 and 3", len(before.Hits), len(after.Hits))
	}
	t.Logf("2 hits of 58 videos, 3 of 150: %d and %d rows, %d and %d requests",
		before.EntitiesRead, after.EntitiesRead, before.Requests, after.Requests)
	if after.EntitiesRead > 50 || after.Requests > 25 {
		t.Errorf("3 rows of 150 cost %d rows in %d requests", after.EntitiesRead, after.Requests)
	}
	if none := cost(Query{Q: "common absent words"}); none.EntitiesRead > 20 || none.Requests > 25 {
		t.Errorf("nothing cost %d rows in %d requests", none.EntitiesRead, none.Requests)
	}
	if page := cost(Query{Q: "common words"}); len(page.Hits) != 10 || page.EntitiesRead > 60 {
		t.Errorf("a page of 10 of 150 cost %d rows in %d requests", page.EntitiesRead, page.Requests)
	}
	ctx, meter := azstore.WithCounter(t.Context())
	if _, err := w.Search(ctx, Query{Q: "comm"}, 10, ""); err != nil {
		t.Fatal(err)
	}
	if n := meter.ByClass(tablestore.Scan) + meter.ByClass(tablestore.PartitionRange); n != 0 {
		t.Errorf("%d requests were more than row ranges", n)
	}
}

func TestCommonBeginnings(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	w := newWorld(t)
	for i := range 30 { // 60 terms that begin with "s", more than maxExpand
		w.sync(t, newVideo(fmt.Sprintf("s%da s%db number %d", i, i, i%3), time.Duration(i)*time.Minute))
	}
	w.sync(t, newVideo("other", 0))
	for _, q := range []Query{{Q: "s"}, {Q: "number s"}, {Title: "s"}, {Q: "2 s"}, {Q: "s1"}, {Actor: "s"}} {
		for _, limit := range []int{4, 100} {
			if diff := cmp.Diff(w.scan(t, q), w.pages(t, q, limit)); diff != "" {
				t.Errorf("%+v by %d (-want +got):\n%s", q, limit, diff)
			}
		}
	}
	if n := len(w.pages(t, Query{Q: "s"}, 7)); n != 30 {
		t.Errorf("%d hits, want 30", n)
	}
}

func TestPagesStayInPlaceUnderInserts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 9 {
		w.sync(t, newVideo("the film", time.Duration(i)*time.Minute))
	}
	want := w.scan(t, Query{Q: "film the"})
	got := []engine.ID{}
	for token, n := "", 0; ; n++ {
		r, err := w.Search(t.Context(), Query{Q: "film the"}, 2, token)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Hits...)
		if token = r.Next; token == "" {
			break
		}
		w.sync(t, newVideo("the film", -time.Duration(n+1)*time.Minute)) // newer: before the place
		if n == 1 {
			w.Gone(got[len(got)-1]) // the row that the token names
			if err := w.Remove(t.Context(), got[len(got)-1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTokensAndLongQueriesAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 3 {
		w.sync(t, newVideo("film", time.Duration(i)*time.Minute))
	}
	r, err := w.Search(t.Context(), Query{Q: "film"}, 1, "")
	if err != nil || r.Next == "" {
		t.Fatalf("next %q, %v", r.Next, err)
	}
	for name, c := range map[string]struct {
		q     Query
		token string
	}{
		"other query": {Query{Q: "films"}, r.Next},
		"other field": {Query{Title: "film"}, r.Next},
		"damaged":     {Query{Q: "film"}, r.Next + "A"},
		"garbage":     {Query{Q: "film"}, "'"},
		"other order": {Query{Q: "film", Sort: Best}, r.Next},
		"forged":      {Query{Q: "film"}, tablestore.Token(`{"q":"film"}`, "' or true")},
		"forged from": {Query{Q: "film"}, tablestore.Token(`{"q":"film"}`, `{"from":"' or true"}`)},
		"forged skip": {
			Query{Q: "film"},
			tablestore.Token(`{"q":"film"}`, `{"from":"`+catalog.Place(start, engine.NewID())+`","skip":-1}`),
		},
	} {
		if _, err := w.Search(t.Context(), c.q, 1, c.token); !errors.Is(err, tablestore.ErrToken) {
			t.Errorf("%s: %v, want ErrToken", name, err)
		}
	}
	var words []string
	for i := range MaxWords + 1 {
		words = append(words, fmt.Sprint("w", i))
	}
	if _, err := w.Search(t.Context(), Query{Q: strings.Join(words, " ")}, 1, ""); !errors.Is(err, ErrQueryTooLong) {
		t.Errorf("%d words: %v, want ErrQueryTooLong", len(words), err)
	}
	long := newVideo(strings.Join(words[:MaxWords], " "), 0)
	w.sync(t, long)
	if diff := cmp.Diff([]engine.ID{long.ID}, w.pages(t, Query{Q: long.Title}, 5)); diff != "" {
		t.Errorf("%d words (-want +got):\n%s", MaxWords, diff)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`"a b" c`, `"`, `""`, "東京 \"x", "O'Brien’s", "__\x00\xff", `"a"b"c"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := parse(Query{Q: s, Tag: s})
		if err != nil {
			if !errors.Is(err, ErrQueryTooLong) {
				t.Fatal(err)
			}
			return
		}
		for _, clause := range c {
			if clause.phrase {
				continue
			}
			pk, rk := termKeys(clause.term)
			if clause.term == "" || pk == "" || len([]rune(rk)) > tablestore.MaxKeyUnits {
				t.Errorf("%q: term %q has keys %q, %q", s, clause.term, pk, rk)
			}
			if term, ok := termOf(postingKey(anyField, clause.term, "a")); !ok || term != clause.term {
				t.Errorf("%q: term %q comes back as %q", s, clause.term, term)
			}
		}
	})
}
