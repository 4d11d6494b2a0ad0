package handbook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Drawings is where the drawn diagrams are, below the root of the repository.
const Drawings = "webrole/web/static/patterns"

// Schemes are the colours that each diagram is drawn in.
var Schemes = []string{"light", "dark"}

// drawnAs changes when diagrams are to be drawn anew without a change of their own: with
// another version of Mermaid, or other settings of it. See draw.go.
const drawnAs = "mermaid 12.3.0, 2"

// Diagram is a picture of a page.
type Diagram struct {
	Name   string // of its files, without the scheme: "poison-messages-1"
	Source string // Mermaid
}

var title = regexp.MustCompile(`(?m)^\s*accTitle:\s*(.+)$`)

// Title is what the diagram shows, in words, for those who do not see it; empty when
// its source does not say.
func (d Diagram) Title() string {
	if match := title.FindStringSubmatch(d.Source); match != nil {
		return strings.TrimSpace(match[1])
	}
	return ""
}

// File is the name of the drawing for a scheme.
func (d Diagram) File(scheme string) string { return d.Name + "." + scheme + ".svg" }

// Mark says in a drawing what it was drawn from.
func (d Diagram) Mark(scheme string) string {
	sum := sha256.Sum256([]byte(drawnAs + "\x00" + scheme + "\x00" + d.Source))
	return "<!-- drawn from " + hex.EncodeToString(sum[:]) + " -->"
}

// Errors of Check.
var (
	ErrStale   = errors.New("the drawing is of another source")
	ErrDrawing = errors.New("the drawing is no picture")
)

// Check reports whether the committed drawing for a scheme is that of the source.
// Mermaid draws only what it can read, so a drawing that fits proves that the
// source has no error; and the drawing has the words of the source.
func (d Diagram) Check(root, scheme string) error {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(Drawings), d.File(scheme)))
	if err != nil {
		return fmt.Errorf("diagram %s: %w", d.Name, err)
	}
	if !strings.HasPrefix(string(text), d.Mark(scheme)) {
		return fmt.Errorf("diagram %s: %w", d.File(scheme), ErrStale)
	}
	if err := wellFormed(string(text)); err != nil {
		return fmt.Errorf("diagram %s: %w: %w", d.File(scheme), ErrDrawing, err)
	}
	if missing, all := d.notShown(string(text)); 5*len(missing) > all {
		return fmt.Errorf("diagram %s: %w: of %d words it lacks %q", d.File(scheme), ErrDrawing, all, missing)
	}
	return nil
}

var (
	longWord = regexp.MustCompile(`[a-z]{4,}`)
	unshown  = regexp.MustCompile(`(?s)<style.*?</style>|<[^>]+>`)
	// grammar are words of Mermaid's own language, which no drawing shows.
	grammar = regexp.MustCompile(`^(sequencediagram|flowchart|statediagram|subgraph|direction|participant|actor|note|over|right|left|loop|else|acctitle|activate|deactivate|autonumber|state|class|classdef|style|linkstyle|rect|break|critical|option)$`)
)

// notShown returns the words of the source that a drawing lacks, and how many it should
// have. Some are names that only the source uses.
func (d Diagram) notShown(svg string) (missing []string, all int) {
	shown := strings.ToLower(unshown.ReplaceAllString(svg, " "))
	words := longWord.FindAllString(strings.ToLower(title.ReplaceAllString(d.Source, "")), -1)
	slices.Sort(words)
	for _, word := range slices.Compact(words) {
		if grammar.MatchString(word) {
			continue
		}
		all++
		if !strings.Contains(shown, word) {
			missing = append(missing, word)
		}
	}
	return missing, all
}

// wellFormed says whether an SVG can be read, and is not Mermaid's picture of an error.
func wellFormed(svg string) error {
	if !strings.Contains(svg, "<svg") || strings.Contains(svg, `aria-roledescription="error"`) {
		return errors.New("it shows an error")
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("it cannot be read: %w", err)
		}
	}
}
