package e2e

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// walk calls visit with the path, relative to the repository, of every file that
// belongs to the project and has one of the suffixes.
func walk(t *testing.T, visit func(path string), suffixes ...string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "node_modules" || name == "testdata" ||
				strings.HasPrefix(name, ".") && name != ".." && name != ".ci" {
				return filepath.SkipDir
			}
			return nil
		}
		if slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(path, s) }) {
			visit(filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator))))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// page is a Markdown file taken apart.
type page struct {
	path     string
	prose    string   // without code
	code     []string // inline code and lines of code blocks
	headings map[string]bool
}

var (
	inlineCode = regexp.MustCompile("`([^`\n]+)`")
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func parsePage(t *testing.T, path string) page {
	t.Helper()
	p := page{path: path, headings: make(map[string]bool)}
	var prose strings.Builder
	fenced := false
	lines := bufio.NewScanner(strings.NewReader(read(t, path)))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~") {
			fenced = !fenced
			continue
		}
		if fenced {
			p.code = append(p.code, line)
			continue
		}
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			p.headings[slug(title)] = true
		}
		for _, match := range inlineCode.FindAllStringSubmatch(line, -1) {
			p.code = append(p.code, match[1])
		}
		prose.WriteString(inlineCode.ReplaceAllString(line, "code"))
		prose.WriteByte('\n')
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	p.prose = prose.String()
	return p
}

// slug is the anchor that GitHub gives a heading.
func slug(title string) string {
	title = strings.ToLower(strings.TrimSpace(strings.ReplaceAll(title, "`", "")))
	return strings.ReplaceAll(notInSlug.ReplaceAllString(title, ""), " ", "-")
}

func pages(t *testing.T) map[string]page {
	t.Helper()
	all := make(map[string]page)
	walk(t, func(path string) { all[path] = parsePage(t, path) }, ".md")
	return all
}

