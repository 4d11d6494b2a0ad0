package catalog

import (
	"context"
	"fmt"

	"github.com/cutroom/cutroom/shared/azstore/rowstream"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
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

// Recent lists a page of all videos, newest first: RecentShards row range scans (T5).
// limit and next are as in Channel. Error: tablestore.ErrToken.
func (c *Catalog) Recent(ctx context.Context, limit int, token string) (page []video.ID, next string, err error) {
	from, err := tablestore.Place(recentQuery, token)
	if err == nil && from != "" && !IsPlace(from) {
		err = tablestore.ErrToken
	}
	if err != nil {
		return nil, "", fmt.Errorf("listing recent videos: %w", err)
	}
	list := &rowstream.Union[video.ID]{}
	for shard := range RecentShards {
		list.Lists = append(list.Lists, &rowstream.Partition[video.ID]{
			Table: c.recent, PartitionKey: recentKey(shard), Read: IDOf,
			Ahead: int32(limit/RecentShards + 2), // an even spread, and a little more
		})
	}
	for row, err := range rowstream.All(ctx, list, from) {
		if err != nil {
			return nil, "", fmt.Errorf("listing recent videos: %w", err)
		}
		if len(page) == limit {
			return page, tablestore.Token(recentQuery, from), nil
		}
		page, from = append(page, row.Value), rowstream.KeyAfter(row.Key)
	}
	return page, "", nil
}
