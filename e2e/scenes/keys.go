package scenes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/workflow"
)

var _ = register(programs, "choosing-a-key", choosingAKey)

// need is what one knows before a key is chosen: the paper's questions (T4).
type need struct {
	subject  string // what a reader knows; empty: nothing, it wants all of it
	together bool   // are several rows of one subject changed in one transaction, or listed together?
	peak     int    // rows a second of the busiest subject, or of all where there is none
}

// choice is the answer.
type choice struct {
	granularity, key, reason string
	suffixes                 int // 0: none
}

// choose is the questionnaire. A reader who knows nothing lists all rows, so they are
// together.
func choose(n need) choice {
	together, word := n.together || n.subject == "", cmp.Or(n.subject, "all")
	suffixes := tablestore.Suffixes(n.peak)
	switch {
	case together && suffixes > 1:
		return choice{"some, with a suffix", fmt.Sprintf("%s~<0…%d>", word, suffixes-1), "the busiest subject is more than one partition takes comfortably", suffixes}
	case n.subject == "":
		return choice{"single", "one fixed word", "few rows, all of them listed at once, hardly a load", 0}
	case together:
		return choice{"some", word + ", RowKey what tells its rows apart", "rows of one " + word + " are used together, and its load fits one partition", 0}
	}
	return choice{"unique", word + ", RowKey a constant", "each " + word + " is one row, read by its key; no transaction has two of them, and writes go anywhere", 0}
}

// granularity is what docs/key-design.md says of Cutroom's tables; a test compares.
var granularity = map[string]string{
	workers.Table: "single", "registrations": "some", workflow.VideosTable: "some", "views": "some, with a suffix", engine.IdempotencyTable: "unique",
}

// loads are the rows a second that the answers to the last question stand for.
var loads = map[string]int{"few": 5, "hundreds": 400, "thousands": 7_000}

// choosingAKey asks the paper's questions of five tables that Cutroom has, takes the
// key that follows, and looks what the dominant query costs with it (T4). A reader who
// has answered the questions gets the key of their own table.
func choosingAKey(s *Stage) {
	if len(s.answers) > 0 {
		yourKey(s)
		return
	}
	for _, c := range []struct {
		need
		table string // Cutroom's, see docs/key-design.md
	}{
		{need{"", true, 5}, workers.Table},
		{need{"event", true, 400}, "registrations"},
		{need{"film", true, 20}, workflow.VideosTable},
		{need{"day", true, 7_000}, "views"},
		{need{"key", false, 1}, engine.IdempotencyTable},
	} {
		chosen(s, c.need, c.table)
	}
	s.Ensure(nil, "wrongkey")
	written, model, err := pressed(s, "wrongkey", func(int) string { return "views" }, write)
	must(err)
	s.Claim(written < 0.5 && model.Refused() > 0, model.Refused(), 100*written)
}

// yourKey is about the table that the reader has in mind.
func yourKey(s *Stage) {
	n := need{together: s.answers["together"] == "yes", peak: loads[s.answers["busy"]]}
	if s.answers["knows"] == "subject" {
		n.subject = "subject"
	}
	like := ""
	for _, table := range slices.Sorted(maps.Keys(granularity)) {
		if granularity[table] == choose(n).granularity {
			like = table
		}
	}
	s.Next(cmp.Or(n.subject, "nothing, it wants all"), n.together, n.peak)
	chosen(s, n, like)
	advice := ""
	switch {
	case n.subject == "" && !n.together:
		advice = "A reader who wants every row lists them together, whatever they are to each other. "
	case tablestore.Suffixes(n.peak) > 1 && !n.together:
		advice = "A single subject with so many rows a second is more than its partition takes, whatever the key. Give what is written its own key, or a suffix that its reader can compute: see the scene hot-keys. "
	}
	s.Next(advice)
}

// chosen claims the answer for one table, and what its dominant query costs.
func chosen(s *Stage, n need, table string) {
	c := choose(n)
	s.Claim(c.granularity == granularity[table], c.granularity, c.key, c.reason, table, granularity[table])
	name := fmt.Sprint("t", time.Now().UnixNano())
	s.Ensure(nil, name)
	rows := s.Table("reader", name)
	var places []string
	for i := range max(c.suffixes, 1) {
		places = append(places, fmt.Sprintf("%s-1~%d", cmp.Or(n.subject, "all"), i))
	}
	metered, meter := azstore.WithCounter(s.ctx)
	class := tablestore.RowRange
	for _, place := range places {
		get(rows.Insert(Quiet(s.ctx), tablestore.Entity{PartitionKey: place, RowKey: "row-0"}))
		if c.granularity == "unique" {
			class = tablestore.Point
			get(rows.Get(metered, place, "row-0"))
		} else {
			get(rows.First(metered, tablestore.Query{PartitionKey: place}, 10))
		}
	}
	s.Claim(meter.ByClass(class) == len(places) && meter.Requests() == len(places), len(places), class)
}
