// Package searchindex finds videos by their words. It is an inverted index in
// tables, whose rows shared/indexrows keeps equal to the videos.
//
// A text is split into words, each folded (case and accents do not count): these
// are terms. Where spaces do not tell words apart, terms are neighbouring characters
// (words.go). A posting is the row that says that a video has a term.
//
// # Table postings
//
// PartitionKey: `<field>:<term>`, so a term's postings are one list, which is always read
// as a whole ("some", T4). The lists of words that nearly every video has, and that of all
// videos, are spread with the suffix `~<n>`, n = hash(id) mod shards, or one partition
// would take a write for each new video (S3, T3). The field any has the terms of all the
// others and of the description, of which its postings say whether that has the term.
//
// RowKey: `<inverted time>__<id>`, so all lists have one order, newest first. A search for
// several words is a streaming merge of row range scans (T5), and the place where a page
// ended is the same in all. A posting carries what a hit is ranked and counted by.
//
// Partition `~<id>` is about one video. Row TERMS is the back-reference, row TEXT holds
// its texts, for what the lists cannot answer.
//
// # Tables terms and variants
//
// The vocabulary, and by what else a term is found: its stems in some languages
// (stem.go), itself and its forms without one letter (variants.go). They are written when
// the term gets its first video and removed with its last. PartitionKey: the first two
// characters. RowKey: the term; `=<stem>__<term>` or `~<rest>__<term>`. Terms that begin
// alike are a row range, or a range of partitions when only one character is typed.
//
// Next: webrole/internal/httpapi, the API of the search.
package searchindex

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
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
	x.Keeper.Applied, x.Keeper.Loaded = x.keepVocabulary, x.loadVocabulary
	return x
}

// Searchable reports whether the search finds a video: it is public and ready. A
// video that is being reprocessed still plays its old generation and is found.
func Searchable(v video.Video) bool {
	return v.Visibility == video.Public && !v.State.Gone() && (v.State == video.Ready || v.Serving > 0)
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
	if !Searchable(v) {
		return nil
	}
	own, fields := documentOf(v)
	var rows []indexrows.Row
	add := func(pk, rk string, props map[string]any) {
		rows = append(rows, indexrows.Row{Table: PostingsTable, Entity: tablestore.Entity{PartitionKey: pk, RowKey: rk, Props: props}})
	}
	add(videoKey(v.ID), textRow, tablestore.Props(own))
	place, props := catalog.Place(v.CreatedAt, v.ID), tablestore.Props(own.carried())
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
func videoKey(id video.ID) string { return "~" + string(id) }
