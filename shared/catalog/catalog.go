// Package catalog lists videos: those of a channel, newest first or by title,
// and the newest of all. Its rows are derived from the table "videos";
// shared/indexrows keeps them equal to it.
//
// # Table catalog
//
// PartitionKey: the channel, escaped (granularity "some", T4): its videos are asked for
// together. Each video has two rows, written in one entity-group transaction (T2, T7):
//
//	NEW:<inverted time>__<id>     newest first
//	TITLE:<folded title>  __<id>  alphabetical; see titleEnd for the two spaces
//
// Each order is read by a row range scan of its prefix (T5).
//
// # Table recent
//
// PartitionKey: `<yyyy-MM>~<n>`, n = hash(id) mod RecentShards. The month alone
// would be an append-only key that takes every write of the site (T3). The calculated
// suffix (S1, S3) spreads the writes, and the key of a known video can still be computed.
// RowKey: `<inverted time>__<id>`. A page merges RecentShards row range scans.
//
// Partition `MONTHS` has a row for each month that ever had a video, RowKey
// `<inverted time>` of its beginning. A page reads it to skip empty months.
//
// Next: shared/searchindex, how a video is found by its words.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/normalize"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// Tables of this package, base names.
const (
	CatalogTable = "catalog"
	RecentTable  = "recent"
)

// RecentShards is the number of partitions of a month. A page costs that many
// requests, and a month takes RecentShards × 2,000 writes a second on Azure. To
// change it, index every video again.
const RecentShards = 8

const (
	newPrefix     = "NEW:"
	titlePrefix   = "TITLE:"
	referenceRow  = "REF"
	monthsKey     = "MONTHS"
	monthFormat   = "2006-01"
	maxFieldUnits = 400 // UTF-16 units of a channel or title in a key; 512 is the service's limit for all
)

// Catalog reads and keeps the lists. It is safe for concurrent use.
type Catalog struct {
	*indexrows.Keeper

	catalog *tablestore.Table
	recent  *tablestore.Table

	months sync.Map // string to struct{}: months that have their row already
}

// New returns the catalogue of an account, whose tables exist.
func New(a *azstorage.Account) *Catalog {
	c := &Catalog{
		catalog: tablestore.New(a, CatalogTable),
		recent:  tablestore.New(a, RecentTable),
		Keeper:  indexrows.New(a, CatalogTable, referenceRow, CatalogTable, RecentTable),
	}
	c.Keeper.Rows = c.rowsOf
	return c
}

// Listed reports whether the lists show a video: it is public, was uploaded, and
// is not being deleted.
func Listed(v video.Video) bool {
	return v.Visibility == video.Public && v.State != video.AwaitingUpload && !v.State.Gone() &&
		(v.State != video.Cancelled || !v.UploadedAt.IsZero()) // cancelled before it arrived
}

// rowsOf lists the rows of a video, whose month is opened before its first row.
func (c *Catalog) rowsOf(ctx context.Context, v video.Video) ([]indexrows.Row, error) {
	if !Listed(v) {
		return nil, nil
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
		row(RecentTable, recentKey(v.CreatedAt, Shard(v.ID, RecentShards)), place),
	}, c.openMonth(ctx, v.CreatedAt)
}

// IDOf reads whose row one of a list is: property Id, with which its RowKey ends.
func IDOf(row tablestore.Entity) (video.ID, error) {
	id, err := video.ParseID(row.String("Id"))
	if err == nil && !strings.HasSuffix(row.RowKey, tablestore.Separator+string(id)) {
		err = fmt.Errorf("its key is of another video than %s", id)
	}
	return id, err
}

// openMonth writes the month's row in table recent, once per process.
func (c *Catalog) openMonth(ctx context.Context, t time.Time) error {
	month := t.UTC().Format(monthFormat)
	if _, known := c.months.Load(month); known {
		return nil
	}
	_, err := c.recent.Insert(ctx, tablestore.Entity{PartitionKey: monthsKey, RowKey: monthRow(t)})
	if err != nil && !errors.Is(err, tablestore.ErrExists) {
		return fmt.Errorf("opening month %s: %w", month, err)
	}
	c.months.Store(month, struct{}{})
	return nil
}

// monthRow is the row of a month: later months sort first.
func monthRow(t time.Time) string {
	year, month, _ := t.UTC().Date()
	return tablestore.InvertedTime(time.Date(year, month, 1, 0, 0, 0, 0, time.UTC))
}

// Place is the RowKey that sorts videos newest first: `<inverted time>__<id>`.
func Place(created time.Time, id video.ID) string {
	return tablestore.InvertedTime(created) + tablestore.Separator + string(id)
}

// ParsePlace undoes Place. ok is false for anything that Place did not make.
func ParsePlace(place string) (created time.Time, id video.ID, ok bool) {
	inverted, rest, found := strings.Cut(place, tablestore.Separator)
	created, err := tablestore.ParseInvertedTime(inverted)
	id, err2 := video.ParseID(rest)
	return created, id, found && err == nil && err2 == nil
}

// Shard spreads videos evenly over n partitions by their ids (S3).
func Shard(id video.ID, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	return int(h.Sum32() % uint32(n))
}

// recentKey is a partition of the month that t is in.
func recentKey(t time.Time, shard int) string {
	return fmt.Sprintf("%s~%d", t.UTC().Format(monthFormat), shard)
}

// titleEnd follows the title in a key, so that "cherry" comes before "cherry 2" and
// "cherry pie": a folded title has single spaces only, and no character of a key
// sorts before a space.
const titleEnd = "  "

// titleKey is the RowKey that sorts videos by title.
func titleKey(title string, id video.ID) string {
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
