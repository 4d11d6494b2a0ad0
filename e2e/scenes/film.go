package scenes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workqueue"
)

var filmQueue = workqueue.Spec{Name: "convert", Visibility: 30 * time.Second}

// formats are what a film is converted to, and the arguments of ffmpeg.
var formats = []struct{ name, arguments string }{
	{"film.mp4", "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac"},
	{"small.mp4", "-vf scale=-2:72 -c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac"},
	{"sound.m4a", "-vn -c:a aac"},
	{"poster.jpg", "-frames:v 1 -update 1 -vf scale=-2:72"},
}

// aFilm is the paper's whole service in small (Q2): an upload becomes a blob and a
// work item, a worker converts it to several formats, and its words are indexed.
func aFilm(ctx context.Context, s *Stage) error {
	if err := s.Prepare(ctx, filmQueue); err != nil {
		return err
	}
	if err := s.Account("stage").Ensure(Quiet(ctx), []string{video.SourcesContainer, video.MediaContainer}, nil, searchindex.Tables); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "scene-film-")
	if err != nil {
		return fmt.Errorf("make a folder for the film: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	source := filepath.Join(dir, "source.mov")
	if err := ffmpeg(ctx, "-f lavfi -i testsrc2=s=256x144:r=10:d=1 -f lavfi -i anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=1 -c:v mpeg4 -c:a aac", source); err != nil {
		return err
	}
	film := video.Video{ID: video.NewID(), Title: "A harbour in the morning", Channel: "ships", Visibility: video.Public, State: video.Ready, CreatedAt: time.Now(), DurationSeconds: 1}

	s.Say("Somebody uploads a film. The web role stores it in a blob, puts a work item into a queue, and answers. It converts nothing itself.")
	web := s.Account("web role")
	if _, err := blobstore.New(web).PutFile(ctx, video.SourcesContainer, string(film.ID), source, "video/quicktime"); err != nil {
		return err
	}
	producer := workqueue.OpenAll(web, []workqueue.Spec{filmQueue})
	if err := sendAll(ctx, producer, filmQueue.Name, "convert", []string{string(film.ID)}); err != nil {
		return err
	}
	s.Say("A worker role receives the item, fetches the film, converts it to %d formats with ffmpeg, and stores each in a blob.", len(formats))
	lease, err := s.Desk("worker role", filmQueue).take(ctx)
	if err != nil {
		return err
	}
	worker := s.Account("worker role")
	if err := convert(ctx, s, worker, id(lease), dir); err != nil {
		return err
	}
	made := s.Told(func(e Event) bool {
		return e.From == "worker role" && strings.HasPrefix(e.Text, "put "+string(film.ID)) && e.Reply == "201"
	})
	s.Claim(made == len(formats), "%d blobs are there", made)

	s.Say("The film's words go into tables, one row for each word and field. Then the work is done, and the message is deleted.")
	truth := func(context.Context) (video.Video, bool, error) { return film, true, nil }
	if err := searchindex.New(worker).Sync(OnlyTrouble(ctx), film.ID, truth); err != nil {
		return err
	}
	if err := lease.Complete(ctx); err != nil {
		return err
	}
	s.Say("Somebody searches for %q.", "harb")
	found, err := searchindex.New(s.Account("web role")).Search(ctx, searchindex.Query{Q: "harb"}, 10, "")
	if err != nil {
		return err
	}
	s.Claim(len(found.Hits) == 1 && found.Hits[0].ID == film.ID, "the film is found by the beginning of a word of its title")
	return nil
}

// convert makes every format of a film and stores it.
func convert(ctx context.Context, s *Stage, worker *azstorage.Account, film, dir string) error {
	blobs := blobstore.New(worker)
	content, err := blobs.Get(ctx, video.SourcesContainer, film)
	if err != nil {
		return err
	}
	fetched := filepath.Join(dir, "fetched.mov")
	if err := os.WriteFile(fetched, content, 0o600); err != nil {
		return fmt.Errorf("store the film: %w", err)
	}
	for _, format := range formats {
		path := filepath.Join(dir, format.name)
		if err := ffmpeg(ctx, "-i "+fetched+" "+format.arguments, path); err != nil {
			return err
		}
		s.Act("worker role", "ffmpeg makes %s", format.name)
		if _, err := blobs.PutFile(ctx, video.MediaContainer, film+"/"+format.name, path, ""); err != nil {
			return err
		}
	}
	return nil
}

func ffmpeg(ctx context.Context, arguments, out string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "ffmpeg", append(append([]string{"-nostdin", "-v", "error", "-y"}, strings.Fields(arguments)...), out)...)
	cmd.Stderr = &said
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("ffmpeg is not installed: run 'make bootstrap'")
	}
	if err != nil {
		return fmt.Errorf("ffmpeg %s: %w: %s", arguments, err, said.String())
	}
	return nil
}
