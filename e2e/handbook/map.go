package handbook

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Map is what /learn shows beside the scenes: the rows of the papers, and the patterns.
type Map struct {
	Papers   []Paper `json:"papers"`
	Patterns []Group `json:"patterns"`
}

// Paper is a table of docs/papers.md.
type Paper struct {
	Title string `json:"title"`
	Rows  []Row  `json:"rows"`
}

// Row is a row of the papers; all but its id is HTML.
type Row struct {
	ID       string `json:"id"`
	Sentence string `json:"sentence"`
	Page     string `json:"page"`
	Code     string `json:"code"`
	Test     string `json:"test"`
	See      string `json:"see"`
}

// Group is a table of docs/patterns/README.md.
type Group struct {
	Title    string    `json:"title"`
	Patterns []Pattern `json:"patterns"`
}

// Pattern is a page in a list.
type Pattern struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Rows  string `json:"rows"`
}

var (
	paperRow   = regexp.MustCompile(`(?m)^\| ((?:Q[0-9]+[a-d]?|T[0-9]+|S[0-9])) \|(.*)\|$`)
	patternRow = regexp.MustCompile(`(?m)^\| \[([^\]]+)\]\(([a-z-]+)\.md\) \| ([^|]+) \|`)
)

// readMap reads the tables of docs/papers.md and docs/patterns/README.md.
func readMap(root string, pages []Page) (Map, error) {
	var m Map
	papers, err := os.ReadFile(filepath.Join(root, "docs", "papers.md"))
	if err != nil {
		return m, fmt.Errorf("read the papers: %w", err)
	}
	for _, section := range strings.Split(string(papers), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		var rows []Row
		for _, match := range paperRow.FindAllStringSubmatch(text, -1) {
			row, err := readRow(root, match[1], strings.Split(match[2], " | "))
			if err != nil {
				return m, err
			}
			rows = append(rows, row)
		}
		if len(rows) > 0 {
			m.Papers = append(m.Papers, Paper{Title: title, Rows: rows})
		}
	}
	list, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(Folder), "README.md"))
	if err != nil {
		return m, fmt.Errorf("read the list of patterns: %w", err)
	}
	listed := 0
	for _, section := range strings.Split(string(list), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		var patterns []Pattern
		for _, match := range patternRow.FindAllStringSubmatch(text, -1) {
			patterns = append(patterns, Pattern{Title: match[1], Name: match[2], Rows: strings.TrimSpace(match[3])})
		}
		if len(patterns) > 0 {
			m.Patterns = append(m.Patterns, Group{Title: title, Patterns: patterns})
		}
		listed += len(patterns)
	}
	if listed != len(pages) {
		return m, fmt.Errorf("%s/README.md lists %d pages of %d", Folder, listed, len(pages))
	}
	return m, nil
}

func readRow(root, id string, cells []string) (Row, error) {
	if len(cells) != 5 {
		return Row{}, fmt.Errorf("row %s of the papers has %d cells", id, len(cells))
	}
	for i, cell := range cells {
		out, err := render(root, "docs", nil, strings.TrimSpace(cell))
		if err != nil {
			return Row{}, fmt.Errorf("row %s of the papers: %w", id, err)
		}
		cells[i] = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(string(out)), "<p>"), "</p>")
	}
	return Row{ID: id, Sentence: cells[0], Page: cells[1], Code: cells[2], Test: cells[3], See: cells[4]}, nil
}
