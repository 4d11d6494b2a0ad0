// Package handbook renders what the web role shows at /learn and /patterns from the
// Markdown of docs: the rows of the papers, the pages of the patterns, and the path through them.
package handbook

import (
	"bytes"
	"errors"
	"fmt"
	"go/doc"
	"go/scanner"
	"go/token"
	"html"
	"html/template"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	markup "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
)

// Handbook is all of it, as HTML.
type Handbook struct {
	Papers   []Table[Row]     // of docs/papers.md
	Patterns []Table[Pattern] // of docs/patterns/README.md
	Path     []Stop           // of webrole/web/templates/path
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

// Read renders the documents in files, as package docs has them, and the path in pages, as package web has it.
func Read(files, pages fs.FS) (*Handbook, error) {
	papers, err := readTables(files, "papers.md", paperRow, readRow)
	if err != nil {
		return nil, err
	}
	patterns, err := readTables(files, "patterns/README.md", patternRow, readPattern)
	h := &Handbook{Papers: papers, Patterns: patterns}
	return h, errors.Join(err, h.readPath(pages))
}

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

var (
	quoteMark = regexp.MustCompile("(?m)^<!-- snippet: .+ -->\n") // see e2e/handbook
	rowsLine  = regexp.MustCompile(`(?m)<p>Rows?: .*</p>`)
	rowID     = regexp.MustCompile(`\b(?:Q[0-9]+[a-d]?|T[0-9]+|S[1-3])\b`)
)

// Wide tables scroll by themselves, also by keyboard; a header without words is none. Pictures
// are beside the pages of patterns.
var ours = strings.NewReplacer("<table>", `<div class="scroll" tabindex="0"><table>`, "</table>", "</table></div>",
	` align="right"`, ` class="number"`, "<th></th>", "<td></td>",
	`<p><img src="`, `<p><img class="plot" src="/static/patterns/`)

// render turns Markdown of a document into HTML. The documents are ours and trusted: some
// have HTML in them.
func render(files fs.FS, name, text string) (string, error) {
	own := renderer.WithNodeRenderers(util.Prioritized(&document{files: files, name: name}, 100))
	md := goldmark.New(
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(markup.WithUnsafe(), own),
	)
	var out bytes.Buffer
	if err := md.Convert([]byte(quoteMark.ReplaceAllString(text, "")), &out); err != nil {
		return "", fmt.Errorf("render Markdown: %w", err)
	}
	page := ours.Replace(out.String())
	return rowsLine.ReplaceAllStringFunc(page, func(line string) string {
		return rowID.ReplaceAllString(line, `<a href="/learn#$0">$0</a>`)
	}), nil
}

// document renders what our pages show otherwise than Markdown does by itself: code in
// colours, diagrams as pictures, and links that lead to what the web role has.
type document struct {
	files    fs.FS
	name     string // such as "patterns/claim-check.md"
	diagrams int    // seen so far
}

// RegisterFuncs implements renderer.NodeRenderer.
func (d *document) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindFencedCodeBlock, d.code)
	reg.Register(ast.KindLink, d.link)
}

func (d *document) code(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	block, _ := node.(*ast.FencedCodeBlock)
	if !entering {
		return ast.WalkContinue, nil
	}
	text := string(block.Lines().Value(source))
	switch string(block.Language(source)) {
	case "mermaid":
		return ast.WalkSkipChildren, d.diagram(w, text)
	case "go":
		_, _ = fmt.Fprintf(w, "<pre class=\"go\" tabindex=\"0\"><code>%s</code></pre>\n", colour(text))
	default:
		_, _ = fmt.Fprintf(w, "<pre tabindex=\"0\"><code>%s</code></pre>\n", html.EscapeString(text))
	}
	return ast.WalkSkipChildren, nil
}

