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
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

var john = Registration{Event: marathonKey, Bib: 1234, Name: "John", Sex: Male, Age: 55}

// plain compares registrations without their versions.
var plain = cmp.Options{cmpopts.IgnoreFields(Registration{}, "ETag"), cmpopts.IgnoreUnexported(Registration{}), cmpopts.EquateEmpty()}

func ptr[T any](v T) *T { return &v }

// T6, T7, the seed of the paper literally: these keys, composed of all that is
// known of a runner, and each query one row range.
func TestThePapersExample(t *testing.T) {
	t.Parallel()
	r := newCalmRace(t)
	event, err := ParseEvent("2011 New York City Marathon__Full")
	if err != nil || event != "2011 New York City Marathon__Full" {
		t.Fatalf("the event's key is %q, %v", event, err)
	}
	counted, writes := azstore.WithCounter(t.Context())
	if _, err := r.Import(counted, event, rowsFrom(john)); err != nil {
		t.Fatal(err)
	}
	if n := writes.Requests() - writes.ByClass(tablestore.RowRange); n != 1 {
		t.Errorf("%d requests to store a runner, want one transaction", n)
	}
	want := []string{"AGE:055__1234__John__M", "BIB:01234__John__M__55", "GUARD:01234"}
	if diff := cmp.Diff(want, r.keys()); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}

	mary := Registration{Event: marathonKey, Bib: 55, Name: "Mary", Sex: Female, Age: 50}
	anna := Registration{Event: marathonKey, Bib: 77, Name: "Anna", Sex: Female, Age: 59}
	rick := Registration{Event: marathonKey, Bib: 800, Name: "Rick", Sex: Male, Age: 55}
	r.add(mary, anna, rick,
		Registration{Bib: 2, Name: "Lee", Sex: NonBinary, Age: 49}, Registration{Bib: 3, Name: "Kim", Sex: Female, Age: 60},
		Registration{Bib: 12, Name: "Old", Sex: Male, Age: 105}, Registration{Bib: 12345, Name: "Young", Sex: Female, Age: 5})
	for name, c := range map[string]struct {
		query Query
		want  []Registration
	}{
		"bib 1234":    {Query{Bib: ptr(1234)}, []Registration{john}},
		"bib 123":     {Query{Bib: ptr(123)}, nil},
		"age 55":      {Query{AgeFrom: ptr(55), AgeTo: ptr(55)}, []Registration{john, rick}}, // by the text of the bib
		"ages 50–59":  {Query{AgeFrom: ptr(50), AgeTo: ptr(59)}, []Registration{mary, john, rick, anna}},
		"ages 59–50":  {Query{AgeFrom: ptr(59), AgeTo: ptr(50)}, nil},
		"from age 61": {Query{AgeFrom: ptr(61)}, []Registration{{Event: marathonKey, Bib: 12, Name: "Old", Sex: Male, Age: 105}}},
		"up to 5":     {Query{AgeTo: ptr(5)}, []Registration{{Event: marathonKey, Bib: 12345, Name: "Young", Sex: Female, Age: 5}}},
	} {
		ctx, meter := azstore.WithCounter(t.Context())
		got := r.list(ctx, c.query, 100)
		if diff := cmp.Diff(c.want, got, plain); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if n := meter.Requests(); name != "ages 59–50" && (n != 1 || meter.ByClass(tablestore.RowRange) != 1 || meter.Counts().Rows != len(c.want)) {
			t.Errorf("%s: %d requests, %d of them row ranges, %d rows read for %d", name, n, meter.ByClass(tablestore.RowRange), meter.Counts().Rows, len(c.want))
		}
	}
	all := r.list(t.Context(), Query{}, 3) // three pages
	var bibs []int
	for _, reg := range all {
		bibs = append(bibs, reg.Bib)
	}
	if want := []int{2, 3, 12, 55, 77, 800, 1234, 12345}; !slices.Equal(bibs, want) {
		t.Errorf("all, by bib: %v, want %v", bibs, want)
	}
	ctx, meter := azstore.WithCounter(t.Context())
	got, err := r.Get(ctx, event, 1234)
	if diff := cmp.Diff(john, got, plain); err != nil || diff != "" || meter.ByClass(tablestore.Point) != 1 || meter.Requests() != 1 {
		t.Errorf("Get: %v, %d requests (-want +got):\n%s", err, meter.Requests(), diff)
	}
	if listed := r.list(t.Context(), Query{AgeFrom: ptr(55), AgeTo: ptr(55)}, 1)[0]; listed.ETag != got.ETag || got.ETag == "" {
		t.Errorf("the version is %q in one row and %q in another", listed.ETag, got.ETag)
	}
	if _, err := r.Get(ctx, event, 4321); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get of a bib that is free: %v", err)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Event{
		"2011 New York City Marathon__Full":     "2011 New York City Marathon__Full",
		"Sierre/Zinal '24 + #1__31 km":          "Sierre!2FZinal !2724 !2B !231__31 km",
		"Zürich_Marathon__Halb":                 "Zürich_Marathon__Halb",
		"駅伝__10区":                               "駅伝__10区",
		"🏃 run__5k":                             "!u01F3C3 run__5k",
		"100 %__Ultra!":                         "100 !25__Ultra!21",
		"a__b":                                  "a__b",
		"":                                      "",
		"__":                                    "",
		"a__":                                   "",
		"__b":                                   "",
		" __b":                                  "",
		"a __b":                                 "",
		"a\u3000__b":                            "",
		"Marathon":                              "",
		"a__b__c":                               "",
		"a___b":                                 "",
		"a____b":                                "",
		"a\x00__b":                              "",
		"a\u0085b__c":                           "",
		"a\xff__b":                              "",
		strings.Repeat("🏃", 70) + "__5k":        "",
		"a" + strings.Repeat("b", 600) + "__5k": "",
	} {
		got, err := ParseEvent(text)
		var bad *Invalid
		if got != want || (want == "") != (errors.As(err, &bad) && bad.Code == InvalidEvent) {
			t.Errorf("%.40q: %q, %v; want %q", text, got, err, want)
		}
	}
}

