package captions_test

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	shared "github.com/cutroom/cutroom/shared/captions"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
	"github.com/cutroom/cutroom/shared/provision"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/feature/captions"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// From an uploaded file to what is served, or to the reason why nothing is:
// the language of the captions says what the bytes mean.
func TestCaptionsOfALanguage(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := provision.Ensure(t.Context(), a, azq.Open(a, azq.Options{Queues: nil})); err != nil {
		t.Fatal(err)
	}
	var box enginetest.Mailbox
	videos, blobs := videostore.New(a, &box), blobstore.New(a)
	runner := pipeline.New(pipeline.Runner{Blobs: blobs, Scratch: t.TempDir(), Watch: time.Minute, Log: slog.Default()}, videos, pipeline.Hooks{}, captions.New().Steps[workflow.StepCaptions])
	v := video.Video{
		Meta:  engine.Meta{ID: engine.NewID(), State: engine.Ready, CreatedAt: time.Now(), UpdatedAt: time.Now()},
		Title: "x", Visibility: video.Public,
	}
	if _, err := videos.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	for tag, c := range map[string]struct{ lines, want, charset string }{
		"ru": {
			"00:00:01,000 --> 00:00:02,000\r\n\xcf\xf0\xe8\xe2\xe5\xf2\r\n00:00:02,000 --> 00:00:01,000\r\nx\r\n",
			"Привет", "windows-1251",
		},
		"hu": {
			"00:00:01,000 --> 00:00:02,000\r\nGy\xf5r\r\n00:00:02,000 --> 00:00:01,000\r\nx\r\n", "Győr",
			"windows-1250",
		}, // else õ, as in Portuguese
		"de": {
			"00:00:01,000 --> 00:00:02,000\r\nGr\xfc\xdfe {\\an8}aus \xc3\xbcberall: \xc3\xa4, \xc3\xb6, \xc3\x9f, \xc3\xa4, \xc3\xa4, \xc3\xa4, \xc3\xa4, \xc3\xa4\r\n",
			"undecodable_text: The file cannot be read: line 2 has bytes that are not utf-8, which the rest of the text is: save it as UTF-8 and send it again.",
			"",
		},
		"fr": {
			"00:00:01;000 --> 00:00:02,000\r\nx\r\n",
			"invalid_captions: The file cannot be read: it is not a WebVTT or SRT file with cues: the times in line 1 are not like 00:00:01,000 --> 00:00:02,500.",
			"",
		},
	} {
		key, err := shared.Key(v.ID, tag)
		if err != nil {
			t.Fatal(err)
		}
		input := shared.Blob(v.ID, tag, "file")
		if _, err := blobs.Put(t.Context(), engine.SourcesContainer, input, []byte(c.lines), blobstore.Options{}); err != nil {
			t.Fatal(err)
		}
		if _, err := shared.Request(t.Context(), videos, key, input); err != nil {
			t.Fatal(err)
		}
		item := box.Items[len(box.Items)-1]
		if item.Kind != workflow.StepCaptions {
			t.Fatalf("%s was asked for", item.Kind)
		}
		if err := runner.Handle(t.Context(), &azq.RawJob{Item: item, Delivery: azq.Delivery{DequeueCount: 1}}); err != nil {
			t.Fatal(err)
		}
		made, err := videos.ReadRun(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		out, err := engine.OutputOf[shared.Output](made)
		switch {
		case err != nil:
			t.Fatal(err)
		case out == nil && (made.Error == nil || made.Error.Error() != c.want):
			t.Errorf("%s failed with %v, want %s", tag, made.Error, c.want)
		case out == nil:
			continue
		}
		body, _, err := blobs.Open(t.Context(), engine.MediaContainer, out.Blob, blobstore.Range{Length: out.Bytes}, "")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(body)
		_ = body.Close()
		if err != nil || !strings.HasSuffix(string(text), "\n"+c.want+"\n") || out.Charset != c.charset || out.Cues != 1 || out.LeftOut != 1 {
			t.Errorf("%s: %+v, %v:\n%s", tag, out, err, text)
		}
	}
}

func TestMain(m *testing.M) { azuritetest.Main(m) }
