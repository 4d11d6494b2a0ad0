package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// Root returns the folder of the repository: the nearest one above the working
// directory that holds go.work and deploy/azurite.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for {
		_, err1 := os.Stat(filepath.Join(dir, "go.work"))
		_, err2 := os.Stat(filepath.Join(dir, "deploy", "azurite", "package.json"))
		if err1 == nil && err2 == nil {
			return dir, nil
		}
		if !errors.Is(errors.Join(err1, err2), fs.ErrNotExist) {
			return "", fmt.Errorf("finding the repository: %w", errors.Join(err1, err2))
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("finding the repository: no folder above this one holds go.work; run this inside a checkout of Cutroom")
		}
		dir = parent
	}
}

// Build compiles both roles into dir, as "webrole" and "workerrole". Flags go
// to `go build`, for example "-race".
func Build(ctx context.Context, dir string, flags ...string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("building the roles: %w", err)
	}
	args := append([]string{"build", "-o", dir + string(filepath.Separator)}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./webrole", "./workerrole")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the roles: %w\n%s", err, out)
	}
	return nil
}
