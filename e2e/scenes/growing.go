package scenes

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
)

var _ = register(programs, "while-it-uploads", whileItUploads)

// growing is a film that is being uploaded, part by part.
type growing struct {
	*Stage
	id     engine.ID
	layout sourceparts.Layout
	film   []byte
	dir    string
	sent   int
}

// whileItUploads encodes the beginning of a film whose end has not been sent.
func whileItUploads(s *Stage) {
	s.Ensure([]string{engine.SourcesContainer, engine.MediaContainer})
	dir := get(os.MkdirTemp("", "scene-growing-"))
	defer func() { _ = os.RemoveAll(dir) }()
	whole := filepath.Join(dir, "whole.mp4")
	must(ffmpeg(s.ctx, "-f lavfi -i testsrc2=s=256x144:r=10:d=24 -c:v libx264 -preset ultrafast -g 20 -pix_fmt yuv420p -movflags +faststart", whole))
	g := growing{Stage: s, id: engine.NewID(), dir: dir, film: get(os.ReadFile(whole))}
	g.layout = sourceparts.Layout{Bytes: int64(len(g.film)), PartBytes: int64(len(g.film)/24 + 1), Epoch: "e1"}

	s.Next(g.layout.Count())
	must(g.send(s.ctx))
	s.Next()
	status, _, _ := azstore.Describe(g.put(s.ctx, 0, []byte("another film")))
	s.Claim(status == http.StatusForbidden)

	early := g.attempt()
	for ; early == nil && g.sent < g.layout.Count(); early = g.attempt() {
		must(g.send(s.ctx))
	}
	s.Claim(early != nil && g.sent < g.layout.Count(), g.sent, g.layout.Count())
	g.complete()
	late := get(g.encode(whole))
	s.Next()
	s.Claim(bytes.Equal(early, late), len(late))
}

// complete sends the rest and writes the manifest, twice.
func (g *growing) complete() {
	for g.sent < g.layout.Count() {
		must(g.send(Quiet(g.ctx)))
	}
	blobs := g.Blobs("web role")
	manifest := sourceparts.Manifest{Layout: g.layout, Parts: get(sourceparts.Held(g.ctx, blobs, g.id, g.layout))}
	version := get(sourceparts.PutManifest(g.ctx, blobs, g.id, manifest))
	again := get(sourceparts.PutManifest(g.ctx, blobs, g.id, manifest))
	g.Claim(version == again)
}

// send puts the next part with the key of its name.
func (g *growing) send(ctx context.Context) error {
	r := g.layout.Range(g.sent)
	g.sent++
	return g.put(ctx, g.sent-1, g.film[r.Offset:r.Offset+r.Length])
}

func (g *growing) put(ctx context.Context, part int, content []byte) error {
	client := g.Key("browser", engine.SourcesContainer, sourceparts.Name(g.id, g.layout, part))
	_, err := client.Upload(ctx, streaming.NopCloser(bytes.NewReader(content)), nil)
	return err
}

// attempt reads the parts in order until one is missing, and encodes from what it got.
// The result is nil when that was not enough.
func (g *growing) attempt() []byte {
	blobs := g.Blobs("worker role")
	held := get(sourceparts.Held(g.ctx, blobs, g.id, g.layout))
	var there []byte
	for _, part := range held {
		there = append(there, get(blobs.Get(Quiet(g.ctx), engine.SourcesContainer, sourceparts.Name(g.id, g.layout, part.Number)))...)
	}
	path := filepath.Join(g.dir, "there.mp4")
	must(os.WriteFile(path, there, 0o600))
	made, err := g.encode(path)
	must(g.ctx.Err())
	if err != nil {
		g.Act("worker role", "%s: not enough, the attempt is thrown away", plural(len(held), "part"))
		return nil
	}
	g.Act("worker role", "ffmpeg makes the first two seconds, from %s", plural(len(held), "part"))
	return made
}

// pictures is how many there are in the first two seconds.
const pictures = 20

var pictureLine = regexp.MustCompile(`(?m)^[^#]`)

// encode makes the first two seconds of a film. It is an error when a picture is missing:
// ffmpeg may end well with less than it was asked for.
func (g *growing) encode(source string) ([]byte, error) {
	out, list := filepath.Join(g.dir, "first.mp4"), filepath.Join(g.dir, "pictures.txt")
	err := ffmpeg(g.ctx, "-xerror -err_detect explode -t 2 -i "+source+" -c:v libx264 -threads 1 -preset ultrafast -pix_fmt yuv420p -fflags +bitexact", out)
	if err == nil {
		err = ffmpeg(g.ctx, "-i "+out+" -f framecrc", list)
	}
	if err != nil {
		return nil, err
	}
	if len(pictureLine.FindAll(get(os.ReadFile(list)), -1)) != pictures {
		return nil, errors.New("a picture is missing")
	}
	return os.ReadFile(out)
}
