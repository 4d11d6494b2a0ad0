// Package load generates load: it uploads films or files at a rate or all at once, follows
// each until it can be watched or is ready, and records the times. Benchmarks, the bench of
// faults and the soak use it.
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
)

// Upload is one upload.
type Upload struct {
	Path  string
	Video client.NewVideo // its size is added
	Whole bool            // by one PUT through the web role; else in parts, with valet keys
	// BytesPerSecond is how fast the line is. 0: as fast as it goes.
	BytesPerSecond int64
	// LastPartLast sends parts in an order in which nothing can be made before the end.
	LastPartLast bool
}

// Goal is until when an upload is followed.
type Goal int

// The goals.
const (
	Uploaded Goal = iota
	Playable
	Ready
)

// Generator says how uploads come and how far they are followed.
type Generator struct {
	User  *journey.User
	Until Goal
	// AtOnce is how many are under way at the same time. 0: one.
	AtOnce int
	// Every is the time between the beginnings of two. 0: as soon as one may begin.
	Every time.Duration
	// Tries is how often one is tried whose requests fail. 0: once.
	Tries int
	// Done is told of each upload as it ends, from several goroutines. Nil: errors end the run.
	Done func(Times, error)
}

// Times is when what happened to one upload; zero: did not, or was not waited for.
type Times struct {
	ID       string
	Begun    time.Time
	Arrived  time.Time // all bytes, before the web role was told so: what it does then counts
	Answered time.Time // the upload was complete
	Playable time.Time // the API said so
	Ready    time.Time // as the video says itself
	Video    client.Video
}

// Run makes as many uploads as count says, then follows one after the other, and returns
// their times in order.
func (g Generator) Run(ctx context.Context, count int, upload func(i int) Upload) ([]Times, error) {
	times := make([]Times, count)
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(max(g.AtOnce, 1))
	begun := time.Now()
	for i := range count {
		Pause(running, time.Until(begun.Add(time.Duration(i)*g.Every)))
		group.Go(func() error {
			err := g.begin(running, upload(i), &times[i])
			if g.Done != nil {
				g.Done(times[i], err)
				return nil
			}
			return err
		})
	}
	err := group.Wait()
	for i := range times {
		if err == nil {
			err = g.follow(ctx, &times[i])
		}
	}
	return times, err
}

// One makes one upload and follows it.
func (g Generator) One(ctx context.Context, u Upload) (t Times, err error) {
	if err = g.begin(ctx, u, &t); err == nil {
		err = g.follow(ctx, &t)
	}
	return t, err
}

func (g Generator) begin(ctx context.Context, u Upload, t *Times) (err error) {
	t.Begun = time.Now()
	for try := 1; ; try++ {
		if err = g.upload(ctx, u, t); err == nil || try >= g.Tries || ctx.Err() != nil {
			return err
		}
		Pause(ctx, time.Duration(try)*2*time.Second)
	}
}

func (g Generator) follow(ctx context.Context, t *Times) (err error) {
	switch g.Until {
	case Playable:
		if t.Video, err = g.User.Await(ctx, t.ID, func(v client.Video) bool { return v.Playable }); err == nil {
			t.Playable = time.Now()
		}
	case Ready:
		err = g.awaitReady(ctx, t)
	}
	return err
}

func (g Generator) upload(ctx context.Context, u Upload, t *Times) error {
	file, err := os.Open(u.Path)
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	size := info.Size()
	if t.ID == "" {
		u.Video.SizeBytes = &size
		v, err := g.User.Announce(ctx, u.Video)
		if err != nil {
			return err
		}
		t.ID = v.Id
	}
	content := io.ReaderAt(file)
	if u.BytesPerSecond > 0 {
		content = Line{file, u.BytesPerSecond}
	}
	arrived := func(int64) { t.Arrived = time.Now() }
	switch {
	case u.Whole:
		err = g.User.Put(ctx, t.ID, io.NewSectionReader(content, 0, size), size)
		arrived(size)
	case u.LastPartLast:
		err = g.User.UploadLastPartLast(ctx, t.ID, content, size, arrived)
	default:
		err = g.User.UploadParts(ctx, t.ID, content, size, arrived)
	}
	t.Answered = time.Now()
	return err
}

// awaitReady asks seldom: asking costs the machine that is being measured, and the video
// says itself when it became ready.
func (g Generator) awaitReady(ctx context.Context, t *Times) (err error) {
	for {
		t.Video, err = g.User.Video(ctx, t.ID)
		switch v := t.Video; {
		case err != nil:
			return err
		case v.State == client.Ready && v.ReadyAt != nil:
			t.Ready = *v.ReadyAt // one machine, one clock
			return nil
		case v.State == client.Failed:
			return fmt.Errorf("video %s failed: %+v", t.ID, v.Error)
		}
		if Pause(ctx, time.Second); ctx.Err() != nil {
			return errors.Join(ctx.Err(), fmt.Errorf("video %s is %s", t.ID, t.Video.State))
		}
	}
}

// Line hands a file on as slowly as a slow line does. It is for one reader.
type Line struct {
	io.ReaderAt
	BytesPerSecond int64
}

// ReadAt takes as long as the bytes would on the line.
func (l Line) ReadAt(p []byte, at int64) (int, error) {
	time.Sleep(time.Duration(float64(len(p)) / float64(l.BytesPerSecond) * float64(time.Second)))
	return l.ReaderAt.ReadAt(p, at)
}

// Pause waits, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
