package handbook

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Diagram is a picture of a page. Forges draw its source by themselves; the web role
// shows the drawing, which Draw makes.
type Diagram struct {
	File   string // of the drawing, below the root of the repository
	Source string // Mermaid
}

var title = regexp.MustCompile(`(?m)^\s*accTitle:\s*\S`)

// Titled reports whether the diagram says in words what it shows, for readers who do not
// see it.
func (d Diagram) Titled() bool { return title.MatchString(d.Source) }

// mark is the first line of a drawing: a sum of what it was drawn from and of what came
// out. So a drawing that fits its source proves that Mermaid could read the source.
func (d Diagram) mark(svg string) string {
	return fmt.Sprintf("<!-- drawn from %x -->\n", sha256.Sum256([]byte(drawnAs+"\x00"+d.Source+"\x00"+svg)))
}

// ErrStale says that a drawing is of another source, or was changed by hand.
var ErrStale = errors.New("the drawing is not that of its source")

// Check returns [ErrStale] unless the committed drawing is that of the source.
func (d Diagram) Check(root string) error {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(d.File)))
	if err != nil {
		return fmt.Errorf("check a drawing: %w", err)
	}
	mark, svg, _ := strings.Cut(string(text), "\n")
	if mark+"\n" != d.mark(svg) {
		return fmt.Errorf("%s: %w", d.File, ErrStale)
	}
	return nil
}
