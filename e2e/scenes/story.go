package scenes

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cutroom/cutroom/shared/scene"
)

// Line is one thing that is told.
type Line struct {
	Kind Kind
	Who  string // of an Act
	Text string // for fmt.Sprintf, where it has verbs
}

// Kind says what a line is.
type Kind string

const (
	Step  Kind = "step"  // what is about to happen
	Act   Kind = "act"   // something that an actor does without a request, such as being killed
	Note  Kind = "note"  // what it means
	Claim Kind = "claim" // a statement that is checked
	Pause Kind = "pause" // the program does something before the story goes on
)

var kinds = map[string]Kind{">": Step, "!": Claim, "=": Note, "@": Act, "...": Pause}

// readLines reads what is told, each thing on a line of its own:
//
//	> what is about to happen
//	! a claim
//	= what it means
//	@ who: does something
//	... here the program does something
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

// ErrAnswer says that the answers are not those to a scene's questions.
var ErrAnswer = errors.New("this does not answer the questions of the scene")

// CheckAnswers returns [ErrAnswer] unless answers, by question, answer none or all of the
// questions of a scene.
func CheckAnswers(s scene.Scene, answers map[string]string) error {
	if len(answers) == 0 {
		return nil
	}
	for _, q := range s.Questions {
		if !slices.ContainsFunc(q.Options, func(o scene.Option) bool { return o.Value == answers[q.Name] }) {
			return fmt.Errorf("%w: %s is %q, and may be %s", ErrAnswer, q.Name, answers[q.Name], values(q))
		}
	}
	if len(answers) != len(s.Questions) {
		return fmt.Errorf("%w: there are %d questions and %d answers", ErrAnswer, len(s.Questions), len(answers))
	}
	return nil
}

func values(q scene.Question) string {
	var values []string
	for _, o := range q.Options {
		values = append(values, o.Value)
	}
	return strings.Join(values, ", ")
}
