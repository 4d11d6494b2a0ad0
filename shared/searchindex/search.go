package searchindex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/rowstream"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

const (
	// maxExpand is how many terms a beginning may stand for to be merged as
	// lists. A shorter beginning is so common that it is cheaper to look at the
	// candidates' own terms.
	maxExpand = 48
	// maxLists is how many lists are intersected; further words are looked up
	// in the candidates' own terms.
	maxLists = 8
	// maxRequests and maxRead bound the cost of reading hits. A search that
	// reaches them returns what it has and a token to go on. A page reads hits
	// once, or twice when it is a later one with facets.
	maxRequests = 400
	maxRead     = 5000
	// maxAhead is how many rows are asked for at once, and maxBetween how many
	// rows are rather read than skipped with a request.
	maxAhead   = 500
	maxBetween = 16
)

// ErrBadToken says that a page token is damaged, forged or another query's.
var ErrBadToken = rowstream.ErrBadToken

// Result is a page of hits.
type Result struct {
	Hits []catalog.Summary
	// Next is the token of the next page, "" at the end. A page that was
	// expensive to find may be shorter than asked for, even empty, and have one.
	Next string
	// DidYouMean is the query that was answered instead, because words of the
	// one that was asked occur nowhere and are one typo off others; or nil.
	DidYouMean *Query
	// Facets, when asked for, are about all hits, not about the page.
	Facets *Facets
	// EntitiesRead and Requests are what this page cost (paper row T5).
	EntitiesRead int
	Requests     int
}

// errSpent ends a search that has reached its limit of cost.
var errSpent = errors.New("search has reached its limit of cost")

// Search finds videos. limit is clamped as in package catalog. A query without
// any word finds nothing. The cost is proportional to the rarest word's list,
// however common the others are, and to the page; a page in the order Best reads
// up to MaxRanked hits, and facets read up to MaxCounted. Videos that come or go
// between two pages neither repeat nor hide others, but that in the order Best
// one that goes may hide another. ErrBadToken, ErrQueryTooLong.
func (x *Index) Search(ctx context.Context, q Query, limit int, token string) (Result, error) {
	ctx, meter := tablestore.WithMeter(ctx)
	switch {
	case limit <= 0:
		limit = catalog.DefaultLimit
	case limit > catalog.MaxLimit:
		limit = catalog.MaxLimit
	}
	result, err := x.search(ctx, q, limit, token)
	if err != nil {
		return Result{}, fmt.Errorf("searching: %w", err)
	}
	if q.Facets && result.Facets == nil {
		result.Facets = &Facets{Complete: true}
	}
	result.EntitiesRead, result.Requests = meter.EntitiesRead(), meter.Requests()
	return result, nil
}

func (x *Index) search(ctx context.Context, q Query, limit int, token string) (Result, error) {
	asked, err := json.Marshal(q)
	if err != nil {
		return Result{}, err
	}
	at, err := readCursor(string(asked), token)
	if err != nil {
		return Result{}, err
	}
	if at.Corrected != nil {
		at.Corrected.Sort, at.Corrected.Facets = q.Sort, q.Facets
		q = *at.Corrected
	}
	result, next, doubtful, err := x.page(ctx, q, limit, at)
	if err == nil && token == "" && len(result.Hits) == 0 && next == nil {
		if at.Corrected, err = x.correct(ctx, q, doubtful); at.Corrected != nil {
			result, next, _, err = x.page(ctx, *at.Corrected, limit, at)
		}
	}
	if err != nil {
		return Result{}, err
	}
	if len(result.Hits) > 0 || next != nil {
		result.DidYouMean = at.Corrected
	}
	if next != nil {
		next.Corrected = at.Corrected
		content, err := json.Marshal(next)
		if err != nil {
			return Result{}, err
		}
		result.Next = rowstream.Token(string(asked), string(content))
	}
	return result, nil
}

// cursor is where a page begins: the content of a token.
type cursor struct {
	From string `json:"from"` // the place from which on hits are read

	// Until, in the order Best, is the end of the hits that are ranked, of which
	// Skip have been shown. Without it the page is of those that follow them.
	Until string `json:"until,omitempty"`
	Skip  int    `json:"skip,omitempty"`

	Corrected *Query `json:"corrected,omitempty"` // answered instead of what is asked
}