// Hostile names are stored as they are, or refused with a code that says why.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	r := newRace(t)
	taken := []string{
		"O'Brien", "__", "_", "a__b__M__55", "AC/DC", `back\slash`, "50 % + #1?", "🏃🏽‍♀️ Zoë", "山田 太郎", "!", "x!2Fy",
		"ﬁnn", "finn", strings.Repeat("é", MaxName), strings.Repeat("🏃", 50), "\u200fדנה",
	}
	var list, want []Registration
	for i, name := range taken {
		reg := Registration{Event: marathonKey, Bib: i + 1, Name: name, Sex: Male, Age: 30}
		want = append(want, reg)
		reg.Name = "  " + name + "\t"
		list = append(list, reg)
	}
	r.add(list...)
	if diff := cmp.Diff(want, r.list(t.Context(), Query{}, 100), plain); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	// Different texts that are the same name: one way of writing é.
	if report := r.add(Registration{Bib: 14, Name: strings.Repeat("e\u0301", MaxName), Sex: Male, Age: 30}); report.Unchanged != 1 {
		t.Errorf("another normal form: %+v", report)
	}
	refused := []struct {
		code Code
		reg  Registration
	}{
		{NameTooLong, Registration{Bib: 100, Name: strings.Repeat("x", 300), Sex: Male, Age: 30}},
		{NameTooLong, Registration{Bib: 100, Name: strings.Repeat("🏃", 64), Sex: Male, Age: 30}},
		{InvalidName, Registration{Bib: 100, Name: " \t ", Sex: Male, Age: 30}},
		{InvalidName, Registration{Bib: 100, Name: "a\x00b", Sex: Male, Age: 30}},
		{InvalidName, Registration{Bib: 100, Name: "a\nb", Sex: Male, Age: 30}},
		{InvalidName, Registration{Bib: 100, Name: "\u202egnoL", Sex: Male, Age: 30}},
		{InvalidName, Registration{Bib: 100, Name: "\u200b", Sex: Male, Age: 30}},
		{InvalidName, Registration{Bib: 100, Name: "a\xffb", Sex: Male, Age: 30}},
		{InvalidBib, Registration{Bib: 0, Name: "x", Sex: Male, Age: 30}},
		{InvalidBib, Registration{Bib: 100_000, Name: "x", Sex: Male, Age: 30}},
		{InvalidSex, Registration{Bib: 100, Name: "x", Sex: "m", Age: 30}},
		{InvalidAge, Registration{Bib: 100, Name: "x", Sex: Male, Age: -1}},
		{InvalidAge, Registration{Bib: 100, Name: "x", Sex: Male, Age: 151}},
		{InvalidFinish, Registration{Bib: 100, Name: "x", Sex: Male, Age: 30, FinishedAt: time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC)}},
	}
	for _, c := range refused {
		before := len(r.keys())
		report, err := r.Import(t.Context(), marathonKey, rowsFrom(c.reg))
		if err != nil || report.Refused != 1 || report.Accepted != 0 || report.Refusals[0].Code != c.code || report.Refusals[0].Line != 1 || report.Requests != 0 {
			t.Errorf("%+q: %+v, %v; want %s", c.reg.Name, report, err, c.code)
		}
		if len(r.keys()) != before {
			t.Errorf("%s: rows were stored", c.code)
		}
	}
}

