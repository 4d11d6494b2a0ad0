package scenes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/views"
	"github.com/cutroom/cutroom/shared/workers"
)

// need is what one knows before a key is chosen: the paper's questions (T4).
type need struct {
	what     string
	subject  string // what a reader knows; empty: nothing, it wants all of it
	together bool   // are several rows of one subject changed in one transaction, or listed together?
	peak     int    // rows a second of the busiest subject, or of all where there is none
	rows     int
}

// choice is the answer.
type choice struct {
	granularity, key, why string
	suffixes              int // 0: none
}

// What one partition takes in a second: the target of the service. Half of it is left
// for growth.
const (
	partitionTarget = 2000
	comfortable     = partitionTarget / 2
)

// choose is the questionnaire. Who knows nothing lists all rows, so they are together.
func choose(n need) choice {
	together, word := n.together || n.subject == "", cmp.Or(n.subject, "all")
	switch {
	case together && n.peak > comfortable:
		suffixes := n.peak/comfortable + 1
		return choice{"some, with a suffix", word + "~<0…" + fmt.Sprint(suffixes-1) + ">", "the busiest subject is more than one partition takes comfortably", suffixes}
	case n.subject == "":
		return choice{"single", "one fixed word", "few rows, all of them listed at once, hardly a load", 0}
	case together:
		return choice{"some", word + ", RowKey what tells its rows apart", "rows of one " + word + " are used together, and its load fits one partition", 0}
	}
	return choice{"unique", word + ", RowKey a constant", "each " + word + " is one row, read by its key; no transaction has two of them, and writes go anywhere", 0}
}

// granularity is what docs/data-model.md says of Cutroom's tables; a test compares.
var granularity = map[string]string{
	workers.Table: "single", registrations.Table: "some", videostore.VideosTable: "some", views.Table: "some, with a suffix", videostore.IdempotencyTable: "unique",
}

// loads are the rows a second that the answers to the last question stand for.
var loads = map[string]int{"few": 5, "hundreds": 400, "thousands": 7_000}

// choosingAKey asks the paper's questions of five tables that Cutroom has, takes the
// key that follows, and looks what the dominant query costs with it (T4). A reader who
// has answered the questions gets the key of their own table.
func choosingAKey(ctx context.Context, s *Stage) error {
	if len(s.answers) > 0 {
		return yourKey(ctx, s)
	}
	s.Say("Three questions lead to a PartitionKey. What does the reader know? Are several rows of one subject changed or listed together? How many rows a second does the busiest subject get, against the %d that one partition takes? More partitions spread the load; fewer make transactions and lists possible.", partitionTarget)
	for _, n := range []struct {
		need
		table string // Cutroom's, see docs/data-model.md
	}{
		{need{"workers report that they are alive", "", true, 5, 50}, workers.Table},
		{need{"runners of a race, listed by bib and by age", "event", true, 400, 50_000}, registrations.Table},
		{need{"films, each with its steps", "film", true, 20, 500_000_000}, videostore.VideosTable},
		{need{"views of films, counted", "day", true, 7_000, 1_000_000}, views.Table},
		{need{"which film a client's key made", "key", false, 1, 10_000_000}, videostore.IdempotencyTable},
	} {
		if err := chosen(ctx, s, n.need, n.table); err != nil {
			return err
		}
	}
	s.Say("And with the wrong answer? Views get one fixed word as their key, like the workers. 60 come in a second, to the model of Azure's partition servers that the scene hot-keys explains: one PartitionKey takes 7 in a second there.")
	written, model, err := pressed(ctx, s, "wrongkey", func(int) string { return "views" })
	if err != nil {
		return err
	}
	s.Claim(written < 0.5 && model.Refused() > 0, "%d views were refused with 503 ServerBusy; of the last second's, %.0f %% were counted", model.Refused(), 100*written)
	s.Means("None of them is the best one. A single partition stops the views, and a partition for each row would make the list of a race 50,000 queries and leave a film's steps without a transaction.")
	return nil
}

// yourKey is about the table that the reader has in mind.
func yourKey(ctx context.Context, s *Stage) error {
	n := need{what: "Your table", together: s.answers["together"] == "yes", peak: loads[s.answers["busy"]], rows: 1_000_000}
	if s.answers["knows"] == "subject" {
		n.subject = "subject"
	}
	if n.subject == "" && !n.together {
		s.Means("Anyone who wants every row lists them together, whatever they are to each other.")
	}
	like := ""
	for _, table := range slices.Sorted(maps.Keys(granularity)) {
		if granularity[table] == choose(n).granularity {
			like = table
		}
	}
	if err := chosen(ctx, s, n, like); err != nil {
		return err
	}
	if n.peak > comfortable && !n.together && n.subject != "" {
		s.Means("A single subject with so many rows a second is more than its partition takes, whatever the key. Give what is written its own key, or a suffix that its reader can compute: see the scene hot-keys.")
	}
	s.Means("Other answers lead to other keys: choose them above and play again, or leave them open to see five tables that Cutroom has.")
	return nil
}

// chosen tells the questions and the answer for one table, and asks the table.
func chosen(ctx context.Context, s *Stage, n need, table string) error {
	knows := n.subject
	if knows == "" {
		knows = "nothing, it wants all"
	}
	s.Say("%s. The reader knows: %s. Together: %v. Busiest: %d rows a second. Rows: %d.", n.what, knows, n.together, n.peak, n.rows)
	c := choose(n)
	alone := c.granularity == "unique"
	s.Claim(c.granularity == granularity[table], "%s: PartitionKey %s, because %s. Cutroom's table %s is %s, too", c.granularity, c.key, c.why, table, granularity[table])
	account := s.Account("reader")
	name := fmt.Sprint("t", time.Now().UnixNano())
	if err := account.Ensure(Quiet(ctx), nil, nil, []string{name}); err != nil {
		return err
	}
	rows := tablestore.New(account.Table(name))
	place := "all"
	if n.subject != "" {
		place = n.subject + "-1"
	}
	places := []string{place}
	if c.suffixes > 0 {
		places = nil
		for i := range c.suffixes {
			places = append(places, fmt.Sprintf("%s~%d", place, i))
		}
	}
	for i, place := range places {
		if _, err := rows.Insert(Quiet(ctx), tablestore.Entity{PartitionKey: place, RowKey: fmt.Sprint("row-", i)}); err != nil {
			return err
		}
	}
	metered, meter := azstorage.WithCounter(ctx)
	for _, place := range places {
		if alone {
			if _, err := rows.Get(metered, place, "row-0"); err != nil {
				return err
			}
			continue
		}
		if _, err := rows.First(metered, tablestore.Query{PartitionKey: place}, 10); err != nil {
			return err
		}
	}
	want, class := 1, tablestore.RowRange
	if c.suffixes > 0 {
		want = c.suffixes
	}
	if alone {
		class = tablestore.Point
	}
	s.Claim(meter.ByClass(class) == want && meter.Requests() == want, "its dominant query is %d × %s", want, class)
	return nil
}
