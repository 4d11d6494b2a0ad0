package handbook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Write brings the quoted code and the drawings up to date.
func Write(ctx context.Context, root string) error {
	pages, err := Pages(root)
	if err != nil {
		return err
	}
	var diagrams []Diagram
	for _, p := range pages {
		text, err := Quoting(root, p.Text)
		if err != nil {
			return fmt.Errorf("page %s: %w", p.Name, err)
		}
		if text != p.Text {
			if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(p.Path())), []byte(text), 0o600); err != nil {
				return fmt.Errorf("page %s: %w", p.Name, err)
			}
		}
		diagrams = append(diagrams, p.Diagrams()...)
	}
	return Draw(ctx, root, diagrams)
}
