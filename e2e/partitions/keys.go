package partitions

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync/atomic"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// Suffixes is how many partitions the suffixed keys spread over.
const Suffixes = 16

// Key is a way to choose the PartitionKey of a new row. The row stands for one
// view of a video, or a finisher of a race: written once, at a busy moment.
type Key struct {
	Name    string
	Row     string // of the papers
	Example string
	Color   string // in the plot

	// partition is the PartitionKey of row id.
	partition func(id string) string
	// place lists the partitions in which a reader who knows only the id has to look.
	place func(id string) []string
	// spread says what the load looks like to partition servers.
	spread spread
}

// spread is where rows that are written at the same time land.
type spread int

const (
	onePartition spread = iota // in one PartitionKey
	oneRange                   // in many PartitionKeys, all at the end of the last range
	everywhere                 // all over
)

const day = "2026-11-21"

var sequence atomic.Int64

// shard is the hash that a reader can compute, too.
func shard(id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return tablestore.Pad(int64(h.Sum32()%Suffixes), 2)
}

// Keys are the ways that are compared, from the coarsest to the finest.
func Keys() []Key {
	one := func(key string) func(string) string { return func(string) string { return key } }
	known := func(partition func(string) string) func(string) []string {
		return func(id string) []string { return []string{partition(id)} }
	}
	precalculated := func(id string) string { return day + "~" + shard(id) }
	unique := func(id string) string { return id }
	return []Key{
		{
			Name: "one partition", Row: "T9", Example: "views", Color: "#b3261e", spread: onePartition,
			partition: one("views"), place: known(one("views")),
		}, {
			Name: "dated", Row: "T3", Example: day, Color: "#e07a00", spread: onePartition,
			partition: one(day), place: known(one(day)),
		}, {
			// The number is given when the row is written and kept with the id by
			// anyone who wants to read it.
			Name: "sequential", Row: "T3", Example: "000000001234", Color: "#8a6d00", spread: oneRange,
			partition: func(string) string { return tablestore.Pad(sequence.Add(1), 12) },
		}, {
			// snippet: suffixes
			Name: "random suffix", Row: "S2", Example: day + ".07", Color: "#2e7d32", spread: everywhere,
			partition: func(string) string { return day + "." + tablestore.Pad(rand.Int64N(Suffixes), 2) }, //nolint:gosec // spreads load
			place: func(string) []string {
				all := make([]string, Suffixes)
				for i, n := range rand.Perm(Suffixes) { //nolint:gosec // any order will do
					all[i] = day + "." + tablestore.Pad(int64(n), 2)
				}
				return all
			},
		}, {
			Name: "precalculated suffix", Row: "S3", Example: day + "~07", Color: "#0b6bcb", spread: everywhere,
			partition: precalculated, place: known(precalculated),
			// end snippet
		}, {
			Name: "unique", Row: "T4", Example: "k3v9q2…", Color: "#6a3fb5", spread: everywhere,
			partition: unique, place: known(unique),
		},
	}
}

// newID is random, as the ids of videos are.
func newID() string { return fmt.Sprintf("%013x", rand.Uint64()>>12) } //nolint:gosec // unique, not secret
