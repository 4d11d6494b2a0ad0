package handbook

import (
	"fmt"
	"go/doc"
	"go/scanner"
	"go/token"
	"html"
	"strings"
)

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

// classOf is the class of a token; empty for most.
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
