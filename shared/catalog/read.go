package catalog

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/rowstream"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// Sort is the order of a channel's videos.
type Sort string

// The orders. Whatever is not ByTitle is Newest.
const (
	Newest  Sort = "newest"
	ByTitle Sort = "title" // case and accents do not count
)

// Channel lists a page of a channel's videos: one row range scan (T5). limit is from 1
// to 1000, next is the token of the following page, "" at the end. A video that is added or removed
// between two pages does not make another one appear twice or not at all. Error:
// tablestore.ErrToken.
func (c *Catalog) Channel(ctx context.Context, channel string, sort Sort, limit int, token string) (page []video.ID, next string, err error) {
	prefix := newPrefix
	if sort == ByTitle {
		prefix = titlePrefix
	}
	_, next, err = c.catalog.Page(ctx, tablestore.Query{
		PartitionKey: channelKey(channel), RowFrom: prefix, RowTo: tablestore.PrefixEnd(prefix),
		PageSize: int32(limit), Class: tablestore.RowRange, Read: tablestore.Into(&page, IDOf),
	}, token)
	if err != nil {
		return nil, "", fmt.Errorf("listing channel: %w", err)
	}
	return page, next, nil
}

const recentQuery = "recent"

// Recent lists a page of all videos, newest first. It costs a row range scan for
// each two months of the list of months, and RecentShards for each month that the
// page needs (T5). limit and next are as in Channel. Error: tablestore.ErrToken.
func (c *Catalog) Recent(ctx context.Context, limit int, token string) (page []video.ID, next string, err error) {
	from, err := tablestore.Place(recentQuery, token)
	if err == nil {
		page, next, err = c.recentFrom(ctx, from, limit)
	}
	if err != nil {
		return nil, "", fmt.Errorf("listing recent videos: %w", err)
	}
	return page, next, nil
}

func (c *Catalog) recentFrom(ctx context.Context, from string, limit int) (page []video.ID, next string, err error) {
	latest := "" // month
	if from != "" {
		created, _, ok := ParsePlace(strings.TrimSuffix(from, rowstream.KeyAfter("")))
		if !ok {
			return nil, "", tablestore.ErrToken
		}
		latest = monthRow(created)
	}
	for month, err := range c.recent.Query(ctx, tablestore.Query{
		PartitionKey: monthsKey, RowFrom: latest, Select: []string{"RowKey"}, PageSize: monthsAhead, Class: tablestore.RowRange,
		Read: func(row tablestore.Entity) error { _, err := tablestore.ParseInvertedTime(row.RowKey); return err },
	}) {
		if err != nil {
			return nil, "", err
		}
		begin, _ := tablestore.ParseInvertedTime(month.RowKey)
		for list := c.month(begin, limit); ; {
			row, more, err := list.Seek(ctx, from)
			if err != nil {
				return nil, "", err
			}
			if !more {
				break
			}
			if len(page) == limit {
				return page, tablestore.Token(recentQuery, from), nil
			}
			id, _ := IDOf(row)
			page, from = append(page, id), rowstream.KeyAfter(row.RowKey)
		}
	}
	return page, "", nil
}

// monthsAhead is how many months are read with one request; a page rarely needs more.
const monthsAhead = 2

// month is the list of a month's videos.
func (c *Catalog) month(begin time.Time, limit int) *rowstream.Union {
	list := &rowstream.Union{}
	for shard := range RecentShards {
		list.Lists = append(list.Lists, &rowstream.Partition{
			Table: c.recent, PartitionKey: recentKey(begin, shard),
			Ahead: int32(limit/RecentShards + 2), // an even spread, and a little more
			Read:  func(row tablestore.Entity) error { _, err := IDOf(row); return err },
		})
	}
	return list
}
