// Package searchindex finds videos by their words. It is an inverted index in tables, whose
// rows shared/indexrows keeps equal to the videos. A text is split into words (words.go), each
// folded: these are terms. A posting is the row that says that a video has a term; it carries
// what a hit is ranked and counted by. All lists have one order, so a search for several words
// is a streaming merge: docs/patterns/index-table-search.md. Keys: docs/data-model.md.
//
// The vocabulary, tables terms and variants, has by what else a term is found. Its rows are
// written when the term gets its first video and removed with its last.
//
// Next: webrole/internal/httpapi, the API of the search.
package searchindex

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/rowstream"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/video"
)

// Tables of this package, base names.
const (
	TermsTable    = "terms"
	PostingsTable = "postings"
	VariantsTable = "variants"
)

// Tables are all of them.
var Tables = []string{TermsTable, PostingsTable, VariantsTable}

const (
	referenceRow = "TERMS"
	textRow      = "TEXT"

	describedProperty = "Described" // of a posting: the description has the term
)

// Index searches and keeps the index. It is safe for concurrent use.
type Index struct {
	*indexrows.Keeper

	terms    *tablestore.Table
	postings *tablestore.Table
	variants *tablestore.Table
	scanTime time.Duration // see the constant
}

// New returns the index of an account, whose tables exist.
func New(a *azstore.Account) *Index {
	x := &Index{
		terms:    tablestore.New(a, TermsTable),
		postings: tablestore.New(a, PostingsTable),
		variants: tablestore.New(a, VariantsTable),
		Keeper:   indexrows.New(a, PostingsTable, referenceRow, rowsOf, PostingsTable),
		scanTime: scanTime,
	}
	x.Keeper.Applied = x.keepVocabulary
	return x
}

// field names a group of posting lists. It is the start of PartitionKeys.
type field string

const (
	anyField    field = "any"
	allVideos   field = "all"
	title       field = "title"
	description field = "description" // no lists of its own: a property of the postings of any
	actor       field = "actor"
	director    field = "director"
	tag         field = "tag"
	channel     field = "channel"
)

// listed are the fields with lists of their own.
var listed = []field{title, actor, director, tag, channel}

// Limits of what one video may put into the index, because every term costs some
// four requests. Of a very long text the first words count.
const (
	maxTitleTerms       = 200 // as many as it has characters, so any part of it is found
	maxTerms            = 120 // per other field
	maxDescriptionTerms = 300
)

// fieldText is one field of a video, taken apart.
type fieldText struct {
	words string   // in order, with gap between values
	terms []string // each once
}

// gap stands between the values of a field, so that a phrase does not match the end
// of one actor's name and the beginning of the next. No word is equal to it.
const gap = "|"

func (d document) analyse() map[field]fieldText {
	fields := map[field]fieldText{}
	add := func(f field, limit int, values ...string) {
		var all, terms []string
		for _, value := range values {
			words := splitWords(value)
			all = append(append(all, texts(words)...), gap)
			for _, t := range termsOf(words) {
				if len(terms) < limit && !slices.Contains(terms, t) {
					terms = append(terms, t)
				}
			}
		}
		fields[f] = fieldText{strings.Join(all, " "), terms}
	}
	add(title, maxTitleTerms, d.Title)
	add(actor, maxTerms, d.Actors...)
	add(director, maxTerms, d.Directors...)
	add(tag, maxTerms, d.Tags...)
	add(channel, maxTerms, d.Channel)
	add(description, maxDescriptionTerms, d.Description)
	return fields
}

func rowsOf(v video.Video) []indexrows.Row {
	if !v.Searchable() {
		return nil
	}
	own, fields := documentOf(v)
	var rows []indexrows.Row
	add := func(pk, rk string, props map[string]any) {
		rows = append(rows, indexrows.Row{Table: PostingsTable, Entity: tablestore.Entity{PartitionKey: pk, RowKey: rk, Props: props}})
	}
	add(videoKey(v.ID), textRow, tablestore.Props(own))
	own.Description = ""
	place, props := catalog.Place(v.CreatedAt, v.ID), tablestore.Props(own)
	described := maps.Clone(props)
	described[describedProperty] = true
	add(postingKey(allVideos, "", v.ID), place, props)
	all := map[string]map[string]any{}
	for _, f := range listed {
		for _, term := range fields[f].terms {
			add(postingKey(f, term, v.ID), place, props)
			all[term] = props
		}
	}
	for _, term := range fields[description].terms {
		all[term] = described
	}
	for _, term := range slices.Sorted(maps.Keys(all)) {
		add(postingKey(anyField, term, v.ID), place, all[term])
	}
	return rows
}

