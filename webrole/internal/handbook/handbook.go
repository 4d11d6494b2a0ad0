// Package handbook renders what the web role shows at /learn and /patterns from the
// Markdown of docs: the rows of the papers, and the pages of the patterns.
//
// Next: render.go.
package handbook

import (
	"fmt"
	"html"
	"html/template"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// Handbook is all of it, as HTML.
type Handbook struct {
	Papers   []Table[Row]     // of docs/papers.md
	Patterns []Table[Pattern] // of docs/patterns/README.md
}

// Table is what stands below a heading of a document.
type Table[T any] struct {
	Title string
	Rows  []T
}

// Row is a row of the papers.
type Row struct {
	ID                              string
	Sentence, Page, Code, Test, See template.HTML
}

// Pattern is the page of a pattern.
type Pattern struct {
	Name  string // in its address
	Title string
	Rows  string // of the papers
	Body  template.HTML
	Parts []Part
}

// Part is what a heading of a page begins.
type Part struct{ ID, Title string }

var (
	paperRow   = regexp.MustCompile(`(?m)^\| ((?:Q[0-9]+[a-d]?|T[0-9]+|S[0-9])) \|(.*)\|$`)
	patternRow = regexp.MustCompile(`(?m)^\| \[([^\]]+)\]\(([a-z-]+)\.md\) \| ([^|]+) \|`)
	heading    = regexp.MustCompile(`<h2 id="([^"]+)">([^<]+)</h2>`)
)

// Read renders the documents in files, which are laid out as those of package docs.
func Read(files fs.FS) (*Handbook, error) {
	papers, err := readTables(files, "papers.md", paperRow, readRow)
	if err != nil {
		return nil, err
	}
	patterns, err := readTables(files, "patterns/README.md", patternRow, readPattern)
	return &Handbook{papers, patterns}, err
}

// readTables reads the tables of a document that have rows of that form.
func readTables[T any](
	files fs.FS, name string, row *regexp.Regexp, read func(fs.FS, []string) (T, error),
) (all []Table[T], _ error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, fmt.Errorf("read the handbook: %w", err)
	}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, rest, _ := strings.Cut(section, "\n")
		table := Table[T]{Title: title}
		for _, match := range row.FindAllStringSubmatch(rest, -1) {
			one, err := read(files, match)
			if err != nil {
				return nil, fmt.Errorf("read the handbook: %s: %s: %w", name, match[0], err)
			}
			table.Rows = append(table.Rows, one)
		}
		if len(table.Rows) > 0 {
			all = append(all, table)
		}
	}
	return all, nil
}

func readRow(files fs.FS, match []string) (Row, error) {
	cells := strings.Split(match[2], " | ")
	if len(cells) != 5 {
		return Row{}, fmt.Errorf("it has %d cells, want 5", len(cells))
	}
	rendered := make([]template.HTML, len(cells))
	for i, cell := range cells {
		text, err := render(files, "papers.md", strings.TrimSpace(cell))
		if err != nil {
			return Row{}, err
		}
		text = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(text), "<p>"), "</p>")
		rendered[i] = template.HTML(text) //nolint:gosec // ours: made from docs/papers.md
	}
	return Row{ID: match[1], Sentence: rendered[0], Page: rendered[1], Code: rendered[2], Test: rendered[3], See: rendered[4]}, nil
}

func readPattern(files fs.FS, match []string) (Pattern, error) {
	p := Pattern{Title: match[1], Name: match[2], Rows: strings.TrimSpace(match[3])}
	name := "patterns/" + p.Name + ".md"
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return p, err
	}
	body, err := render(files, name, string(text))
	if err != nil {
		return p, err
	}
	for _, match := range heading.FindAllStringSubmatch(body, -1) {
		p.Parts = append(p.Parts, Part{ID: match[1], Title: html.UnescapeString(match[2])})
	}
	p.Body = template.HTML(body) //nolint:gosec // ours: made from docs/patterns
	return p, nil
}

// Find returns a pattern with those before and after it in the list: nil where there is none.
func (h *Handbook) Find(name string) (before, pattern, next *Pattern) {
	all := []*Pattern{nil}
	for _, group := range h.Patterns {
		for i := range group.Rows {
			all = append(all, &group.Rows[i])
		}
	}
	all = append(all, nil)
	i := slices.IndexFunc(all, func(p *Pattern) bool { return p != nil && p.Name == name })
	if i < 0 {
		return nil, nil, nil
	}
	return all[i-1], all[i], all[i+1]
}
