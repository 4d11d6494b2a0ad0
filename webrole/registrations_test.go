package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
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
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

const newYork = "2011 New York City Marathon__Full"

func eventPath(event string) string { return "/events/" + url.PathEscape(event) + "/registrations" }

// calm is for tests that count requests, of which storage that is busy makes
// more: the emulator itself, where the others meet the model of Azure's servers.
func calm() map[string]string {
	if direct := os.Getenv(azuritetest.CalmVariable); direct != "" {
		return map[string]string{"AZURE_STORAGE_CONNECTION_STRING": direct}
	}
	return nil
}

// register posts runners to the marathon; body is JSON or, with a header line, CSV.
func (s *server) register(event, body string) answer {
	s.t.Helper()
	if strings.HasPrefix(body, "bib,") {
		return s.call(http.MethodPost, eventPath(event), body, "Content-Type", "text/csv; charset=utf-8")
	}
	return s.call(http.MethodPost, eventPath(event), body)
}

// runners lists what a query finds, as short texts in order.
func (s *server) runners(event, query string) (found []string, cost api.RegistrationList) {
	s.t.Helper()
	list := decode[api.RegistrationList](s.t, s.call(http.MethodGet, eventPath(event)+query, nil), http.StatusOK)
	for _, r := range list.Items {
		found = append(found, fmt.Sprintf("%d %s %s %d", r.Bib, r.Name, r.Sex, r.Age))
	}
	return found, list
}

