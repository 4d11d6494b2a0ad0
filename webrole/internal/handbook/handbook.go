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
	Papers   []Paper
	Patterns []Group
}

// Paper is a table of docs/papers.md.
type Paper struct {
	Title string
	Rows  []Row
}

// Row is a row of the papers.
type Row struct {
	ID                              string
	Sentence, Page, Code, Test, See template.HTML
}

// Group is a table of docs/patterns/README.md.
type Group struct {
	Title    string
	Patterns []Pattern
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
	var h Handbook
	err := eachTable(files, "papers.md", paperRow, func(title string, rows [][]string) error {
		paper := Paper{Title: title}
		for _, match := range rows {
			row, err := readRow(files, match[1], strings.Split(match[2], " | "))
			if err != nil {
				return fmt.Errorf("row %s: %w", match[1], err)
			}
			paper.Rows = append(paper.Rows, row)
		}
		h.Papers = append(h.Papers, paper)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = eachTable(files, "patterns/README.md", patternRow, func(title string, rows [][]string) error {
		group := Group{Title: title}
		for _, match := range rows {
			pattern := Pattern{Title: match[1], Name: match[2], Rows: strings.TrimSpace(match[3])}
			if err := pattern.read(files); err != nil {
				return fmt.Errorf("page %s: %w", pattern.Name, err)
			}
			group.Patterns = append(group.Patterns, pattern)
		}
		h.Patterns = append(h.Patterns, group)
		return nil
	})
	return &h, err
}

// eachTable calls read for the sections of a document that have rows of that form.
func eachTable(files fs.FS, name string, row *regexp.Regexp, read func(title string, rows [][]string) error) error {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return fmt.Errorf("read the handbook: %w", err)
	}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, rest, _ := strings.Cut(section, "\n")
		rows := row.FindAllStringSubmatch(rest, -1)
		if len(rows) == 0 {
			continue
		}
		if err := read(title, rows); err != nil {
			return fmt.Errorf("read the handbook: %s: %w", name, err)
		}
	}
	return nil
}

func readRow(files fs.FS, id string, cells []string) (Row, error) {
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
	return Row{ID: id, Sentence: rendered[0], Page: rendered[1], Code: rendered[2], Test: rendered[3], See: rendered[4]}, nil
}

func (p *Pattern) read(files fs.FS) error {
	name := "patterns/" + p.Name + ".md"
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return err
	}
	body, err := render(files, name, string(text))
	if err != nil {
		return err
	}
	for _, match := range heading.FindAllStringSubmatch(body, -1) {
		p.Parts = append(p.Parts, Part{ID: match[1], Title: html.UnescapeString(match[2])})
	}
	p.Body = template.HTML(body) //nolint:gosec // ours: made from docs/patterns
	return nil
}

// Find returns the pattern of that name with those before and after it in the list: nil
// where there is none.
func (h *Handbook) Find(name string) (before, pattern, next *Pattern) {
	var all []Pattern
	for _, group := range h.Patterns {
		all = append(all, group.Patterns...)
	}
	i := slices.IndexFunc(all, func(p Pattern) bool { return p.Name == name })
	if i < 0 {
		return nil, nil, nil
	}
	if i > 0 {
		before = &all[i-1]
	}
	if i+1 < len(all) {
		next = &all[i+1]
	}
	return before, &all[i], next
}
