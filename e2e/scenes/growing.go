package scenes

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
)

// growing is a film that is being uploaded, part by part.
type growing struct {
	*Stage
	id     video.ID
	layout sourceparts.Layout
	film   []byte
	dir    string
	sent   int
}

// whileItUploads encodes the beginning of a film whose end has not been sent.
func whileItUploads(ctx context.Context, s *Stage) error {
	if err := s.Account("stage").Ensure(Quiet(ctx), []string{video.SourcesContainer, video.MediaContainer}, nil, nil); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "scene-growing-")
	if err != nil {
		return fmt.Errorf("make a folder for the film: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	g := growing{Stage: s, id: video.NewID(), dir: dir}
	whole := filepath.Join(dir, "whole.mp4")
	if err := ffmpeg(ctx, "-f lavfi -i testsrc2=s=256x144:r=10:d=24 -c:v libx264 -preset ultrafast -g 20 -pix_fmt yuv420p -movflags +faststart", whole); err != nil {
		return err
	}
	if g.film, err = os.ReadFile(whole); err != nil {
		return fmt.Errorf("read the film: %w", err)
	}
	g.layout = sourceparts.Layout{Bytes: int64(len(g.film)), PartBytes: int64(len(g.film)/24 + 1), Epoch: "e1"}

	if err := g.writtenOnce(ctx); err != nil {
		return err
	}
	early, err := g.encodeEarly(ctx)
	if err != nil {
		return err
	}
	return g.complete(ctx, early, whole)
}

// writtenOnce sends the first part, and tries to replace it.
func (g *growing) writtenOnce(ctx context.Context) error {
	g.Say("A film of 24 s goes up over a slow line, in %d parts. Each part is a blob of its own. The browser has a key for each name, which may create that blob and nothing else.", g.layout.Count())
	if err := g.send(ctx); err != nil {
		return err
	}
	g.Say("Somebody has got hold of the key and sends another first part.")
	err := g.put(ctx, 0, []byte("another film"))
	status, _, _ := azstorage.Describe(err)
	g.Claim(status == http.StatusForbidden, "refused with 403: a key that may create cannot overwrite. What a worker has read stays as it was read")
	return nil
}

// encodeEarly tries after each part whether the first two seconds of the film can be made.
func (g *growing) encodeEarly(ctx context.Context) (early []byte, err error) {
	g.Say("A worker begins with the first part: its head says how long the film is and where each picture lies. It wants the first two seconds. When bytes that it needs are not there, it throws the attempt away.")
	for early == nil && g.sent < g.layout.Count() {
		if early, err = g.attempt(ctx); err != nil {
			return nil, err
		}
		if early == nil {
			if err := g.send(ctx); err != nil {
				return nil, err
			}
		}
	}
	g.Claim(early != nil && g.sent < g.layout.Count(), "the first two seconds are made, and %d of %d parts are sent: a viewer could watch them now", g.sent, g.layout.Count())
	return early, nil
}

// complete sends the rest, writes the manifest, and makes the same from the whole film.
func (g *growing) complete(ctx context.Context, early []byte, whole string) error {
	g.Say("The rest arrives. Nobody puts the parts together: a manifest names each with its ETag, and its own ETag is the version of the film.")
	for g.sent < g.layout.Count() {
		if err := g.send(Quiet(ctx)); err != nil {
			return err
		}
	}
	g.Act("browser", "the other parts are sent, %d in all", g.sent)
	blobs := blobstore.New(g.Account("web role"))
	found, err := sourceparts.Look(ctx, blobs, g.id, g.layout)
	if err != nil {
		return err
	}
	version, err := sourceparts.PutManifest(ctx, blobs, g.id, sourceparts.Manifest{Layout: g.layout, Parts: found.Held})
	if err != nil {
		return err
	}
	again, err := sourceparts.PutManifest(ctx, blobs, g.id, sourceparts.Manifest{Layout: g.layout, Parts: found.Held})
	if err != nil {
		return err
	}
	g.Claim(version == again, "complete may be repeated: the manifest is written once, and the second request finds the first one's")

	g.Say("Now the same two seconds are made from the whole film.")
	late, err := g.encode(ctx, whole)
	if err != nil {
		return err
	}
	g.Act("worker role", "ffmpeg makes the first two seconds, from all bytes")
	g.Claim(bytes.Equal(early, late), "both are the same %d bytes: what was made early stays", len(late))
	return nil
}

// send puts the next part with the key of its name.
func (g *growing) send(ctx context.Context) error {
	r := g.layout.Range(g.sent)
	err := g.put(ctx, g.sent, g.film[r.Offset:r.Offset+r.Length])
	g.sent++
	return err
}

func (g *growing) put(ctx context.Context, part int, content []byte) error {
	url, err := g.Account("web role").SignCreate(ctx, video.SourcesContainer, sourceparts.Name(g.id, g.layout, part), time.Minute)
	if err != nil {
		return err
	}
	client, err := blockblob.NewClientWithNoCredential(url, &blockblob.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: g.holder("browser"), Retry: policy.RetryOptions{MaxRetries: -1},
	}})
	if err != nil {
		return fmt.Errorf("open the blob of a key: %w", err)
	}
	if _, err = client.Upload(ctx, streaming.NopCloser(bytes.NewReader(content)), nil); err != nil {
		return fmt.Errorf("put part %d: %w", part, err)
	}
	return nil
}

