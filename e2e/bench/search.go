package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cutroom/cutroom/e2e/report"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/video"
)

// question is one way to ask, with the same answers in a library of any size.
type question struct {
	name string
	hits int
	ask  func(context.Context, *shelf) (hits int, err error)
}

var questions = []question{
	{"search, rare word", 10, inSearch(searchindex.Query{Q: needle})},
	{"search, rare and common word", -1, func(ctx context.Context, s *shelf) (int, error) {
		return inSearch(searchindex.Query{Q: fmt.Sprintf("%q %q", s.library.common(), needle)})(ctx, s)
	}},
	{"search, beginning of a word", 10, inSearch(searchindex.Query{Q: needle[:5]})},
	{"search, one letter wrong", 10, inSearch(searchindex.Query{Q: "quixxotic"})},
	{"search, channel and word", 10, inSearch(searchindex.Query{Title: needle, Channel: `"` + channelOfTen + `"`})},
	{"search, best match first", 10, inSearch(searchindex.Query{Q: needle, Sort: searchindex.Best})},
	{"search, with facets", 10, inSearch(searchindex.Query{Q: needle, Facets: true})},
	{"search, common word, a page of 20", 20, func(ctx context.Context, s *shelf) (int, error) {
		return inSearch(searchindex.Query{Q: fmt.Sprintf("%q", s.library.common())})(ctx, s)
	}},
	{"channel, newest first", 10, inChannel(catalog.Newest)},
	{"channel, by title", 10, inChannel(catalog.ByTitle)},
	{"recent videos, a page of 20", 20, func(ctx context.Context, s *shelf) (int, error) {
		page, _, err := s.catalog.Recent(ctx, 20, "")
		return len(page), err
	}},
}

func inSearch(q searchindex.Query) func(context.Context, *shelf) (int, error) {
	return func(ctx context.Context, s *shelf) (int, error) {
		found, err := s.index.Search(ctx, q, 20, "")
		return len(found.Hits), err
	}
}

func inChannel(sort catalog.Sort) func(context.Context, *shelf) (int, error) {
	return func(ctx context.Context, s *shelf) (int, error) {
		page, _, err := s.catalog.Channel(ctx, channelOfTen, sort, 20, "")
		return len(page), err
	}
}

// shelf is a library in tables.
type shelf struct {
	library library
	catalog *catalog.Catalog
	index   *searchindex.Index
	tables  map[string]*tablestore.Table
	rows    map[string]int
	loaded  time.Duration
}

// effort is what one question cost.
type effort struct {
	hits, requests, rows int
	took                 time.Duration
}

// search asks the same questions of a small and a large library. What counts is
// the numbers of requests and of rows that came back: on Azure they are the time
// and the money, and they must not grow. The emulator looks at every row of a
// table for every query, so its time does grow; the last line, a bare range query
// on the largest table, shows by how much.
func search(ctx context.Context, b *bench) (report.Section, error) {
	sizes := pick(b, []int{300, 1000}, []int{1000, 10_000})
	var efforts [2][]effort
	var bare [2]time.Duration
	result := report.Section{Rows: [][]string{{"question", "hits", "requests", "rows read",
		fmt.Sprintf("%d videos", sizes[0]), fmt.Sprintf("%d videos", sizes[1])}}}
	for i, size := range sizes {
		err := withShelf(ctx, b, size, func(s *shelf) error {
			var err error
			if bare[i], err = s.bareRange(ctx); err != nil {
				return err
			}
			for _, q := range questions {
				e, err := s.measure(ctx, q)
				if err != nil {
					return err
				}
				efforts[i] = append(efforts[i], e)
			}
			var perTable string
			for _, name := range indexTables {
				perTable += fmt.Sprintf(", %s %d", name, s.rows[name])
			}
			result.Notes = append(result.Notes, fmt.Sprintf("%d videos: loaded in %s; rows%s", size, seconds(s.loaded), perTable[1:]))
			return nil
		})
		if err != nil {
			return report.Section{}, err
		}
	}
	var requests, rows float64 // the worst growth
	for i, q := range questions {
		small, large := efforts[0][i], efforts[1][i]
		if small.hits != large.hits || q.hits >= 0 && small.hits != q.hits {
			return report.Section{}, fmt.Errorf("%s: %d hits and %d hits", q.name, small.hits, large.hits)
		}
		requests = max(requests, float64(large.requests)/float64(small.requests))
		rows = max(rows, float64(large.rows)/float64(max(small.rows, 1)))
		result.Rows = append(result.Rows, []string{q.name, strconv.Itoa(small.hits), both(small.requests, large.requests), both(small.rows, large.rows),
			milliseconds(small.took), milliseconds(large.took)})
	}
	result.Rows = append(result.Rows, []string{"a bare range query of 20 postings", "20", "1", "20", milliseconds(bare[0]), milliseconds(bare[1])})
	result.Notes = append(result.Notes, "common words are in quotes: without, each word costs some requests more for each of its other forms that the library has")
	result.Bounds = []report.Bound{
		{Name: "requests, large library ÷ small one, worst question", Value: requests, Target: 1, AtMost: true},
		{Name: "rows read, large library ÷ small one, worst question", Value: rows, Target: 1, AtMost: true},
	}
	return result, nil
}

