package azqops_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqops"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

var mail = azq.Spec{Name: "mail", Kinds: []string{"letter"}, Pool: "light", Laned: true, Visibility: 20 * time.Second}

// clients are what a program that declares its queues has, and what the command has.
func clients(t *testing.T) map[string]*azq.Client {
	a := azuritetest.Account(t)
	declared := azqtest.Open(t, a, mail)
	return map[string]*azq.Client{"declared": declared, "discovered": discover(t, a)}
}

func discover(t *testing.T, a *azstore.Account) *azq.Client {
	t.Helper()
	client, err := azq.Discover(t.Context(), a, "")
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// ask sends a request to a handler and reads the answer as a T.
func ask[T any](t *testing.T, h http.Handler, request, body string, status int) (answer T) {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	if w.Code != status {
		t.Fatalf("%s: %d %s", request, w.Code, w.Body)
	}
	if err := json.NewDecoder(w.Body).Decode(&answer); err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("%s: %v", request, err)
	}
	return answer
}

type list[T any] struct{ Items []T }

func queueNamed(t *testing.T, h http.Handler, name string) azqops.Queue {
	t.Helper()
	for _, q := range ask[list[azqops.Queue]](t, h, "GET /queues", "", 200).Items {
		if q.Name == name {
			return q
		}
	}
	t.Fatalf("queue %s is not listed", name)
	return azqops.Queue{}
}

// What the handler does to queues it says of them afterwards.
func TestQueuesAreOperated(t *testing.T) {
	t.Parallel()
	for name, client := range clients(t) {
		h := azqops.Handler(client)
		var got struct{ ID string }
		for i := range 2 {
			got = ask[struct{ ID string }](t, h, "POST /queues/mail/messages", fmt.Sprintf(
				`{"kind": "letter", "id": "welcome-%d", "subject": "customer-7", "data": {"to": "Ada"}}`, i), 201)
		}
		seen := ask[list[azqops.Message]](t, h, "GET /queues/mail/messages?limit=1", "", 200).Items
		if got.ID != "welcome-1" || len(seen) != 1 || seen[0].Type != "azq.work.letter.v1" ||
			seen[0].Subject != "customer-7" || string(seen[0].Data) != `{"to":"Ada"}` || time.Since(seen[0].InsertedAt) > time.Minute {
			t.Errorf("%s: sent %s, seen %+v", name, got.ID, seen)
		}
		for range 2 { // each is safe to repeat
			ask[struct{}](t, h, "POST /queues/mail/pause", "", 204)
			ask[struct{}](t, h, "POST /queues/mail/visibility?seconds=90", "", 204)
		}
		want := azqops.Queue{Name: "mail", Length: 2, VisibilitySeconds: 90, Paused: true, Pool: queueNamed(t, h, "mail").Pool}
		if q := queueNamed(t, h, "mail"); q != want || (q.Pool == "light") != (name == "declared") {
			t.Errorf("%s: paused: %+v", name, q)
		}
		ask[struct{}](t, h, "POST /queues/mail/resume", "", 204)
		ask[struct{}](t, h, "POST /queues/mail/visibility?seconds=0", "", 204)
		ask[struct{}](t, h, "POST /queues/mail/messages", `{"kind": "letter", "delaySeconds": 60}`, 201)
		ask[struct{}](t, h, "POST /queues/mail-3/messages", `{"kind": "letter"}`, 201)
		ask[struct{}](t, h, "POST /queues/mail/clear", "", 204)
		if q := queueNamed(t, h, "mail-3"); q.Length != 0 {
			t.Errorf("%s: a lane after clear: %+v", name, q)
		}
		if q := queueNamed(t, h, "mail"); q.Length != 0 || q.Paused || q.VisibilitySeconds != map[string]float64{"declared": 20}[name] {
			t.Errorf("%s: resumed and cleared: %+v", name, q)
		}
		if q := queueNamed(t, h, "mail-poison"); !q.Poison || q.Pool != "" {
			t.Errorf("%s: %+v", name, q)
		}
	}
}

// Lanes have the policy of lane 0 also in the first list of a process.
func TestLanesArePausedInTheFirstList(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	queues := azqtest.Open(t, a, mail)
	if err := queues.Queue("mail").Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 5 { // the answers come in any order
		declared := azq.Open(a, azq.Options{Queues: []azq.Spec{mail}})
		for _, client := range []*azq.Client{declared, discover(t, a)} {
			if q := queueNamed(t, azqops.Handler(client), azq.LaneName("mail", 3)); !q.Paused {
				t.Fatalf("%+v", q)
			}
		}
	}
}

