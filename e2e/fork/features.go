package fork

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// feature is a part of the product that comes off: its files go, each line of Named that names a
// package of its folders or one of its words, and each line of a document that links to a file of it.
type feature struct {
	name  string
	needs []string // features without which it cannot be: it goes with them
	files []string // folders, and patterns of files, from the root of the repository
	words []string // of its steps and settings
}

// Named are the files that stay and name features: of each role, and of the pages that they share.
var Named = []string{
	"webrole/main.go", "webrole/config.go", "workerrole/main.go", "workerrole/config.go", "shared/workflow/steps.go",
	"webrole/web/templates/layout.html", "webrole/web/templates/home.html", "webrole/web/templates/learn.html", "webrole/web/templates/board.html",
	"webrole/web/templates/watch.html", "webrole/web/templates/upload.html", "webrole/web/templates/scene.html",
	"webrole/web/src/entry/watch.ts", "webrole/web/src/entry/upload.ts", "webrole/web/src/entry/race.ts", "webrole/web/src/edit.ts",
}

// features are those that `make fork WITHOUT=…` knows. The home page keeps its search, hidden.
var features = []feature{
	{name: "board", needs: []string{"scaling"}, words: []string{"board#lab"}, files: []string{
		"webrole/internal/board", "webrole/board_test.go", "webrole/scale_test.go", "webrole/web/templates/board.html", "webrole/web/templates/tables.html",
		"webrole/web/src/entry/board.ts", "webrole/web/src/board", "webrole/web/static/board.css",
	}},
	{name: "captions", words: []string{"StepCaptions", "setUpCaptions", "send-captions", "subtitles"}, files: []string{
		"webrole/web/src/captions.ts", "webrole/web/templates/parts/captions.html",
		"shared/captions", "shared/playlist/captions_test.go", "webrole/internal/feature/captions", "webrole/captions_test.go",
		"webrole/internal/playback/captions_test.go", "workerrole/internal/feature/captions", "e2e/crash/captions_test.go",
		"e2e/browser/captions_test.go",
	}},
	{name: "clips", words: []string{"StepClip", "ClipLife", "setUpClip", "showClip"}, files: []string{
		"webrole/web/src/clip.ts", "webrole/web/templates/parts/clip.html",
		"shared/clips", "shared/videostore/clip_*test.go", "shared/quotas/clip_*test.go", "webrole/internal/feature/clips", "webrole/clips_test.go",
		"webrole/internal/playback/clips_test.go", "workerrole/internal/feature/clips", "workerrole/internal/ffmpeg/clip*.go",
		"workerrole/internal/media/clip*.go", "e2e/crash/clip_test.go", "e2e/journey/clip.go", "e2e/soak", "docs/soak.md",
		"docs/patterns/clips*",
	}},
	{name: "duplicates", words: []string{"StepDigest"}, files: []string{"shared/duplicates", "workerrole/internal/feature/twins"}},
	{name: "early", files: []string{
		"shared/early", "webrole/early_test.go", "workerrole/early_test.go", "e2e/crash/early_test.go", "e2e/browser/early_test.go",
	}},
	{name: "finishclips", needs: []string{"clips", "registrations"}, words: []string{"setUpClips", "clips.offer", "clips.clear"}, files: []string{
		"webrole/web/src/finishclip.ts",
		"webrole/internal/feature/finishclips", "webrole/finishclips_test.go", "e2e/journey/clip.go", "e2e/browser/clip_test.go",
	}},
	{name: "journey", words: []string{"setUpJourney", "await journey"}, files: []string{
		"webrole/internal/feature/journey", "webrole/journey_test.go", "webrole/web/src/journey.ts", "webrole/web/templates/parts/journey.html",
	}},
	{name: "keys", files: []string{
		"shared/apikeys", "webrole/internal/api/keys_test.go", "webrole/internal/feature/keys", "workerrole/internal/feature/keys",
		"webrole/access_test.go", "webrole/audit_test.go", "webrole/headers_test.go", "webrole/links_test.go", "webrole/quota_test.go",
		"webrole/stranger_test.go", "e2e/stack/stacktest/secret_test.go", "e2e/hostile",
	}},
	{name: "lab", words: []string{"board#lab"}, files: []string{
		"webrole/web/src/entry/lab.ts", "webrole/web/src/entry/scene.ts", "webrole/web/src/sequence.ts", "webrole/web/templates/parts/lab.html", "webrole/web/static/lab.css",
		"webrole/internal/feature/lab", "webrole/lab_test.go", "e2e/lab", "e2e/cmd/*/lab*.go", "e2e/bench/burst*.go", "e2e/cmd/burst",
		"e2e/browser/lab_test.go", "e2e/browser/scene_test.go",
	}},
	{name: "learn", needs: []string{"scaling", "scenes"}, words: []string{"learn/papers-scene"}, files: []string{ // a calculator has its rule
		"webrole/web/templates/path", "webrole/web/src/entry/learn.ts", "webrole/web/src/entry/scene.ts", "webrole/web/src/played.ts", "webrole/web/src/sequence.ts",
		"webrole/web/static/learn.css", "webrole/web/static/scene.css",
		"webrole/internal/feature/learn", "webrole/internal/handbook", "webrole/internal/calculator", "webrole/path_test.go", "webrole/learn_test.go",
		"webrole/web/templates/learn.html", "webrole/web/templates/stop.html", "webrole/web/templates/scene.html",
		"webrole/web/templates/pattern.html", "webrole/web/templates/calculators.html", "docs/workshop.md",
	}},
	{name: "loudness", words: []string{"StepLoudness"}, files: []string{"workerrole/internal/feature/loudness", "workerrole/internal/ffmpeg/loudness*.go", "workerrole/internal/pipeline/loudness*.go"}},
	{name: "previews", files: []string{
		"shared/previews", "workerrole/internal/feature/preview", "workerrole/internal/media/preview*.go", "webrole/preview_test.go",
		"webrole/internal/playback/preview_test.go", "e2e/crash/preview_test.go",
	}},
	{name: "quotas", files: []string{ // whose lines the lists of one's own videos are
		"webrole/web/src/entry/mine.ts", "webrole/web/templates/mine.html", "shared/quotas", "webrole/internal/api/quotas_test.go",
		"webrole/internal/feature/quotas", "webrole/quota_test.go", "workerrole/internal/feature/quotas", "e2e/crash/quota_test.go", "e2e/browser/mine_test.go",
	}},
	{name: "registrations", words: []string{"setUpRace", "raceFields"}, files: []string{
		"webrole/web/src/entry/race.ts", "webrole/web/src/tie.ts", "webrole/web/templates/race.html", "webrole/web/templates/parts/race.html", "webrole/web/templates/path/6-*", "webrole/web/static/start-list.csv",
		"shared/registrations", "webrole/internal/api/registrations_test.go", "webrole/internal/feature/races", "webrole/internal/startlist", "webrole/registrations_test.go",
		"workerrole/internal/feature/races", "e2e/cmd/register", "e2e/race", "e2e/journey/race.go", "e2e/scenes/race.go",
		"shared/scene/stories/20-the-race.txt", "e2e/cmd/up/reset_test.go", "e2e/hostile",
	}},
	{name: "scaling", files: []string{"webrole/internal/scaling"}},
	{name: "scenes", files: []string{
		"shared/scene", "e2e/scenes", "e2e/cmd/scene", "e2e/lab/scenes*.go", "e2e/browser/scene_test.go", "e2e/docsscenes_test.go",
	}},
	{name: "search", files: []string{ // shared/searchindex stays: scenes and benchmarks have it
		"webrole/internal/feature/search", "webrole/search_test.go", "webrole/internal/api/search_test.go", "workerrole/internal/feature/search", "workerrole/search_test.go",
	}},
	{name: "seek", words: []string{"setUpSeek", "seekAgain", "seeking-stay"}, files: []string{"webrole/web/src/seek.ts", "webrole/internal/feature/seek", "webrole/seek_test.go", "webrole/preview_test.go"}},
	{name: "signin", needs: []string{"keys"}, files: []string{ // whose table has the sessions
		"webrole/internal/feature/signin", "webrole/signin_test.go", "webrole/path_test.go",
	}},
	{name: "tracing", files: []string{"shared/tracing", "e2e/tracing"}},
	{name: "trail", words: []string{"AuditLife"}, files: []string{
		"shared/audit", "webrole/internal/api/audit_test.go", "webrole/internal/feature/trail", "webrole/audit_test.go", "workerrole/internal/feature/trail",
	}},
	{name: "viewcount", words: []string{"setUpViews"}, files: []string{"webrole/web/src/views.ts", "shared/views", "webrole/internal/api/views_test.go", "webrole/internal/feature/viewcount", "webrole/views_test.go", "workerrole/internal/feature/viewcount"}},
}