// TestThePapersRace: the seed example over HTTP, literally (T7). Each query is
// one row range and says so; a bib that is taken is 409.
func TestThePapersRace(t *testing.T) {
	t.Parallel()
	s := start(t, calm())
	report := decode[api.ImportReport](t, s.register(newYork, `[{"bib":1234,"name":"John","sex":"M","age":55}]`), http.StatusOK)
	if diff := cmp.Diff(api.ImportReport{Accepted: 1, Requests: 2, Refusals: []api.Refusal{}, Charset: "utf-8"}, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	rows := tablestore.New(s.account, registrations.Table)
	for _, key := range []string{"BIB:01234__John__M__55", "AGE:055__1234__John__M"} {
		if _, err := rows.Get(t.Context(), newYork, key); err != nil {
			t.Errorf("row %s: %v", key, err)
		}
	}
	s.register(newYork, "bib,name,sex,age\n7,Ann,F,50\n800,Rick,M,55\n99999,Bea,F,59\n12,Old,X,105\n").want(t, http.StatusOK, "")
	for query, want := range map[string][]string{
		"?bib=1234":            {"1234 John M 55"},
		"?age=55":              {"1234 John M 55", "800 Rick M 55"},
		"?ageFrom=50&ageTo=59": {"7 Ann F 50", "1234 John M 55", "800 Rick M 55", "99999 Bea F 59"},
		"":                     {"7 Ann F 50", "12 Old X 105", "800 Rick M 55", "1234 John M 55", "99999 Bea F 59"},
		"?bib=123":             nil,
		"?age=5":               nil,
	} {
		got, cost := s.runners(newYork, query)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
		if cost.Requests != 1 || cost.EntitiesRead != len(want) {
			t.Errorf("%s: %d requests, %d rows read for %d", query, cost.Requests, cost.EntitiesRead, len(want))
		}
	}
	s.register(newYork, `[{"bib":1234,"name":"Jane","sex":"F","age":30}]`).want(t, http.StatusConflict, "bib_taken")
	// Beside a row that can be taken it is a line of the report.
	report = decode[api.ImportReport](t, s.register(newYork, `[{"bib":1234,"name":"Jane","sex":"F","age":30},{"bib":1235,"name":"Jane","sex":"F","age":30}]`), http.StatusOK)
	if report.Accepted != 1 || report.Refused != 1 || report.Refusals[0].Code != "bib_taken" || report.Refusals[0].Line != 1 || report.Refusals[0].Bib != "1234" {
		t.Errorf("report %+v", report)
	}

	var pages []string
	for token := ""; ; {
		got, page := s.runners(newYork, "?ageFrom=50&ageTo=59&limit=1"+token)
		pages = append(pages, got...)
		if page.NextPageToken == nil {
			break
		}
		token = "&pageToken=" + url.QueryEscape(*page.NextPageToken)
		s.call(http.MethodGet, eventPath(newYork)+"?age=55&limit=1"+token, nil).want(t, 400, "invalid_page_token")
		s.call(http.MethodGet, eventPath("another__race")+"?ageFrom=50&ageTo=59"+token, nil).want(t, 400, "invalid_page_token")
	}
	if len(pages) != 4 || pages[0] != "7 Ann F 50" {
		t.Errorf("pages of one: %v", pages)
	}
}

func TestOneRunner(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.register(newYork, "bib,name,sex,age\n1234,John,M,55\n7,Ann,F,50\n").want(t, http.StatusOK, "")
	john := eventPath(newYork) + "/1234"
	first := decode[api.Registration](t, s.call(http.MethodGet, john, nil), http.StatusOK)
	if _, list := s.runners(newYork, "?age=55"); list.Items[0].Etag != first.Etag {
		t.Errorf("etag %s in a list, %s alone", list.Items[0].Etag, first.Etag)
	}
	s.call(http.MethodPatch, john, `{"age":56}`).want(t, http.StatusPreconditionRequired, "precondition_required")
	s.call(http.MethodPatch, john, `{"age":56,"bib":9}`, "If-Match", first.Etag).want(t, 400, "invalid_body")
	s.call(http.MethodPatch, john, `{}`, "If-Match", first.Etag).want(t, 400, "invalid_body")
	s.call(http.MethodPatch, john, `{"name":" \t "}`, "If-Match", first.Etag).want(t, 400, "invalid_name")
	s.call(http.MethodPatch, john, `{"name":"`+strings.Repeat("🏃", 100)+`"}`, "If-Match", first.Etag).want(t, 400, "name_too_long")
	moved := decode[api.Registration](t, s.call(http.MethodPatch, john, `{"name":"Johnny","age":60,"finishedAt":"2011-11-06T14:03:05.250-05:00"}`, "If-Match", first.Etag), http.StatusOK)
	if moved.Etag == first.Etag || moved.Name != "Johnny" || !moved.FinishedAt.Equal(time.Date(2011, 11, 6, 19, 3, 5, 250e6, time.UTC)) {
		t.Errorf("edited: %+v", moved)
	}
	s.call(http.MethodPatch, john, `{"age":57}`, "If-Match", first.Etag).want(t, http.StatusPreconditionFailed, "precondition_failed")
	s.call(http.MethodPatch, john, `{"age":57}`, "If-Match", "nonsense!").want(t, http.StatusPreconditionFailed, "precondition_failed")
	for query, want := range map[string][]string{"?bib=1234": {"1234 Johnny M 60"}, "?age=60": {"1234 Johnny M 60"}, "?age=55": nil} {
		if got, _ := s.runners(newYork, query); !slices.Equal(got, want) {
			t.Errorf("%s after the edit: %v", query, got)
		}
	}
	s.call(http.MethodDelete, john, nil, "If-Match", first.Etag).want(t, http.StatusPreconditionFailed, "precondition_failed")
	s.call(http.MethodDelete, john, nil, "If-Match", moved.Etag).want(t, http.StatusNoContent, "")
	s.call(http.MethodDelete, john, nil).want(t, http.StatusNoContent, "")
	s.call(http.MethodGet, john, nil).want(t, http.StatusNotFound, "not_found")
	s.call(http.MethodPatch, john, `{"age":57}`, "If-Match", "*").want(t, http.StatusNotFound, "not_found")
	if got, _ := s.runners(newYork, ""); !slices.Equal(got, []string{"7 Ann F 50"}) {
		t.Errorf("left: %v", got)
	}
}

// Lists come as spreadsheets save them, in the encoding of the sender's language, and
// the report says in which.
func TestStartListsOfSpreadsheets(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for event, c := range map[string]struct{ list, languages, charset, runner string }{
		"UTF-8__Full":   {"bib;name;sex;age\n1;Zoë Müller;F;30\n", "", "utf-8", "1 Zoë Müller F 30"},
		"Mark__Full":    {"\ufeffBib\tName\tSex\tAge\r\n1\tZoë\tF\t30\r\n", "pl", "utf-8", "1 Zoë F 30"},
		"Western__Full": {"Age;Sex;Name;Bib\r\n30;F;Zo\xeb M\xfcller;1\r\n", "", "windows-1252", "1 Zoë Müller F 30"},
		"Czech__Full": {
			"bib;name;sex;age\r\n1;V\xe1clav Dvo\xf8\xe1k;M;30\r\n", "en-US,en;q=0.9,cs;q=0.8", "windows-1250",
			"1 Václav Dvořák M 30",
		},
		"Danish__Full":       {"bib;name;sex;age\r\n1;S\xf8ren;M;30\r\n", "da,en;q=0.5", "windows-1252", "1 Søren M 30"},
		"Not a header__Full": {"bib;name;sex;age\r\n1;S\xf8ren;M;30\r\n", ";;q=x,,", "windows-1252", "1 Søren M 30"},
	} {
		headers := []string{"Content-Type", "text/csv"}
		if c.languages != "" {
			headers = append(headers, "Accept-Language", c.languages)
		}
		report := decode[api.ImportReport](t, s.call(http.MethodPost, eventPath(event), []byte(c.list), headers...), http.StatusOK)
		if report.Accepted != 1 || report.Charset != c.charset {
			t.Errorf("%s: %+v, want it in %s", event, report, c.charset)
		}
		if got, _ := s.runners(event, ""); !slices.Equal(got, []string{c.runner}) {
			t.Errorf("%s: %v, want %s", event, got, c.runner)
		}
	}
	// What cannot be read says what to do.
	for list, code := range map[string]string{
		"bib;name;sex\n1;Ann;F\n":                                    "invalid_body: Line 1: the first line must name the columns bib, name, sex and age and, if there are finishes, finishedAt, separated by commas, semicolons or tabs; age is missing. 0 rows before it are stored; importing all again is safe.",
		"bib,name,sex,age\n1,\x89PNG\x81\xb4\xd9\xff\xee\x81,F,30\n": "undecodable_text: The list cannot be read: the encoding of the text cannot be told from its bytes: save it as UTF-8 and send it again. In Excel that is the file type CSV UTF-8. 0 of its rows are stored; importing all again is safe.",
	} {
		a := s.call(http.MethodPost, eventPath(newYork), []byte(list), "Content-Type", "text/csv")
		code, detail, _ := strings.Cut(code, ": ")
		a.want(t, http.StatusBadRequest, code)
		if got := decode[api.Problem](t, a, http.StatusBadRequest); got.Detail != detail {
			t.Errorf("%q: %q, want %q", list, got.Detail, detail)
		}
	}
}

// TestBadStartLists: what cannot be read, and what of it is stored.
// TestEventsAreListed: an event is on the list when it has a start list, once, as people
// write it.
func TestEventsAreListed(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for range 2 {
		for _, event := range []string{"Zürich & Lake__Half", "City Run 2026__Full"} {
			s.call(http.MethodPost, "/events/"+url.PathEscape(event)+"/registrations", []map[string]any{{
				"bib": 7, "name": "Ann", "sex": "F", "age": 30,
			}}).want(t, http.StatusOK, "")
		}
	}
	first := decode[api.EventList](t, s.call(http.MethodGet, "/events?limit=1", nil), http.StatusOK)
	if first.NextPageToken == nil {
		t.Fatalf("the first page: %+v", first)
	}
	rest := decode[api.EventList](t, s.call(http.MethodGet, "/events?pageToken="+url.QueryEscape(*first.NextPageToken), nil), http.StatusOK)
	if diff := cmp.Diff([]string{"City Run 2026__Full", "Zürich & Lake__Half"}, append(first.Items, rest.Items...)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestBadStartLists(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	post := func(body any, headers ...string) answer {
		return s.call(http.MethodPost, eventPath(newYork), body, headers...)
	}
	csv := []string{"Content-Type", "text/csv"}
	post("bib,name,sex,age\n", "Content-Type", "text/plain").want(t, 415, "unsupported_content_type")
	post([]byte("bib,name,sex,age\n")).want(t, 415, "unsupported_content_type")
	post("bib,name,sex,age\n", "Content-Type", "text/csv; charset=iso-8859-1").want(t, 415, "unsupported_content_type")
	post(zipped("[]"), "Content-Type", "application/json", "Content-Encoding", "gzip").want(t, 415, "unsupported_content_type")
	post(`{"bib":1}`).want(t, 400, "invalid_json")
	post(``).want(t, 400, "invalid_json")
	post("1,Ann,F,30\n", csv...).want(t, 400, "invalid_body")
	a := post(`[{"bib":1,"name":"Ann","sex":"F","age":30},{"bib":2,`)
	a.want(t, 400, "invalid_json")
	if !bytes.Contains(a.body, []byte("Line 2:")) {
		t.Errorf("the answer does not say where: %s", a.body)
	}
	long := "bib,name,sex,age\n" + strings.Repeat("x", 65<<20)
	post(long, csv...).want(t, 413, "body_too_large")
	if status, body := s.raw("POST /api/v1"+eventPath(newYork)+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: 1000\r\n\r\nbib,name,sex,age\n1,Ann,F,30\n", true); status != 400 || !strings.Contains(body, `"code":"body_incomplete"`) {
		t.Errorf("a list that breaks off: %d %s", status, body)
	}
	if got, _ := s.runners(newYork, ""); len(got) != 0 {
		t.Errorf("stored: %v", got)
	}

	list := "bib,name,sex,age,finishedAt\n" +
		"1,O'Brien,F,30,\n" + "2,__,M,31,2011-11-06T14:03:05Z\n" + "3,A/C \\ #1?,X,32,\n" + "4,🏃 Zoë,F,33,\n" + // taken
		"x,Ann,F,30,\n" + "0,Ann,F,30,\n" + "100000,Ann,F,30,\n" + // no bibs
		"5,,F,30,\n" + "6," + strings.Repeat("n", 300) + ",F,30,\n" + "7,Ann,W,30,\n" + "8,Ann,F,151,\n" + "9,Ann,F,30,noon\n" +
		"10,\"Ann,F,30,\n" + "11,Ann,F\n" + "1,Somebody,F,30,\n" + "1,O'Brien,F,30,\n"
	report := decode[api.ImportReport](t, s.register(newYork, list), http.StatusOK)
	var got []string
	for _, r := range report.Refusals {
		got = append(got, fmt.Sprintf("%d %s", r.Line, r.Code))
	}
	want := []string{
		"6 invalid_bib", "7 invalid_bib", "8 invalid_bib", "9 invalid_name", "10 name_too_long", "11 invalid_sex", "12 invalid_age", "13 invalid_finish",
		"14 invalid_row", "15 invalid_row", "16 bib_taken",
	}
	if diff := cmp.Diff(want, got); diff != "" || report.Accepted != 5 || report.Unchanged != 1 || report.Refused != len(want) {
		t.Errorf("%+v (-want +got):\n%s", report, diff)
	}
	names, _ := s.runners(newYork, "")
	if diff := cmp.Diff([]string{"1 O'Brien F 30", "2 __ M 31", `3 A/C \ #1? X 32`, "4 🏃 Zoë F 33"}, names); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	for _, query := range []string{"?bib=0", "?bib=x", "?bib=100000", "?age=151", "?age=-1", "?bib=1&age=3", "?age=3&ageTo=5", "?name=Ann", "?limit=101"} {
		s.call(http.MethodGet, eventPath(newYork)+query, nil).want(t, 400, "invalid_parameter")
	}
	s.call(http.MethodGet, eventPath(newYork)+"/0", nil).want(t, 400, "invalid_parameter")
}

// TestOddEvents: the event is one part of the address, whatever it holds.
func TestOddEvents(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for i, event := range []string{
		newYork, "Sierre/Zinal__31 km", "100 % + more?__#1", `back\slash__5k`, "O'Brien's__10k", "駅伝__10区", "🏃__5k", "a%2Fb__c", "..__..", "a&b=c;d__e",
	} {
		want := fmt.Sprintf("%d Runner M 30", i+1)
		s.register(event, fmt.Sprintf(`[{"bib":%d,"name":"Runner","sex":"M","age":30}]`, i+1)).want(t, http.StatusOK, "")
		if got, _ := s.runners(event, ""); !slices.Equal(got, []string{want}) {
			t.Errorf("event %q: %v, want %s", event, got, want)
		}
		if a := s.call(http.MethodGet, fmt.Sprintf("%s/%d", eventPath(event), i+1), nil); a.StatusCode != http.StatusOK {
			t.Errorf("event %q: %d %s", event, a.StatusCode, a.body)
		}
	}
	for _, event := range []string{"Marathon", "a__", "__b", " __ ", "a__b__c", "a__b/c__d", "a\x00__b", "a\xff__b", "a___b", "a", strings.Repeat("a", 250) + "__b"} {
		s.call(http.MethodGet, eventPath(event), nil).want(t, 400, "invalid_event")
		s.register(event, `[]`).want(t, 400, "invalid_event")
		s.call(http.MethodDelete, eventPath(event)+"/1", nil).want(t, 400, "invalid_event")
	}
}

// TestFinishInAVideo: a finisher is linked to the moment in a video of the race.
func TestFinishInAVideo(t *testing.T) {
	t.Parallel()
	s := start(t, calm())
	from := time.Date(2011, 11, 6, 13, 0, 0, 0, time.UTC)
	s.call(http.MethodPost, "/videos", map[string]any{"title": "x", "race": map[string]any{"event": "New York", "firstFrameAt": from}}).want(t, 400, "invalid_event")
	s.call(http.MethodPost, "/videos", map[string]any{"title": "x", "race": map[string]any{"event": newYork}}).want(t, 400, "invalid_body")
	v := s.create(map[string]any{"title": "Finish line", "race": map[string]any{"event": newYork, "firstFrameAt": from}})
	if v.Race == nil || v.Race.Event != newYork || !v.Race.FirstFrameAt.Equal(from) {
		t.Fatalf("race of the video: %+v", v.Race)
	}
	_, err := s.videos.Change(t.Context(), engine.ID(v.Id), "", func(v *video.Video) ([]engine.OutboxMessage, error) {
		v.State, v.Playable, v.Serving, v.DurationSeconds = engine.Ready, true, 1, 3600
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.index(v.Id)
	s.register(newYork, "bib,name,sex,age,finishedAt\n1,Ann,F,30,2011-11-06T13:00:12.5Z\n2,Bea,F,31,2011-11-06T13:59:59Z\n3,Cid,M,32,2011-11-06T14:00:00Z\n4,Dee,M,33,\n").want(t, http.StatusOK, "")
	moments := func() (at []string) {
		_, list := s.runners(newYork, "")
		for _, r := range list.Items {
			for _, m := range r.Moments {
				at = append(at, fmt.Sprintf("%d %s %.1f %s", r.Bib, m.Title, m.AtSeconds, strings.ReplaceAll(m.Watch, v.Id, "ID")))
			}
		}
		if len(at) > 0 && list.Requests != 3 { // runners, videos of the event, the video itself
			t.Errorf("%d requests", list.Requests)
		}
		return at
	}
	if diff := cmp.Diff([]string{"1 Finish line 12.5 /watch/ID#t=12.500", "2 Finish line 3599.0 /watch/ID#t=3599.000"}, moments()); diff != "" {
		t.Errorf("moments (-want +got):\n%s", diff)
	}
	if one := decode[api.Registration](t, s.call(http.MethodGet, eventPath(newYork)+"/1", nil), http.StatusOK); len(one.Moments) != 1 {
		t.Errorf("alone: %+v", one)
	}
	edit := func(body string) api.Video {
		return decode[api.Video](t, s.call(http.MethodPatch, "/videos/"+v.Id, body, "If-Match", "*"), http.StatusOK)
	}
	// The index follows later; what may be shown is known at once.
	edit(`{"visibility":"private"}`)
	if got := moments(); len(got) != 0 {
		t.Errorf("a private video: %v", got)
	}
	edit(`{"visibility":"public","title":"Line of finish","race":{"event":"` + newYork + `","firstFrameAt":"2011-11-06T13:00:10Z"}}`)
	s.index(v.Id)
	if got := moments(); len(got) != 3 || got[0] != "1 Line of finish 2.5 /watch/ID#t=2.500" {
		t.Errorf("ten seconds later: %v", got)
	}
	s.call(http.MethodPatch, "/videos/"+v.Id, `{"race":{"event":"other__5k"}}`, "If-Match", "*").want(t, 400, "invalid_body")
	if untied := edit(`{"race":{"event":""}}`); untied.Race != nil {
		t.Errorf("untied: %+v", untied.Race)
	}
	s.index(v.Id)
	if got := moments(); len(got) != 0 {
		t.Errorf("untied: %v", got)
	}
}

// TestTablesAreAwayForAStartList: anyone who registers runners during an outage of the tables
// is told to come again. No runner is there in part, also where the outage begins in the
// middle, and the same list, sent again, adds what is missing.
func TestTablesAreAwayForAStartList(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	outage := azuritetest.NewProxy(t)
	s := start(t, map[string]string{
		"AZURE_STORAGE_CONNECTION_STRING": outage.ConnectionString(), "CUTROOM_RETRY_MAX": "3", "CUTROOM_RETRY_DELAY": "100ms",
	})
	rows := tablestore.New(s.account, registrations.Table) // not by way of the outage
	stored := func() map[int32]int {                       // how many rows each bib has
		t.Helper()
		count := map[int32]int{}
		for row, err := range rows.Query(t.Context(), tablestore.Query{PartitionKey: newYork, Select: []string{"Bib"}, Class: tablestore.RowRange}) {
			if err != nil {
				t.Fatal(err)
			}
			bib, _ := row.Props["Bib"].(int32)
			count[bib]++
		}
		return count
	}
	away := func(a answer) {
		t.Helper()
		a.want(t, http.StatusServiceUnavailable, "storage_unavailable")
		if a.Header.Get("Retry-After") == "" {
			t.Errorf("it does not say when to come again: %v", a.Header)
		}
	}
	const john = `[{"bib":90001,"name":"John","sex":"M","age":55}]`
	for _, fault := range []inject.Fault{inject.ServerBusy, inject.Reset} {
		outage.Begin(inject.Burst{Service: azstore.Tables, Fault: fault})
		away(s.register(newYork, john))
		outage.Calm()
		if outage.Met(azstore.Tables, fault) == 0 {
			t.Errorf("fault %s was met by no request", fault)
		}
		if got := stored(); len(got) > 0 {
			t.Errorf("fault %s: refused, and stored: %v", fault, got)
		}
	}
	if report := decode[api.ImportReport](t, s.register(newYork, john), http.StatusOK); report.Accepted != 1 || report.Unchanged != 0 {
		t.Errorf("afterwards: %+v", report)
	}

	// John alone was refused before anything was tried: the trail of changes is written
	// first. A list that is being stored meets the outage with its runners. It is longer
	// than what an import holds at a time, so that something is always left to store.
	const n = 1200
	whole, err := io.ReadAll(field(n))
	if err != nil {
		t.Fatal(err)
	}
	later := bytes.Index(whole, []byte("\n1100,"))
	body, send := io.Pipe()
	req := s.request(http.MethodPost, s.public+"/api/v1"+eventPath(newYork), nil, "Content-Type", "text/csv")
	req.Body, req.ContentLength = body, -1
	answered := make(chan answer, 1)
	go func() {
		defer close(answered)
		answered <- s.send(req)
	}()
	if _, err := send.Write(whole[:later]); err != nil {
		t.Fatal(err)
	}
	azuritetest.Eventually(t, time.Minute, func() error {
		_, err := rows.Get(t.Context(), newYork, "GUARD:00001")
		return err
	})
	outage.Begin(inject.Burst{Service: azstore.Tables, Fault: inject.ServerBusy})
	_, _ = send.Write(whole[later:]) // an answer may come before it is read
	_ = send.Close()
	a, ok := <-answered
	if !ok {
		t.FailNow()
	}
	away(a)
	outage.Calm()
	got := stored()
	there := len(got) - 1 // without John
	t.Logf("%d of %d runners are there", there, n)
	for bib, count := range got {
		if count != 3 {
			t.Errorf("bib %d has %d rows of 3", bib, count)
		}
	}
	report := decode[api.ImportReport](t, s.register(newYork, string(whole)), http.StatusOK)
	if report.Accepted != n || report.Unchanged != there || report.Refused != 0 {
		t.Errorf("the same list again: %+v, want %d of which %d were there", report, n, there)
	}
	if got := stored(); len(got) != n+1 {
		t.Errorf("%d runners, want %d", len(got), n+1)
	}
}

// field writes a start list of n runners as CSV, made while it is read.
func field(n int) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := fmt.Fprintln(w, "bib,name,sex,age")
		for bib := 1; bib <= n && err == nil; bib++ {
			_, err = fmt.Fprintf(w, "%d,Runner %d,%s,%d\n", bib, bib, []string{"F", "M", "X"}[bib%3], 18+bib%60)
		}
		w.CloseWithError(err)
	}()
	return r
}

// TestImportOfAWholeField: thousands of runners from one CSV in the memory of
// some, three operations each in transactions of a hundred; the second time
// nothing changes, in far fewer requests. It is alone in the process, whose heap
// it watches.
func TestImportOfAWholeField(t *testing.T) {
	s := start(t, calm())
	const n = 5000
	post := func(mostHeld int64) api.ImportReport {
		req := s.request(http.MethodPost, s.public+"/api/v1"+eventPath(newYork), nil, "Content-Type", "text/csv")
		req.Body, req.ContentLength = io.NopCloser(field(n)), -1
		started, peak := time.Now(), watchHeap()
		report := decode[api.ImportReport](t, s.send(req), http.StatusOK)
		grown := peak()
		t.Logf("%d runners: %.1f s, %d requests, heap at most %.1f MB more", n, time.Since(started).Seconds(), report.Requests, float64(grown)/1e6)
		if grown > mostHeld {
			t.Errorf("the heap grew by %d MB", grown>>20)
		}
		return report
	}
	// On a busy machine the first import is seen with 33 MB of what the collector has not met
	// yet. The second writes nothing, and holds 3.
	first := post(64 << 20)
	if first.Accepted != n || first.Unchanged != 0 || first.Refused != 0 || first.Requests != 158 { // 5 × 30 + 2, and 6 pages of guards
		t.Errorf("first import: %+v", first)
	}
	versions := func() map[string]string {
		etags := map[string]string{}
		rows := tablestore.New(s.account, registrations.Table)
		for row, err := range rows.Query(t.Context(), tablestore.Query{PartitionKey: newYork, Select: []string{"Version"}, Class: tablestore.RowRange}) {
			if err != nil {
				t.Fatal(err)
			}
			etags[row.RowKey] = row.ETag
		}
		return etags
	}
	before := versions()
	second := post(16 << 20)
	if second.Accepted != n || second.Unchanged != n || second.Requests > 12 {
		t.Errorf("second import: %+v", second)
	}
	if diff := cmp.Diff(before, versions()); diff != "" || len(before) != 3*n {
		t.Errorf("%d rows; the second import changed some (-first +second):\n%s", len(before), diff)
	}
}

// watchHeap returns a function that says how much the heap had grown at its
// peak, after collections, in bytes.
func watchHeap() func() int64 {
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, peak, done := live(), int64(0), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
				peak = max(peak, live())
			}
		}
	})
	return func() int64 {
		close(done)
		wait.Wait()
		return peak - before
	}
}

