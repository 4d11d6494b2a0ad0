package scene

import (
	"embed"
	"fmt"
	"strings"
)

// A story's file has its place in the order and its name. It begins with a title, what
// one learns, and facts; then come the lines that are told, each on a line of its own:
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
	for line := range strings.Lines(head) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := s.readFact(line); err != nil {
			return err
		}
	}
	var err error
	if s.Story, err = readLines(story); err == nil {
		s.Answered, err = readLines(answered)
	}
	return err
}

// readFact reads a line of the part that is said before the scene plays.
func (s *Scene) readFact(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "#":
		s.Title = rest
	case "rows:":
		s.Rows = strings.Fields(rest)
	case "page:":
		s.Page = "patterns/" + rest + ".md"
	case "cast:":
		s.Cast = strings.Split(rest, "; ")
	case "guess:":
		s.Guess.Text = rest
	case "settled":
		s.Guess.Claim = strings.TrimPrefix(rest, "by: ")
	case "question:":
		name, text, _ := strings.Cut(rest, ": ")
		s.Questions = append(s.Questions, Question{Name: name, Text: text})
	case "+", "-":
		if n := len(s.Questions); n > 0 {
			value, text, _ := strings.Cut(rest, ": ")
			s.Questions[n-1].Options = append(s.Questions[n-1].Options, Option{Value: value, Text: text})
			break
		}
		if word == "+" {
			s.Guess.Right = len(s.Guess.Answers)
		}
		s.Guess.Answers = append(s.Guess.Answers, rest)
	default:
		if s.Learn != "" {
			return fmt.Errorf("a line is no fact: %s", line)
		}
		s.Learn = line
	}
	return nil
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
