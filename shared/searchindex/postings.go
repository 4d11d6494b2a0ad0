package searchindex

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cutroom/cutroom/shared/azstore/rowstream"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/video"
)

// shards is the number of partitions of a long list. On Azure the list takes that many
// times 2,000 writes a second, and a search makes that many requests to read it.
const shards = 4

// hot has the words whose lists are spread. A search also reads the partition
// without a suffix, so a word may be added here without indexing videos again.
var hot = strings.Fields(`a an and are as at by for from in is it of on or s the this to video with you
	das der die ein und  de el en la los y  des et le les un une  di il`)

// spread reports whether a list is long: that of a hot word, or of all videos.
func spread(f field, term string) bool { return f == allVideos || slices.Contains(hot, term) }

func postingKey(f field, term string, id video.ID) string {
	key := string(f) + ":" + tablestore.EscapeKey(term)
	if spread(f, term) {
		return shardKey(key, catalog.Shard(id, shards))
	}
	return key
}

// shardKey adds the suffix. No term holds a ~.
func shardKey(key string, n int) string { return fmt.Sprintf("%s~%d", key, n) }

func partitions(f field, term string) []string {
	key := string(f) + ":" + tablestore.EscapeKey(term)
	keys := []string{key}
	if spread(f, term) {
		for n := range shards {
			keys = append(keys, shardKey(key, n))
		}
	}
	return keys
}

// parsePosting undoes postingKey, without the shard. ok is false for the rows
// about one video.
func parsePosting(pk string) (f field, term string, ok bool) {
	name, rest, found := strings.Cut(pk, ":")
	if !found {
		return "", "", false
	}
	escaped, _, _ := strings.Cut(rest, "~")
	term, err := tablestore.UnescapeKey(escaped)
	return field(name), term, err == nil
}

// document is what a row says about its video: the texts by which it is found. A posting
// has no description, and hits are ranked and counted by the rest.
type document struct {
	ID                          video.ID `row:"Id"`
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

// maxCarried bounds the bytes of tags in a posting, and those of actors and of
// directors. A video has a posting for every word, so each byte is stored often.
const maxCarried = 1000

func (d document) carried() document {
	d.Description = ""
	d.Tags, d.Actors, d.Directors = first(d.Tags, maxCarried), first(d.Actors, maxCarried), first(d.Directors, maxCarried)
	return d
}

// first returns the first values that fit into so many bytes, with a separator each.
func first(values []string, most int) []string {
	for i, v := range values {
		if most -= len(v) + 1; most < 0 {
			return values[:i]
		}
	}
	return values
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
