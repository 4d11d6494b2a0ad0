package scene

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"
)

// A story's file has its place in the order and its name. It begins with the facts of a
// Scene as JSON; then come the lines that are told, each on a line of its own:
//
//	> what is about to happen
//	! a claim
//	= what it means
//	@ who: does something
//	... here the program does something
//
//go:embed stories/*.txt
var stories embed.FS

// kinds are the kinds of lines by how they begin.
var kinds = map[string]Kind{">": Step, "!": Claim, "=": Note, "@": Act, "...": Pause}

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
	story, answered, _ := strings.Cut(story, "\n## Answered\n")
	facts := json.NewDecoder(strings.NewReader(head))
	facts.DisallowUnknownFields()
	err := facts.Decode(s)
	if err == nil {
		s.Story, err = readLines(story)
	}
	if err == nil {
		s.Answered, err = readLines(answered)
	}
	return err
}

func readLines(text string) (told []Line, err error) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		begin, rest, _ := strings.Cut(line, " ")
		one := Line{Kind: kinds[begin], Text: rest}
		if one.Kind == Act {
			one.Who, one.Text, _ = strings.Cut(rest, ": ")
		}
		if one.Kind == "" || one.Kind != Pause && one.Text == "" {
			return nil, fmt.Errorf("a line cannot be told: %s", line)
		}
		told = append(told, one)
	}
	return told, nil
}
