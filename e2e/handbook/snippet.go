package handbook

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A page quotes code below a comment that says which:
//
//	<!-- snippet: shared/workqueue/lease.go Lease.lose -->
//
// The names are those of declarations, or of places that the source marks with
// "// snippet: name" and "// end snippet".
var quoted = regexp.MustCompile("(?m)^<!-- snippet: (\\S+) (.+?) -->\n(?:```go\n(?s:.*?)^```\n)?")

// WithSnippets returns the text of a page with its quoted code as it is in the sources
// of the repository at root.
func WithSnippets(root, page string) (string, error) {
	var failed error
	text := quoted.ReplaceAllStringFunc(page, func(block string) string {
		match := quoted.FindStringSubmatch(block)
		code, err := Snippet(root, match[1], strings.Fields(match[2])...)
		if err != nil && failed == nil {
			failed = err
		}
		return fmt.Sprintf("<!-- snippet: %s %s -->\n```go\n%s```\n", match[1], match[2], code)
	})
	return text, failed
}

// Snippet returns the named parts of a Go file, with empty lines between them. Each is
// moved to the left as far as it goes.
func Snippet(root, file string, names ...string) (string, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		return "", fmt.Errorf("quote code: %w", err)
	}
	var parts []string
	for _, name := range names {
		part, ok := marked(string(source), name)
		if !ok {
			if part, err = declared(file, source, name); err != nil {
				return "", err
			}
		}
		parts = append(parts, toTheLeft(part))
	}
	return strings.Join(parts, "\n"), nil
}

// marked returns the lines between a marker and the next end.
func marked(source, name string) (string, bool) {
	lines := strings.SplitAfter(source, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) != "// snippet: "+name {
			continue
		}
		for j := i + 1; j < len(lines); j++ {
			if strings.TrimSpace(lines[j]) == "// end snippet" {
				return strings.Join(lines[i+1:j], ""), true
			}
		}
	}
	return "", false
}

// declared returns a declaration without its comment.
func declared(file string, source []byte, name string) (string, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return "", fmt.Errorf("quote code: %w", err)
	}
	for _, decl := range tree.Decls {
		for _, known := range namesOf(decl) {
			if known == name {
				from, to := set.Position(decl.Pos()).Offset, set.Position(decl.End()).Offset
				return string(source[from:to]) + "\n", nil
			}
		}
	}
	return "", fmt.Errorf("quote code: %s declares and marks no %s", file, name)
}

// namesOf is how a declaration may be named: a method with its type.
func namesOf(decl ast.Decl) []string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		of := d.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if id, ok := of.(*ast.Ident); ok {
			return []string{id.Name + "." + d.Name.Name}
		}
	case *ast.GenDecl:
		var names []string
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, id := range s.Names {
					names = append(names, id.Name)
				}
			}
		}
		return names
	}
	return nil
}

// toTheLeft removes the tabs that all lines begin with.
func toTheLeft(code string) string {
	lines := strings.SplitAfter(code, "\n")
	least := -1
	for _, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if tabs := len(line) - len(strings.TrimLeft(line, "\t")); least < 0 || tabs < least {
			least = tabs
		}
	}
	for i, line := range lines {
		if len(line) > least && least > 0 && strings.TrimSpace(line) != "" {
			lines[i] = line[least:]
		}
	}
	return strings.Join(lines, "")
}
