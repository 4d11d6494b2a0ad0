package scenes

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/video"
)

var _ = register(programs, "a-film", aFilm)

var filmQueue = azq.Spec{Name: "convert", Visibility: 30 * time.Second}

// formats are what a film is converted to, and the arguments of ffmpeg.
var formats = []struct{ name, arguments string }{
	{"film.mp4", "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac"},
	{"small.mp4", "-vf scale=-2:72 -c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac"},
	{"sound.m4a", "-vn -c:a aac"},
	{"poster.jpg", "-frames:v 1 -update 1 -vf scale=-2:72"},
}

// aFilm is the paper's whole service in small (Q2): an upload becomes a blob and a
// work item, a worker converts it to several formats, and its words are indexed.
func aFilm(s *Stage) {
	s.Prepare(filmQueue)
	s.Ensure([]string{engine.SourcesContainer, engine.MediaContainer}, searchindex.Tables...)
	dir := get(os.MkdirTemp("", "scene-film-"))
	defer func() { _ = os.RemoveAll(dir) }()
	source := filepath.Join(dir, "source.mov")
	must(ffmpeg(s.ctx, "-f lavfi -i testsrc2=s=256x144:r=10:d=1 -f lavfi -i anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=1 -c:v mpeg4 -c:a aac", source))
	film := video.Video{
		Meta:  engine.Meta{ID: engine.NewID(), Channel: "ships", State: engine.Ready, CreatedAt: time.Now()},
		Title: "A harbour in the morning", Visibility: video.Public, DurationSeconds: 1,
	}

	s.Next()
	get(s.Blobs("web role").PutFile(s.ctx, engine.SourcesContainer, string(film.ID), source, "video/quicktime"))
	s.Desk("web role", filmQueue).put("convert", string(film.ID))
	s.Next()
	desk := s.Desk("worker role", filmQueue)
	lease := desk.takeOne()
	convert(s, id(lease), dir)
	made := s.Told(func(e Event) bool {
		return e.From == "worker role" && strings.HasPrefix(e.Text, "put "+string(film.ID)) && e.Reply == "201"
	})
	s.Claim(made == len(formats), made)

	truth := func(context.Context) (video.Video, bool, error) { return film, true, nil }
	must(searchindex.New(s.Account("worker role")).Sync(OnlyTrouble(s.ctx), film.ID, truth))
	desk.delete(lease)
	s.Next()
	found := get(searchindex.New(s.Account("web role")).Search(s.ctx, searchindex.Query{Q: "harb"}, 10, ""))
	s.Claim(len(found.Hits) == 1 && found.Hits[0] == film.ID)
}

// convert makes every format of a film and stores it.
func convert(s *Stage, film, dir string) {
	blobs := s.Blobs("worker role")
	fetched := filepath.Join(dir, "fetched.mov")
	must(os.WriteFile(fetched, get(blobs.Get(s.ctx, engine.SourcesContainer, film)), 0o600))
	for _, format := range formats {
		path := filepath.Join(dir, format.name)
		must(ffmpeg(s.ctx, "-i "+fetched+" "+format.arguments, path))
		s.Act("worker role", "ffmpeg makes %s", format.name)
		get(blobs.PutFile(s.ctx, engine.MediaContainer, film+"/"+format.name, path, ""))
	}
}
