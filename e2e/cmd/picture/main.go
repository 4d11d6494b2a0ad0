// Command picture makes the moving picture of the README: `make picture`. It starts a
// stack of its own with a bench of faults, uploads a film, opens the board in Chromium
// with the film beside it, kills the worker that is at work, and takes a picture a few
// times a second until the film is ready. ffmpeg makes docs/picture.gif of them.
//
// Next: e2e/lab/lab.go, which kills.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/lab"
	"github.com/cutroom/cutroom/e2e/scenes"
	"github.com/cutroom/cutroom/e2e/stack"
)

// most is how large the picture may be: people load it with the README.
const most = 3 << 20

func main() {
	scenes.MaybeChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	out := flag.String("o", "docs/picture.gif", "file of the picture")
	flag.Parse()
	if err := run(ctx, *out); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string) (err error) {
	dir, err := os.MkdirTemp("", "cutroom-picture-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	film := filepath.Join(dir, "film.mp4")
	if err := ffmpeg(ctx, "-f", "lavfi", "-i", "gradients=s=960x540:r=25:d=130:speed=0.01:c0=0x1f6f5c:c1=0x22304d:n=2:seed=7,drawtext=font=Sans:text='%{pts\\:hms}':fontsize=96:fontcolor=white:x=(w-text_w)/2:y=(h-text_h)/2", "-f", "lavfi", "-i", "sine=frequency=330:duration=130",
		"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", "-shortest", film); err != nil {
		return err
	}
	s, err := lab.Start(ctx, stack.Options{
		Dir: dir, Workers: 2, WebAddr: "127.0.0.1:0", WebAdminAddr: "127.0.0.1:0", WorkerAdminAddr: "127.0.0.1:0",
		BaseEnv: stack.Environ(), Env: []string{"WORKERROLE_POOLS=light=2,heavy=1", "CUTROOM_VISIBILITY=*=6s"},
	})
	if err != nil {
		return fmt.Errorf("start a stack: %w", err)
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	frames, err := play(ctx, s, film, dir)
	if err != nil {
		return err
	}
	return frames.encode(ctx, out)
}

// play tells the story and takes the pictures.
func play(ctx context.Context, s *lab.Stack, film, dir string) (*reel, error) {
	user, err := journey.New(s.BaseURL())
	if err != nil {
		return nil, err
	}
	defer user.Close()
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	options = append(options, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("autoplay-policy", "no-user-gesture-required"), chromedp.WindowSize(1280, 800))
	if program := os.Getenv("CUTROOM_TEST_BROWSER"); program != "" {
		options = append(options, chromedp.ExecPath(program))
	}
	allocator, closeBrowser := chromedp.NewExecAllocator(ctx, options...)
	defer closeBrowser()
	tab, closeTab := chromedp.NewContext(allocator)
	defer closeTab()
	tab, cancel := context.WithTimeout(tab, 3*time.Minute)
	defer cancel()
	if err := chromedp.Do(tab, chromedp.EmulateViewport(1280, 800), chromedp.Navigate(s.BaseURL()+"/board"), chromedp.WaitVisible(`.worker`)); err != nil {
		return nil, fmt.Errorf("open the board: %w", err)
	}
	id, err := upload(ctx, user, film)
	if err != nil {
		return nil, err
	}
	if _, err := user.Await(ctx, id, func(v client.Video) bool { return v.Playable }); err != nil {
		return nil, fmt.Errorf("wait for the first frame: %w", err)
	}
	r := &reel{tab: tab, dir: dir}
	if err := r.script(fmt.Sprintf(beside, id)); err != nil {
		return nil, err
	}
	// The board shows what workers said up to a second ago: the chunk has to last.
	var victim, before work
	for deadline := time.Now().Add(time.Minute); victim.role == "" || victim != before; {
		if time.Now().After(deadline) {
			return nil, errors.New("no worker was at work")
		}
		if err := r.say("Two workers make a film. It plays already.", time.Second); err != nil {
			return nil, err
		}
		before = victim
		if victim, err = atWork(ctx, s, user, id); err != nil {
			return nil, err
		}
	}
	if err := s.Kill(victim.role, stack.Die); err != nil {
		return nil, fmt.Errorf("kill %s: %w", victim.worker, err)
	}
	if err := r.say("SIGKILL: "+victim.worker+" dies with a chunk in its hands. Its message is hidden, not gone.", 5*time.Second); err != nil {
		return nil, err
	}
	if err := r.say("The lease ends, the message is back, another worker takes it. The film goes on.", 7*time.Second); err != nil {
		return nil, err
	}
	if _, err := user.AwaitReady(ctx, id); err != nil {
		return nil, fmt.Errorf("wait for the end: %w", err)
	}
	return r, r.say("Ready. A worker was lost, and nothing else.", 4*time.Second)
}

// beside puts the film and a line of words on the board. Styles are set by script,
// because the page's policy forbids them in the markup.
const beside = `(() => {
  const film = document.createElement('iframe');
  film.src = '/embed/%s';
  Object.assign(film.style, { position: 'fixed', left: '24px', bottom: '66px', width: '512px', height: '288px', border: '3px solid #1f6f5c', borderRadius: '10px', zIndex: 9 });
  film.onload = () => { const wait = setInterval(() => {
    const player = film.contentDocument.querySelector('video');
    if (!player || player.hidden) return;
    clearInterval(wait);
    player.muted = true;
    player.play();
  }, 100); };
  const words = document.createElement('p');
  words.id = 'words';
  Object.assign(words.style, { position: 'fixed', left: 0, right: 0, bottom: 0, margin: 0, padding: '12px 24px', background: '#1d2522', color: '#fff', fontSize: '24px', zIndex: 9 });
  document.body.append(film, words);
  for (const e of document.querySelectorAll('.top, main > p')) e.hidden = true;
})()`

func upload(ctx context.Context, user *journey.User, film string) (string, error) {
	content, err := os.ReadFile(film)
	if err != nil {
		return "", fmt.Errorf("read the film: %w", err)
	}
	v, err := user.Announce(ctx, client.NewVideo{Title: "A film"})
	if err != nil {
		return "", err
	}
	return v.Id, user.Put(ctx, v.Id, strings.NewReader(string(content)), int64(len(content)))
}

// ahead is the first chunk that may be lost while the film plays on: by the ramp of
// chunks it begins at 30 s.
const ahead = 4

// work is a chunk in the hands of a worker: the process by its name in the stack, and
// as it calls itself.
type work struct {
	role, worker string
	chunk        int
}

// atWork returns a worker that encodes a chunk far ahead of what plays, if there is one.
func atWork(ctx context.Context, s *lab.Stack, user *journey.User, id string) (work, error) {
	res, err := user.API().ListStepsWithResponse(ctx, id)
	if err != nil || res.JSON200 == nil {
		return work{}, fmt.Errorf("ask for the steps: %w", err)
	}
	var victim work
	for _, step := range res.JSON200.Items {
		if step.Step != "encode" {
			continue
		}
		if step.Index < ahead && step.State != "done" {
			return work{}, nil
		}
		for _, name := range s.Workers() {
			if pid := s.Pid(name); step.Index >= ahead && step.State == "running" && step.Worker != nil && pid != 0 && strings.HasSuffix(*step.Worker, "-"+strconv.Itoa(pid)) {
				victim = work{name, *step.Worker, step.Index}
			}
		}
	}
	return victim, nil
}

// reel is pictures with how long each was true.
type reel struct {
	tab   context.Context
	dir   string
	files []string
	at    []time.Time
}

func (r *reel) script(text string) error {
	if _, err := chromedp.Run(r.tab, chromedp.Evaluate[any](text+";null")); err != nil {
		return fmt.Errorf("run a script on the board: %w", err)
	}
	return nil
}

// say shows a line of words and takes pictures for a while.
func (r *reel) say(words string, d time.Duration) error {
	if err := r.script("document.getElementById('words').textContent = " + strconv.Quote(words)); err != nil {
		return err
	}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(250 * time.Millisecond) { // the pace of the picture
		png, err := chromedp.Run(r.tab, chromedp.CaptureScreenshot())
		if err != nil {
			return fmt.Errorf("take a picture: %w", err)
		}
		file := filepath.Join(r.dir, fmt.Sprintf("frame-%04d.png", len(r.files)))
		if err := os.WriteFile(file, png, 0o600); err != nil {
			return fmt.Errorf("keep a picture: %w", err)
		}
		r.files, r.at = append(r.files, file), append(r.at, time.Now())
	}
	return nil
}

// encode makes a GIF of the pictures. Each lasts as long as it did, but nobody has to
// watch the end of a long chunk.
func (r *reel) encode(ctx context.Context, out string) error {
	var list strings.Builder
	for i, file := range r.files {
		lasts := 2.0 // the last one is read
		if i+1 < len(r.files) {
			lasts = min(r.at[i+1].Sub(r.at[i]).Seconds(), 0.6)
		}
		fmt.Fprintf(&list, "file '%s'\nduration %.2f\n", file, lasts)
	}
	index := filepath.Join(r.dir, "frames.txt")
	if err := os.WriteFile(index, []byte(list.String()), 0o600); err != nil {
		return fmt.Errorf("list the pictures: %w", err)
	}
	if err := ffmpeg(ctx, "-f", "concat", "-safe", "0", "-i", index, "-fps_mode", "vfr", "-vf",
		"scale=900:-1:flags=lanczos,split[a][b];[a]palettegen=max_colors=96:stats_mode=full[p];[b][p]paletteuse=dither=none:diff_mode=rectangle", "-y", out); err != nil {
		return err
	}
	info, err := os.Stat(out)
	if err != nil {
		return fmt.Errorf("look at the picture: %w", err)
	}
	fmt.Printf("%s: %d pictures, %d KB\n", out, len(r.files), info.Size()>>10)
	if info.Size() > most {
		return fmt.Errorf("%s has %d bytes, at most %d are wanted", out, info.Size(), most)
	}
	return nil
}

func ffmpeg(ctx context.Context, args ...string) error {
	program := os.Getenv("FFMPEG_PATH")
	if program == "" {
		program = "ffmpeg"
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"-nostdin", "-v", "error"}, args...)...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ffmpeg: %w: %s", err, said)
	}
	return nil
}