// Features are the names that Remove knows.
func Features() (names []string) {
	for _, f := range features {
		names = append(names, f.name)
	}
	return names
}

// known refuses names that are no feature's.
func known(names []string) error {
	for _, name := range names {
		if !slices.Contains(Features(), name) {
			return fmt.Errorf("WITHOUT: there is no feature %q; there are %s", name, strings.Join(Features(), ", "))
		}
	}
	return nil
}

// Remove takes features off the tree in dir, with those that need them, and generates what is
// generated. It returns how many lines it took out of files that stay.
func Remove(dir string, names ...string) (lines int, err error) {
	if err := known(names); err != nil {
		return 0, err
	}
	var api, pages bool // are to be generated
	for _, f := range features {
		if !slices.Contains(names, f.name) && !slices.ContainsFunc(f.needs, func(need string) bool { return slices.Contains(names, need) }) {
			continue
		}
		for _, pattern := range f.files {
			found, _ := filepath.Glob(filepath.Join(dir, pattern, "openapi.yaml"))
			api, pages = api || len(found) > 0, pages || strings.HasPrefix(pattern, "webrole/web/src/")
		}
		cut, err := f.remove(dir)
		if err != nil {
			return lines, fmt.Errorf("remove feature %s: %w", f.name, err)
		}
		lines += cut
	}
	err = cutLinks(dir)
	if err == nil && api {
		err = describe(dir)
	}
	if err == nil && pages {
		_, err = output(dir, "go", "generate", "./webrole/web")
	}
	if err != nil {
		return lines, fmt.Errorf("generate without %v: %w", names, err)
	}
	return lines, nil
}

