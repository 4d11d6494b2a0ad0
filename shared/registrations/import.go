package registrations

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// A runner is three operations: two rows to be found by and the guard. So a
// transaction of at most 100 takes 33 runners, and a race of 50,000 is 1,516.
const (
	rowsPerRunner = 3
	perBatch      = tablestore.MaxBatchOps / rowsPerRunner

	windowRows  = 30 * perBatch // rows of the list that are in memory: whole transactions
	parallel    = 4             // transactions under way; a partition takes 20 a second
	maxRounds   = 10            // tries of a window while others change its runners
	maxRefusals = 1000          // that a report lists; it counts all
)

// ErrContended says that others kept changing the runners of an import.
// Repeating it is safe.
var ErrContended = errors.New("others change the same runners")

// Row is a line of a start list.
type Row struct {
	Line         int      // for the report
	Given        string   // the bib, for the report
	Registration          // without Event and ETag
	Refused      *Invalid // by the reader: the row could not even be read
}

// Report says what became of an import.
type Report struct {
	Accepted  int // stored now, with the unchanged ones
	Unchanged int // there before
	Refused   int
	Taken     int       // of Refused: those with BibTaken
	Refusals  []Refusal // the first 1,000, in the order of the list
	Requests  int       // calls of the table service
}

// Refusal is a row that was not taken.
type Refusal struct {
	Line   int    `json:"line"`
	Bib    string `json:"bib,omitempty"`
	Code   Code   `json:"code"`
	Detail string `json:"detail"`
}

// Import registers the runners of a list that is read as it is stored, at most a
// thousand rows at a time. Rows that cannot be taken are reported and do not hinder the
// others. A runner who exists already is unchanged, so repeating an import, also one that
// was killed half way, adds what is missing. A finish that is new or another one is
// stored. An error of rows ends the import; what the report counts is stored even then.
// ErrContended.
func (s *Store) Import(ctx context.Context, event Event, rows iter.Seq2[Row, error]) (report Report, err error) {
	ctx, meter := azstore.WithCounter(ctx)
	defer func() { report.Requests = meter.Requests() }()
	var window []Row
	for row, err := range rows {
		if err != nil {
			return report, fmt.Errorf("reading the list: %w", err)
		}
		if window = append(window, row); len(window) == windowRows {
			if err := s.importWindow(ctx, event, window, &report); err != nil {
				return report, err
			}
			window = window[:0]
		}
	}
	err = s.importWindow(ctx, event, window, &report)
	return report, err
}

// importWindow stores rows and adds what became of them to the report. A round that others
// overtook is followed by another one, to which the runners that this import has stored
// are unchanged.
func (s *Store) importWindow(ctx context.Context, event Event, rows []Row, report *Report) error {
	bibs := normalise(rows, event)
	for range maxRounds {
		before, err := s.readGuards(ctx, event, bibs)
		if err != nil {
			return err
		}
		after, result := judge(rows, before, *report)
		err = s.submit(ctx, before, after)
		switch {
		case err == nil:
			*report = result
			return nil
		case !tablestore.Overtaken(err):
			return err
		}
	}
	return ErrContended
}

// normalise makes the rows as they are stored, refuses those that cannot be, and returns
// the bibs of the others.
func normalise(rows []Row, event Event) (bibs map[int]bool) {
	bibs = map[int]bool{}
	for i := range rows {
		row := &rows[i]
		r, err := row.normalised()
		if bad, ok := errors.AsType[*Invalid](err); ok && row.Refused == nil {
			row.Refused = bad
		}
		r.Event = event
		row.Registration = r
		if row.Refused == nil {
			bibs[r.Bib] = true
		}
	}
	return bibs
}

// judge decides on each row, given who has the bibs: it returns the runners who are new or
// have another finish, by bib, and the report with the rows added.
func judge(rows []Row, before map[int]Registration, report Report) (after map[int]Registration, _ Report) {
	after = map[int]Registration{}
	for _, row := range rows {
		now, known := after[row.Bib]
		if !known {
			now, known = before[row.Bib]
		}
		switch {
		case row.Refused != nil:
			report.refuse(row, row.Refused)
		case known && !now.sameRunner(row.Registration):
			report.refuse(row, errTaken)
			report.Taken++
		case known && (row.FinishedAt.IsZero() || row.FinishedAt.Equal(now.FinishedAt)):
			report.Accepted++
			report.Unchanged++
		default:
			report.Accepted++
			row.ETag = rand.Text()
			after[row.Bib] = row.Registration
		}
	}
	return after, report
}

var errTaken = invalid(BibTaken, "another runner has this bib")

func (r *Report) refuse(row Row, reason *Invalid) {
	r.Refused++
	if len(r.Refusals) < maxRefusals {
		r.Refusals = append(r.Refusals, Refusal{Line: row.Line, Bib: row.Given, Code: reason.Code, Detail: reason.Detail})
	}
}

// submit puts the runners of after in the place of those of before: one transaction for
// every perBatch of them, some at the same time.
func (s *Store) submit(ctx context.Context, before, after map[int]Registration) error {
	var group errgroup.Group
	group.SetLimit(parallel)
	for bibs := range slices.Chunk(slices.Sorted(maps.Keys(after)), perBatch) {
		group.Go(func() error {
			var ops []tablestore.Op
			for _, bib := range bibs {
				if was, known := before[bib]; known {
					ops = append(ops, after[bib].replacing(was)...)
				} else {
					ops = append(ops, after[bib].each(tablestore.OpInsert)...)
				}
			}
			// One that has begun may end: cut off, its outcome would be unknown.
			_, err := s.rows.Submit(context.WithoutCancel(ctx), ops)
			return err
		})
	}
	return group.Wait()
}

// readGuards looks who has the bibs: one row range from the least to the greatest. In a
// list that is not in their order, that reads more rows than are wanted, in fewer requests
// than one for each bib.
func (s *Store) readGuards(ctx context.Context, event Event, bibs map[int]bool) (map[int]Registration, error) {
	sorted, found := slices.Sorted(maps.Keys(bibs)), map[int]Registration{}
	if len(sorted) == 0 {
		return found, nil
	}
	query := tablestore.Query{
		PartitionKey: string(event), Class: tablestore.RowRange,
		RowFrom: guardKey(sorted[0]), RowTo: tablestore.PrefixEnd(guardKey(sorted[len(sorted)-1])),
	}
	for row, err := range s.rows.Query(ctx, query) {
		if err != nil {
			return nil, err
		}
		bib, err := strconv.Atoi(strings.TrimPrefix(row.RowKey, guardPrefix))
		if err != nil || !bibs[bib] {
			continue
		}
		if found[bib], err = tablestore.Decode(ctx, s.rows, row, readRegistration); err != nil {
			found[bib] = Registration{Bib: bib} // taken, and by no runner of the list
		}
	}
	return found, nil
}