// attempt reads the parts in order until one is missing, and encodes from what it got.
// The result is nil when that was not enough.
func (g *growing) attempt(ctx context.Context) ([]byte, error) {
	blobs := blobstore.New(g.Account("worker role"))
	held, err := sourceparts.Held(ctx, blobs, g.id, g.layout)
	if err != nil {
		return nil, err
	}
	var there []byte
	for _, part := range held {
		content, err := blobs.Get(Quiet(ctx), video.SourcesContainer, sourceparts.Name(g.id, g.layout, part.Number))
		if err != nil {
			return nil, err
		}
		there = append(there, content...)
	}
	path := filepath.Join(g.dir, "there.mp4")
	if err := os.WriteFile(path, there, 0o600); err != nil {
		return nil, fmt.Errorf("store what is there: %w", err)
	}
	made, err := g.encode(ctx, path)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		g.Act("worker role", "%s: not enough, the attempt is thrown away", plural(len(held), "part"))
		return nil, nil
	}
	g.Act("worker role", "ffmpeg makes the first two seconds, from %s", plural(len(held), "part"))
	return made, nil
}

// pictures is how many there are in the first two seconds.
const pictures = 20

// encode makes the first two seconds of a film. It is an error when a picture is missing:
// ffmpeg may end well with less than it was asked for.
func (g *growing) encode(ctx context.Context, source string) ([]byte, error) {
	out, list := filepath.Join(g.dir, "first.mp4"), filepath.Join(g.dir, "pictures.txt")
	if err := ffmpeg(ctx, "-xerror -err_detect explode -t 2 -i "+source+" -c:v libx264 -threads 1 -preset ultrafast -pix_fmt yuv420p -fflags +bitexact", out); err != nil {
		return nil, err
	}
	if err := ffmpeg(ctx, "-i "+out+" -f framecrc", list); err != nil {
		return nil, err
	}
	listed, err := os.ReadFile(list)
	if err != nil {
		return nil, fmt.Errorf("read the list of pictures: %w", err)
	}
	made := 0
	for line := range strings.Lines(string(listed)) {
		if !strings.HasPrefix(line, "#") {
			made++
		}
	}
	if made != pictures {
		return nil, fmt.Errorf("%d of %d pictures", made, pictures)
	}
	content, err := os.ReadFile(out)
	if err != nil {
		return nil, fmt.Errorf("read what was made: %w", err)
	}
	return content, nil
}
