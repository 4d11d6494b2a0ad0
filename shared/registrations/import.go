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
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/tablestore"
)

// A runner is three operations: two rows to be found by and the guard. So a
// transaction of at most 100 takes 33 runners, and a race of 50,000 is 1,516
// transactions. Fewer rows would do for fewer promises: without the guard it
// would be 1,000, and any bib could be taken twice.
const (
	rowsPerRunner = 3
	perBatch      = tablestore.MaxBatchOps / rowsPerRunner

	// windowRows is how many rows of the list are in memory: whole transactions.
	windowRows = 30 * perBatch
	// parallel is how many transactions are under way. They share a partition,
	// whose limit is 2,000 entities a second, 20 transactions.
	parallel = 4
	// maxRounds is how often a window is tried while others change its runners.
	maxRounds = 10
	// maxRefusals is how many refusals a report lists; it counts all.
	maxRefusals = 1000
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
	Line   int
	Bib    string
	Code   Code
	Detail string
}

// Import registers the runners of a list that is read as it is stored, at most a
// thousand rows at a time. Rows that cannot be taken are reported
// and do not hinder the others. A runner who exists already is unchanged,
// no matter who added it: repeating an import, also one that was killed half way,
// changes nothing that is there and adds what is missing. A finish that is new
// or another one is stored. An error of rows ends the import; what the report
// counts is stored even then. ErrContended.
func (s *Store) Import(ctx context.Context, event Event, rows iter.Seq2[Row, error]) (Report, error) {
	ctx, meter := azstorage.WithCounter(ctx)
	im := &importer{store: s, event: event}
	var now []Row
	var failed error
	for row, err := range rows {
		if err != nil {
			failed = fmt.Errorf("reading the list: %w", err)
			break
		}
		if now = append(now, row); len(now) == windowRows {
			if failed = im.take(ctx, now); failed != nil {
				break
			}
			now = now[:0]
		}
	}
	if failed == nil {
		failed = im.take(ctx, now)
	}
	im.report.Requests = meter.Requests()
	return im.report, failed
}

// importer carries what one window has to know of the windows before it.
type importer struct {
	store  *Store
	event  Event
	report Report
	// known says that the last window met runners who were there already. Then
	// the guards are read first, with one row range for a list in the order of the
	// bibs; else transactions are tried first, which costs nothing in a new race.
	known bool
}

// take stores a window and adds it to the report.
func (im *importer) take(ctx context.Context, rows []Row) error {
	w := &window{importer: im, stored: map[int]Registration{}, own: map[int]bool{}, read: im.known}
	for i := range rows {
		r, err := rows[i].normalised()
		var bad *Invalid
		if rows[i].Refused == nil && errors.As(err, &bad) {
			rows[i].Refused = bad
		}
		r.Event, r.ETag = im.event, rand.Text()
		rows[i].Registration = r
	}
	w.rows = rows
	for range maxRounds {
		report, err := w.round(ctx)
		if err == nil {
			im.known = w.met
			im.report.add(report)
			return nil
		}
		if !overtaken(err) {
			return fmt.Errorf("storing lines %d to %d: %w", rows[0].Line, rows[len(rows)-1].Line, err)
		}
		w.read = true
	}
	return fmt.Errorf("storing lines %d to %d: %w", rows[0].Line, rows[len(rows)-1].Line, ErrContended)
}

func (r *Report) add(o Report) {
	r.Accepted += o.Accepted
	r.Unchanged += o.Unchanged
	r.Refused += o.Refused
	r.Taken += o.Taken
	r.Refusals = append(r.Refusals, o.Refusals[:min(len(o.Refusals), maxRefusals-len(r.Refusals))]...)
}

// window is the rows that are worked on together.
type window struct {
	*importer
	rows []Row

	mu     sync.Mutex
	stored map[int]Registration // what the table holds, by bib, as far as we know
	own    map[int]bool         // rows that changed the table, by their place
	read   bool                 // read the guards before anything is tried
	met    bool                 // some runner was there before us
}

// round brings the table to what the rows say, or returns an error that says
// overtaken. The report is that of all rounds.
func (w *window) round(ctx context.Context) (Report, error) {
	if err := w.addNew(ctx); err != nil {
		return Report{}, err
	}
	var report Report
	changed := map[int][2]Registration{} // before and after, by bib
	for i, row := range w.rows {
		now := w.stored[row.Registration.Bib]
		switch {
		case row.Refused != nil:
			report.refuse(row, row.Refused)
		case !now.sameRunner(row.Registration):
			report.refuse(row, errTaken)
			report.Taken++
		case row.FinishedAt.IsZero() || row.FinishedAt.Equal(now.FinishedAt):
			report.Accepted++
			if !w.own[i] {
				report.Unchanged++
			}
		default:
			report.Accepted++
			w.own[i] = true
			next := now
			next.FinishedAt, next.ETag = row.FinishedAt, row.ETag
			if earlier, twice := changed[now.Bib]; twice {
				now = earlier[0]
			}
			changed[next.Bib] = [2]Registration{now, next}
			w.stored[next.Bib] = next
		}
	}
	return report, w.finish(ctx, changed)
}

