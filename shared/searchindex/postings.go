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

// Over how many partitions the long lists are spread. A list takes that many
// times 2,000 writes a second, and costs a search that many requests.
const (
	HotShards = 4 // words that occur nearly everywhere
	AllShards = 8 // the list of all videos
)

// hot holds the words whose lists are spread. Readers look into the plain
// partition too, so a word can be added here without indexing anything again.
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

// maxCarried bounds, in bytes, what a posting carries of the tags, of the actors
// and of the directors: a video has a posting for every word.
const maxCarried = 1000

// jsonList writes the first of the values.
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
	s := catalog.SummaryFrom(posting)
	v := video.Video{ID: s.ID, Title: s.Title, Channel: s.Channel}
	return v, errors.Join(
		posting.JSON(tagsProperty, &v.Tags), posting.JSON(actorsProperty, &v.Actors), posting.JSON(directorsProperty, &v.Directors))
}

// list reads the postings of a term, those that entry and field are about.
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
		})
	}
	if len(lists) == 1 {
		return lists[0]
	}
	return &rowstream.Union{Lists: lists}
}
