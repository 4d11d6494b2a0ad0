package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// row is the id of a row of docs/papers.md, as comments cite it.
	row = regexp.MustCompile(`\b(?:Q[1-9][0-9]?[a-d]?|T[1-9][0-9]?|S[1-9])\b`)
	// rowOfPapers is a line of its tables: id, sentence, page, code, test, demonstration.
	rowOfPapers = regexp.MustCompile(`(?m)^\| (` + row.String() + `) \|(.*)\|$`)
)

// papers returns the cells of every row of docs/papers.md, by id.
func papers(t *testing.T) map[string][]string {
	t.Helper()
	rows := make(map[string][]string)
	for _, match := range rowOfPapers.FindAllStringSubmatch(read(t, "docs/papers.md"), -1) {
		cells := strings.Split(match[2], " | ")
		if len(cells) != 5 {
			t.Errorf("row %s of docs/papers.md has %d cells after its id, want sentence, page, code, test, see it", match[1], len(cells))
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
			if cells[i] == "" {
				t.Errorf("row %s of docs/papers.md has an empty cell", match[1])
			}
		}
		rows[match[1]] = cells
	}
	if len(rows) != 36 {
		t.Errorf("docs/papers.md has %d rows, want 36", len(rows))
	}
	return rows
}

// notBuilt is what the cells of a row say whose promise is not kept yet.
const notBuilt = "not built"

// Every row that a comment or a page cites is in docs/papers.md.
func TestDocsCitedRowsAreInThePapers(t *testing.T) {
	t.Parallel()
	rows := papers(t)
	check := func(path, text string) {
		for _, id := range row.FindAllString(text, -1) {
			if rows[id] == nil {
				t.Errorf("%s cites %s, which docs/papers.md does not have", path, id)
			}
		}
	}
	cited := 0
	walk(t, func(path string) {
		file, err := parser.ParseFile(token.NewFileSet(), path, read(t, path), parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range file.Comments {
			cited += len(row.FindAllString(group.Text(), -1))
			check(path, group.Text())
		}
	}, ".go")
	walk(t, func(path string) {
		if strings.HasPrefix(path, "docs/") {
			check(path, read(t, path))
		}
	}, ".md")
	if cited < 200 {
		t.Errorf("only %d rows are cited in comments: the pattern is wrong", cited)
	}
}

// Every row of docs/papers.md is named in a test and links to one, but for those
// that say they are not built, which no test may claim.
func TestDocsEveryRowIsTested(t *testing.T) {
	t.Parallel()
	named := make(map[string]string)
	walk(t, func(path string) {
		for _, id := range row.FindAllString(read(t, path), -1) {
			named[id] = path
		}
	}, "_test.go")
	rows := papers(t)
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		test := rows[id][3]
		switch {
		case test == notBuilt && named[id] != "":
			t.Errorf("docs/papers.md says that %s is not built, and %s names it", id, named[id])
		case test == notBuilt:
		case named[id] == "":
			t.Errorf("no test names %s", id)
		case !strings.Contains(test, "_test.go)"):
			t.Errorf("docs/papers.md links %s to no test: %s", id, test)
		}
	}
}

// T4: the data model says of every table which granularity its partitions have.
func TestDocsEveryTableSaysItsGranularity(t *testing.T) {
	t.Parallel()
	said := make(map[string]bool)
	heading := regexp.MustCompile("`([a-z]+)`")
	granularity := regexp.MustCompile(`\*\*Granularity\*\*.*\*(?:single|some|unique)\*`)
	for _, section := range strings.Split(read(t, "docs/data-model.md"), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		tables := heading.FindAllStringSubmatch(title, -1)
		if len(granularity.FindAllString(text, -1)) < len(tables) {
			continue
		}
		for _, table := range tables {
			said[table[1]] = true
		}
	}
	seen := 0
	eachSource(t, []string{"shared"}, func(path string, file *ast.File, _ func(token.Pos) token.Position) {
		if strings.Contains(path, "enginetest") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is || len(spec.Values) != 1 || !strings.HasSuffix(spec.Names[0].Name, "Table") {
				return true
			}
			if text, is := spec.Values[0].(*ast.BasicLit); is {
				seen++
				if table := strings.Trim(text.Value, `"`); !said[table] {
					t.Errorf("docs/data-model.md does not say the granularity of table %s", table)
				}
			}
			return true
		})
	})
	if seen < 10 {
		t.Errorf("only %d tables are declared", seen)
	}
}
