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
	files, err := Stops(root)
	if err != nil {
		return fmt.Errorf("look for the stops of the path: %w", err)
	}
	files = append(files, filepath.Join(root, filepath.FromSlash(Elsewhere)))
	var diagrams []Diagram
	for _, p := range slices.Concat(patterns, recipes) {
		files = append(files, filepath.Join(root, filepath.FromSlash(p.Path())))
		diagrams = append(diagrams, p.Diagrams()...)
	}
	for _, file := range files {
		if err := quoteAnew(root, file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return Draw(ctx, root, diagrams)
}

// quoteAnew brings the quoted code of a file up to date.
func quoteAnew(root, file string) error {
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := Quoting(root, string(before))
	if err != nil || text == string(before) {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o600)
}
