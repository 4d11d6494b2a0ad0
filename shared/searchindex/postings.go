package searchindex

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/rowstream"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// The number of partitions of a long list. On Azure the list takes that many times
// 2,000 writes a second, and a search makes that many requests to read it.
const (
	HotShards = 4 // words that occur nearly everywhere
	AllShards = 8 // the list of all videos
)

// hot has the words whose lists are spread. A search also reads the partition
// without a suffix, so a word may be added here without indexing videos again.
var hot = func() map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.Fields(`a an and are as at by for from in is it of on or s the this to video with you
		das der die ein und  de el en la los y  des et le les un une  di il`) {
		words[w] = true
	}
	return words
}()

// postingKey is the partition of a video's posting.
func postingKey(f field, term string, id video.ID) string {
	key := string(f) + ":" + tablestore.EscapeKey(term)
	switch {
	case f == allVideos:
		return shardKey(key, catalog.Shard(id, AllShards))
	case hot[term]:
		return shardKey(key, catalog.Shard(id, HotShards))
	}
	return key
}

// shardKey adds the suffix. No term holds a ~.
func shardKey(key string, n int) string { return fmt.Sprintf("%s~%d", key, n) }

// partitions are all partitions of a list.
func partitions(f field, term string) []string {
	key := string(f) + ":" + tablestore.EscapeKey(term)
	var keys []string
	shards := 0
	switch {
	case f == allVideos:
		shards = AllShards
	case hot[term]:
		keys, shards = []string{key}, HotShards
	default:
		keys = []string{key}
	}
	for n := range shards {
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

// Properties of a posting, besides those of a catalog.Summary: what hits are
// ranked and counted by, and the language that the words are of.
const (
	tagsProperty      = "Tags" // JSON lists
	actorsProperty    = "Actors"
	directorsProperty = "Directors"
	languageProperty  = "Language"
)

func postingProps(v video.Video, spoken string) map[string]any {
	props := catalog.SummaryOf(v).Props()
	props[languageProperty] = spoken
	for name, values := range map[string][]string{
		tagsProperty: v.Tags, actorsProperty: v.Actors, directorsProperty: v.Directors,
	} {
		if len(values) > 0 {
			props[name] = jsonList(values)
		}
	}
	return props
}

// maxCarried bounds the bytes of tags in a posting, and those of actors and of
// directors. A video has a posting for every word, so each byte is stored often.
const maxCarried = 1000

// jsonList encodes as many of the values as fit maxCarried, the first ones.
func jsonList(values []string) string {
	n, size := 0, 0
	for n < len(values) && size+len(values[n]) <= maxCarried {
		size += len(values[n])
		n++
	}
	text, _ := json.Marshal(values[:n]) // strings always encode
	return string(text)
}

// textsOf is what a posting says about its video: all but the description.
func textsOf(posting tablestore.Entity) (video.Video, error) {
	s, err := catalog.SummaryFrom(posting)
	v := video.Video{ID: s.ID, Title: s.Title, Channel: s.Channel}
	return v, errors.Join(err,
		posting.JSON(tagsProperty, &v.Tags), posting.JSON(actorsProperty, &v.Actors), posting.JSON(directorsProperty, &v.Directors))
}

// list is the list of a term's postings in a field, limited to the languages of the
// entry. ahead is how many rows to ask for at once.
func (x *Index) list(f field, e entry, ahead int) rowstream.List {
	var conditions []string
	if f == description {
		f, conditions = anyField, append(conditions, propertyOf(description, "")+" eq true")
	}
	if e.languages != nil {
		var in []string
		for _, l := range e.languages {
			in = append(in, languageProperty+" eq "+tablestore.Quote(string(l)))
		}
		conditions = append(conditions, "("+strings.Join(in, " or ")+")")
	}
	var lists []rowstream.List
	for _, pk := range partitions(f, e.term) {
		lists = append(lists, &rowstream.Partition{
			Table: x.postings, PartitionKey: pk, Filter: strings.Join(conditions, " and "), Ahead: int32(ahead),
			Read: func(row tablestore.Entity) error { _, err := textsOf(row); return err },
		})
	}
	if len(lists) == 1 {
		return lists[0]
	}
	return &rowstream.Union{Lists: lists}
}
