// Package scene has the stories of the scenes: short programs on real storage (e2e/scenes)
// that show one row of the papers each, told step by step. They are here because the web
// role, which cannot play one, still shows what is said about it.
//
// Next: e2e/scenes/doc.go.
package scene

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Scene is what is said about a scene before it plays.
type Scene struct {
	Name  string   // in addresses and on the command line, such as "stale-receipt"
	Title string   // one line for people
	Rows  []string // of the papers that it shows, such as "Q16c": see docs/papers.md
	Learn string   // what one knows afterwards: one or two sentences
	Page  string   // the pattern's page, below docs, such as "patterns/claim-check.md"

	// Cast is who takes part in every run, in the order in which they mostly come in.
	Cast  []string
	Guess Guess

	// Questions may be answered before it plays, all of them: then it is about the
	// reader's own case, and Answered is told.
	Questions []Question

	Story, Answered string // what is told when it plays: package e2e/scenes reads that
}

// Guess asks a reader what will happen. One of the scene's own claims settles it.
type Guess struct {
	Text    string   // what is asked
	Answers []string // for people
	Right   int      // index of the answer that is true
	Claim   string   // words of the claim that settles it
}

// Question is one that a scene asks its reader.
type Question struct {
	Name    string   // of its answer, such as "busy"
	Text    string   // what is asked
	Options []Option // two or more
}

// Option is an answer that one may choose.
type Option struct {
	Value string // such as "thousands"
	Text  string // for people
}

var all = readAll()

// All returns every scene, in the order in which they are best watched.
func All() []Scene { return slices.Clone(all) }

// Find returns the scene of that name.
func Find(name string) (Scene, bool) {
	i := slices.IndexFunc(all, func(s Scene) bool { return s.Name == name })
	if i < 0 {
		return Scene{}, false
	}
	return all[i], true
}

// ScenesOf returns the scenes that show a row of the papers, which may be none.
func ScenesOf(row string) []Scene {
	return slices.DeleteFunc(All(), func(s Scene) bool { return !slices.Contains(s.Rows, row) })
}

// A story's file has its place in the order and its name. It begins with the facts of a
// Scene as JSON; then comes what is told (e2e/scenes).
//
//go:embed stories/*.txt
var stories embed.FS

// readAll reads the stories. A mistake in one is a mistake in this program, and panics.
func readAll() (all []Scene) {
	files, err := stories.ReadDir("stories")
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		text, err := stories.ReadFile("stories/" + file.Name())
		if err != nil {
			panic(err)
		}
		_, name, _ := strings.Cut(strings.TrimSuffix(file.Name(), ".txt"), "-")
		s := Scene{Name: name}
		if err := s.read(string(text)); err != nil {
			panic(fmt.Sprintf("%s: %v", file.Name(), err))
		}
		all = append(all, s)
	}
	return all
}

func (s *Scene) read(text string) error {
	head, story, _ := strings.Cut(text, "\n## Story\n")
	s.Story, s.Answered, _ = strings.Cut(story, "\n## Answered\n")
	facts := json.NewDecoder(strings.NewReader(head))
	facts.DisallowUnknownFields()
	return facts.Decode(s)
}
