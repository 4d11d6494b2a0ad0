// Package catalog lists videos: those of a channel, newest first or by title, and the newest
// of all. Its rows are derived from the table "videos"; shared/indexrows keeps them equal to it.
// Their keys: docs/data-model.md. Why the newest have a suffix: docs/key-design.md.
//
// Next: shared/searchindex, how a video is found by its words.
package catalog

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/rowstream"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/normalize"
	"github.com/cutroom/cutroom/shared/video"
)

// Tables of this package, base names.
const (
	CatalogTable = "catalog"
	RecentTable  = "recent"
)

// RecentShards is the number of partitions of table recent. A page costs that many
// requests, and the table takes RecentShards × 2,000 rows of 1 KiB a second on Azure. To
// change it, index every video again.
const RecentShards = 8

const (
	newPrefix     = "NEW:"
	titlePrefix   = "TITLE:"
	referenceRow  = "REF"
	maxFieldUnits = 400 // UTF-16 units of a channel or title in a key; 512 is the service's limit for all
)

// Catalog reads and keeps the lists. It is safe for concurrent use.
type Catalog struct {
	*indexrows.Keeper

	catalog *tablestore.Table
	recent  *tablestore.Table
}

// New returns the catalogue of an account, whose tables exist.
func New(a *azstore.Account) *Catalog {
	return &Catalog{
		catalog: tablestore.New(a, CatalogTable),
		recent:  tablestore.New(a, RecentTable),
		Keeper:  indexrows.New(a, CatalogTable, referenceRow, rowsOf, CatalogTable, RecentTable),
	}
}

// Listed reports whether the lists show a video: it is public, was uploaded, and
// is not being deleted.
func Listed(v video.Video) bool {
	return v.Visibility == video.Public && v.State != engine.AwaitingUpload && !v.State.Gone() &&
		(v.State != engine.Cancelled || !v.UploadedAt.IsZero()) // cancelled before it arrived
}

func rowsOf(v video.Video) []indexrows.Row {
	if !Listed(v) {
		return nil
	}
	row := func(table, pk, rk string) indexrows.Row {
		return indexrows.Row{Table: table, Entity: tablestore.Entity{
			PartitionKey: pk, RowKey: rk, Props: map[string]any{"Id": string(v.ID)},
		}}
	}
	channel, place := channelKey(v.Channel), Place(v.CreatedAt, v.ID)
	return []indexrows.Row{
		row(CatalogTable, channel, newPrefix+place),
		row(CatalogTable, channel, titleKey(v.Title, v.ID)),
		row(RecentTable, recentKey(tablestore.Shard(string(v.ID), RecentShards)), place),
	}
}

// IDOf reads whose row one of a list is: property Id, with which its RowKey ends.
func IDOf(row tablestore.Entity) (engine.ID, error) {
	id, err := engine.ParseID(row.String("Id"))
	if err == nil && !strings.HasSuffix(row.RowKey, tablestore.Separator+string(id)) {
		err = fmt.Errorf("its key is of another video than %s", id)
	}
	return id, err
}

// Place is the RowKey that sorts videos newest first: `<inverted time>__<id>`.
func Place(created time.Time, id engine.ID) string {
	return tablestore.InvertedTime(created) + tablestore.Separator + string(id)
}

// IsPlace reports whether a text is a Place, or the RowKey that follows one.
func IsPlace(text string) bool {
	inverted, id, _ := strings.Cut(strings.TrimSuffix(text, rowstream.KeyAfter("")), tablestore.Separator)
	_, badTime := tablestore.ParseInvertedTime(inverted)
	_, badID := engine.ParseID(id)
	return badTime == nil && badID == nil
}

func recentKey(shard int) string { return fmt.Sprintf("all~%d", shard) }

// titleEnd follows the title in a key, so that "cherry" comes before "cherry 2" and
// "cherry pie": a folded title has single spaces only, and no character of a key
// sorts before a space.
const titleEnd = "  "

// titleKey is the RowKey that sorts videos by title.
func titleKey(title string, id engine.ID) string {
	words := strings.Join(strings.Fields(normalize.Text(title)), " ")
	return titlePrefix + keyField(words) + titleEnd + tablestore.Separator + string(id)
}

// channelKey is the partition of a channel. No name gives the empty key.
func channelKey(channel string) string {
	if channel == "" {
		return "!" // EscapeKey writes two digits after it, so no channel has this key
	}
	return keyField(channel)
}

// keyField escapes a text for a key. A text that is too long is cut, and a hash of
// the whole keeps its key unique.
func keyField(text string) string {
	key := tablestore.EscapeKey(text)
	units := 0
	for i, r := range key {
		if units += utf16.RuneLen(r); units > maxFieldUnits {
			h := fnv.New64a()
			_, _ = h.Write([]byte(key))
			return fmt.Sprintf("%s~%016x", key[:i], h.Sum64())
		}
	}
	return key
}

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
func (c *Catalog) Channel(ctx context.Context, channel string, sort Sort, limit int, token string) (page []engine.ID, next string, err error) {
	prefix := newPrefix
	if sort == ByTitle {
		prefix = titlePrefix
	}
	_, next, err = c.catalog.Page(ctx, tablestore.Query{
		PartitionKey: channelKey(channel), RowFrom: prefix, RowTo: tablestore.PrefixEnd(prefix),
		PageSize: int32(limit), Class: tablestore.RowRange, Read: tablestore.Into(&page, IDOf),
	}, token)
	return page, next, err
}

const recentQuery = "recent"

// Recent lists a page of all videos, newest first: RecentShards row range scans (T5).
// limit and next are as in Channel. Error: tablestore.ErrToken.
func (c *Catalog) Recent(ctx context.Context, limit int, token string) (page []engine.ID, next string, err error) {
	from, err := tablestore.Place(recentQuery, token)
	if err == nil && from != "" && !IsPlace(from) {
		err = tablestore.ErrToken
	}
	if err != nil {
		return nil, "", err
	}
	list := &rowstream.Union[engine.ID]{}
	for shard := range RecentShards {
		list.Lists = append(list.Lists, &rowstream.Partition[engine.ID]{
			Table: c.recent, PartitionKey: recentKey(shard), Read: IDOf,
			Ahead: int32(limit/RecentShards + 2), // an even spread, and a little more
		})
	}
	for row, err := range rowstream.All(ctx, list, from) {
		if err != nil {
			return nil, "", err
		}
		if len(page) == limit {
			return page, tablestore.Token(recentQuery, from), nil
		}
		page, from = append(page, row.Value), rowstream.KeyAfter(row.Key)
	}
	return page, "", nil
}
