package searchindex

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/rowstream"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// The number of partitions of a long list. On Azure the list takes that many times
// 2,000 writes a second, and a search makes that many requests to read it.
const (
	hotShards = 4 // words that occur nearly everywhere
	allShards = 8 // the list of all videos
)

// hot has the words whose lists are spread. A search also reads the partition
// without a suffix, so a word may be added here without indexing videos again.
var hot = strings.Fields(`a an and are as at by for from in is it of on or s the this to video with you
	das der die ein und  de el en la los y  des et le les un une  di il`)

// shardsOf is over how many partitions a list is spread; 0: it is one, without a suffix.
func shardsOf(f field, term string) int {
	switch {
	case f == allVideos:
		return allShards
	case slices.Contains(hot, term):
		return hotShards
	}
	return 0
}

// postingKey is the partition of a video's posting.
func postingKey(f field, term string, id video.ID) string {
	key := string(f) + ":" + tablestore.EscapeKey(term)
	if n := shardsOf(f, term); n > 0 {
		return shardKey(key, catalog.Shard(id, n))
	}
	return key
}

// shardKey adds the suffix. No term holds a ~.
func shardKey(key string, n int) string { return fmt.Sprintf("%s~%d", key, n) }

// partitions are all partitions of a list.
func partitions(f field, term string) []string {
	key := string(f) + ":" + tablestore.EscapeKey(term)
	keys := []string{key}
	for n := range shardsOf(f, term) {
		keys = append(keys, shardKey(key, n))
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

// posting is what a posting says about its video, which hits are ranked and counted by.
type posting struct {
	ID                      video.ID `row:"Id"`
	Title, Channel          string
	Tags, Actors, Directors []string
	Language                language // that its words are of
}

// maxCarried bounds the bytes of tags in a posting, and those of actors and of
// directors. A video has a posting for every word, so each byte is stored often.
const maxCarried = 1000

func postingOf(v video.Video, spoken language) posting {
	return posting{
		ID: v.ID, Title: v.Title, Channel: v.Channel, Language: spoken,
		Tags: first(v.Tags, maxCarried), Actors: first(v.Actors, maxCarried), Directors: first(v.Directors, maxCarried),
	}
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

func readPosting(row tablestore.Entity) (p posting, _ error) {
	_, err := catalog.IDOf(row)
	return p, errors.Join(err, row.Struct(&p))
}

// list is the union of the lists of terms in a field, each limited to the languages of its
// entry. ahead is how many rows to ask for at first.
func (x *Index) list(f field, ahead int, entries ...entry) *rowstream.Union {
	union := &rowstream.Union{}
	var described []string
	if f == description {
		f, described = anyField, []string{propertyOf(description, "") + " eq true"}
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
			union.Lists = append(union.Lists, &rowstream.Partition{
				Table: x.postings, PartitionKey: pk, Filter: strings.Join(conditions, " and "), Ahead: int32(ahead),
				Read: func(row tablestore.Entity) error { _, err := readPosting(row); return err },
			})
		}
	}
	return union
}
