package learn

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/docs"
	"github.com/cutroom/cutroom/webrole/internal/page"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

var (
	linkOnPage = regexp.MustCompile(`(?:href|src|srcset)="(/[^"]*)"`)
	anchor     = regexp.MustCompile(`id="([^"]+)"`)
	// rowOfPapers is the place of a row in the map.
	rowOfPapers = regexp.MustCompile(`^[QTS][0-9]+[a-z]?$`)
)

// others are what our pages lead to, too.
var others = web.Feature{Pages: func(_ gin.IRouter, show web.Show) {
	show("/board", "board", web.Nothing)
	show("/race", "race", web.Nothing)
}}

// Every link of the map and of the patterns' pages leads to a page or a file that is
// there, and to a place on it where it names one. Nothing is styled or scripted in the
// markup, which the pages' policy forbids.
func TestPagesOfPatternsHangTogether(t *testing.T) {
	t.Parallel()
	gin.SetMode(gin.TestMode)
	pages, err := page.New(page.Options{}, []web.Feature{New(nil), others})
	if err != nil {
		t.Fatal(err)
	}
	engine := gin.New()
	pages.Register(engine)
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}

	seen := map[string]string{}
	queue := []string{"/learn"}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		if _, known := seen[path]; known {
			continue
		}
		status, body := get(path)
		seen[path] = body
		if status != http.StatusOK {
			t.Errorf("%s answers %d", path, status)
			continue
		}
		if !strings.HasPrefix(path, "/patterns/") && !strings.HasPrefix(path, "/learn") {
			continue
		}
		if strings.Contains(body, "style=") || regexp.MustCompile(`<script>|<style|<!-- snippet`).MatchString(body) {
			t.Errorf("%s has style or script in its markup, or a comment that is not for readers", path)
		}
		for _, match := range linkOnPage.FindAllStringSubmatch(body, -1) {
			target, _, _ := strings.Cut(match[1], "#")
			queue = append(queue, target)
		}
	}
	if files, err := docs.Files.ReadDir("patterns"); err != nil || len(seen) < len(files)/3 { // a page with its drawings
		t.Errorf("only %d pages hang together: %v", len(seen), err)
	}
	papers, err := docs.Files.ReadFile("papers.md") // a row is gone with the feature that shows it
	if err != nil {
		t.Fatal(err)
	}
	for path, body := range seen {
		for _, match := range linkOnPage.FindAllStringSubmatch(body, -1) {
			target, fragment, named := strings.Cut(match[1], "#")
			gone := rowOfPapers.MatchString(fragment) && !strings.Contains(string(papers), "| "+fragment+" |")
			if !named || target == "/board" || gone {
				continue
			}
			found := false
			for _, id := range anchor.FindAllStringSubmatch(seen[target], -1) {
				found = found || id[1] == fragment
			}
			if !found {
				t.Errorf("%s links to %s, which has no such place", path, match[1])
			}
		}
	}
	if status, _ := get("/patterns/no-such-pattern"); status != http.StatusNotFound {
		t.Errorf("an unknown pattern: %d", status)
	}
	if status, _ := get("/patterns/map.json"); status != http.StatusNotFound {
		t.Errorf("a file that is no pattern: %d", status)
	}
}
