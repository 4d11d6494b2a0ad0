package fork

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// feature is a part of the product that comes off: its files go, and each line of a role's main
// that names a package of its folders, which are the import and the value in the list.
type feature struct {
	name  string
	needs []string // features without which it cannot be: it goes with them
	files []string // folders, and patterns of files, from the root of the repository
}

// features are those that `make fork WITHOUT=…` knows. So far they are the parts of the web
// role: what the worker role and shared have of them stays, and so do pages and documents.
var features = []feature{
	{name: "board", needs: []string{"scaling"}, files: []string{"webrole/internal/board", "webrole/board_test.go", "webrole/scale_test.go"}},
	{name: "captions", files: []string{"webrole/internal/feature/captions", "webrole/captions_test.go"}},
	{name: "clips", files: []string{"webrole/internal/feature/clips", "webrole/clips_test.go"}},
	{name: "early", files: []string{
		"shared/early", "webrole/early_test.go", "workerrole/early_test.go", "e2e/crash/early_test.go", "e2e/browser/early_test.go",
	}},
	{name: "finishclips", needs: []string{"clips", "registrations"}, files: []string{"webrole/internal/feature/finishclips"}},
	{name: "journey", files: []string{"webrole/internal/feature/journey", "webrole/journey_test.go"}},
	{name: "keys", files: []string{"webrole/internal/feature/keys"}},
	{name: "lab", files: []string{
		"webrole/internal/feature/lab", "webrole/lab_test.go", "e2e/lab", "e2e/cmd/*/lab*.go", "e2e/bench/burst*.go", "e2e/cmd/burst",
		"e2e/browser/lab_test.go", "e2e/browser/scene_test.go",
	}},
	{name: "learn", needs: []string{"scaling", "scenes"}, files: []string{ // a calculator has its rule
		"webrole/internal/feature/learn", "webrole/internal/handbook", "webrole/internal/calculator", "webrole/path_test.go",
		"webrole/web/templates/learn.html", "webrole/web/templates/stop.html", "webrole/web/templates/scene.html",
		"webrole/web/templates/pattern.html", "webrole/web/templates/calculators.html",
	}},
	{name: "previews", files: []string{
		"shared/previews", "workerrole/internal/feature/preview", "workerrole/internal/media/preview*.go", "webrole/preview_test.go",
		"webrole/internal/playback/preview_test.go", "e2e/crash/preview_test.go",
	}},
	{name: "registrations", files: []string{
		"webrole/internal/feature/races", "webrole/internal/startlist", "webrole/registrations_test.go", "webrole/features_test.go",
	}},
	{name: "scaling", files: []string{"webrole/internal/scaling"}},
	{name: "scenes", files: []string{
		"shared/scene", "e2e/scenes", "e2e/cmd/scene", "e2e/lab/scenes*.go", "e2e/browser/scene_test.go", "e2e/docsscenes_test.go",
	}},
	{name: "search", files: []string{"webrole/internal/feature/search", "webrole/search_test.go"}},
	{name: "seek", files: []string{"webrole/internal/feature/seek", "webrole/seek_test.go"}},
	{name: "signin", needs: []string{"keys"}, files: []string{ // whose table has the sessions
		"webrole/internal/feature/signin", "webrole/signin_test.go", "webrole/path_test.go",
	}},
	{name: "tracing", files: []string{"shared/tracing", "e2e/tracing"}},
	{name: "trail", files: []string{"webrole/internal/feature/trail", "webrole/audit_test.go"}},
	{name: "viewcount", files: []string{"webrole/internal/feature/viewcount", "webrole/views_test.go"}},
}

// Features are the names that Remove knows.
func Features() (names []string) {
	for _, f := range features {
		names = append(names, f.name)
	}
	return names
}

// Remove takes features off the tree in dir, with those that need them, and generates what is
// generated. It returns how many lines it took out of files that stay.
func Remove(dir string, names ...string) (lines int, err error) {
	for _, name := range names {
		if !slices.Contains(Features(), name) {
			return lines, fmt.Errorf("WITHOUT: there is no feature %q; there are %s", name, strings.Join(Features(), ", "))
		}
	}
	for _, f := range features {
		if !slices.Contains(names, f.name) && !slices.ContainsFunc(f.needs, func(need string) bool { return slices.Contains(names, need) }) {
			continue
		}
		for _, pattern := range f.files {
			found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the patterns are good
			for _, path := range found {
				if err := os.RemoveAll(path); err != nil {
					return lines, fmt.Errorf("remove feature %s: %w", f.name, err)
				}
			}
			for _, role := range []string{"webrole", "workerrole"} {
				cut, err := cutLines(filepath.Join(dir, role, "main.go"), pattern)
				if err != nil {
					return lines, fmt.Errorf("remove feature %s: %w", f.name, err)
				}
				lines += cut
			}
		}
	}
	_, err = output(dir, "go", "generate", "./webrole/internal/api")
	return lines, err
}

// cutLines takes the lines out of a main that import the package of a folder or name it.
func cutLines(main, folder string) (cut int, err error) {
	text, err := os.ReadFile(main)
	if err != nil || strings.HasSuffix(folder, ".go") {
		return 0, err
	}
	rest, uses := "", regexp.MustCompile(`\b`+filepath.Base(folder)+`\.[A-Z]`)
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "/"+folder+`"`) || !strings.Contains(line, "//") && uses.MatchString(line) {
			cut++
			continue
		}
		rest += line
	}
	return cut, os.WriteFile(main, []byte(rest), 0o600) // the mode of the file stays
}
