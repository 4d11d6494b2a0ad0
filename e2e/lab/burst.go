package lab

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/film"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/load"
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

// uploadAll makes the clips and uploads them.
func (b *bench) uploadAll(ctx context.Context, videos int) {
	user, err := journey.New(b.stack.BaseURL())
	if err != nil {
		b.uploaded(load.Times{}, err)
		return
	}
	defer user.Close()
	channel, tags := burstChannel, []string{burstChannel}
	_, _ = load.Generator{User: user, AtOnce: burstAtOnce, Tries: burstTries, Done: b.uploaded}.Run(ctx, videos, func(i int) load.Upload {
		path, err := b.clip(ctx, i+1)
		if err != nil {
			b.stack.Say("burst: %v", err) // the upload of what is not there says that it failed
		}
		title := fmt.Sprintf("Burst %d of %d", i+1, videos)
		return load.Upload{Path: path, Whole: true, Video: client.NewVideo{Title: title, Channel: &channel, Tags: &tags}}
	}) // Done has told of each
}

// uploaded counts one video of the burst.
func (b *bench) uploaded(t load.Times, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		text := err.Error()
		b.burst.Failed, b.burst.Error = b.burst.Failed+1, &text
		return
	}
	b.burst.Ids = append(b.burst.Ids, t.ID)
}

// clip makes the n-th clip once: colours that no other clip has, and a tone of its
// own, so that step digest takes none for a copy of another.
func (b *bench) clip(ctx context.Context, n int) (string, error) {
	path := filepath.Join(b.stack.Dir(), "burst", fmt.Sprintf("clip-%02d.mp4", n))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("make a folder for clips: %w", err)
	}
	return path, film.Once(ctx, path,
		"-f", "lavfi", "-i", fmt.Sprintf("gradients=size=640x360:rate=25:duration=%d:nb_colors=5:speed=0.02:seed=%d", burstSeconds, n),
		"-f", "lavfi", "-i", fmt.Sprintf("sine=frequency=%d:sample_rate=48000:duration=%d,volume=volume=0:enable='gt(mod(t,1),0.1)'", 200+20*n, burstSeconds),
		"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", "-b:a", "64k", "-movflags", "+faststart")
}
