package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cutroom/cutroom/shared/rowstream"
	"github.com/cutroom/cutroom/shared/tablestore"
)

// Sort is the order of a channel's videos.
type Sort string

// The orders.
const (
	Newest  Sort = "newest"
	ByTitle Sort = "title" // case and accents do not count
)

// MaxLimit is the longest page; a larger limit means this one, and one that is
// not positive means DefaultLimit.
const (
	MaxLimit     = 100
	DefaultLimit = 20
)

// ErrBadSort says that a Sort is not one of the constants.
var ErrBadSort = errors.New("sort is not newest or title")

// Channel lists a page of a channel's videos: one row range scan (T5). next is
// the token of the following page, "" at the end. A video that is added or removed
// between two pages does not make another one appear twice or not at all. Errors:
// tablestore.ErrToken, ErrBadSort.
func (c *Catalog) Channel(ctx context.Context, channel string, sort Sort, limit int, token string) (page []Summary, next string, err error) {
	prefix := ""
	switch sort {
	case Newest, "":
		prefix = newPrefix
	case ByTitle:
		prefix = titlePrefix
	default:
		return nil, "", fmt.Errorf("listing channel: %w: %q", ErrBadSort, sort)
	}
	_, next, err = c.catalog.Page(ctx, tablestore.Query{
		PartitionKey: channelKey(channel), RowFrom: prefix, RowTo: tablestore.PrefixEnd(prefix),
		PageSize: int32(Clamp(limit)), Class: tablestore.RowRange, Read: tablestore.Into(&page, SummaryFrom),
	}, token)
	if err != nil {
		return nil, "", fmt.Errorf("listing channel: %w", err)
	}
	return page, next, nil
}

const recentQuery = "recent"

// Recent lists a page of all videos, newest first. It costs a row range scan for
// each two months of the list of months, and RecentShards for each month that the
// page needs (T5). next is as in Channel. Error: tablestore.ErrToken.
func (c *Catalog) Recent(ctx context.Context, limit int, token string) (page []Summary, next string, err error) {
	from, err := tablestore.Place(recentQuery, token)
	if err != nil {
		return nil, "", fmt.Errorf("listing recent videos: %w", err)
	}
	latest := "" // month
	if from != "" {
		created, _, ok := ParsePlace(strings.TrimSuffix(from, rowstream.KeyAfter("")))
		if !ok {
			return nil, "", fmt.Errorf("listing recent videos: %w", tablestore.ErrToken)
		}
		latest = monthRow(created)
	}
	limit = Clamp(limit)
	last := ""
	for row, err := range c.recent.Query(ctx, tablestore.Query{
		PartitionKey: monthsKey, RowFrom: latest, Select: []string{"RowKey"}, PageSize: monthsAhead, Class: tablestore.RowRange,
		Read: func(row tablestore.Entity) error { _, err := tablestore.ParseInvertedTime(row.RowKey); return err },
	}) {
		if err != nil {
			return nil, "", fmt.Errorf("listing months: %w", err)
		}
		begin, _ := tablestore.ParseInvertedTime(row.RowKey)
		list := &rowstream.Union{}
		for shard := range RecentShards {
			list.Lists = append(list.Lists, &rowstream.Partition{
				Table: c.recent, PartitionKey: recentKey(begin, shard),
				Ahead: int32(limit/RecentShards + 2), // an even spread, and a little more
				Read:  readable,
			})
		}
		part, partLast, more, err := take(ctx, list, from, limit-len(page))
		if err != nil {
			return nil, "", fmt.Errorf("listing recent videos: %w", err)
		}
		page = append(page, part...)
		if partLast != "" {
			last = partLast
		}
		if more {
			return page, tablestore.Token(recentQuery, rowstream.KeyAfter(last)), nil
		}
	}
	return page, "", nil
}

// monthsAhead is how many months are read with one request; a page rarely needs more.
const monthsAhead = 2

// readable is for rows that carry a summary.
func readable(row tablestore.Entity) error { _, err := SummaryFrom(row); return err }

// take reads up to limit rows, and one more to know whether the list goes on. With
// limit 0 it reads that one only.
func take(ctx context.Context, list rowstream.List, from string, limit int) (page []Summary, last string, more bool, err error) {
	for {
		row, ok, err := list.Seek(ctx, from)
		if err != nil || !ok {
			return page, last, false, err
		}
		if len(page) == limit {
			return page, last, true, nil
		}
		summary, err := SummaryFrom(row)
		if err != nil {
			return page, last, false, err
		}
		page = append(page, summary)
		last, from = row.RowKey, rowstream.KeyAfter(row.RowKey)
	}
}

// Clamp is the length of a page that was asked for: DefaultLimit for 0, at most MaxLimit.
func Clamp(limit int) int {
	if limit <= 0 {
		return DefaultLimit
	}
	return min(limit, MaxLimit)
}