func readCursor(asked, token string) (cursor, error) {
	var at cursor
	content, err := rowstream.Place(asked, token)
	if err != nil || token == "" {
		return at, err
	}
	if err := json.Unmarshal([]byte(content), &at); err != nil || at.From == "" || at.Skip < 0 || at.Skip > MaxRanked {
		return at, ErrBadToken
	}
	for _, place := range []string{at.From, at.Until} {
		if _, _, ok := catalog.ParsePlace(strings.TrimSuffix(place, rowstream.After(""))); place != "" && !ok {
			return at, ErrBadToken
		}
	}
	return at, nil
}

// page reads the page that begins at a cursor. next is nil at the end. The
// doubtful words are those that no video has as they were typed.
func (x *Index) page(ctx context.Context, q Query, limit int, at cursor) (result Result, next *cursor, doubtful []clause, err error) {
	p, err := x.plan(ctx, q)
	if err != nil || p.empty {
		if p != nil {
			doubtful = p.doubtful
		}
		return result, nil, doubtful, err
	}
	first := at.From == ""
	ranked := q.Sort == Best && (first || at.Until != "")
	most := limit
	if ranked {
		most = MaxRanked
	}
	if q.Facets && first { // one scan does for both
		most = max(most, MaxCounted)
	}
	found, err := x.scan(ctx, p, at.From, most)
	if err != nil {
		return result, nil, nil, err
	}
	if q.Facets {
		all := found
		if !first {
			if all, err = x.scan(ctx, p, "", MaxCounted); err != nil {
				return result, nil, nil, err
			}
		}
		if result.Facets, err = countFacets(all.first(MaxCounted)); err != nil {
			return result, nil, nil, err
		}
	}
	var shown []tablestore.Entity
	if ranked {
		if shown, next, err = bestOf(q, p.conditions, found, limit, at); err != nil {
			return result, nil, nil, err
		}
	} else {
		page := found.first(limit)
		if shown = page.rows; page.rest != "" {
			next = &cursor{From: page.rest}
		}
	}
	for _, row := range shown {
		result.Hits = append(result.Hits, catalog.SummaryFrom(row))
	}
	return result, next, p.doubtful, nil
}

// hits are rows of the result, newest first, and the place from which on there
// may be more, or "".
type hits struct {
	rows []tablestore.Entity
	rest string
}

// first leaves the first n rows.
func (h hits) first(n int) hits {
	if len(h.rows) <= n {
		return h
	}
	return hits{h.rows[:n], rowstream.After(h.rows[n-1].RowKey)}
}

// scan reads at most most hits from a place on. It stops early when it has
// become too expensive.
func (x *Index) scan(ctx context.Context, p *plan, from string, most int) (hits, error) {
	ctx, meter := tablestore.WithMeter(ctx)
	var found hits
	start, reached := from, from
	candidates := &rowstream.Intersection{Lists: x.lists(p, most), Step: func(from string) error {
		reached = from
		if from != start && (meter.Requests() > maxRequests || meter.EntitiesRead() > maxRead) {
			return errSpent
		}
		return nil
	}}
	for {
		row, ok, err := candidates.Seek(ctx, from)
		switch {
		case errors.Is(err, errSpent):
			found.rest = reached
			return found, nil
		case err != nil || !ok:
			return found, err
		}
		from = rowstream.After(row.RowKey)
		if ok, err := x.holds(ctx, row, p.checks); err != nil || !ok {
			if err != nil {
				return found, err
			}
			continue
		}
		if found.rows = append(found.rows, row); len(found.rows) > most {
			return found.first(most), nil
		}
	}
}

// plan is how a query is answered: by an intersection of lists, the shortest
// first, and by looking at the candidates' own words for the rest.
type plan struct {
	conditions conditions
	lists      []source
	checks     conditions
	empty      bool     // nothing can match
	doubtful   []clause // no video has the words as they were typed
}

