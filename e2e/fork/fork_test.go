// Package fork_test renames a copy of the repository with `make fork` and uses it.
package fork_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/product"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// newName is the name of the copy. It is made, because the test is part of the
// copy, too.
const newName = product.Name + "x"

// renamedCopy is a copy of the repository after `make fork`.
func renamedCopy(t *testing.T) (tree string) {
	t.Helper()
	tree = copyRepository(t)
	run(t, tree, "make", "fork", "MODULE=example.com/acme/"+newName, "NAME="+newName)
	return tree
}

// A renamed copy has the old name nowhere, and its sources are formatted.
func TestRenamedCopyHasOneName(t *testing.T) {
	azuritetest.Slow(t, "copies the repository")
	tree := renamedCopy(t)
	oldNameIsGone(t, tree)
	if out := run(t, tree, "gofmt", "-l", "shared", "webrole", "workerrole", "e2e", "examples"); out != "" {
		t.Errorf("gofmt would change\n%s", out)
	}
}

// A renamed copy builds, its tests pass, and its roles make a video ready.
func TestRenamedCopyWorks(t *testing.T) {
	azuritetest.Slow(t, "builds a copy of the repository and runs the roles")
	tree := renamedCopy(t)
	run(t, tree, "go", "build", "-o", "bin/", "./webrole", "./workerrole")
	t.Run("tests", func(t *testing.T) {
		run(t, tree, "go", "test", "-short", "./shared/azq", "./shared/video", "./e2e")
		run(t, tree, "go", "test", "-run", "^TestScriptsAreBuilt$", "./webrole/web")
	})
	emulator := startEmulator(t)
	t.Run("roles", func(t *testing.T) {
		makesAVideoReady(t, filepath.Join(tree, "bin"), append(stack.Environ(),
			"AZURE_STORAGE_CONNECTION_STRING="+emulator.ConnectionString(), strings.ToUpper(newName)+"_PREFIX=moved"))
	})
}

// makesAVideoReady uploads a clip to the roles of a directory, on addresses of their own.
func makesAVideoReady(t *testing.T, roles string, env []string) {
	env = append(env, "WEBROLE_ADDR=127.0.0.1:0", "WEBROLE_ADMIN_ADDR=127.0.0.1:0", "WORKERROLE_ADMIN_ADDR=127.0.0.1:0")
	start(t, filepath.Join(roles, "workerrole"), env)
	log := start(t, filepath.Join(roles, "webrole"), env)
	user := visit(t, await(t, log, regexp.MustCompile(`web role is up" address=(http://\S+)/`))[1])
	res, err := user.API().CreateVideoWithResponse(t.Context(), nil, client.NewVideo{Title: "Moved"})
	if err != nil {
		t.Fatal(err)
	}
	if res.JSON201 == nil {
		t.Fatalf("announce: %s: %s", res.Status(), res.Body)
	}
	upload(t, user, res.JSON201.Id)
	if _, err := user.AwaitReady(t.Context(), res.JSON201.Id); err != nil {
		t.Fatal(err)
	}
}

// startEmulator starts Azurite in memory until the test ends.
func startEmulator(t *testing.T) *azurite.Server {
	emulator, err := azurite.Start(t.Context(), azurite.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := emulator.Stop(); err != nil {
			t.Error(err)
		}
	})
	return emulator
}

// copyRepository copies what git tracks, and what it would, into a repository of
// the copy's own.
func copyRepository(t *testing.T) (tree string) {
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	tree = t.TempDir()
	for path := range strings.SplitSeq(run(t, root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		from, to := filepath.Join(root, path), filepath.Join(tree, path)
		info, err := os.Stat(from)
		if path == "" || os.IsNotExist(err) { // removed and not yet committed
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o700)
		}
		if err == nil {
			err = os.WriteFile(to, text, info.Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(root, "webrole/web/node_modules"), filepath.Join(tree, "webrole/web/node_modules")); err != nil {
		t.Fatal(err)
	}
	run(t, tree, "git", "init", "-q")
	run(t, tree, "git", "add", "-A")
	run(t, tree, "git", "-c", "user.name=fork", "-c", "user.email=fork@example.com", "commit", "-q", "-m", "A copy")
	return tree
}

// oldNameIsGone looks at every file of the copy. newName holds the old one.
func oldNameIsGone(t *testing.T, tree string) {
	files := run(t, tree, "git", "ls-files", "-z")
	for path := range strings.SplitSeq(strings.TrimSuffix(files, "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(tree, path))
		if err != nil {
			t.Fatal(err)
		}
		rest := strings.ReplaceAll(strings.ToLower(string(text)), newName, "")
		switch n := strings.Count(rest, product.Name); {
		case path == "LICENSE": // keeps naming whom it is from
		case n > 0:
			t.Errorf("%s holds %q %d times", path, product.Name, n)
		}
	}
}

func visit(t *testing.T, base string) *journey.User {
	user, err := journey.New(base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	return user
}

func upload(t *testing.T, user *journey.User, id string) {
	clip := filepath.Join(t.TempDir(), "clip.mp4")
	run(t, "", "ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=160x90:r=15:d=2",
		"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", clip)
	content, err := os.ReadFile(clip)
	if err == nil {
		err = user.Put(t.Context(), id, bytes.NewReader(content), int64(len(content)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// start runs a role until the test ends, and returns its log.
func start(t *testing.T, binary string, env []string) (log string) {
	log = filepath.Join(t.TempDir(), filepath.Base(binary)+".log")
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, file, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		err := cmd.Wait()
		_ = file.Close()
		if text, _ := os.ReadFile(log); err != nil || t.Failed() {
			t.Logf("%s: %v\n%s", filepath.Base(binary), err, text[max(0, len(text)-4000):])
		}
	})
	return log
}

// await returns the match of what once appears in the file.
func await(t *testing.T, file string, what *regexp.Regexp) []string {
	var match []string
	if !azuritetest.Poll(time.Minute, func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		match = what.FindStringSubmatch(string(text))
		return match != nil
	}) {
		t.Fatalf("%s never says %s", file, what)
	}
	return match
}

// run runs a command in dir to its end and returns what it wrote to stdout.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var out, problems bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out.Bytes(), problems.Bytes())
	}
	return out.String()
}