var linkTarget = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)`)

// Every relative link leads to a file of the repository, and to a heading of it
// where it has a fragment.
func TestDocsLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for path, p := range all {
		for _, match := range linkTarget.FindAllStringSubmatch(p.prose, -1) {
			target, fragment, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, ":") { // https:, mailto:
				continue
			}
			full := path
			if target != "" {
				full = filepath.ToSlash(filepath.Join(filepath.Dir(path), target))
				if _, err := os.Stat(filepath.Join("..", full)); err != nil {
					t.Errorf("%s links to %s, which does not exist", path, match[1])
					continue
				}
			}
			if to, ok := all[full]; ok && fragment != "" && !to.headings[fragment] {
				t.Errorf("%s links to %s, which has no such heading", path, match[1])
			}
		}
	}
}

var (
	makeCommand = regexp.MustCompile(`(?:^|[$;&]\s*|\s)make((?:\s+[a-z][a-z0-9-]*)+)`)
	makeTarget  = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

// Every `make x` of the documentation is a target.
func TestDocsMakeTargetsExist(t *testing.T) {
	t.Parallel()
	targets := make(map[string]bool)
	for _, match := range makeTarget.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[match[1]] = true
	}
	for path, p := range pages(t) {
		for _, code := range p.code {
			code, _, _ = strings.Cut(code, "#")
			if !strings.HasPrefix(strings.TrimLeft(code, "$ "), "make ") && !strings.Contains(code, "&& make ") {
				continue
			}
			for _, match := range makeCommand.FindAllStringSubmatch(code, -1) {
				for _, target := range strings.Fields(match[1]) {
					if !targets[target] {
						t.Errorf("%s says `%s`: the Makefile has no target %q", path, strings.TrimSpace(code), target)
					}
				}
			}
		}
	}
}

// variable is a whole name of an environment variable of ours.
var variable = regexp.MustCompile(`\b(?:(?:CUTROOM|WEBROLE|WORKERROLE|AZURITE|AZURE_STORAGE)_[A-Z0-9_]*[A-Z0-9]|FFMPEG_PATH|FFPROBE_PATH)\b`)

// ownVariable is the end of a variable of azstore, before which stands the program's name.
var ownVariable = regexp.MustCompile(`^_[A-Z_]+$`)

// variablesRead returns the variables that the code and the scripts name, with
// one place each; tests do not count.
func variablesRead(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	walk(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, read(t, path), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				text, err := strconv.Unquote(literal.Value)
				if path == "shared/azstore/config.go" && ownVariable.MatchString(text) {
					text = "CUTROOM" + text
				}
				if err == nil && variable.FindString(strings.TrimSuffix(text, "=")) == strings.TrimSuffix(text, "=") && text != "" {
					found[strings.TrimSuffix(text, "=")] = path
				}
			}
			return true
		})
	}, ".go")
	for _, dir := range []string{"scripts", ".ci"} {
		entries, err := os.ReadDir(filepath.Join("..", dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			for _, name := range variable.FindAllString(read(t, dir+"/"+entry.Name()), -1) {
				found[name] = dir + "/" + entry.Name()
			}
		}
	}
	const compose = "deploy/compose.yaml"
	for _, name := range variable.FindAllString(read(t, compose), -1) {
		found[name] = compose
	}
	return found
}

// Every variable that the code reads is in docs/configuration.md; those of tests
// only may be in docs/testing.md instead.
func TestDocsEveryVariableIsDocumented(t *testing.T) {
	t.Parallel()
	configuration, testing := read(t, "docs/configuration.md"), read(t, "docs/testing.md")
	for _, name := range slices.Sorted(maps.Keys(variablesRead(t))) {
		word := regexp.MustCompile(`\b` + name + `\b`)
		if word.MatchString(configuration) || strings.HasPrefix(name, "CUTROOM_TEST_") && word.MatchString(testing) {
			continue
		}
		t.Errorf("%s reads %s, which docs/configuration.md does not describe", variablesRead(t)[name], name)
	}
}

// Every variable that the documentation names is read by something.
func TestDocsVariablesExist(t *testing.T) {
	t.Parallel()
	known := variablesRead(t)
	for path, p := range pages(t) {
		if path == "CHANGELOG.md" {
			continue // tells of what was
		}
		for _, text := range append([]string{p.prose}, p.code...) {
			for _, at := range variable.FindAllStringIndex(text, -1) {
				name := text[at[0]:at[1]]
				if rest := text[at[1]:]; strings.HasPrefix(rest, "*") || strings.HasPrefix(rest, "_") || known[name] != "" {
					continue
				}
				t.Errorf("%s names %s, which nothing reads", path, name)
			}
		}
	}
}

// versionTag is the tag of a version of a module.
var versionTag = regexp.MustCompile(`/v[0-9.]+$`)

var sourcePath = regexp.MustCompile(`^(?:shared|webrole|workerrole|e2e|deploy|docs|scripts)/[A-Za-z0-9_./-]*[A-Za-z0-9_/-]$`)

// Every file or folder of the repository that the documentation names exists. A
// path may be written with a final slash, or with a symbol: `shared/engine.ID`.
func TestDocsPathsExist(t *testing.T) {
	t.Parallel()
	for path, p := range pages(t) {
		if path == "CHANGELOG.md" {
			continue
		}
		for _, code := range p.code {
			if !sourcePath.MatchString(code) || strings.Contains(code, "node_modules") || versionTag.MatchString(code) {
				continue
			}
			candidates := []string{code}
			if i := strings.LastIndex(code, "."); i > strings.LastIndex(code, "/") {
				candidates = append(candidates, code[:i])
			}
			if !slices.ContainsFunc(candidates, func(c string) bool {
				_, err := os.Stat(filepath.Join("..", filepath.FromSlash(c)))
				return err == nil
			}) {
				t.Errorf("%s names %s, which does not exist", path, code)
			}
		}
	}
}

// splitTable is a row of a table that begins a block and has no line of dashes below it: an
// empty line took it away from its head, so a reader sees the bars.
var splitTable = regexp.MustCompile(`(?:^|\n)\n(\|[^\n]*\|)\n(?:[^|]|\|[^ ]|\| [^-:])`)

// Every table has a head.
func TestDocsTablesAreWhole(t *testing.T) {
	t.Parallel()
	for path, p := range pages(t) {
		if match := splitTable.FindStringSubmatch(p.prose + "\n"); match != nil {
			t.Errorf("%s: an empty line is before the row %s", path, match[1])
		}
	}
}

// The checks above find what they look for.
func TestDocsCheckFindsMistakes(t *testing.T) {
	t.Parallel()
	if got := slug(" What `make up` does, and how"); got != "what-make-up-does-and-how" {
		t.Errorf("slug = %q", got)
	}
	for text, want := range map[string]string{
		"set `CUTROOM_PREFIX` first": "CUTROOM_PREFIX",
		"AZURITE_BLOB_PORT=1":        "AZURITE_BLOB_PORT",
		"CUTROOM_":                   "",
		"MY_CUTROOM_PREFIX":          "",
	} {
		if got := variable.FindString(text); got != want {
			t.Errorf("variable in %q: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]bool{"\n| a |\n| --- |\n| b |\n\n": false, "\n| a |\n| --- |\n\n| b |\n\n": true} {
		if splitTable.MatchString(text) != want {
			t.Errorf("a split table in %q: want %t", text, want)
		}
	}
	match := linkTarget.FindSubmatch([]byte(`see [the page](docs/a.md#b "title")`))
	if match == nil || !bytes.Equal(match[1], []byte("docs/a.md#b")) {
		t.Errorf("link: %q", match)
	}
}

// A test that scripts/test or the Makefile has in a list, to run it alone or to leave it
// out, is there: one that was renamed would run beside others, or not at all.
func TestDocsScriptsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	declared := map[string]bool{}
	walk(t, func(path string) {
		for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(read(t, path), -1) {
			declared[match[1]] = true
		}
	}, "_test.go")
	named := 0
	for _, path := range []string{"scripts/test", "Makefile"} {
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(read(t, path), -1) {
			named++
			if !declared[name] && name != "TestDocs" { // all whose names begin so
				t.Errorf("%s names %s, which is no test", path, name)
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d names looked at", named)
	}
}
