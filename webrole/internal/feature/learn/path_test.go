package learn

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/docs"
	"github.com/cutroom/cutroom/shared/price"
	"github.com/cutroom/cutroom/webrole/internal/handbook"
	"github.com/cutroom/cutroom/webrole/internal/page"
	"github.com/cutroom/cutroom/webrole/internal/web"
	sources "github.com/cutroom/cutroom/webrole/web"
)

// learner asks for pages as a browser does that keeps its cookies.
type learner struct {
	*gin.Engine
	cookie *http.Cookie
}

func newLearner(t *testing.T, o page.Options, prices price.Table, shows ...string) *learner {
	t.Helper()
	gin.SetMode(gin.TestMode)
	feature := New(prices)
	feature.Shows = map[string]any{}
	for _, name := range shows {
		feature.Shows[name] = true
	}
	pages, err := page.New(o, []web.Feature{feature})
	if err != nil {
		t.Fatal(err)
	}
	l := &learner{Engine: gin.New()}
	pages.Register(l)
	return l
}

func (l *learner) ask(r *http.Request) *httptest.ResponseRecorder {
	if l.cookie != nil {
		r.AddCookie(l.cookie)
	}
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		l.cookie = c
	}
	return w
}

func (l *learner) get(t *testing.T, path string) string {
	t.Helper()
	w := l.ask(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%s answers %d", path, w.Code)
	}
	return html.UnescapeString(w.Body.String())
}

// answer answers a stop's question, follows to where that leads, and returns the page.
func (l *learner) answer(t *testing.T, path, given string) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(url.Values{"answer": {given}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := l.ask(r)
	to, place, _ := strings.Cut(w.Header().Get("Location"), "#")
	if w.Code != http.StatusSeeOther || !strings.HasPrefix(to, path+"?answer=") || place != "answer" {
		t.Fatalf("answer %q to %s: %d, %s", given, path, w.Code, to)
	}
	return l.get(t, to)
}

// Every right answer is accepted and ticked, and stays so; every wrong one is explained.
func TestAnswersOfThePath(t *testing.T) {
	t.Parallel()
	l := newLearner(t, page.Options{}, nil)
	h, err := handbook.Read(docs.Files, sources.Files)
	if err != nil {
		t.Fatal(err)
	}
	for i, stop := range h.Path {
		path := "/learn/path/" + strconv.Itoa(i+1)
		if page := l.get(t, path); !strings.Contains(page, stop.Question) || strings.Contains(page, "✓ answered") || strings.Contains(page, `id="answer"`) {
			t.Errorf("%s before an answer", path)
		}
		right := ""
		for n, a := range stop.Answers {
			if n == stop.Right {
				right = strconv.Itoa(n)
				continue
			}
			page := l.answer(t, path, strconv.Itoa(n))
			if !strings.Contains(page, "✗ No.</strong> "+a.Why) || strings.Contains(page, "✓ answered") || !strings.Contains(page, `value="`+strconv.Itoa(n)+`" required checked>`) {
				t.Errorf("%s: of the wrong answer %q the page does not say why", path, a.Text)
			}
		}
		for _, nothing := range []string{"", "99", "-1", "x", `"><script>`} {
			if page := l.answer(t, path, nothing); strings.Contains(page, `id="answer"`) || strings.Contains(page, "<script>") || strings.Contains(page, "✓ answered") {
				t.Errorf("%s: an answer %q that is none", path, nothing)
			}
		}
		for range 2 { // a form that is sent again
			if page := l.answer(t, path, right); !strings.Contains(page, "✓ Right.") || !strings.Contains(page, "✓ answered") {
				t.Errorf("%s: the right answer is not accepted", path)
			}
		}
		if page := l.get(t, "/learn"); strings.Count(page, "✓ answered") != i+1 || strings.Contains(page, "All are answered.") != (i == len(h.Path)-1) {
			t.Errorf("after stop %d /learn has %d ticks", i+1, strings.Count(page, "✓ answered"))
		}
	}
	if c := l.cookie; c.Name != "path" || c.Value != "1-2-3-4-5-6-7"[:2*len(h.Path)-1] || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/learn" || c.MaxAge < 3600 {
		t.Errorf("the cookie is %v", c)
	}
	l.cookie = &http.Cookie{Name: "path", Value: "2-99-<b>-2"}
	if page := l.get(t, "/learn"); strings.Count(page, "✓ answered") != 1 || strings.Contains(page, "<b>") {
		t.Error("a cookie that was changed by hand")
	}
	if l.answer(t, "/learn/path/1", "2"); l.cookie.Value != "1-2" {
		t.Errorf("another stop makes of that cookie %q", l.cookie.Value)
	}
	for _, path := range []string{"/learn/path/0", "/learn/path/8", "/learn/path/x", "/learn/path"} {
		if w := l.ask(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)); w.Code != http.StatusNotFound {
			t.Errorf("%s answers %d", path, w.Code)
		}
	}
}

// A stop says what is missing where there is no lab, and only there.
func TestStopsWithoutALab(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options       page.Options
		shows         []string
		missing, says string
	}{
		{page.Options{}, nil, "no lab", "<code>make scene NAME=papers-scene</code>"},
		{page.Options{Ops: true}, []string{"Plays"}, "no lab", "Operators can play"},
		{page.Options{}, []string{"Plays", "Lab"}, "admin listener", "WEBROLE_PUBLIC_OPS"},
		{page.Options{Ops: true}, []string{"Plays", "Lab"}, "", `href="/board#lab"`},
	} {
		l := newLearner(t, c.options, nil, c.shows...)
		page := l.get(t, "/learn/path/1")
		if !strings.Contains(page, c.missing) || !strings.Contains(page, c.says) || strings.Contains(page, `class="missing"`) != (c.missing != "") {
			t.Errorf("%+v: the stop does not say %q and %q", c.options, c.missing, c.says)
		}
	}
}

// A calculator keeps what was typed, uses the prices of this stack, and says what is wrong.
func TestCalculatorsInThePage(t *testing.T) {
	t.Parallel()
	l := newLearner(t, page.Options{}, price.Table{price.CPU: 3.6})
	page := l.get(t, "/learn/calculators?items=24&cpu=100&looks=0")
	// 24 a day are 730 in 730 hours, and 73,000 s at 0.001 USD.
	if !strings.Contains(page, `name="items" type="number" value="24"`) || !strings.Contains(page, "<dt>processor</dt><dd>73.00 USD</dd>") {
		t.Error("what was typed is not in the page, or not used")
	}
	page = l.get(t, `/learn/calculators?peak=many%22%3E%3Cb%3E&work=0&z=NaN`)
	if n := strings.Count(page, `aria-invalid="true"`); n != 3 || !strings.Contains(page, "A number from 0 to 1000000.") {
		t.Errorf("%d fields are said to be wrong, want 3", n)
	}
	if strings.Count(page, `class="facts"`) != 2 {
		t.Error("there are results of what was typed wrong")
	}
}
