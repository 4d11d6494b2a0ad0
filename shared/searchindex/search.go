package searchindex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/rowstream"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
)

const (
	// maxExpand is how many lists are merged for the beginning of a word. If more
	// terms begin so, it is cheaper to read the terms of each candidate.
	maxExpand = 48
	// maxLists is how many lists are intersected. For further words, the shorter ones,
	// the terms of each candidate are read.
	maxLists = 8
	// scanTime bounds one scan for hits, whose requests follow one another. A search that
	// reaches it returns the hits so far and a token to continue. A page is one scan, or two
	// when it is a later page with facets, and the API answers within 10 s.
	scanTime = 3 * time.Second
	maxAhead = 500 // rows that one request asks for
	fewAhead = 4
)

// Result is a page of hits.
type Result struct {
	Hits []engine.ID
	// Next is the token of the next page, "" at the end. A page may be shorter than
	// the limit, even empty, and still have a next one, because the cost of a page
	// is bounded.
	Next string
	// DidYouMean is the query that was answered instead, or nil. It is set when
	// words of the asked query occur in no video and differ by one typo from words
	// that do.
	DidYouMean *Query
	// Facets are about all hits, not about the page; nil if they were not asked for.
	Facets *Facets
	// EntitiesRead and Requests are what this page cost (paper row T5).
	EntitiesRead int
	Requests     int
}

// Search finds videos, limit on a page, from 1 to 100. A query without words finds
// nothing.
//
// The cost is proportional to the list of the rarest word and to the page, however
// common the other words are. A page in the order Best reads up to MaxRanked hits,
// and facets read up to MaxCounted.
//
// A video that is added or removed between two pages does not make another one
// appear twice. It does not hide another one either, with one exception: in the
// order Best, a removed video moves the following hits up by one, so the next page
// may leave one out. Errors: tablestore.ErrToken, ErrQueryTooLong.
func (x *Index) Search(ctx context.Context, q Query, limit int, token string) (Result, error) {
	ctx, meter := azstore.WithCounter(ctx)
	words, _ := json.Marshal(q)             // texts always encode
	asked := string(words) + string(q.Sort) // a token is for one list
	at, err := readCursor(asked, token)
	if err != nil {
		return Result{}, err
	}
	if at.Corrected != nil {
		at.Corrected.Sort, at.Corrected.Facets = q.Sort, q.Facets
		q = *at.Corrected
	}
	result, next, err := x.page(ctx, q, limit, at)
	if err == nil && token == "" && len(result.Hits) == 0 && next == nil {
		if at.Corrected, err = x.correct(ctx, q); at.Corrected != nil {
			result, next, err = x.page(ctx, *at.Corrected, limit, at)
		}
	}
	if err != nil {
		return Result{}, fmt.Errorf("searching: %w", err)
	}
	if len(result.Hits) > 0 || next != nil {
		result.DidYouMean = at.Corrected
	}
	if next != nil {
		next.Corrected = at.Corrected
		content, _ := json.Marshal(next)
		result.Next = tablestore.Token(asked, string(content))
	}
	result.EntitiesRead, result.Requests = meter.Counts().Rows, meter.Requests()
	return result, nil
}

// cursor is where a page begins: the content of a token.
type cursor struct {
	From string `json:"from"` // the place where reading begins

	// Until is set in the order Best: the hits from From to Until are ranked, and
	// Skip of them were shown.
	Until string `json:"until,omitempty"`
	Skip  int    `json:"skip,omitempty"`

	Corrected *Query `json:"corrected,omitempty"` // the query that is answered instead
}

func readCursor(asked, token string) (cursor, error) {
	var at cursor
	content, err := tablestore.Place(asked, token)
	if err != nil || token == "" {
		return at, err
	}
	err = json.Unmarshal([]byte(content), &at)
	if err != nil || !catalog.IsPlace(at.From) || at.Until != "" && !catalog.IsPlace(at.Until) || at.Skip < 0 || at.Skip > MaxRanked {
		return at, tablestore.ErrToken
	}
	return at, nil
}

// page reads the page that begins at a cursor. next is nil at the end.
func (x *Index) page(ctx context.Context, q Query, limit int, at cursor) (result Result, next *cursor, err error) {
	plan, err := x.plan(ctx, q)
	if err != nil {
		return result, nil, err
	}
	first, most := at.From == "", limit
	if q.Sort == Best {
		most = MaxRanked
	}
	if q.Facets && first { // one scan for the hits and the facets
		most = max(most, MaxCounted)
	}
	found, err := x.scan(ctx, plan, at, most)
	if err == nil && q.Facets {
		all := found
		if !first {
			all, err = x.scan(ctx, plan, cursor{}, MaxCounted)
		}
		result.Facets = countFacets(all.first(MaxCounted))
	}
	if err != nil {
		return result, nil, err
	}
	page := found.first(limit)
	if q.Sort == Best {
		page.rows, next = bestOf(q, plan, found, limit, at)
	} else if page.rest != "" {
		next = &cursor{From: page.rest}
	}
	for _, row := range page.rows {
		result.Hits = append(result.Hits, row.Value.ID)
	}
	return result, next, nil
}