func both(small, large int) string {
	if small == large {
		return strconv.Itoa(small)
	}
	return fmt.Sprintf("%d → %d", small, large)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

// indexTables are those that the library fills.
var indexTables = []string{
	catalog.CatalogTable, catalog.RecentTable, searchindex.PostingsTable, searchindex.TermsTable, searchindex.VariantsTable,
}

// withShelf fills the tables of an emulator of its own.
func withShelf(ctx context.Context, b *bench, size int, use func(*shelf) error) (err error) {
	emulator, err := azurite.Start(ctx, azurite.Options{InMemory: true})
	if err != nil {
		return err
	}
	defer func() { _ = emulator.Stop() }()
	account, err := azstore.Open(azstore.Config{ConnectionString: emulator.ConnectionString()})
	if err != nil {
		return err
	}
	defer account.CloseIdle()
	if err := account.Ensure(ctx, azstore.Names{Tables: indexTables}); err != nil {
		return err
	}
	s := &shelf{
		library: library{newest: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}, catalog: catalog.New(account), index: searchindex.New(account),
		tables: map[string]*tablestore.Table{}, rows: map[string]int{},
	}
	videos := make([]video.Video, size)
	for i := range videos {
		videos[i] = s.library.video(i, size)
	}
	b.say("loading %d videos", size)
	began := time.Now()
	if _, err := s.catalog.Load(ctx, videos); err != nil {
		return err
	}
	if err := s.index.Load(ctx, videos); err != nil {
		return err
	}
	s.loaded = time.Since(began)
	for _, name := range indexTables {
		s.tables[name] = tablestore.New(account, name)
		for _, err := range s.tables[name].Query(ctx, tablestore.Query{Select: []string{"RowKey"}, Class: tablestore.Scan}) {
			if err != nil {
				return err
			}
			s.rows[name]++
		}
	}
	return use(s)
}

// repeats is how often a question is asked; the median counts.
const repeats = 7

func (s *shelf) measure(ctx context.Context, q question) (e effort, err error) {
	times := make([]time.Duration, repeats)
	for i := range times {
		metered, meter := azstore.WithCounter(ctx)
		began := time.Now()
		if e.hits, err = q.ask(metered, s); err != nil {
			return e, fmt.Errorf("%s: %w", q.name, err)
		}
		times[i] = time.Since(began)
		e.requests, e.rows = meter.Requests(), meter.Counts().Rows
	}
	slices.Sort(times)
	e.took = times[repeats/2]
	return e, nil
}

// bareRange is one range query of 20 rows on the largest table.
func (s *shelf) bareRange(ctx context.Context) (time.Duration, error) {
	times := make([]time.Duration, repeats)
	for i := range times {
		began := time.Now()
		rows, _, err := s.tables[searchindex.PostingsTable].Page(ctx, tablestore.Query{
			PartitionKey: "any:" + s.library.common(), PageSize: 20, Class: tablestore.RowRange,
		}, "")
		if err != nil {
			return 0, err
		}
		if len(rows) != 20 {
			return 0, fmt.Errorf("a range query of 20 rows gave %d", len(rows))
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[repeats/2], nil
}
