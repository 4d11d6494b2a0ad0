package handbook

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A page quotes code below a comment that says which:
//
//	<!-- snippet: shared/azq/lease.go Lease.lose -->
//
// The names are those of functions, or of places that the source marks with
// "// snippet: name" and "// end snippet".
var quoted = regexp.MustCompile("(?m)^<!-- snippet: (\\S+) (.+?) -->\n(?:```go\n(?s:.*?)^```\n)?")

// Quoting returns the text of a page with its quoted code as it is in the sources of the
// repository at root.
func Quoting(root, page string) (string, error) {
	var failed error
	text := quoted.ReplaceAllStringFunc(page, func(block string) string {
		match := quoted.FindStringSubmatch(block)
		code, err := quote(root, match[1], strings.Fields(match[2]))
		if err != nil && failed == nil {
			failed = err
		}
		return fmt.Sprintf("<!-- snippet: %s %s -->\n```go\n%s```\n", match[1], match[2], code)
	})
	return text, failed
}

// quote returns the named parts of a Go file, with empty lines between them.
func quote(root, file string, names []string) (string, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		return "", fmt.Errorf("quote code: %w", err)
	}
	var parts []string
	for _, name := range names {
		part := find(string(source), name)
		if part == "" {
			return "", fmt.Errorf("quote code: %s has no function and no mark %s", file, name)
		}
		parts = append(parts, toTheLeft(part))
	}
	return strings.Join(parts, "\n"), nil
}

// find returns the lines below a mark, or a function without its comment; empty when
// there is neither. The sources are formatted by gofmt, so a function ends with a brace
// that begins a line, or on its first line.
func find(source, name string) string {
	mark := regexp.MustCompile(`(?m)^\s*// snippet: ` + regexp.QuoteMeta(name) + `\n((?s:.*?))^\s*// end snippet$`)
	if match := mark.FindStringSubmatch(source); match != nil {
		return match[1]
	}
	function := `func ` + regexp.QuoteMeta(name)
	if receiver, method, is := strings.Cut(name, "."); is {
		function = `func \(\w+ \*?` + regexp.QuoteMeta(receiver) + `(?:\[[\w, ]+\])?\) ` + regexp.QuoteMeta(method)
	}
	return regexp.MustCompile(`(?m)^` + function + `[(\[](?:.*\}|(?s:.*?)^\})\n`).FindString(source)
}

// toTheLeft removes the tabs that all lines begin with.
func toTheLeft(code string) string {
	least := -1
	for line := range strings.Lines(code) {
		tabs := len(line) - len(strings.TrimLeft(line, "\t"))
		if strings.TrimSpace(line) != "" && (least < 0 || tabs < least) {
			least = tabs
		}
	}
	return regexp.MustCompile(fmt.Sprintf(`(?m)^\t{%d}`, max(least, 0))).ReplaceAllString(code, "")
}
