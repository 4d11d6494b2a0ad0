package handbook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	markup "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
)

// Rendered is where the web role takes the pages from, below the root of the repository.
const Rendered = "webrole/web/learn"

// Plot is the one picture of the pages that is no diagram: where it is, and where the
// web role has it.
const (
	plot       = Folder + "/partition-stress.svg"
	plotServed = Drawings + "/partition-stress.svg"
)

// Render returns the files that the web role embeds, by path below the root: a fragment
// of HTML for each page, what the map at /learn shows, and the plot.
func Render(root string, pages []Page) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, p := range pages {
		fragment, err := RenderPage(root, p)
		if err != nil {
			return nil, fmt.Errorf("render page %s: %w", p.Name, err)
		}
		files[path.Join(Rendered, p.Name+".html")] = fragment
	}
	learn, err := readMap(root, pages)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(learn); err != nil {
		return nil, fmt.Errorf("write the map: %w", err)
	}
	files[path.Join(Rendered, "map.json")] = text.Bytes()
	picture, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(plot)))
	if err != nil {
		return nil, fmt.Errorf("read the plot: %w", err)
	}
	files[plotServed] = picture
	return files, nil
}

var (
	comment  = regexp.MustCompile("(?m)^<!-- snippet: .+ -->\n")
	rowsLine = regexp.MustCompile(`(?m)<p>Rows?: .*</p>`)
	rowID    = regexp.MustCompile(`\b(?:Q[0-9]+[a-d]?|T[0-9]+|S[1-3])\b`)
)

// RenderPage returns a page as a fragment of HTML.
func RenderPage(root string, p Page) ([]byte, error) {
	out, err := render(root, Folder, p.Diagrams(), comment.ReplaceAllString(p.Text, ""))
	if err != nil {
		return nil, err
	}
	return rowsLine.ReplaceAllFunc(out, func(line []byte) []byte {
		return rowID.ReplaceAll(line, []byte(`<a href="/learn#$0">$0</a>`))
	}), nil
}

// render turns Markdown of a folder of the repository into HTML.
func render(root, folder string, diagrams []Diagram, text string) ([]byte, error) {
	r := &pageRenderer{root: root, folder: folder, diagrams: diagrams}
	md := goldmark.New(
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(
			markup.WithUnsafe(), // the folds of exercises; the pages are ours
			renderer.WithNodeRenderers(util.Prioritized(r, 100)),
		),
	)
	var out bytes.Buffer
	if err := md.Convert([]byte(text), &out, parser.WithContext(parser.NewContext(parser.WithIDs(slugs{})))); err != nil {
		return nil, fmt.Errorf("render Markdown: %w", err)
	}
	if r.err != nil {
		return nil, r.err
	}
	// Wide tables scroll by themselves, also by keyboard.
	page := strings.ReplaceAll(out.String(), "<table>", `<div class="scroll" tabindex="0"><table>`)
	page = strings.ReplaceAll(page, ` align="right"`, ` class="number"`)
	page = strings.ReplaceAll(page, "<th></th>", "<td></td>") // a header without words is none
	return []byte(strings.ReplaceAll(page, "</table>", "</table></div>")), nil
}

// slugs are the anchors that GitHub gives headings, so that links hold in both places.
type slugs map[string]bool

func (s slugs) Generate(value []byte, _ ast.NodeKind) []byte {
	slug := Slug(string(value))
	for n := 1; s[slug]; n++ {
		slug = fmt.Sprintf("%s-%d", Slug(string(value)), n)
	}
	s[slug] = true
	return []byte(slug)
}

func (s slugs) Put(value []byte) { s[string(value)] = true }

// Slug is the anchor that GitHub gives a heading.
func Slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsNumber(r), r == '_', r == '-':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(heading))
}

// pageRenderer draws what our pages show otherwise than Markdown does by itself: code
// in colours, diagrams as pictures, and links that lead to what the web role has.
type pageRenderer struct {
	root, folder string
	diagrams     []Diagram
	drawn        int
	err          error
}

// RegisterFuncs implements renderer.NodeRenderer.
func (r *pageRenderer) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindFencedCodeBlock, r.code)
	reg.Register(ast.KindLink, r.link)
	reg.Register(ast.KindImage, r.image)
}

