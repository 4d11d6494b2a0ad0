package e2e

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// besideFile is a link to something of the repository with the code that follows
// it directly: [lease.go](../shared/azq/lease.go): `Renew`, `Complete`.
var (
	besideFile = regexp.MustCompile("\\]\\(([^)\\s:#]+)\\):?\\s*((?:`[^`\n]+`(?:\\s\\([^)]*\\))?(?:,?\\s+(?:and\\s+)?)?)+)")
	lineLink   = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s:#]+)#L([0-9]+)(?:-L([0-9]+))?\)`)
	identifier = regexp.MustCompile(`^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?$`)
)

// symbolsOf returns the names that a Go file declares, at any depth: functions,
// types, constants, variables, fields, and methods also as Type.Method.
func symbolsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	tree, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			names[n.Name.Name] = true
			if n.Recv != nil {
				names[receiver(n.Recv.List[0].Type)+"."+n.Name.Name] = true
			}
		case *ast.TypeSpec:
			names[n.Name.Name] = true
			if s, ok := n.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					for _, name := range field.Names {
						names[n.Name.Name+"."+name.Name] = true
					}
				}
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				names[name.Name] = true
			}
		case *ast.Field:
			for _, name := range n.Names {
				names[name.Name] = true
			}
		}
		return true
	})
	return names
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// declares reports whether a file, or a Go file of a folder, has the symbol. In
// files of other languages the word is enough.
func declares(t *testing.T, target, symbol string) bool {
	t.Helper()
	info, err := os.Stat(filepath.Join("..", target))
	switch {
	case err != nil:
		return true // TestDocsLinksLeadSomewhere says so
	case info.IsDir():
		entries, err := os.ReadDir(filepath.Join("..", target))
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
			return strings.HasSuffix(e.Name(), ".go") && declares(t, path.Join(target, e.Name()), symbol)
		})
	case strings.HasSuffix(target, ".go"):
		return symbolsOf(t, target)[symbol]
	}
	return regexp.MustCompile(`\b` + symbol + `\b`).MatchString(read(t, target))
}

// mistakes returns what is wrong with the symbols and line numbers of one line
// of a page.
func mistakes(t *testing.T, page, line string) (found []string) {
	t.Helper()
	for _, match := range besideFile.FindAllStringSubmatch(line, -1) {
		target := path.Join(path.Dir(page), match[1])
		if strings.HasSuffix(target, ".md") {
			continue
		}
		for _, code := range inlineCode.FindAllStringSubmatch(match[2], -1) {
			if identifier.MatchString(code[1]) && !declares(t, target, code[1]) {
				found = append(found, fmt.Sprintf("%s has no %s", target, code[1]))
			}
		}
	}
	for _, match := range lineLink.FindAllStringSubmatch(line, -1) {
		target := path.Join(path.Dir(page), match[2])
		symbol := strings.Trim(match[1], "`")
		if symbol == match[1] || !identifier.MatchString(symbol) {
			found = append(found, fmt.Sprintf("a link to a line says which symbol is there: [`Symbol`](%s#L%s)", match[2], match[3]))
			continue
		}
		lines := strings.Split(read(t, target), "\n")
		for _, text := range match[3:] {
			if n, _ := strconv.Atoi(text); n > len(lines) {
				found = append(found, fmt.Sprintf("%s has no line %d", target, n))
			}
		}
		n, _ := strconv.Atoi(match[3])
		last := symbol[strings.LastIndex(symbol, ".")+1:]
		if n > 0 && n <= len(lines) && !regexp.MustCompile(`\b`+last+`\b`).MatchString(lines[n-1]) {
			found = append(found, fmt.Sprintf("line %d of %s is not that of %s", n, target, symbol))
		}
	}
	return found
}

// A symbol that the documentation names directly after a link to a file is
// declared in that file, and a link to a line names the symbol that is there.
func TestDocsSymbolsExist(t *testing.T) {
	t.Parallel()
	checked := 0
	walk(t, func(page string) {
		if page == "CHANGELOG.md" {
			return // tells of what was
		}
		fenced := false
		for i, line := range strings.Split(read(t, page), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			if fenced {
				continue
			}
			checked += len(besideFile.FindAllString(line, -1))
			for _, mistake := range mistakes(t, page, line) {
				t.Errorf("%s:%d: %s", page, i+1, mistake)
			}
		}
	}, ".md")
	if checked < 100 {
		t.Errorf("only %d links with symbols were found: the pattern is wrong", checked)
	}
}

var method = regexp.MustCompile(`(?m)^func \(\w+ \*?(\w+)(?:\[[^\]]*\])?\) (\w+)\(`)

// The data model names queries by method, without a file beside them.
func TestDocsQueriesAreMethods(t *testing.T) {
	t.Parallel()
	methods := make(map[string]bool)
	walk(t, func(file string) {
		for _, m := range method.FindAllStringSubmatch(read(t, file), -1) {
			methods[m[1]+"."+m[2]] = true
		}
	}, ".go")
	checked := 0
	for line := range strings.Lines(read(t, "docs/data-model.md")) {
		if !strings.Contains(line, " range**") && !strings.Contains(line, "**Scan**") {
			continue
		}
		for _, code := range inlineCode.FindAllStringSubmatch(line, -1) {
			if !identifier.MatchString(code[1]) || !strings.Contains(code[1], ".") {
				continue
			}
			if checked++; !methods[code[1]] {
				t.Errorf("no type has %s, which docs/data-model.md names", code[1])
			}
		}
	}
	if checked < 15 {
		t.Errorf("only %d queries were found: the pattern is wrong", checked)
	}
}

// The check of symbols finds what it looks for.
func TestDocsSymbolCheckFindsMistakes(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{
		"[keys.go](../shared/azstore/tablestore/keys.go): `Pad`, `Join`; [meter.go](../shared/azstore/tablestore/meter.go) `Meter.Requests`.": 0,
		"[keys.go](../shared/azstore/tablestore/keys.go): `Pad`, `NoSuchThing`.":                                                              1,
		"[keys.go](../shared/azstore/tablestore/keys.go): `Meter`.":                                                                           1,
		"[tablestore](../shared/azstore/tablestore): `Meter.Pad`.":                                                                            1,
		"[`InvertedTime`](../shared/azstore/tablestore/keys.go#L1)":                                                                           1,
		"[here](../shared/azstore/tablestore/keys.go#L1)":                                                                                     1,
		"[`Pad`](../shared/azstore/tablestore/keys.go#L99999)":                                                                                1,
	} {
		if got := mistakes(t, "docs/page.md", line); len(got) != want {
			t.Errorf("%s: %q, want %d mistakes", line, got, want)
		}
	}
}