// source is the union of the lists of the terms that fulfil a clause.
type source struct {
	clause
	entries []entry
	videos  int
	wide    bool // there are more terms than entries
}

func (x *Index) plan(ctx context.Context, q Query) (*plan, error) {
	c, err := parse(q)
	if err != nil {
		return nil, err
	}
	sources := make([]source, len(c.clauses))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, clause := range c.clauses {
		group.Go(func() (err error) {
			sources[i], err = x.resolve(ctx, clause)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	p := &plan{conditions: c, checks: conditions{phrases: c.phrases}}
	slices.SortStableFunc(sources, func(a, b source) int { return cmp.Compare(a.videos, b.videos) })
	p.empty = len(sources) == 0
	for _, s := range sources {
		if !slices.ContainsFunc(s.entries, func(e entry) bool { return e.languages == nil }) {
			p.doubtful = append(p.doubtful, s.clause)
		}
		switch {
		case len(s.entries) == 0:
			p.empty = true
		case s.wide || len(p.lists) == maxLists:
			p.checks.clauses = append(p.checks.clauses, s.clause)
		default:
			p.lists = append(p.lists, s)
		}
	}
	return p, nil
}

// resolve finds the terms that fulfil a clause.
func (x *Index) resolve(ctx context.Context, c clause) (s source, err error) {
	s.clause = c
	if c.prefix {
		var all bool
		s.entries, all, err = x.expand(ctx, c.field, c.term, maxExpand)
		s.wide = !all
	} else {
		s.entries, err = x.lookUp(ctx, c.field, c.term)
	}
	if err == nil && !c.exact && !s.wide {
		var forms []entry
		forms, err = x.forms(ctx, c.field, c.term)
		for _, form := range forms {
			if !slices.ContainsFunc(s.entries, func(e entry) bool { return e.term == form.term }) {
				s.entries = append(s.entries, form)
			}
		}
	}
	for _, e := range s.entries {
		s.videos += e.videos
	}
	return s, err
}

// lists opens the lists of a plan, to read some most hits. Every row of the first
// list is looked at, and as many of the others' as lie between: those are read
// along when they are few, and skipped when they are many.
func (x *Index) lists(p *plan, most int) []rowstream.List {
	var lists []rowstream.List
	for _, s := range p.lists {
		between := s.videos / max(1, p.lists[0].videos)
		union := &rowstream.Union{}
		for _, e := range s.entries {
			ahead := 0
			if between <= maxBetween {
				ahead = min(most*between, e.videos, maxAhead) + 1
			}
			union.Lists = append(union.Lists, x.list(s.field, e, ahead))
		}
		lists = append(lists, union)
	}
	if len(lists) == 0 { // only beginnings that are very common
		return []rowstream.List{x.list(allVideos, entry{}, min(most, maxAhead)/AllShards+2)}
	}
	return lists
}

// holds compares a candidate's own words with the conditions: a point query.
func (x *Index) holds(ctx context.Context, candidate tablestore.Entity, c conditions) (bool, error) {
	if len(c.clauses)+len(c.phrases) == 0 {
		return true, nil
	}
	id := video.ID(candidate.String("Id"))
	row, err := x.postings.Get(ctx, videoKey(id), textRow)
	if errors.Is(err, tablestore.ErrNotFound) {
		return false, nil // on its way out of the index
	}
	if err != nil {
		return false, fmt.Errorf("reading words of %s: %w", id, err)
	}
	spoken := language(row.String(languageProperty))
	for _, clause := range c.clauses {
		if !anyOf(clause.field, func(f field) bool {
			return clause.in(strings.Fields(row.String(propertyOf(f, "Terms"))), spoken)
		}) {
			return false, nil
		}
	}
	for _, phrase := range c.phrases {
		if !anyOf(phrase.field, func(f field) bool {
			return holds(strings.Fields(row.String(propertyOf(f, "Words"))), phrase.words)
		}) {
			return false, nil
		}
	}
	return true, nil
}

// anyOf asks about field f, or about all fields for anyField.
func anyOf(f field, ask func(field) bool) bool {
	if f != anyField {
		return ask(f)
	}
	return slices.ContainsFunc(listed, ask) || ask(description)
}
