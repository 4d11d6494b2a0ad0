package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/handbook"
)

// handbookPages are the pages that have the sections of a pattern.
func handbookPages(t *testing.T) []handbook.Page { return pagesOf(t, handbook.Folder, 29) }

func pagesOf(t *testing.T, folder string, least int) []handbook.Page {
	t.Helper()
	all, err := handbook.Pages("..", folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < least {
		t.Fatalf("%d pages in %s", len(all), folder)
	}
	return all
}

var (
	startable  = regexp.MustCompile("`(?:scripts/gorun|make|curl) |\n(?:make|curl) ")
	otherPages = regexp.MustCompile(`\]\(([a-z-]+)\.md(?:#[a-z-]+)?\)`)
)

// Every page of a pattern has its sections, in their order, and each has what it is for.
func TestDocsPatternsHaveTheirSections(t *testing.T) {
	t.Parallel()
	for _, p := range handbookPages(t) {
		at := 0
		for _, heading := range handbook.Sections {
			text, ok := p.Section(heading)
			if i := strings.Index(p.Text, "\n## "+heading+"\n"); !ok || i < at || len(text) < 40 {
				t.Errorf("%s: section %q is missing, empty, or in another place than %q", p.Path(), heading, handbook.Sections)
			} else {
				at = i
			}
		}
		want := func(heading, what string, ok func(string) bool) {
			if text, _ := p.Section(heading); !ok(text) {
				t.Errorf("%s: section %q has no %s", p.Path(), heading, what)
			}
		}
		want("The picture", "diagram", func(s string) bool { return strings.Contains(s, "```mermaid\n") })
		want("The lines that matter", "quoted code", func(s string) bool { return strings.Contains(s, "<!-- snippet: ") })
		want("See it", "command that starts something", startable.MatchString)
		want("Elsewhere", "Service Bus, SQS, Temporal or River", func(s string) bool {
			for _, name := range []string{"Service Bus", "SQS", "Temporal", "River", "Cosmos DB", "DynamoDB"} {
				if strings.Contains(s, name) {
					return true
				}
			}
			return false
		})
		want("Related", "two other pages", func(s string) bool { return len(otherPages.FindAllString(s, -1)) >= 2 })
		want("Exercise", "answer behind a fold", func(s string) bool { return strings.Contains(s, "<details><summary>Answer</summary>\n\n") })
	}
}

var steps = regexp.MustCompile(`(?m)^1\. (?s:.)*^2\. (?s:.)*^3\. `)

// Every recipe is a screen in one shape, quotes code that a test runs, and is in the index.
func TestDocsRecipesHaveOneShape(t *testing.T) {
	t.Parallel()
	index := read(t, handbook.Recipes+"/README.md")
	for _, p := range pagesOf(t, handbook.Recipes, 12) {
		headings := regexp.MustCompile(`(?m)^## .*`).FindAllString(p.Text, -1)
		if got := strings.Join(headings, ", "); got != "## The way, ## The code, ## What goes wrong, ## In this repository" {
			t.Errorf("%s has the sections %s", p.Path(), got)
		}
		if way, _ := p.Section("The way"); !steps.MatchString(way) {
			t.Errorf("%s: the way has no three steps", p.Path())
		}
		code, _ := p.Section("The code")
		if !strings.HasPrefix(code, "<!-- snippet: examples/recipes/") || strings.Count(code, "\n") > 45 {
			t.Errorf("%s: its code is none of examples/recipes, or long: %d lines", p.Path(), strings.Count(code, "\n"))
		}
		prose := len(strings.Fields(p.Text)) - len(strings.Fields(code))
		if prose > 150 || !strings.Contains(index, "]("+p.Name+".md)") {
			t.Errorf("%s has %d words beside its code, at most 150, or README.md does not name it", p.Path(), prose)
		}
	}
}

// Code that pages quote is what the sources say.
func TestDocsSnippetsAreTheSource(t *testing.T) {
	t.Parallel()
	for _, p := range append(handbookPages(t), pagesOf(t, handbook.Recipes, 12)...) {
		text, err := handbook.Quoting("..", p.Text)
		if err != nil {
			t.Errorf("%s: %v", p.Path(), err)
		} else if text != p.Text {
			t.Errorf("%s quotes code as it was: `go generate ./e2e` writes it anew", p.Path())
		}
		section, _ := p.Section("The lines that matter")
		if _, code, ok := strings.Cut(section, "```go\n"); ok {
			if n := strings.Count(code[:strings.Index(code, "```")], "\n"); n > 32 {
				t.Errorf("%s quotes %d lines; a reader wants ten", p.Path(), n)
			}
		}
	}
}

// The page that compares queues quotes what lint and test compile.
func TestDocsElsewhereIsTheSource(t *testing.T) {
	t.Parallel()
	before := read(t, handbook.Elsewhere)
	if text, err := handbook.Quoting("..", before); err != nil || text != before {
		t.Errorf("%s quotes code as it was: `go generate ./e2e` writes it anew (%v)", handbook.Elsewhere, err)
	}
	if n := strings.Count(before, "<!-- snippet: examples/elsewhere/"); n != 4 {
		t.Errorf("%s quotes %d programs, want 4", handbook.Elsewhere, n)
	}
}

// A stop of the path at /learn quotes some ten lines, as the sources say them.
func TestDocsStopsQuoteTheSource(t *testing.T) {
	t.Parallel()
	stops, err := handbook.Stops("..")
	if err != nil || len(stops) != 7 {
		t.Fatalf("stops: %q, %v", stops, err)
	}
	for _, file := range stops {
		before := read(t, strings.TrimPrefix(filepath.ToSlash(file), "../"))
		if text, err := handbook.Quoting("..", before); err != nil || text != before {
			t.Errorf("%s quotes code as it was: `go generate ./e2e` writes it anew (%v)", file, err)
		}
		_, code, _ := strings.Cut(before, "```go\n")
		if n := strings.Count(code, "\n"); n < 6 || n > 18 {
			t.Errorf("%s quotes %d lines; a reader wants ten", file, n)
		}
	}
}

// Diagrams say in words what they show, and their drawings are theirs. A source that
// Mermaid cannot read has no drawing.
func TestDocsDiagramsAreDrawn(t *testing.T) {
	t.Parallel()
	for _, p := range handbookPages(t) {
		for _, d := range p.Diagrams() {
			if !d.Titled() {
				t.Errorf("%s: a diagram has no accTitle", p.Path())
			}
			if err := d.Check(".."); err != nil {
				t.Errorf("%v: `go generate ./e2e` draws it anew", err)
			}
		}
	}
}

// A drawing that shows something else than its source says, or was changed, is refused.
func TestDocsDiagramsAreThoseOfTheirSources(t *testing.T) {
	t.Parallel()
	d := handbookPages(t)[0].Diagrams()[0]
	drawn := read(t, d.File)
	root := t.TempDir()
	name := filepath.Join(root, filepath.FromSlash(d.File))
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	changed := d
	changed.Source += "note over A: changed"
	for _, c := range []struct {
		d    handbook.Diagram
		text string
		want error
	}{{d, drawn, nil}, {changed, drawn, handbook.ErrStale}, {d, strings.Replace(drawn, "<text", "<txt", 1), handbook.ErrStale}, {d, "<svg/>", handbook.ErrStale}} {
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.d.Check(root); !errors.Is(err, c.want) {
			t.Errorf("check a drawing: %v, want %v", err, c.want)
		}
	}
}