func (r *pageRenderer) code(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	block, _ := node.(*ast.FencedCodeBlock)
	var text strings.Builder
	for i := range block.Lines().Len() {
		line := block.Lines().At(i)
		text.Write(line.Value(source))
	}
	switch language := string(block.Language(source)); language {
	case "mermaid":
		return ast.WalkSkipChildren, r.diagram(w)
	case "go":
		coloured, err := colour(text.String())
		if err != nil {
			return ast.WalkStop, err
		}
		_, _ = w.WriteString(coloured)
	default:
		_, _ = fmt.Fprintf(w, "<pre tabindex=\"0\"><code>%s</code></pre>\n", html.EscapeString(text.String()))
	}
	return ast.WalkSkipChildren, nil
}

// diagram shows the next drawing, in the colours that the reader prefers.
func (r *pageRenderer) diagram(w util.BufWriter) error {
	d := r.diagrams[r.drawn]
	r.drawn++
	svg, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(Drawings), d.File("light")))
	if err != nil {
		return fmt.Errorf("show diagram %s: %w", d.Name, err)
	}
	size := viewBox.FindSubmatch(svg)
	if size == nil {
		return fmt.Errorf("show diagram %s: %w: it has no size", d.Name, ErrDrawing)
	}
	whole := func(n []byte) string { before, _, _ := strings.Cut(string(n), "."); return before }
	_, _ = fmt.Fprintf(w, `<figure class="scroll" tabindex="0"><picture><source media="(prefers-color-scheme: dark)" srcset="/static/patterns/%s"><img src="/static/patterns/%s" alt="%s" width="%s" height="%s" loading="lazy"></picture></figure>`+"\n",
		d.File("dark"), d.File("light"), html.EscapeString(d.Title()), whole(size[1]), whole(size[2]))
	return nil
}

// link keeps links to other sites and to pages that the web role has. A link to another
// file of the repository becomes its path, since a role does not know where that is.
func (r *pageRenderer) link(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	link, _ := node.(*ast.Link)
	target := string(link.Destination)
	address, file := r.address(target)
	if address != "" {
		if entering {
			_, _ = fmt.Fprintf(w, `<a href="%s">`, html.EscapeString(address))
		} else {
			_, _ = w.WriteString("</a>")
		}
		return ast.WalkContinue, nil
	}
	if words(node, source) == path.Base(file) {
		if entering {
			_, _ = fmt.Fprintf(w, `<code class="path">%s</code>`, html.EscapeString(file))
		}
		return ast.WalkSkipChildren, nil
	}
	if !entering {
		_, _ = fmt.Fprintf(w, ` <span class="path">(%s)</span>`, html.EscapeString(file))
	}
	return ast.WalkContinue, nil
}

// words is the text inside a node.
func words(node ast.Node, source []byte) string {
	var b strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		if text, is := child.(*ast.Text); is {
			b.Write(text.Segment.Value(source))
		}
		b.WriteString(words(child, source))
	}
	return b.String()
}

// address is where the web role has the target of a link, or "" and the file's path.
func (r *pageRenderer) address(target string) (address, file string) {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "#") {
		return target, ""
	}
	name, fragment, has := strings.Cut(target, "#")
	file = path.Join(r.folder, name)
	if has {
		fragment = "#" + fragment
	}
	switch dir, base := path.Split(file); {
	case file == "docs/papers.md", file == Folder+"/README.md":
		return "/learn", ""
	case dir == Folder+"/" && strings.HasSuffix(base, ".md"):
		return "/patterns/" + strings.TrimSuffix(base, ".md") + fragment, ""
	}
	return "", file
}

func (r *pageRenderer) image(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	image, _ := node.(*ast.Image)
	if !entering {
		return ast.WalkContinue, nil
	}
	if file := path.Join(r.folder, string(image.Destination)); file != plot {
		return ast.WalkStop, fmt.Errorf("show %s: the web role has no such picture", file)
	}
	_, _ = fmt.Fprintf(w, `<img class="plot" src="/static/patterns/partition-stress.svg" alt="%s">`, html.EscapeString(words(node, source)))
	return ast.WalkSkipChildren, nil
}
