package handbook

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
)

// Write brings pages, drawings and what the web role embeds up to date.
func Write(ctx context.Context, root string) error {
	pages, err := Pages(root)
	if err != nil {
		return err
	}
	var diagrams []Diagram
	for i, p := range pages {
		text, err := WithSnippets(root, p.Text)
		if err != nil {
			return fmt.Errorf("page %s: %w", p.Name, err)
		}
		if text != p.Text {
			if err := keep(root, p.Path(), []byte(text)); err != nil {
				return err
			}
			pages[i].Text = text
		}
		diagrams = append(diagrams, p.Diagrams()...)
	}
	if _, err := Draw(ctx, root, diagrams); err != nil {
		return err
	}
	files, err := Render(root, pages)
	if err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(Rendered), "*"))
	if err != nil {
		return fmt.Errorf("look for old pages: %w", err)
	}
	for _, file := range old {
		if files[path.Join(Rendered, filepath.Base(file))] == nil {
			if err := os.Remove(file); err != nil {
				return fmt.Errorf("remove an old page: %w", err)
			}
		}
	}
	for name, content := range files {
		if err := keep(root, name, content); err != nil {
			return err
		}
	}
	return nil
}

// keep writes a file whose content has changed.
func keep(root, name string, content []byte) error {
	file := filepath.Join(root, filepath.FromSlash(name))
	if now, err := os.ReadFile(file); err == nil && bytes.Equal(now, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
