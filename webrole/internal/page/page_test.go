package page

import (
	"compress/gzip"
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// teaching has the functions of the templates of a feature, which these tests do not look at.
var teaching = web.Feature{Functions: template.FuncMap{
	"scenes": func() []string { return nil }, "scenesOf": func(any) []string { return nil },
	"patternOf": func(any) string { return "" }, "nextScene": func(any) any { return nil },
}}

// A browser gets scripts compressed and asks for them once; a client that does not know
// gzip, or asks for a part, gets them as they are.
func TestStaticFilesAreCompressed(t *testing.T) {
	t.Parallel()
	gin.SetMode(gin.TestMode)
	pages, err := New(Options{}, []web.Feature{teaching})
	if err != nil {
		t.Fatal(err)
	}
	engine := gin.New()
	pages.Register(engine)
	get := func(headers ...string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/static/vendor/hls.min.js", nil)
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, req)
		return w
	}

	plain, packed := get(), get("Accept-Encoding", "gzip, deflate, br")
	if plain.Header().Get("Content-Encoding") != "" || packed.Header().Get("Content-Encoding") != "gzip" || packed.Header().Get("Vary") != "Accept-Encoding" {
		t.Fatalf("headers: plain %v, packed %v", plain.Header(), packed.Header())
	}
	if packed.Body.Len()*2 > plain.Body.Len() {
		t.Errorf("%d bytes of %d", packed.Body.Len(), plain.Body.Len())
	}
	etag := packed.Header().Get("ETag")
	if !strings.HasPrefix(etag, "W/") { // a strong one would promise the same bytes in all encodings
		t.Errorf("ETag %s", etag)
	}
	if again := get("Accept-Encoding", "gzip", "If-None-Match", etag); again.Code != http.StatusNotModified {
		t.Errorf("again: %d", again.Code)
	}
	if part := get("Accept-Encoding", "gzip", "Range", "bytes=0-99"); part.Code != http.StatusPartialContent || part.Body.String() != plain.Body.String()[:100] {
		t.Errorf("a part: %d, %v", part.Code, part.Header())
	}
	r, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != plain.Body.String() {
		t.Errorf("unpacked: %d bytes, %v", len(text), err)
	}
	for _, path := range []string{"/static/", "/static/vendor", "/static/../templates/home.html", "/static/%2e%2e/templates/home.html"} {
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// People get a page of a problem where they asked for a page, programs get JSON.
func TestPeopleGetPagesOfProblems(t *testing.T) {
	t.Parallel()
	gin.SetMode(gin.TestMode)
	pages, err := New(Options{}, []web.Feature{teaching})
	if err != nil {
		t.Fatal(err)
	}
	engine := gin.New()
	engine.Use(pages.ShowProblems)
	pages.Register(engine)
	engine.NoRoute(func(c *gin.Context) {
		problem.Write(c.Writer, c.Request, problem.New(problem.NotFound, "There is nothing at this address."))
	})
	for _, c := range []struct {
		method, path, accept string
		status               int
		page                 bool
	}{
		{"GET", "/nothing", "text/html,*/*;q=0.8", 404, true},
		{"GET", "/learn/lease", "text/html", 404, true},
		{"GET", "/patterns/nothing", "text/html", 404, true},
		{"GET", "/watch/nope", "text/html", 400, true},
		{"GET", "/nothing", "*/*", 404, false},
		{"GET", "/nothing", "", 404, false},
		{"GET", "/api/v1/nothing", "text/html", 404, false},
		{"GET", "/v/nothing", "text/html", 404, false},
		{"GET", "/static/nothing.js", "text/html", 404, false},
	} {
		req := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil)
		req.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, req)
		text, kind := w.Body.String(), problem.ContentType
		if c.page {
			kind = "text/html; charset=utf-8"
		}
		if w.Code != c.status || w.Header().Get("Content-Type") != kind || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s, %q: %d, %v", c.method, c.path, c.accept, w.Code, w.Header())
		}
		if c.method == "GET" && strings.Contains(text, `<main id="main"`) != c.page {
			t.Errorf("%s %s, %q: %s", c.method, c.path, c.accept, text)
		}
	}
}