// describe generates what is made of the API's description. It needs npm, as the pages' types do.
func describe(dir string) error {
	client := filepath.Join(dir, "e2e", "client", "client.gen.go") // stays that of the whole API: tests of others call it
	text, err := os.ReadFile(client)
	if err == nil {
		_, err = output(dir, "go", "generate", "./webrole/internal/api")
	}
	if err == nil {
		err = os.WriteFile(client, text, 0o600)
	}
	if err == nil {
		_, err = output(filepath.Join(dir, "webrole/web"), "sh", "-c", "[ -d node_modules ] || npm ci --silent; npm run --silent types")
	}
	return err
}

// remove removes the files of a feature and the lines that name it.
func (f feature) remove(dir string) (lines int, _ error) {
	var imports, words []string
	for _, word := range f.words {
		words = append(words, word+`\b`)
	}
	var errs []error
	for _, pattern := range f.files {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the patterns are good
		for _, path := range found {
			errs = append(errs, os.RemoveAll(path))
		}
		if strings.HasPrefix(pattern, "webrole/web/") {
			name := strings.TrimSuffix(filepath.Base(pattern), filepath.Ext(pattern))
			imports = append(imports, "/"+name+"'", `{{template "`+name+`"`, `href="/`+name+`"`, "/"+name+`.js"`)
		} else if !strings.HasPrefix(pattern, "e2e/") { // which no role knows
			imports, words = append(imports, "/"+pattern+`"`), append(words, regexp.QuoteMeta(filepath.Base(pattern))+`\.[A-Z]`)
		}
	}
	names := regexp.MustCompile(`\b(` + strings.Join(words, "|") + `)`)
	goes := func(line string) bool {
		return slices.ContainsFunc(imports, func(path string) bool { return strings.Contains(line, path) }) ||
			!strings.Contains(line, "//") && names.MatchString(line)
	}
	for _, file := range Named {
		cut, err := cutLines(filepath.Join(dir, file), goes)
		lines += cut
		errs = append(errs, err)
	}
	return lines, errors.Join(errs...)
}

// cutLines takes lines out of a file, if it is there.
func cutLines(file string, goes func(line string) bool) (cut int, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) { // another feature's, which is gone
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	rest := ""
	for line := range strings.Lines(string(text)) {
		if goes(line) {
			cut++
			continue
		}
		rest += line
	}
	return cut, os.WriteFile(file, []byte(rest), 0o600) // the mode of the file stays
}

var link = regexp.MustCompile(`\]\(([^):#]+)[^):]*\)`)

// cutLinks takes out of documents the lines that link to what is gone.
func cutLinks(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != dir || entry.Name() == "node_modules") {
			return fs.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		_, err = cutLines(path, func(line string) bool {
			return slices.ContainsFunc(link.FindAllStringSubmatch(line, -1), func(target []string) bool {
				_, err := os.Stat(filepath.Join(filepath.Dir(path), target[1]))
				return errors.Is(err, fs.ErrNotExist)
			})
		})
		return err
	})
}