// An edit moves both rows in the transaction of the guard.
func TestEdit(t *testing.T) {
	t.Parallel()
	r := newRace(t)
	r.add(john, Registration{Bib: 7, Name: "Ann", Sex: Female, Age: 20})
	first, err := r.Get(t.Context(), marathonKey, 1234)
	if err != nil {
		t.Fatal(err)
	}
	finish := time.Date(2011, 11, 6, 14, 3, 5, 123_456_789, time.UTC)
	next, err := r.Edit(t.Context(), marathonKey, 1234, first.ETag, Edit{Name: ptr("Johnny O'Brien"), Age: ptr(56)})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"AGE:020__7__Ann__F", "AGE:056__1234__Johnny O!27Brien__M",
		"BIB:00007__Ann__F__20", "BIB:01234__Johnny O!27Brien__M__56", "GUARD:00007", "GUARD:01234",
	}
	if diff := cmp.Diff(want, r.keys()); diff != "" {
		t.Errorf("rows after a move (-want +got):\n%s", diff)
	}
	if _, err := r.Edit(t.Context(), marathonKey, 1234, first.ETag, Edit{Age: ptr(57)}); !errors.Is(err, ErrChanged) {
		t.Errorf("edit of an old version: %v, want ErrChanged", err)
	}
	last, err := r.Edit(t.Context(), marathonKey, 1234, next.ETag, Edit{FinishedAt: &finish})
	if err != nil || last.ETag == next.ETag {
		t.Fatalf("finish: %v", err)
	}
	if diff := cmp.Diff(want, r.keys()); diff != "" {
		t.Errorf("a finish moved rows (-want +got):\n%s", diff)
	}
	for _, q := range []Query{{Bib: ptr(1234)}, {AgeFrom: ptr(56), AgeTo: ptr(56)}} {
		if got := r.list(t.Context(), q, 9); len(got) != 1 || !got[0].FinishedAt.Equal(finish.Truncate(time.Millisecond)) || got[0].ETag != last.ETag || got[0].Name != "Johnny O'Brien" {
			t.Errorf("listed: %+v", got)
		}
	}
	var bad *Invalid
	if _, err := r.Edit(t.Context(), marathonKey, 1234, "", Edit{Name: ptr(" ")}); !errors.As(err, &bad) || bad.Code != InvalidName {
		t.Errorf("blank name: %v", err)
	}
	if _, err := r.Edit(t.Context(), marathonKey, 8, "", Edit{Age: ptr(1)}); !errors.Is(err, ErrNotFound) {
		t.Errorf("edit of a bib that is free: %v", err)
	}
	if err := r.Delete(t.Context(), marathonKey, 1234, first.ETag); !errors.Is(err, ErrChanged) {
		t.Errorf("delete of an old version: %v", err)
	}
	if err := r.Delete(t.Context(), marathonKey, 1234, last.ETag); err != nil {
		t.Error(err)
	}
	if err := r.Delete(t.Context(), marathonKey, 1234, ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("second delete: %v", err)
	}
	if got := r.keys(); len(got) != 3 {
		t.Errorf("left behind: %q", got)
	}
	r.add(Registration{Bib: 1234, Name: "Another", Sex: Female, Age: 33}) // the bib is free
}