// videoKey is the partition of the rows about one video, the same as that of
// its back-reference.
func videoKey(id engine.ID) string { return "~" + string(id) }

// shards is the number of partitions of a long list. On Azure the list takes that many
// times 2,000 rows of 1 KiB a second, and a search makes that many requests to read it.
const shards = 4

// hot has the words whose lists are spread. A search also reads the partition
// without a suffix, so a word may be added here without indexing videos again.
var hot = strings.Fields(`a an and are as at by for from in is it of on or s the this to video with you
	das der die ein und  de el en la los y  des et le les un une  di il`)

// partitions are those of a list: one, and those with a suffix if the list is long, which is
// that of a hot word or of all videos. No term holds a ~.
func partitions(f field, term string) []string {
	keys := []string{string(f) + ":" + tablestore.EscapeKey(term)}
	if f == allVideos || slices.Contains(hot, term) {
		for n := range shards {
			keys = append(keys, fmt.Sprintf("%s~%d", keys[0], n))
		}
	}
	return keys
}

func postingKey(f field, term string, id engine.ID) string {
	keys := partitions(f, term)
	if len(keys) == 1 {
		return keys[0]
	}
	return keys[1+tablestore.Shard(string(id), shards)]
}

// termOf undoes postingKey, without the shard, for the lists of any field.
func termOf(pk string) (term string, ok bool) {
	list, ok := strings.CutPrefix(pk, string(anyField)+":")
	escaped, _, _ := strings.Cut(list, "~")
	term, err := tablestore.UnescapeKey(escaped)
	return term, ok && err == nil
}

// document is what a row says about its video: the texts by which it is found. A posting
// has no description, and hits are ranked and counted by the rest.
type document struct {
	ID                          engine.ID `row:"Id"`
	Title, Description, Channel string
	Tags, Actors, Directors     []string
	Language                    language // that its words are of
}

// documentOf also returns the fields, for which the language was guessed by title and
// description.
func documentOf(v video.Video) (document, map[field]fieldText) {
	d := document{
		ID: v.ID, Title: v.Title, Description: cut(v.Description, maxTextRunes), Channel: v.Channel,
		Tags: v.Tags, Actors: v.Actors, Directors: v.Directors,
	}
	fields := d.analyse()
	d.Language = languageOf(strings.Fields(fields[title].words + " " + fields[description].words))
	return d, fields
}

func readDocument(row tablestore.Entity) (d document, err error) {
	err = row.Struct(&d)
	return d, err
}

func readPosting(row tablestore.Entity) (document, error) {
	_, err := catalog.IDOf(row)
	d, unread := readDocument(row)
	return d, errors.Join(err, unread)
}

// list is the union of the lists of terms in a field, each limited to the languages of its
// entry. ahead is how many rows to ask for at first.
func (x *Index) list(f field, ahead int, entries ...entry) *rowstream.Union[document] {
	union := &rowstream.Union[document]{}
	var described []string
	if f == description {
		f, described = anyField, []string{describedProperty + " eq true"}
	}
	for _, e := range entries {
		conditions := described
		if e.languages != nil {
			var in []string
			for _, l := range e.languages {
				in = append(in, "Language eq "+tablestore.Quote(string(l)))
			}
			conditions = append(conditions, "("+strings.Join(in, " or ")+")")
		}
		for _, pk := range partitions(f, e.term) {
			union.Lists = append(union.Lists, &rowstream.Partition[document]{
				Table: x.postings, PartitionKey: pk, Filter: strings.Join(conditions, " and "), Ahead: int32(ahead), Read: readPosting,
			})
		}
	}
	return union
}