// An item that is poison is sent to its queue again, by its id, and a worker does it.
func TestPoisonIsRedriven(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	queues := azqtest.Open(t, a, mail)
	handler := &azqtest.Recorder{}
	handler.Next = func(context.Context, *azq.RawJob) error {
		if len(handler.IDs()) == 1 {
			return azq.Permanent(errors.New("no such address"))
		}
		return nil
	}
	azqtest.Start(t, queues, map[string]azq.Handler{"letter": handler})
	h := azqops.Handler(discover(t, a))
	ask[struct{}](t, h, "POST /queues/mail/messages", `{"kind": "letter", "id": "welcome", "data": {"to": "Ada"}}`, 201)
	azqtest.WaitPoison(t, queues, 1)
	found := ask[list[azq.Poisoned]](t, h, "GET /poison", "", 200).Items
	if len(found) != 1 || found[0].Queue != "mail" || !strings.Contains(found[0].Reason, "no such address") {
		t.Fatalf("poison %+v", found)
	}
	ask[struct{}](t, h, "POST /poison/"+found[0].ID+"/redrive", "", 202)
	azqtest.WaitEmpty(t, queues.Queue("mail"))
	if left := ask[list[azq.Poisoned]](t, h, "GET /poison", "", 200).Items; left == nil || len(left) != 0 || len(handler.IDs()) != 2 {
		t.Errorf("poison %+v, handled %v", left, handler.IDs())
	}
	if got := ask[struct{ Code string }](t, h, "POST /poison/"+found[0].ID+"/redrive", "", 404); got.Code != "poison_not_found" {
		t.Errorf("%+v", got)
	}
}

// Errors are problems with a code.
func TestErrorsAreProblems(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t) // where nothing was created
	h := azqops.Handler(azq.Open(a, azq.Options{Queues: []azq.Spec{mail}}))
	for request, want := range map[string]string{
		"POST /queues/post/pause":                                "404 queue_not_found",
		"GET /queues/post/messages":                              "404 queue_not_found",
		"POST /queues/post/messages {}":                          "404 queue_not_found",
		"GET /queues/mail/messages":                              "404 queue_not_found",
		"GET /queues/mail/messages?limit=33":                     "400 invalid_request",
		`POST /queues/mail/messages {"kind":"letter","Delay":5}`: "400 invalid_request",
		"POST /queues/mail/messages {":                           "400 invalid_request",
		"POST /queues/mail/messages {\"kind\":\"No!\"}":          "400 invalid_request",
		"POST /queues/mail/visibility":                           "400 invalid_request",
		"POST /queues/mail/visibility?seconds=1e9":               "400 invalid_request",
		"GET /poison?pageToken=forged":                           "400 invalid_page_token",
		"POST /poison/mail~7/redrive":                            "404 poison_not_found",
		"GET /queues/mail/pause":                                 "404 not_found",
		"GET /elsewhere":                                         "404 not_found",
	} {
		method, rest, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(rest, " ")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		var p struct {
			Type, Title, Detail, Code string
			Status                    int
		}
		err := json.Unmarshal(w.Body.Bytes(), &p)
		if got := fmt.Sprint(w.Code, " ", p.Code); err != nil || got != want || p.Status != w.Code || p.Type == "" || p.Title == "" || p.Detail == "" ||
			w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: want %s, got %s %v", request, want, w.Body, w.Header())
		}
	}
	foreign := httptest.NewRequestWithContext(t.Context(), "POST", "/queues/mail/clear", nil)
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, foreign)
	if w.Code != 403 || !strings.Contains(w.Body.String(), `"cross_origin"`) {
		t.Errorf("a foreign page: %d %s", w.Code, w.Body)
	}
}

// A queue of an account is a lane if it shares the poison queue of another.
func TestDiscover(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	many := azq.Open(a, azq.Options{Queues: []azq.Spec{mail, {Name: "mail-17"}, {Name: "plain"}}, Lanes: 12})
	if err := many.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Ensure(t.Context(), azstore.Names{Queues: []string{"foreign", "foreign-1", "gone-poison"}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range discover(t, a).Specs() {
		got = append(got, fmt.Sprint(s.Name, ":", s.Base(), ":", s.Lane()))
	}
	want := "foreign:foreign:0 foreign-1:foreign-1:0 gone-poison:gone-poison:0 mail:mail:0 mail-1:mail:1 mail-10:mail:10 mail-11:mail:11 " +
		"mail-17:mail-17:0 mail-2:mail:2 mail-3:mail:3 mail-4:mail:4 mail-5:mail:5 mail-6:mail:6 mail-7:mail:7 mail-8:mail:8 mail-9:mail:9 plain:plain:0"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}

// A queue of another program is operated, too, though the account has nothing else of ours.
func TestForeignQueuesAreOperated(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Queues: []string{"foreign"}}); err != nil {
		t.Fatal(err)
	}
	client := discover(t, a)
	if found, err := azqops.Queues(t.Context(), client); err != nil || len(found) != 1 || found[0] != (azqops.Queue{Name: "foreign"}) {
		t.Errorf("%+v, %v", found, err)
	}
	if found, _, err := client.ListPoison(t.Context(), 10, ""); err != nil || len(found) != 0 {
		t.Errorf("poison %+v, %v", found, err)
	}
	azqtest.SendText(t, a, "foreign", "<order/>")
	seen, err := azqops.Peek(t.Context(), client, "foreign", 1)
	if err != nil || len(seen) != 1 || seen[0].Error == "" || seen[0].Type != "" {
		t.Errorf("%+v, %v", seen, err)
	}
	ask[struct{}](t, azqops.Handler(client), "POST /queues/foreign/pause", "", 204)
	if q := queueNamed(t, azqops.Handler(client), "foreign"); !q.Paused || q.Length != 1 {
		t.Errorf("%+v", q)
	}
}