// TestRowsThatWereDeleted: a row that cannot be read is one an operator may delete. Its
// runner can still be changed and taken off the list, and the import calls the bib taken.
func TestRowsThatWereDeleted(t *testing.T) {
	t.Parallel()
	r := newRace(t)
	list := func(name string, bibs ...int) Report {
		t.Helper()
		report, err := r.Import(t.Context(), marathonKey, func(yield func(Row, error) bool) {
			for i, bib := range bibs {
				if !yield(Row{Line: i + 1, Registration: Registration{Bib: bib, Name: name, Sex: Male, Age: 40}}, nil) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	list("John", 1, 2, 3)
	drop := func(bib int) {
		t.Helper()
		now, err := r.Get(t.Context(), marathonKey, bib)
		if err == nil {
			err = r.rows.Delete(t.Context(), newYork, now.bibKey(), tablestore.AnyETag)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	finish := time.Now()
	for _, edit := range []Edit{{FinishedAt: &finish}, {Name: ptr("Johnny")}} {
		drop(1)
		if _, err := r.Edit(t.Context(), marathonKey, 1, "", edit); err != nil {
			t.Errorf("edit: %v", err)
		}
		if page, _, err := r.List(t.Context(), marathonKey, Query{Bib: ptr(1)}, 1, ""); err != nil || len(page) != 1 {
			t.Errorf("after the edit: %v, %v", page, err)
		}
	}
	drop(1)
	if err := r.Delete(t.Context(), marathonKey, 1, ""); err != nil {
		t.Errorf("delete: %v", err)
	}
	for _, bib := range []int{2, 3} {
		if _, err := r.rows.Upsert(t.Context(), tablestore.Entity{PartitionKey: newYork, RowKey: guardKey(bib), Props: map[string]any{"Bib": "two"}}); err != nil {
			t.Fatal(err)
		}
	}
	if report := list("John", 2, 3, 4); report.Taken != 2 || report.Accepted != 1 {
		t.Errorf("with guards that cannot be read: %+v", report)
	}
	if report := list("John", 2); report.Taken != 1 {
		t.Errorf("with one that cannot be read: %+v", report)
	}
}

// Another edit comes between the reading and the transaction of ours. It
// moves no key, so only the version can tell: with an ETag ours is late, without
// one it is made again on top of the other.
func TestEditsThatMeet(t *testing.T) {
	t.Parallel()
	finish := time.Date(2011, 11, 6, 13, 0, 0, 0, time.UTC)
	wide := "Ｊohn" // another text with the same key
	for _, conditional := range []bool{true, false} {
		r := newRace(t)
		r.add(john)
		now, err := r.Get(t.Context(), marathonKey, 1234)
		if err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		s, _ := r.faulty(quick, func(q *http.Request) inject.Fault {
			if strings.HasSuffix(q.URL.Path, "$batch") {
				once.Do(func() {
					if _, err := r.Edit(t.Context(), marathonKey, 1234, now.ETag, Edit{FinishedAt: &finish}); err != nil {
						t.Error(err)
					}
				})
			}
			return inject.None
		})
		want, ifMatch := john, ""
		want.FinishedAt = finish
		if conditional {
			ifMatch = now.ETag
		} else {
			want.Name = wide
		}
		if _, err := s.Edit(t.Context(), marathonKey, 1234, ifMatch, Edit{Name: &wide}); errors.Is(err, ErrChanged) != conditional || err != nil && !conditional {
			t.Errorf("conditional %v: %v", conditional, err)
		}
		for _, q := range []Query{{}, {AgeFrom: ptr(0)}} {
			if diff := cmp.Diff([]Registration{want}, r.list(t.Context(), q, 10), plain); diff != "" {
				t.Errorf("conditional %v (-want +got):\n%s", conditional, diff)
			}
		}
	}
}

// Q13: every request of an edit, a deletion or an import may lose its reply, or
// never arrive. With a retry the caller never learns of it; without one nothing
// is half done.
func TestUnknownOutcomes(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	edited := Registration{Event: marathonKey, Bib: 1234, Name: "Jon", Sex: Male, Age: 56}
	added := Registration{Event: marathonKey, Bib: 9, Name: "New", Sex: Female, Age: 30}
	for name, do := range map[string]func(*Store) error{
		"edit": func(s *Store) error {
			_, err := s.Edit(t.Context(), marathonKey, 1234, "", Edit{Name: ptr("Jon"), Age: ptr(56)})
			return err
		},
		"delete": func(s *Store) error { return s.Delete(t.Context(), marathonKey, 1234, "") },
		"import": func(s *Store) error {
			report, err := s.Import(t.Context(), marathonKey, rowsFrom(added))
			if err == nil && (report.Accepted != 1 || report.Unchanged != 0) {
				err = fmt.Errorf("report %+v", report)
			}
			return err
		},
	} {
		after := map[string][]Registration{"edit": {edited}, "delete": nil, "import": {added, john}}[name]
		for _, fault := range []inject.Fault{inject.LostReply, inject.Reset, inject.ServerBusy} {
			for _, retried := range []bool{true, false} {
				r := newRace(t)
				r.add(john)
				retry := quick
				if !retried {
					retry.MaxRetries = 0
				}
				s, faults := r.faulty(retry, inject.Once(fault, 1, func(q *http.Request) bool { return strings.HasSuffix(q.URL.Path, "$batch") }))
				err := do(s)
				if (err == nil) != retried || faults.Fired() != 1 {
					t.Errorf("%s, fault %s, retried %v: %v, %d faults", name, fault, retried, err, faults.Fired())
				}
				want := after
				if !retried && fault != inject.LostReply {
					want = []Registration{john} // nothing was done
				}
				byBib, byAge := r.list(t.Context(), Query{}, 10), r.list(t.Context(), Query{AgeFrom: ptr(0)}, 10)
				slices.SortFunc(byAge, func(a, b Registration) int { return a.Bib - b.Bib })
				if diff := cmp.Diff(want, byBib, plain); diff != "" {
					t.Errorf("%s, fault %s, retried %v: by bib (-want +got):\n%s", name, fault, retried, diff)
				}
				if diff := cmp.Diff(byBib, byAge, cmpopts.IgnoreUnexported(Registration{})); diff != "" || len(r.keys()) != 3*len(want) {
					t.Errorf("%s, fault %s, retried %v: the orders differ (-bib +age):\n%s%q", name, fault, retried, diff, r.keys())
				}
			}
		}
	}
}

func TestTokensAreChecked(t *testing.T) {
	t.Parallel()
	r := newRace(t)
	r.add(john, Registration{Bib: 7, Name: "Ann", Sex: Female, Age: 20}, Registration{Bib: 9, Name: "Bea", Sex: Female, Age: 21})
	_, next, err := r.List(t.Context(), marathonKey, Query{}, 1, "")
	if err != nil || next == "" {
		t.Fatalf("token %q, %v", next, err)
	}
	for name, c := range map[string]struct {
		event Event
		query Query
		token string
	}{
		"another event": {"a__b", Query{}, next}, "another query": {marathonKey, Query{AgeFrom: ptr(1)}, next}, "damaged": {marathonKey, Query{}, next[1:]},
	} {
		if _, _, err := r.List(t.Context(), c.event, c.query, 1, c.token); !errors.Is(err, tablestore.ErrToken) {
			t.Errorf("%s: %v, want ErrToken", name, err)
		}
	}
	// Who comes before the place does not move it.
	r.add(Registration{Bib: 1, Name: "Early", Sex: Female, Age: 1})
	if page, _, err := r.List(t.Context(), marathonKey, Query{}, 1, next); err != nil || page[0].Bib != 9 {
		t.Errorf("second page: %+v, %v", page, err)
	}
}
