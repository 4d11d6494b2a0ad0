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
	// maxRequests and maxRead bound the cost of one page. A search that reaches
	// them returns what it has and a token to go on.
	maxRequests = 400
	maxRead     = 5000
)

// ErrBadToken says that a page token is damaged, forged or another query's.
var ErrBadToken = rowstream.ErrBadToken

// Result is a page of hits, newest first.
type Result struct {
	Hits []catalog.Summary
	// Next is the token of the next page, "" at the end. A page that was
	// expensive to find may be shorter than asked for, even empty, and have one.
	Next string
	// EntitiesRead and Requests are what this page cost (paper row T5).
	EntitiesRead int
	Requests     int
}

// errSpent ends a search that has reached its limit of cost.
var errSpent = errors.New("search has reached its limit of cost")

// Search finds videos. limit is clamped as in package catalog. A query without
// any word finds nothing. The cost is proportional to the rarest word's list,
// however common the others are, and to the page. Videos that come or go between
// two pages neither repeat nor hide others. ErrBadToken, ErrQueryTooLong.
func (x *Index) Search(ctx context.Context, q Query, limit int, token string) (Result, error) {
	ctx, meter := tablestore.WithMeter(ctx)
	result, err := x.search(ctx, meter, q, limit, token)
	if err != nil {
		return Result{}, fmt.Errorf("searching: %w", err)
	}
	result.EntitiesRead, result.Requests = meter.EntitiesRead(), meter.Requests()
	return result, nil
}

func (x *Index) search(ctx context.Context, meter *tablestore.Meter, q Query, limit int, token string) (Result, error) {
	var result Result
	name, err := json.Marshal(q)
	if err != nil {
		return result, err
	}
	from, err := rowstream.Place(string(name), token)
	if err != nil {
		return result, err
	}
	if _, _, ok := catalog.ParsePlace(strings.TrimSuffix(from, rowstream.After(""))); from != "" && !ok {
		return result, ErrBadToken
	}
	conditions, err := parse(q)
	if err != nil || len(conditions.clauses) == 0 {
		return result, err
	}
	switch {
	case limit <= 0:
		limit = catalog.DefaultLimit
	case limit > catalog.MaxLimit:
		limit = catalog.MaxLimit
	}
	lists, checks, err := x.plan(ctx, conditions, limit)
	if err != nil || lists == nil {
		return result, err
	}
	start, reached := from, from
	candidates := &rowstream.Intersection{Lists: lists, Step: func(from string) error {
		reached = from
		if from != start && (meter.Requests() > maxRequests || meter.EntitiesRead() > maxRead) {
			return errSpent
		}
		return nil
	}}
	for last := ""; ; {
		row, ok, err := candidates.Seek(ctx, from)
		switch {
		case errors.Is(err, errSpent):
			result.Next = rowstream.Token(string(name), reached)
			return result, nil
		case err != nil || !ok:
			return result, err
		}
		from = rowstream.After(row.RowKey)
		if checks != nil {
			if ok, err := x.holds(ctx, row, checks); err != nil || !ok {
				if err != nil {
					return result, err
				}
				continue
			}
		}
		if len(result.Hits) == limit {
			result.Next = rowstream.Token(string(name), rowstream.After(last))
			return result, nil
		}
		result.Hits = append(result.Hits, catalog.SummaryFrom(row))
		last = row.RowKey
	}
}

// plan turns clauses into lists, the shortest first, and the rest into checks.
// No lists means that nothing can match.
func (x *Index) plan(ctx context.Context, c conditions, limit int) (lists []rowstream.List, checks *conditions, err error) {
	type source struct {
		clause
		entries []entry
		videos  int
		wide    bool
	}
	sources := make([]source, len(c.clauses))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, clause := range c.clauses {
		group.Go(func() error {
			s := source{clause: clause}
			var err error
			if clause.prefix {
				var all bool
				s.entries, all, err = x.expand(ctx, clause.field, clause.term, maxExpand)
				s.wide = !all
			} else {
				s.entries, err = x.lookUp(ctx, clause.field, clause.term)
			}
			for _, e := range s.entries {
				s.videos += e.videos
			}
			sources[i] = s
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	rest := conditions{phrases: c.phrases}
	slices.SortStableFunc(sources, func(a, b source) int { return cmp.Compare(a.videos, b.videos) })
	for _, s := range sources {
		switch {
		case len(s.entries) == 0:
			return nil, nil, nil
		case s.wide || len(lists) == maxLists:
			rest.clauses = append(rest.clauses, s.clause)
			continue
		}
		ahead := 0
		if len(lists) == 0 { // every row of the first list is looked at
			ahead = min(limit, s.videos) + 1
		}
		union := &rowstream.Union{}
		for _, e := range s.entries {
			union.Lists = append(union.Lists, x.list(s.field, e.term, max(0, min(ahead, e.videos+1))))
		}
		lists = append(lists, union)
	}
	if len(lists) == 0 { // only beginnings that are very common
		lists = []rowstream.List{x.list(allVideos, "", limit/AllShards+2)}
	}
	if len(rest.clauses)+len(rest.phrases) > 0 {
		checks = &rest
	}
	return lists, checks, nil
}

// holds compares a candidate's own words with the conditions: a point query.
func (x *Index) holds(ctx context.Context, candidate tablestore.Entity, c *conditions) (bool, error) {
	id := video.ID(candidate.String("Id"))
	row, err := x.postings.Get(ctx, videoKey(id), textRow)
	if errors.Is(err, tablestore.ErrNotFound) {
		return false, nil // on its way out of the index
	}
	if err != nil {
		return false, fmt.Errorf("reading words of %s: %w", id, err)
	}
	for _, clause := range c.clauses {
		if !anyOf(clause.field, func(f field) bool {
			return clause.in(strings.Fields(row.String(propertyOf(f, "Terms"))))
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
