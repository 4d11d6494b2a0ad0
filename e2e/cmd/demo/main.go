// Command demo shows the whole system with one video: `make demo`.
//
// It starts Azurite, a web role and two worker roles (package stack), uploads
// FILE or a clip that it generates, shows the progress, says when the first
// frame can be played and when the video is ready, finds it by searching, and
// stays up until Ctrl-C. With DEMO_EXIT=1 it ends when the video is ready.
//
// Next: webrole/main.go, the first process of the system.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/progress"
	"github.com/cutroom/cutroom/e2e/stack"
)

// A file that adds to the stack replaces these: lab.go.
var (
	startStack = stack.Start
	invite     = func(string) {} // to what else there is at the web role's address
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait
	dir := flag.String("dir", "", "folder of the state (default .run in the repository)")
	flag.Parse()
	if err := run(ctx, os.Getenv, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, getenv func(string) string, dir string) (err error) {
	options, err := stack.FromEnv(getenv)
	if err != nil {
		return err
	}
	options.Dir = dir
	if dir == "" {
		root, err := stack.Root()
		if err != nil {
			return err
		}
		options.Dir = filepath.Join(root, ".run")
	}
	options.Log = os.Stdout
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the state: %w", err)
	}
	path, err := chooseFile(ctx, getenv("FILE"), options.Dir)
	if err != nil {
		return err
	}
	s, err := startStack(ctx, options)
	if errors.Is(err, stack.ErrRunning) {
		return fmt.Errorf("%w; `make down` stops it", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	id, err := show(ctx, s, path)
	if err != nil {
		return fmt.Errorf("%w\n.run/*.log holds what the roles say", err)
	}
	fmt.Printf("watch:      %s/watch/%s\n", s.BaseURL(), id)
	if getenv("DEMO_EXIT") == "1" {
		return nil
	}
	invite(s.BaseURL())
	fmt.Println("Ctrl-C stops everything.")
	return s.Keep(ctx, options, startStack)
}

// chooseFile checks that the file can be read before anything is started.
func chooseFile(ctx context.Context, path, dir string) (string, error) {
	if path == "" {
		return generateClip(ctx, dir)
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("FILE=%s: %w", path, err)
		}
		path = filepath.Join(home, rest)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("FILE: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("FILE=%s is not a file", path)
	}
	return path, nil
}

// show takes the file through the whole system and returns the video's id.
func show(ctx context.Context, s *stack.Stack, path string) (string, error) {
	user, err := journey.New(s.BaseURL())
	if err != nil {
		return "", err
	}
	defer user.Close()
	title := titleOf(path)
	id, err := upload(ctx, user, path, title)
	if err != nil {
		return "", err
	}
	if err := process(ctx, user, id); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	result, err := user.AwaitFound(ctx, title, id)
	if err != nil {
		return "", err
	}
	fmt.Printf("search:     %q finds it; that took %d index rows in %d requests\n", title, result.EntitiesRead, result.Requests)
	return id, nil
}

// titleOf makes "Big buck bunny" of "big_buck-bunny.mp4".
func titleOf(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	words := strings.Fields(strings.NewReplacer("_", " ", "-", " ", ".", " ").Replace(name))
	title := []rune(strings.Join(words, " "))
	if len(title) == 0 {
		return "Demo"
	}
	return strings.ToUpper(string(title[0])) + string(title[1:min(len(title), 200)])
}

func upload(ctx context.Context, user *journey.User, path, title string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open the video: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("open the video: %w", err)
	}
	size := info.Size()
	channel, tags := "demo", []string{"demo"}
	video, err := user.Announce(ctx, client.NewVideo{Title: title, SizeBytes: &size, Channel: &channel, Tags: &tags})
	if err != nil {
		return "", err
	}
	started := time.Now()
	b := progress.New("upload", size, true)
	err = user.UploadParts(ctx, video.Id, file, size, b.To)
	b.End()
	if err != nil {
		return "", err
	}
	fmt.Printf("uploaded:   %.1f MB in %.1f s, in parts straight to storage (valet keys)\n",
		float64(size)/1e6, time.Since(started).Seconds())
	return video.Id, nil
}

// stalled is how long nothing may change before the demo gives up.
const stalled = 3 * time.Minute

// process shows the progress until the video is ready. The first frame counts as
// playable when the first segment has really been fetched.
func process(ctx context.Context, user *journey.User, id string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(stalled, func() {
		cancel(fmt.Errorf("nothing has changed for %v", stalled))
	})
	defer stall.Stop()

	uploaded := time.Now()
	since := func() float64 { return time.Since(uploaded).Seconds() }
	b := progress.New("processing", 100, false)
	last, played := client.Video{}, false
	video, err := user.Await(ctx, id, func(v client.Video) bool {
		if v.State != last.State || v.Progress != last.Progress {
			stall.Reset(stalled)
		}
		last = v
		if v.Playable && !played {
			if bytes, err := user.FirstSegment(ctx, id); err == nil {
				played = true
				b.Say("playable:   the first frame can be watched %.1f s after the upload (first segment fetched, %d KB)", since(), bytes/1000)
			}
		}
		b.To(int64(v.Progress.Percent))
		return v.State == client.Ready
	})
	b.End()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	if err != nil {
		return err
	}
	if !played {
		if _, err := user.FirstSegment(ctx, id); err != nil {
			return fmt.Errorf("the video is ready and does not play: %w", err)
		}
	}
	names := make([]string, 0, len(video.Renditions))
	for _, r := range video.Renditions {
		names = append(names, r.Name)
	}
	fmt.Printf("ready:      %.1f s after the upload: %.1f s of video as %s\n", since(), video.DurationSeconds, strings.Join(names, ", "))
	return nil
}