func init() {
	parts = append(parts, part{
		streams: []stream{{eventPath(newYork), "text/csv", "bib,name,sex,age\n", "1,Ada,F,30\n"}},
		routes: `viewers GET /race
viewers GET /api/v1/events
viewers GET /api/v1/events/:event/registrations
operators POST /api/v1/events/:event/registrations
viewers GET /api/v1/events/:event/registrations/:bib
operators PATCH /api/v1/events/:event/registrations/:bib
operators DELETE /api/v1/events/:event/registrations/:bib
`,
		visits: []visit{
			{"listEvents", get("/events")},
			{"listRegistrations", get("/events/{event}/registrations?bib=7")},
			{"listRegistrations", get("/events/{event}/registrations?age=30&limit=2")},
			{"listRegistrations", get("/events/{event}/registrations?ageFrom=30&ageTo=34&limit=5")},
			{"listRegistrations", get("/events/{event}/registrations?limit=5")},
			{"importRegistrations", func(w *world) func() answer {
				return func() answer {
					late := []map[string]any{{"bib": 99_999 - w.runners, "name": "Late", "sex": "F", "age": 30}} // a new runner
					return w.call(http.MethodPost, "/events/"+w.event+"/registrations", late)
				}
			}},
			{"getRegistration", get("/events/{event}/registrations/7")},
			{"editRegistration", func(w *world) func() answer {
				return func() answer {
					return w.call(http.MethodPatch, "/events/"+w.event+"/registrations/8", `{"age":31}`, "If-Match", "*")
				}
			}},
			{"deleteRegistration", func(w *world) func() answer {
				return func() answer { return w.call(http.MethodDelete, "/events/"+w.event+"/registrations/9", nil) }
			}},
		},
		lists: []list{
			{"listRegistrations", "/events/{event}/registrations", []damage{
				{
					registrations.Table, "BIB:00008__", 1,
				}, {
					registrations.Table, "VIDEO:", changes,
				}, {
					workflow.VideosTable, "{id} META", changes,
				},
			}},
			{"listRegistrations", "/events/{event}/registrations?ageFrom=1", []damage{
				{
					registrations.Table, "AGE:.*__8__", 1,
				}, {
					registrations.Table, "VIDEO:", changes,
				}, {
					workflow.VideosTable, "{id} META", changes,
				},
			}},
			{
				"getRegistration", "/events/{event}/registrations/7",
				[]damage{{registrations.Table, "VIDEO:", 1}, {workflow.VideosTable, "{id} META", 1}},
			},
		},
		world: func(w *world) {
			start := time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
			w.call(http.MethodPatch, "/videos/"+string(w.id), map[string]any{"race": map[string]any{"event": "City Run__Full", "firstFrameAt": start}},
				"If-Match", "*").want(w.t, http.StatusOK, "")
			w.call(http.MethodPost, "/events/"+w.event+"/registrations",
				[]map[string]any{{
					"bib": 7, "name": "Ann", "sex": "F", "age": 33, "finishedAt": start.Add(6 * time.Second),
				}}).want(w.t, http.StatusOK, "")
		},
		grow: func(w *world, _ []video.Video, runners int) {
			var list []map[string]any
			for n := range runners {
				list = append(list, map[string]any{"bib": 8 + w.runners + n, "name": fmt.Sprint("Runner ", w.runners+n), "sex": "M", "age": 20 + (w.runners+n)%30})
			}
			w.call(http.MethodPost, "/events/"+w.event+"/registrations", list).want(w.t, http.StatusOK, "")
		},
		library: func(l *library) {
			l.call(http.MethodPost, "/events/"+l.event+"/registrations", `[{"bib":8,"name":"Bob","sex":"M","age":40}]`).want(l.t, http.StatusOK, "")
		},
		index: func(s *server, id engine.ID, current indexrows.Current) error {
			return registrations.New(s.account).Sync(s.t.Context(), id, current)
		},
		busy: registrations.ErrContended,
	})
}
