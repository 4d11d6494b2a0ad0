package handbook

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Folder is where the pages of patterns are, below the root of the repository, and Recipes
// those of recipes. Elsewhere is the page that compares a consumer with others.
const (
	Folder    = "docs/patterns"
	Recipes   = "docs/recipes"
	Elsewhere = "docs/elsewhere.md"
)

// Sections are the headings of a pattern's page, in this order. A page may have others
// between them.
var Sections = []string{
	"The problem", "The picture", "The lines that matter",
	"What the paper says", "What we do today", "The code", "See it", "How it fails",
	"When not to use it", "Elsewhere", "What it costs", "Related", "Exercise",
}

// Page is the page of a pattern or of a recipe.
type Page struct {
	Folder string
	Name   string // of the file, without .md
	Text   string // Markdown, with "\n" at the ends of lines
}

// Pages reads the pages of a folder, by name, without its README.
func Pages(root, folder string) ([]Page, error) {
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*.md"))
	if err != nil {
		return nil, fmt.Errorf("read pages: %w", err)
	}
	var pages []Page
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		if name == "README" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read pages: %w", err)
		}
		pages = append(pages, Page{Folder: folder, Name: name, Text: string(text)})
	}
	return pages, nil
}

// Stops are the files of the path at /learn, which quote code as pages do.
func Stops(root string) ([]string, error) {
	return filepath.Glob(filepath.Join(root, "webrole", "web", "templates", "path", "*.txt"))
}

// Path is the page's file, below the root of the repository.
func (p Page) Path() string { return path.Join(p.Folder, p.Name+".md") }

// Section returns what is below a heading of the second level, and whether it is there.
func (p Page) Section(heading string) (string, bool) {
	_, text, ok := strings.Cut(p.Text, "\n## "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return strings.TrimSpace(text), ok
}

var fence = regexp.MustCompile("(?m)^```mermaid\n((?s:.*?))^```$")

// Diagrams returns the diagrams of the page, in order.
func (p Page) Diagrams() []Diagram {
	var all []Diagram
	for i, match := range fence.FindAllStringSubmatch(p.Text, -1) {
		all = append(all, Diagram{File: fmt.Sprintf("%s/%s-%d.svg", p.Folder, p.Name, i+1), Source: match[1]})
	}
	return all
}
