package handbook

import (
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cutroom/cutroom/docs"
	"github.com/cutroom/cutroom/shared/scene"
	"github.com/cutroom/cutroom/webrole/web"
)

var (
	sentenceEnd = regexp.MustCompile(`[.?!]\*?(?:\s|$)`)
	tag         = regexp.MustCompile(`<[^>]+>`)
)

// The path has stops of the same shape: five sentences, something to do, something to
// watch, lines of Go, and a question of which one answer is right; each answer says why. Every
// pattern, and with it every row of the papers, is near one stop.
func TestStopsHaveOneShape(t *testing.T) {
	t.Parallel()
	h, err := Read(docs.Files, web.Files)
	if err != nil {
		t.Fatal(err)
	}
	if files, err := fs.Glob(web.Files, "templates/path/*"); err != nil || len(h.Path) != len(files) || len(files) == 0 {
		t.Fatalf("%d stops of %q: %v", len(h.Path), files, err)
	}
	near := map[string]int{}
	for i, s := range h.Path {
		if s.Number != strconv.Itoa(i+1) || len(s.Sections) != 4 {
			t.Errorf("%s is number %s with %d sections", s.Title, s.Number, len(s.Sections))
		}
		for heading, has := range map[string]string{"Read": "<p>", "Do": "<ol>", "Watch": `<a href="/board">`, "Lines": `<pre class="go"`} {
			if !strings.Contains(string(s.Sections[heading]), has) {
				t.Errorf("%s: section %s has no %s", s.Title, heading, has)
			}
		}
		if n := len(sentenceEnd.FindAllString(tag.ReplaceAllString(string(s.Sections["Read"]), ""), -1)); n != 5 {
			t.Errorf("%s: %d sentences to read", s.Title, n)
		}
		if _, found := scene.Find(s.Scene); !found {
			t.Errorf("%s: there is no scene %s", s.Title, s.Scene)
		}
		for _, a := range s.Answers {
			if len(a.Why) < 20 {
				t.Errorf("%s: nothing says why %q is right or wrong", s.Title, a.Text)
			}
		}
		if s.Right < 0 || s.Right >= len(s.Answers) || len(s.Answers) < 3 || s.Question == "" {
			t.Errorf("%s: answer %d of %d is right", s.Title, s.Right, len(s.Answers))
		}
		for _, pattern := range s.Near {
			near[pattern.Name]++
		}
	}
	for _, group := range h.Patterns {
		for _, pattern := range group.Rows {
			if n := near[pattern.Name]; n > 1 || n == 0 && len(h.Path) == 7 { // a stop is gone with its feature
				t.Errorf("%s is near %d stops", pattern.Name, near[pattern.Name])
			}
		}
	}
}

// A mistake in a stop is told when the role starts to read it.
func TestMistakesInTheStops(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", `{"title": 1}`, `{"answers": "none"}`} {
		if _, err := Read(docs.Files, fstest.MapFS{"templates/path/1-one.txt": {Data: []byte(text)}}); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