var (
	diagramTitle = regexp.MustCompile(`(?m)^\s*accTitle:\s*(.+)$`)
	diagramSize  = regexp.MustCompile(`viewBox="[-0-9.]+ [-0-9.]+ ([0-9]+)[0-9.]* ([0-9]+)[0-9.]*"`)
)

// diagram shows the drawing that e2e/handbook made of a diagram.
func (d *document) diagram(w util.BufWriter, mermaid string) error {
	d.diagrams++
	file := fmt.Sprintf("%s-%d.svg", strings.TrimSuffix(d.name, ".md"), d.diagrams)
	svg, err := fs.ReadFile(d.files, file)
	if err != nil {
		return fmt.Errorf("show a diagram: %w", err)
	}
	size, title := diagramSize.FindSubmatch(svg), diagramTitle.FindStringSubmatch(mermaid)
	if size == nil || title == nil {
		return fmt.Errorf("show a diagram: %s has no size, or its source no accTitle", file)
	}
	_, _ = fmt.Fprintf(w, `<figure class="scroll" tabindex="0"><img src="/static/%s" alt="%s" width="%s" height="%s" loading="lazy"></figure>`+"\n",
		file, html.EscapeString(strings.TrimSpace(title[1])), size[1], size[2])
	return nil
}

// link keeps links to other sites and to pages that the web role has. A link to another file of
// the repository becomes its words and its path, since a role does not know where that is.
func (d *document) link(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	link, _ := node.(*ast.Link)
	address, file := d.address(string(link.Destination))
	switch {
	case address != "" && entering:
		_, _ = fmt.Fprintf(w, `<a href="%s">`, html.EscapeString(address))
	case address != "":
		_, _ = w.WriteString("</a>")
	case !entering:
		_, _ = fmt.Fprintf(w, ` <span class="path">(%s)</span>`, html.EscapeString(file))
	}
	return ast.WalkContinue, nil
}

// address is where the web role has the target of a link, or "" and the file's path.
func (d *document) address(target string) (address, file string) {
	u, err := url.Parse(target)
	if err != nil || u.IsAbs() || u.Path == "" || path.IsAbs(u.Path) {
		return target, ""
	}
	file = path.Join("docs", path.Dir(d.name), u.Path)
	switch page, isPattern := strings.CutPrefix(file, "docs/patterns/"); {
	case file == "docs/papers.md", file == "docs/patterns/README.md":
		return "/learn", ""
	case isPattern && path.Ext(page) == ".md":
		u.Path = "/patterns/" + strings.TrimSuffix(page, ".md")
		return u.String(), ""
	}
	return "", file
}

// colour returns Go as HTML whose parts have classes, for which static/learn.css has
// colours. No style is in the markup, which the pages' policy forbids.
func colour(code string) string {
	var out strings.Builder
	file := token.NewFileSet().AddFile("", -1, len(code))
	var parts scanner.Scanner
	parts.Init(file, []byte(code), func(token.Position, string) {}, scanner.ScanComments)
	written := 0
	for {
		pos, kind, text := parts.Scan()
		if kind == token.EOF {
			break
		}
		at := file.Offset(pos)
		class := classOf(kind, text, strings.HasPrefix(code[min(at+len(text), len(code)):], "("))
		if class == "" {
			continue
		}
		out.WriteString(html.EscapeString(code[written:at]))
		fmt.Fprintf(&out, `<span class="%s">%s</span>`, class, html.EscapeString(text))
		written = at + len(text)
	}
	out.WriteString(html.EscapeString(code[written:]))
	return out.String()
}

func classOf(kind token.Token, text string, called bool) string {
	switch {
	case kind == token.COMMENT:
		return "comment"
	case kind.IsKeyword():
		return "keyword"
	case kind == token.IDENT && doc.IsPredeclared(text):
		return "predeclared"
	case kind == token.IDENT && called:
		return "function"
	case kind.IsLiteral() && kind != token.IDENT:
		return "literal"
	}
	return ""
}