type hit = rowstream.Row[document]

// hits are newest first. rest is the place where further ones may follow, or "".
type hits struct {
	rows []hit
	rest string
}

func (h hits) first(n int) hits {
	if len(h.rows) <= n {
		return h
	}
	return hits{h.rows[:n], rowstream.KeyAfter(h.rows[n-1].Key)}
}

// scan reads hits from a place on, most of them at the most. It stops at at.Until, and at
// the scan's time, but not before it got on.
func (x *Index) scan(ctx context.Context, plan []source, at cursor, most int) (found hits, _ error) {
	if len(plan) == 0 {
		return found, nil
	}
	begun := time.Now()
	candidates := &rowstream.Intersection[document]{Lists: x.lists(plan, most), Stop: func(from string) bool {
		if time.Since(begun) > x.scanTime && from != at.From {
			found.rest = from
		}
		return found.rest != ""
	}}
	for row, err := range rowstream.All(ctx, candidates, at.From) {
		switch {
		case err != nil:
			return found, err
		case at.Until != "" && row.Key >= at.Until:
			found.rest = at.Until
			return found, nil
		}
		ok, err := x.holds(ctx, row.Value.ID, plan)
		if err != nil {
			return found, err
		}
		if ok {
			found.rows = append(found.rows, row)
		}
		if len(found.rows) > most {
			return found.first(most), nil
		}
	}
	return found, nil
}

// source is a clause of a query and how it is answered: by the lists of all terms that
// fulfil it, which are intersected with those of the others, or by the words of each
// candidate.
type source struct {
	clause
	entries []entry
	listed  bool // the entries are all terms, no more than maxExpand
}

func (x *Index) plan(ctx context.Context, q Query) ([]source, error) {
	clauses, err := parse(q)
	if err != nil {
		return nil, err
	}
	plan := make([]source, len(clauses))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, c := range clauses {
		plan[i].clause = c
		if i < maxLists && !c.phrase {
			group.Go(func() (err error) {
				plan[i].entries, plan[i].listed, err = x.resolve(ctx, c)
				return err
			})
		}
	}
	return plan, group.Wait()
}

// resolve finds the terms that fulfil a clause, and reports whether these are all.
func (x *Index) resolve(ctx context.Context, c clause) (entries []entry, all bool, err error) {
	entries, all = []entry{{term: c.term}}, true
	if c.prefix {
		entries, all, err = x.expand(ctx, c.term, maxExpand)
	}
	if c.exact || !all || err != nil {
		return entries, all, err
	}
	forms, err := x.forms(ctx, c.term)
	for _, form := range forms {
		if !slices.ContainsFunc(entries, func(e entry) bool { return e.term == form.term }) {
			entries = append(entries, form)
		}
	}
	return entries, all, err
}

// lists opens the lists of a plan. Of a single one all rows are hits, so about as many are
// read at once as are wanted, which is most. Of several, only the rows that are in all of
// them count: few are read at first, and more as long as they are of use.
func (x *Index) lists(plan []source, most int) (lists []rowstream.List[document]) {
	listed := slices.DeleteFunc(slices.Clone(plan), func(s source) bool { return !s.listed })
	ahead := min(most, maxAhead) + 1
	if len(listed) > 1 {
		ahead = fewAhead
	}
	for _, s := range listed {
		lists = append(lists, x.list(s.field, ahead, s.entries...))
	}
	if len(lists) == 0 { // every clause has too many terms: check all videos
		lists = append(lists, x.list(allVideos, ahead/shards+2, entry{}))
	}
	return lists
}

// holds reports whether a candidate's own words fulfil what has no lists: a point query.
func (x *Index) holds(ctx context.Context, id engine.ID, plan []source) (bool, error) {
	if !slices.ContainsFunc(plan, func(s source) bool { return !s.listed }) {
		return true, nil
	}
	row, err := x.postings.Get(ctx, videoKey(id), textRow)
	var texts document
	if err == nil {
		texts, err = tablestore.Decode(ctx, x.postings, row, readDocument)
	}
	switch {
	case errors.Is(err, tablestore.ErrNotFound), errors.Is(err, tablestore.ErrUnreadable):
		return false, nil // on its way out of the index, or damaged
	case err != nil:
		return false, err
	}
	fields := texts.analyse()
	return !slices.ContainsFunc(plan, func(s source) bool {
		return !s.listed && !anyOf(s.field, func(f field) bool { return s.in(fields[f], texts.Language) })
	}), nil
}

// anyOf asks about field f, or about all fields for anyField.
func anyOf(f field, ask func(field) bool) bool {
	if f != anyField {
		return ask(f)
	}
	return slices.ContainsFunc(listed, ask) || ask(description)
}
