package lab

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
)

const (
	burstSeconds = 4 // of each clip
	burstChannel = "burst"
	burstAtOnce  = 4               // uploads under way
	burstTries   = 3               // of one upload: the storage may be disturbed
	burstTime    = 5 * time.Minute // of the whole
)

func (b *bench) upload(_ *http.Request, asked client.LabBurst) (client.LabDone, error) {
	videos := MaxVideos
	if asked.Videos != nil {
		videos = *asked.Videos
	}
	if videos < 1 || videos > MaxVideos {
		return client.LabDone{}, invalid("Member /videos: from 1 to %d.", MaxVideos)
	}
	b.mu.Lock()
	running := b.burst != nil && b.burst.Running
	if !running {
		b.burst = &client.LabBurstState{Running: true, Videos: videos, Ids: []client.VideoID{}}
	}
	b.mu.Unlock()
	if running {
		return client.LabDone{}, conflict("A burst is under way.")
	}
	b.begin(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, burstTime)
		defer cancel()
		b.uploadAll(ctx, videos)
		b.mu.Lock()
		b.burst.Running = false
		b.mu.Unlock()
	})
	return client.LabDone{Videos: &videos, Says: fmt.Sprintf("%d videos are being uploaded to channel %s.", videos, burstChannel)}, nil
}

// burstNow is a copy of what became of the last burst. The caller holds mu.
func (b *bench) burstNow() *client.LabBurstState {
	if b.burst == nil {
		return nil
	}
	now := *b.burst
	now.Ids = slices.Clone(now.Ids)
	return &now
}

// uploadAll makes one clip after the other and uploads each as soon as it is there.
func (b *bench) uploadAll(ctx context.Context, videos int) {
	user, err := journey.New(b.stack.BaseURL())
	if err != nil {
		b.uploaded("", err)
		return
	}
	defer user.Close()
	var uploads sync.WaitGroup
	slots := make(chan struct{}, burstAtOnce)
	for n := 1; n <= videos; n++ {
		path, err := b.clip(ctx, n)
		if err != nil {
			b.uploaded("", err)
			continue
		}
		slots <- struct{}{}
		uploads.Go(func() {
			defer func() { <-slots }()
			b.uploaded(uploadOne(ctx, user, path, fmt.Sprintf("Burst %d of %d", n, videos)))
		})
	}
	uploads.Wait()
}

// uploaded counts one video of the burst.
func (b *bench) uploaded(id string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		text := err.Error()
		b.burst.Failed, b.burst.Error = b.burst.Failed+1, &text
		return
	}
	b.burst.Ids = append(b.burst.Ids, id)
}

func uploadOne(ctx context.Context, user *journey.User, path, title string) (id string, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read a clip: %w", err)
	}
	channel, tags := burstChannel, []string{burstChannel}
	for try := 1; ; try++ {
		if id == "" {
			var v client.Video
			if v, err = user.Announce(ctx, client.NewVideo{Title: title, Channel: &channel, Tags: &tags}); err == nil {
				id = v.Id
			}
		}
		if id != "" {
			err = user.Put(ctx, id, bytes.NewReader(content), int64(len(content)))
		}
		if err == nil || try == burstTries || !wait(ctx, time.Duration(try)*2*time.Second) {
			return id, err
		}
	}
}

// clip makes the n-th clip once: colours that no other clip has, and a tone of its
// own, so that step digest takes none for a copy of another.
func (b *bench) clip(ctx context.Context, n int) (string, error) {
	dir := filepath.Join(b.stack.Dir(), "burst")
	path := filepath.Join(dir, fmt.Sprintf("clip-%02d.mp4", n))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("look for a clip: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for clips: %w", err)
	}
	next := path + ".next"
	cmd := exec.CommandContext(ctx, cmp.Or(b.stack.Getenv("FFMPEG_PATH"), "ffmpeg"), "-nostdin", "-hide_banner", "-loglevel", "error", "-y",
		"-f", "lavfi", "-i", fmt.Sprintf("gradients=size=640x360:rate=25:duration=%d:nb_colors=5:speed=0.02:seed=%d", burstSeconds, n),
		"-f", "lavfi", "-i", fmt.Sprintf("sine=frequency=%d:sample_rate=48000:duration=%d,volume=volume=0:enable='gt(mod(t,1),0.1)'", 200+20*n, burstSeconds),
		"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", "-b:a", "64k", "-movflags", "+faststart", "-f", "mp4", next)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("make a clip: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	if err := os.Rename(next, path); err != nil {
		return "", fmt.Errorf("make a clip: %w", err)
	}
	return path, nil
}
