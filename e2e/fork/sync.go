package fork

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// branch is the vendor branch.
const branch = "refs/heads/upstream"

// vendorSubject and upstream's commit are the message of a commit on the vendor branch.
const vendorSubject = "Upstream "

// ConflictError says that git could not merge some files. The merge waits in the tree.
type ConflictError struct{ Files []string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf(`upstream and the fork changed the same lines of
  %s
Edit them, then "git add" them and "git commit". Of a generated file take either side, and "make generate".
"git merge --abort" takes the merge back.`, strings.Join(e.Files, "\n  "))
}

// Sync merges a commit of upstream into the fork in dir, and returns the commit's id.
// Upstream is a path, an address or a remote; ref is what "git fetch" takes: a branch, a tag
// or a whole commit id. A conflict is a ConflictError. Repeating it changes nothing.
//
// It needs nothing but the record: in a clone without the vendor branch, or with an old one,
// and in a fork that began a history of its own, it makes the last commit of the branch again.
func Sync(dir, upstream, ref string) (commit string, err error) {
	if err := refuseChanges(dir); err != nil {
		return "", err
	}
	held, choice, err := recorded(dir)
	if err != nil {
		return "", err
	}
	commit, err = fetch(dir, upstream, ref)
	if err != nil {
		return "", err
	}
	base, err := vendorBase(dir, upstream, held, choice)
	if err != nil {
		return "", err
	}
	next := base
	if commit != held {
		next, err = vendor(dir, commit, choice, "-p", base)
	}
	if err == nil {
		_, err = output(dir, "git", "update-ref", branch, next)
	}
	if err == nil {
		err = merge(dir, commit, next)
	}
	return commit, err
}

func fetch(dir, upstream, ref string) (commit string, err error) {
	if _, err := output(dir, "git", "fetch", "--quiet", "--no-tags", upstream, ref); err != nil {
		return "", fmt.Errorf("upstream: %w", err)
	}
	return output(dir, "git", "rev-parse", "FETCH_HEAD^{commit}")
}

// vendorBase returns the commit of the vendor branch that HEAD holds, as the record says,
// and makes sure that git knows that HEAD holds it.
func vendorBase(dir, upstream, held string, choice Choice) (base string, err error) {
	base, _ = output(dir, "git", "rev-parse", "--verify", "--quiet", branch) // empty without a branch
	subject, _ := output(dir, "git", "log", "-1", "--format=%s", branch)
	head, _ := output(dir, "git", "symbolic-ref", "--quiet", "HEAD") // empty when it is no branch
	if head == branch || base != "" && !strings.HasPrefix(subject, vendorSubject) {
		return "", errors.New(`the branch "upstream" is for upstream's commits alone: ` +
			"check out another, and rename it if it is yours")
	}
	if subject != vendorSubject+held {
		commit, err := fetch(dir, upstream, held)
		if err != nil {
			return "", err
		}
		if base, err = vendor(dir, commit, choice); err != nil {
			return "", err
		}
	}
	_, err = output(dir, "git", "merge", "--strategy", "ours", "--allow-unrelated-histories",
		"-m", "Made of upstream "+held[:min(12, len(held))], base)
	return base, err
}

// vendor commits what Make makes of a commit of upstream, on top of the parents that are
// arguments of "git commit-tree", and returns the new commit.
func vendor(dir, commit string, choice Choice, parents ...string) (made string, err error) {
	scratch, err := os.MkdirTemp("", "sync-")
	if err != nil {
		return "", fmt.Errorf("a tree for upstream: %w", err)
	}
	defer func() {
		_ = os.RemoveAll(scratch)
		_, _ = output(dir, "git", "worktree", "prune")
	}()
	tree := filepath.Join(scratch, "tree")
	if _, err := output(dir, "git", "worktree", "add", "--quiet", "--detach", tree, commit); err != nil {
		return "", err
	}
	if _, err := Make(tree, choice); err != nil {
		return "", fmt.Errorf("make a fork of upstream %s: %w", commit, err)
	}
	if _, err := output(tree, "git", "add", "--all"); err != nil {
		return "", err
	}
	written, err := output(tree, "git", "write-tree")
	if err != nil {
		return "", err
	}
	return output(dir, "git", append([]string{"commit-tree", written, "-m", vendorSubject + commit}, parents...)...)
}

// merge merges the vendor branch into HEAD. A conflict stays in the tree.
func merge(dir, commit, next string) error {
	_, err := output(dir, "git", "merge", "-m", "Merge upstream "+commit[:12], next)
	if err == nil {
		return nil
	}
	files, listErr := output(dir, "git", "diff", "--name-only", "--diff-filter=U")
	if listErr != nil || files == "" {
		return err
	}
	return &ConflictError{Files: strings.Split(files, "\n")}
}