var errTaken = invalid(BibTaken, "another runner has this bib")

func (r *Report) refuse(row Row, why *Invalid) {
	r.Refused++
	r.Refusals = append(r.Refusals, Refusal{Line: row.Line, Bib: row.Given, Code: why.Code, Detail: why.Detail})
}

// addNew adds every runner whose bib is free. Afterwards stored has all bibs of
// the window. Of two rows with one bib the first counts.
func (w *window) addNew(ctx context.Context) error {
	for range maxRounds {
		var places []int // of rows whose bib we know nothing of
		seen := map[int]bool{}
		for i, row := range w.rows {
			bib := row.Registration.Bib
			if _, known := w.stored[bib]; row.Refused == nil && !known && !seen[bib] {
				seen[bib] = true
				places = append(places, i)
			}
		}
		if len(places) == 0 {
			return nil
		}
		if w.read {
			w.read = false
			if err := w.readGuards(ctx, seen); err != nil {
				return err
			}
			continue
		}
		// After a clash the guards tell who was there; the others are tried again.
		err := w.submit(ctx, len(places), func(from, to int) ([]tablestore.Op, func([]string)) {
			var ops []tablestore.Op
			for _, i := range places[from:to] {
				ops = append(ops, w.rows[i].inserting()...)
			}
			return ops, func(etags []string) {
				for n, i := range places[from:to] {
					added := w.rows[i].Registration
					added.guard = etags[n*rowsPerRunner]
					w.stored[added.Bib], w.own[i] = added, true
				}
			}
		})
		switch {
		case err == nil:
		case errors.Is(err, tablestore.ErrExists):
			w.read = true
		default:
			return err
		}
	}
	return ErrContended
}

// finish stores new finishes, three operations each like an addition. When a
// runner was changed since the guard was read, what we know of it is forgotten.
func (w *window) finish(ctx context.Context, changed map[int][2]Registration) error {
	bibs := slices.Sorted(maps.Keys(changed))
	done := map[int]bool{}
	err := w.submit(ctx, len(bibs), func(from, to int) ([]tablestore.Op, func([]string)) {
		var ops []tablestore.Op
		for _, bib := range bibs[from:to] {
			ops = append(ops, changed[bib][1].replacing(changed[bib][0])...)
		}
		return ops, func(etags []string) {
			for n, bib := range bibs[from:to] {
				next := changed[bib][1]
				next.guard = etags[n*rowsPerRunner]
				w.stored[bib], done[bib] = next, true
			}
		}
	})
	for _, bib := range bibs {
		if !done[bib] {
			delete(w.stored, bib)
		}
	}
	return err
}

// submit runs one transaction for every perBatch of n runners, some at the same
// time. plan makes the operations of a part and says what to do with the new
// ETags. The first failure stops those that have not begun.
func (w *window) submit(ctx context.Context, n int, plan func(from, to int) ([]tablestore.Op, func(etags []string))) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for from := 0; from < n; from += perBatch {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			ops, done := plan(from, min(from+perBatch, n))
			// One that has begun may end: cut off, its outcome would be unknown.
			etags, err := w.store.rows.Submit(context.WithoutCancel(ctx), ops)
			if err != nil {
				return err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			done(etags)
			return nil
		})
	}
	return group.Wait()
}

// readGuards looks who has the bibs: one row range from the least to the greatest. In a
// list that is not in their order, that reads more rows than are wanted, in fewer requests
// than one for each bib.
func (w *window) readGuards(ctx context.Context, bibs map[int]bool) error {
	sorted := slices.Sorted(maps.Keys(bibs))
	query := tablestore.Query{
		PartitionKey: string(w.event), Class: tablestore.RowRange,
		RowFrom: guardKey(sorted[0]), RowTo: tablestore.PrefixEnd(guardKey(sorted[len(sorted)-1])),
	}
	for row, err := range w.store.rows.Query(ctx, query) {
		if err != nil {
			return fmt.Errorf("reading guards: %w", err)
		}
		bib, err := strconv.Atoi(strings.TrimPrefix(row.RowKey, guardPrefix))
		if err != nil || !bibs[bib] {
			continue
		}
		found, err := tablestore.Decode(ctx, w.store.rows, row, readRegistration)
		if err != nil {
			found = Registration{Bib: bib} // taken, and by no runner of the list
		}
		w.stored[bib], w.met = found, true
	}
	return nil
}
