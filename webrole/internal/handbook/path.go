package handbook

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"strconv"
	"strings"
)

// Stop is one of the path through the patterns: a quarter of an hour.
type Stop struct {
	Number                        string `json:"-"` // from 1
	Title, Learn, Scene, Question string
	Answers                       []struct{ Text, Why string } // Why says why it is right, or is not
	Right                         int                          // index of the answer that is right
	Patterns                      []string                     // that are near, by the names of their pages; first its own

	Near     []*Pattern               `json:"-"` // the same
	Sections map[string]template.HTML `json:"-"` // by their heading: Read, Do, Watch and Lines
}

// readPath reads the stops. A file has facts as JSON, and then sections of Markdown.
func (h *Handbook) readPath(files fs.FS) error {
	names, err := fs.Glob(files, "templates/path/*.txt")
	for i, name := range names {
		stop := Stop{Number: strconv.Itoa(i + 1), Sections: map[string]template.HTML{}}
		if err := h.readStop(&stop, files, name); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		h.Path = append(h.Path, stop)
	}
	return err
}

func (h *Handbook) readStop(s *Stop, files fs.FS, name string) error {
	text, err := fs.ReadFile(files, name)
	facts, rest, _ := strings.Cut(string(text), "\n## ")
	err = errors.Join(err, json.Unmarshal([]byte(facts), s))
	for part := range strings.SplitSeq(rest, "\n## ") {
		heading, markdown, _ := strings.Cut(part, "\n")
		html, failed := render(files, name, markdown)
		s.Sections[heading], err = template.HTML(html), errors.Join(err, failed) //nolint:gosec // ours
	}
	for _, name := range s.Patterns {
		if _, near, _ := h.Find(name); near != nil { // it is gone with its feature
			s.Near = append(s.Near, near)
		}
	}
	return err
}
