package registrations

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// field is n runners with every step-th bib.
func field(n, step int) []Registration {
	list := make([]Registration, n)
	for i := range list {
		bib := 1 + i*step
		list[i] = Registration{Event: marathonKey, Bib: bib, Name: fmt.Sprintf("Runner %d", bib), Sex: []Sex{Female, Male, NonBinary}[bib%3], Age: 18 + bib%60}
	}
	return list
}

func (r *race) importing(list ...Registration) Report {
	r.t.Helper()
	report, err := r.Import(r.t.Context(), marathonKey, rowsFrom(list...))
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

func (r *race) versions() map[string]string {
	r.t.Helper()
	etags := map[string]string{}
	for row, err := range r.rows.Query(r.t.Context(), tablestore.Query{PartitionKey: string(marathonKey), Class: tablestore.RowRange}) {
		if err != nil {
			r.t.Fatal(err)
		}
		etags[row.RowKey] = row.ETag
	}
	return etags
}

// T2: three operations for each runner, a hundred in a transaction, and no more
// requests than that and a page of guards for each window. A repeated import changes no
// row.
func TestImportIsWholeTransactions(t *testing.T) {
	t.Parallel()
	r := newCalmRace(t)
	const n = windowRows + 210
	list := field(n, 1)
	report := r.importing(list...)
	// 990 and 210 runners, 33 in a transaction.
	if diff := cmp.Diff(Report{Accepted: n, Requests: 1 + 30 + 1 + 7}, report); diff != "" {
		t.Errorf("first import (-want +got):\n%s", diff)
	}
	versions := r.versions()
	if len(versions) != 3*n {
		t.Errorf("%d rows for %d runners", len(versions), len(list))
	}
	again := r.importing(list...)
	if again.Accepted != n || again.Unchanged != n || again.Requests > 3 {
		t.Errorf("second import: %+v, want at most 3 requests", again)
	}
	if diff := cmp.Diff(versions, r.versions()); diff != "" {
		t.Errorf("a repeated import changed rows (-first +second):\n%s", diff)
	}
	// In another order each window reads the guards of the whole race.
	slices.SortFunc(list, func(a, b Registration) int { return strings.Compare(a.Name, b.Name) })
	shuffled := r.importing(list...)
	if shuffled.Unchanged != n || shuffled.Requests > 6 {
		t.Errorf("in another order: %+v", shuffled)
	}
	if diff := cmp.Diff(versions, r.versions()); diff != "" {
		t.Errorf("another order changed rows (-first +second):\n%s", diff)
	}
}

// What becomes of a row depends on who has the bib.
func TestImportRows(t *testing.T) {
	t.Parallel()
	r := newRace(t)
	finish := time.Date(2011, 11, 6, 13, 0, 0, 0, time.UTC)
	with := func(reg Registration, change func(*Registration)) Registration {
		change(&reg)
		return reg
	}
	finished := with(john, func(r *Registration) { r.FinishedAt = finish })
	r.add(john)

	for _, c := range []struct {
		name                         string
		rows                         []Registration
		accepted, unchanged, refused int
		john                         Registration
	}{
		{"the same", []Registration{john}, 1, 1, 0, john},
		{"another name", []Registration{with(john, func(r *Registration) { r.Name = "Jon" })}, 0, 0, 1, john},
		{"another sex", []Registration{with(john, func(r *Registration) { r.Sex = Female })}, 0, 0, 1, john},
		{"another age", []Registration{with(john, func(r *Registration) { r.Age = 56 })}, 0, 0, 1, john},
		{"a finish", []Registration{finished}, 1, 0, 0, finished},
		{"the same finish", []Registration{finished}, 1, 1, 0, finished},
		{"no finish", []Registration{john}, 1, 1, 0, finished},
		{"another finish, twice", []Registration{
			with(john, func(r *Registration) { r.FinishedAt = finish.Add(time.Hour) }),
			with(john, func(r *Registration) { r.FinishedAt = finish.Add(time.Minute) }),
		}, 2, 0, 0, with(john, func(r *Registration) { r.FinishedAt = finish.Add(time.Minute) })},
		{"new, the same again, with a finish, and another runner", []Registration{
			{Bib: 5, Name: "New", Sex: Female, Age: 30}, {Bib: 5, Name: "New", Sex: Female, Age: 30},
			{Bib: 5, Name: "New", Sex: Female, Age: 30, FinishedAt: finish}, {Bib: 5, Name: "Other", Sex: Female, Age: 30},
		}, 3, 1, 1, with(john, func(r *Registration) { r.FinishedAt = finish.Add(time.Minute) })},
	} {
		report := r.importing(c.rows...)
		if report.Accepted != c.accepted || report.Unchanged != c.unchanged || report.Refused != c.refused || report.Taken != c.refused {
			t.Errorf("%s: %+v, want %d accepted, %d unchanged, %d refused", c.name, report, c.accepted, c.unchanged, c.refused)
		}
		for i, refusal := range report.Refusals {
			if refusal.Code != BibTaken || refusal.Line != len(c.rows)-len(report.Refusals)+i+1 {
				t.Errorf("%s: %+v", c.name, refusal)
			}
		}
		got := r.list(t.Context(), Query{Bib: ptr(1234)}, 10)
		if diff := cmp.Diff([]Registration{c.john}, got, plain); diff != "" {
			t.Errorf("%s: bib 1234 (-want +got):\n%s", c.name, diff)
		}
	}
	if got, err := r.Get(t.Context(), marathonKey, 5); err != nil || !got.FinishedAt.Equal(finish) || got.Name != "New" {
		t.Errorf("bib 5: %+v, %v", got, err)
	}
	if report := r.importing(); report.Requests != 0 || report.Accepted != 0 {
		t.Errorf("an import of nothing: %+v", report)
	}
}

// The bib of a later line may be in another window; the first line still counts.
func TestTheFirstLineHasTheBib(t *testing.T) {
	t.Parallel()
	r := newRace(t)
	list := field(windowRows+5, 1)
	list[windowRows+2].Bib, list[10].Bib = 3, 5 // beyond the window; inside it
	report := r.importing(list...)
	want := Report{Accepted: windowRows + 3, Refused: 2, Taken: 2, Refusals: []Refusal{
		{Line: 11, Code: BibTaken, Detail: errTaken.Detail}, {Line: windowRows + 3, Code: BibTaken, Detail: errTaken.Detail},
	}, Requests: report.Requests}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, err := r.Get(t.Context(), marathonKey, 3); err != nil || got.Name != "Runner 3" {
		t.Errorf("bib 3: %+v, %v", got, err)
	}
}

// An import that fails at any request is completed by its repetition: the rows
// are those of an import that nothing disturbed.
func TestAKilledImportIsCompleted(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	undisturbed := newRace(t)
	list := field(100, 1)
	finish := time.Date(2011, 11, 6, 13, 0, 0, 0, time.UTC)
	for i := range list {
		if i%2 == 0 {
			list[i].FinishedAt = finish.Add(time.Duration(i) * time.Second)
		}
	}
	undisturbed.add(list...)
	want := undisturbed.keys()
	wantRunners := undisturbed.list(t.Context(), Query{}, 1000)
	for _, fault := range []inject.Fault{inject.Reset, inject.LostReply} {
		for died := 0; ; died++ {
			r := newRace(t)
			r.add(field(25, 4)...) // some are there without a finish
			dying, _ := r.faulty(azstore.Retry{Strategy: azstore.NoRetry}, inject.DiesAt(died, fault))
			_, err := dying.Import(t.Context(), marathonKey, rowsFrom(list...))
			if got := r.keys(); len(got)%rowsPerRunner != 0 {
				t.Errorf("fault %s at request %d: %d rows", fault, died, len(got))
			}
			report := r.importing(list...)
			if report.Accepted != len(list) {
				t.Errorf("fault %s at request %d: %+v", fault, died, report)
			}
			if diff := cmp.Diff(want, r.keys()); diff != "" {
				t.Errorf("fault %s at request %d (-want +got):\n%s", fault, died, diff)
			}
			if diff := cmp.Diff(wantRunners, r.list(t.Context(), Query{}, 1000), plain); diff != "" {
				t.Errorf("fault %s at request %d (-want +got):\n%s", fault, died, diff)
			}
			if err == nil {
				if died < 5 {
					t.Errorf("only %d requests in an import", died)
				}
				break
			}
		}
	}
}

// Two imports that want the same bibs at the same time: everybody is there once,
// and each bib belongs to one of the two lists.
func TestImportsSideBySide(t *testing.T) {
	t.Parallel()
	r := newRace(t)
	one, two := field(600, 1), field(600, 1)
	for i := range two {
		if i%3 == 0 {
			two[i].Name = "Other " + two[i].Name
		}
	}
	slices.Reverse(two)
	var wait sync.WaitGroup
	reports := make([]Report, 2)
	for i, list := range [][]Registration{one, two} {
		wait.Go(func() {
			var err error
			if reports[i], err = r.Import(t.Context(), marathonKey, rowsFrom(list...)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if refused := reports[0].Refused + reports[1].Refused; refused != 200 || reports[0].Taken+reports[1].Taken != 200 {
		t.Errorf("%d refused, want 200: %+v %+v", refused, reports[0], reports[1])
	}
	if got := len(r.keys()); got != 3*600 {
		t.Errorf("%d rows for 600 runners", got)
	}
	if got := r.list(t.Context(), Query{}, 1000); len(got) != 600 {
		t.Errorf("%d runners by bib", len(got))
	}
}

// A bib that is edited again and again while its finish is imported: the import
// looks again, and the edit is not lost.
func TestFinishOfARunnerWhoIsEdited(t *testing.T) {
	t.Parallel()
	r := newRace(t)
	list := field(100, 1)
	r.add(list...)
	var once sync.Once
	s, _ := r.faulty(quick, func(q *http.Request) inject.Fault {
		if strings.HasSuffix(q.URL.Path, "$batch") {
			once.Do(func() {
				if _, err := r.Edit(t.Context(), marathonKey, 50, "", Edit{Age: ptr(99)}); err != nil {
					t.Error(err)
				}
			})
		}
		return inject.None
	})
	finish := time.Date(2011, 11, 6, 13, 0, 0, 0, time.UTC)
	for i := range list {
		list[i].FinishedAt = finish
	}
	// The edit comes between the guards' reading and the transaction.
	report, err := s.Import(t.Context(), marathonKey, rowsFrom(list...))
	if err != nil || report.Accepted != 99 || report.Taken != 1 || report.Refusals[0].Line != 50 {
		t.Errorf("%+v, %v", report, err)
	}
	if got, err := r.Get(t.Context(), marathonKey, 50); err != nil || got.Age != 99 || !got.FinishedAt.IsZero() {
		t.Errorf("bib 50: %+v, %v", got, err)
	}
	if got, err := r.Get(t.Context(), marathonKey, 100); err != nil || !got.FinishedAt.Equal(finish) {
		t.Errorf("bib 100: %+v, %v", got, err)
	}
}

// An error of the list ends the import; the report counts what is stored.
func TestAListThatBreaksOff(t *testing.T) {
	t.Parallel()
	r := newRace(t)
	broken := errors.New("broken")
	report, err := r.Import(t.Context(), marathonKey, func(yield func(Row, error) bool) {
		for i, reg := range field(windowRows+10, 1) {
			if !yield(Row{Line: i + 1, Registration: reg}, nil) {
				return
			}
		}
		yield(Row{}, broken)
	})
	if !errors.Is(err, broken) || report.Accepted != windowRows || len(r.keys()) != 3*windowRows {
		t.Errorf("%+v, %v, %d rows", report, err, len(r.keys()))
	}
}
