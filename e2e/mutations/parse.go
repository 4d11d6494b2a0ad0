package mutations

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed *.txt
var lists embed.FS

// All reads the lists. In them "# NAME" begins a mutation; "test", "says", "env" and "soak"
// are its fields; "file PATH" begins an edit, whose text is behind "-" at the beginning of
// each line and whose replacement behind "+"; ";" begins a comment. exercises.txt has notes
// besides, each a field whose text goes on in lines that begin with two spaces.
func All() (all []Mutation, _ error) {
	for _, name := range []string{"storage.txt", "runtime.txt", "worker.txt", "media.txt", "web.txt"} {
		text, err := lists.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the list of mutations: %w", err)
		}
		list, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// parse reads a list in which mutations may have notes of these names.
func parse(text string, notes ...string) (list []Mutation, _ error) {
	for n, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, ";") {
			continue
		}
		if name, begins := strings.CutPrefix(line, "# "); begins {
			list = append(list, Mutation{Name: name})
			continue
		}
		if len(list) == 0 || !list[len(list)-1].add(line, notes) {
			return nil, fmt.Errorf("line %d: %q does not fit", n+1, line)
		}
	}
	return list, nil
}

// add reads one line of a mutation, and reports whether it fits.
func (m *Mutation) add(line string, notes []string) bool {
	if sign := line[0]; sign == '-' || sign == '+' {
		if len(m.Edits) == 0 {
			return false
		}
		e := &m.Edits[len(m.Edits)-1]
		to := &e.Old
		if sign == '+' {
			to = &e.New
		}
		if e.lines[sign]++; e.lines[sign] > 1 {
			*to += "\n"
		}
		*to += line[1:]
		return true
	}
	if more, goesOn := strings.CutPrefix(line, "  "); goesOn && len(m.notes) > 0 {
		m.notes[len(m.notes)-1].text += " " + more
		return true
	}
	field, value, _ := strings.Cut(line, " ")
	if slices.Contains(notes, field) {
		m.notes = append(m.notes, note{field, value})
		return true
	}
	switch field {
	case "test":
		m.Package, m.Test, _ = strings.Cut(value, " ")
	case "says":
		m.Says = value
	case "env":
		m.Env = strings.Fields(value)
	case "soak":
		m.Soak = append(m.Soak, value)
	case "file":
		m.Edits = append(m.Edits, Edit{File: value, lines: map[byte]int{}})
	default:
		return false
	}
	return true
}
