package handbook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Write brings the quoted code and the drawings up to date.
func Write(ctx context.Context, root string) error {
	patterns, err := Pages(root, Folder)
	recipes, recipesErr := Pages(root, Recipes)
	if err := errors.Join(err, recipesErr); err != nil {
		return err
	}
	var diagrams []Diagram
	for _, p := range slices.Concat(patterns, recipes) {
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
