package tablestore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/cutroom/cutroom/shared/azstore"
)

// Class says how much of a table a query may read, the cheapest first (paper row T5).
type Class int

// The classes. No request of a user may be a Scan.
const (
	Point          Class = iota // one row, by both keys
	RowRange                    // a run of rows of one partition
	PartitionRange              // a run of partitions
	Scan                        // the whole table
)

// String returns "point", "row range", "partition range" or "scan".
func (c Class) String() string {
	return [...]string{"point", "row range", "partition range", "scan"}[c]
}

// Query selects rows, in the order of their keys. Ranges are half-open: From is
// included, To is not, and an empty bound is open.
type Query struct {
	PartitionKey               string // exactly this partition
	PartitionFrom, PartitionTo string // or a run of partitions
	RowFrom, RowTo             string
	Filter                     string   // more conditions in OData; put texts in with Quote
	Select                     []string // properties wanted; empty means all. Keys always come.
	PageSize                   int32    // rows per request, 1 to 1000; 0 means 1000

	// Read decodes a row for the caller, as Into does. A row for which it returns an
	// error, or that cannot be decoded at all, is left out and reported: see Decode.
	// Without it a row that cannot be decoded is an error.
	Read func(Entity) error

	// Class is the highest cost that the caller expects: see ErrClass. 0 allows everything.
	Class Class
}

// ErrClass says that a query is dearer than its caller declared (paper row T5).
var ErrClass = errors.New("query is costlier than declared")

// Quote writes a text as an OData literal.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Cost derives the class of the query from its bounds.
func (q Query) Cost() Class {
	switch {
	case q.PartitionKey != "":
		return RowRange
	case q.PartitionFrom != "" && q.PartitionTo != "":
		return PartitionRange
	default:
		return Scan
	}
}

func (q Query) validate() error {
	if q.PartitionKey != "" && (q.PartitionFrom != "" || q.PartitionTo != "") {
		return errors.New("query: PartitionKey and a range of partitions exclude each other")
	}
	if cost := q.Cost(); q.Class != Point && cost > q.Class {
		return fmt.Errorf("query: %w: %s, declared %s", ErrClass, cost, q.Class)
	}
	if q.PageSize < 0 || q.PageSize > maxPageSize {
		return limitf("page of %d rows, at most %d", q.PageSize, maxPageSize)
	}
	return nil
}

// String names the query for errors.
func (q Query) String() string {
	return fmt.Sprintf("%s query of partition %q", q.Cost(), q.PartitionKey)
}

// filter writes the whole condition in OData.
func (q Query) filter() string {
	var terms []string
	compare := func(key, operator, value string) {
		if value != "" {
			terms = append(terms, key+" "+operator+" "+Quote(value))
		}
	}
	compare("PartitionKey", "eq", q.PartitionKey)
	compare("PartitionKey", "ge", q.PartitionFrom)
	compare("PartitionKey", "lt", q.PartitionTo)
	compare("RowKey", "ge", q.RowFrom)
	compare("RowKey", "lt", q.RowTo)
	if q.Filter != "" {
		terms = append(terms, "("+q.Filter+")")
	}
	return strings.Join(terms, " and ")
}

// Query returns all rows, following continuation tokens, also those that come
// with an empty page. An error ends the sequence.
func (t *Table) Query(ctx context.Context, q Query) iter.Seq2[Entity, error] {
	return func(yield func(Entity, error) bool) {
		for token := ""; ; {
			page, next, err := t.Page(ctx, q, token)
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(Entity{}, err)
			}
			if token = next; token == "" {
				return
			}
		}
	}
}

// First returns the first n rows, 1 to 1000, or all if there are fewer. A page may hold fewer
// and still not be the last one.
func (t *Table) First(ctx context.Context, q Query, n int) ([]Entity, error) {
	q.PageSize = int32(n)
	rows := make([]Entity, 0, n)
	for e, err := range t.Query(ctx, q) {
		if err != nil {
			return nil, err
		}
		if rows = append(rows, e); len(rows) == n {
			break
		}
	}
	return rows, nil
}

// Page returns one page and the opaque token of the next one, "" at the end. token is "" for
// the first. A page has at least one row unless it is the last. ErrToken.
func (t *Table) Page(ctx context.Context, q Query, token string) (entities []Entity, next string, err error) {
	place, err := Place(q.filter(), token)
	for err == nil {
		entities, place, err = t.fetch(ctx, q, place)
		if len(entities) > 0 || place == "" {
			break
		}
	}
	return entities, Token(q.filter(), place), err
}

// A place in a query is the service's continuation token: the keys where the next page
// starts, with placeSeparator between them. The beginning and the end are "".
const placeSeparator = "\x00"

func (t *Table) fetch(ctx context.Context, q Query, place string) (page []Entity, next string, err error) {
	if err := q.validate(); err != nil {
		return nil, "", err
	}
	options := &aztables.ListEntitiesOptions{}
	if f := q.filter(); f != "" {
		options.Filter = new(f)
	}
	if q.PageSize > 0 {
		options.Top = new(q.PageSize)
	}
	if len(q.Select) > 0 {
		names := append([]string{"PartitionKey", "RowKey", "Timestamp"}, q.Select...)
		slices.Sort(names)
		options.Select = new(strings.Join(slices.Compact(names), ","))
	}
	if pk, rk, _ := strings.Cut(place, placeSeparator); place != "" {
		options.NextPartitionKey = new(pk)
		if rk != "" {
			options.NextRowKey = new(rk)
		}
	}
	azstore.CountQuery(ctx, q.Cost())
	reply, err := t.client.NewListEntitiesPager(options).NextPage(ctx)
	if err != nil {
		return nil, "", t.failed(q.String(), err)
	}
	azstore.CountRows(ctx, len(reply.Entities))
	for _, text := range reply.Entities {
		e, err := t.decode(text)
		if q.Read != nil && err == nil {
			err = q.Read(e)
		}
		if q.Read != nil {
			err = t.judge(ctx, e, err)
		}
		switch {
		case err == nil:
			page = append(page, e)
		case q.Read == nil:
			return nil, "", t.failed(q.String(), err)
		}
	}
	if reply.NextPartitionKey != nil {
		next = *reply.NextPartitionKey + placeSeparator
	}
	if reply.NextRowKey != nil {
		next += *reply.NextRowKey
	}
	return page, next, nil
}

// ErrToken says that a page token is not one of ours, or belongs to another query.
var ErrToken = errors.New("page token does not belong to this query")

const tokenSum = 9 // bytes of checksum, so that the text has no padding surprises

// Token makes the opaque page token of a place in the list that query names. A place is a
// key, so rows that are added or removed before it do not move it. That of "" is "".
func Token(query, place string) string {
	if place == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(query), query, place))
	return base64.RawURLEncoding.EncodeToString(append(sum[:tokenSum], place...))
}

// Place reads a token that Token made for the same query, or returns
// ErrToken. The empty token is the empty place: the beginning.
//
// The checksum catches mistakes and is no secret: the caller checks the form of the place
// too, and a place must never give access to anything by itself.
func Place(query, token string) (string, error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) < tokenSum {
		return "", fmt.Errorf("reading token: %w", ErrToken)
	}
	place := string(raw[tokenSum:])
	// The whole text is compared: the decoder skips line ends.
	if Token(query, place) != token {
		return "", fmt.Errorf("comparing token: %w", ErrToken)
	}
	return place, nil
}
