package playback

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/httpapi"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/recent"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

const (
	ourID   = engine.ID("aaaaaaaaaaaaaaaaaaaaaaaaaa")
	theirID = engine.ID("bbbbbbbbbbbbbbbbbbbbbbbbbb") // has a video of the same shape
)

// blobLength is how long each blob of the fixture is.
const blobLength = 4096

// memory answers for storage: rows by "partition/row key", blobs that are all alike. It
// keeps what it was asked for.
type memory struct {
	rows  map[string]string
	blobs map[string]bool

	mu    sync.Mutex
	asked []string // names of blobs, with their container
	odd   []string // requests that it does not understand
}

var point = regexp.MustCompile(`^/account/videos\(PartitionKey='((?:[^']|'')*)',RowKey='((?:[^']|'')*)'\)$`)

// Do implements the transport of package azstore.
func (m *memory) Do(r *http.Request) (*http.Response, error) {
	if key := point.FindStringSubmatch(r.URL.Path); key != nil {
		unquote := strings.NewReplacer("''", "'")
		if row, found := m.rows[unquote.Replace(key[1])+"/"+unquote.Replace(key[2])]; found {
			return respond(r, http.StatusOK, []byte(row), "application/json"), nil
		}
		return respond(r, http.StatusNotFound, []byte(`{"odata.error":{"code":"ResourceNotFound","message":{"value":"none"}}}`), "application/json"), nil
	}
	name := strings.TrimPrefix(r.URL.Path, "/account/")
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Method != http.MethodGet && r.Method != http.MethodHead || !strings.HasPrefix(name, "media/") && !strings.HasPrefix(name, "sources/") {
		m.odd = append(m.odd, r.Method+" "+r.URL.Path)
		return respond(r, http.StatusBadRequest, nil, "text/plain"), nil
	}
	m.asked = append(m.asked, name)
	if !m.blobs[name] {
		res := respond(r, http.StatusNotFound, nil, "application/xml")
		res.Header.Set("x-ms-error-code", "BlobNotFound")
		return res, nil
	}
	from, to := 0, blobLength-1
	status := http.StatusOK
	if span := r.Header.Get("x-ms-range"); span != "" {
		if n, _ := fmt.Sscanf(span, "bytes=%d-%d", &from, &to); n < 1 || from >= blobLength || to < from {
			m.odd = append(m.odd, "range "+span+" of "+name)
		}
		to, status = min(to, blobLength-1), http.StatusPartialContent
	}
	res := respond(r, status, bytes.Repeat([]byte("x"), max(0, to-from+1)), "video/mp4")
	if status == http.StatusPartialContent {
		res.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, blobLength))
	}
	return res, nil
}

func respond(r *http.Request, status int, body []byte, kind string) *http.Response {
	sum := md5.Sum(body)
	res := &http.Response{
		StatusCode: status, Request: r, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
		Header: http.Header{"Content-Type": {kind}, "Content-Length": {fmt.Sprint(len(body))}, "Etag": {`"1"`}, "Last-Modified": {time.Unix(0, 0).UTC().Format(http.TimeFormat)}},
	}
	if status == http.StatusPartialContent {
		res.Header.Set("Content-Md5", base64.StdEncoding.EncodeToString(sum[:]))
	}
	if r.Method == http.MethodHead {
		res.Body = http.NoBody
	}
	return res
}

// folder is what a feature has below the address of a video.
type folder struct {
	feature func(*httpapi.Server) web.Feature
	add     func(testing.TB, *fixture, engine.ID) // makes the fixture have it
	served  string                                // paths that are found
	seeds   []string                              // more paths
}

// folders are added by the files of features.
var folders []folder

// fixture is two videos with everything that a path can name: three chunks with two
// renditions and sound, the files of finish, a file of a step, and folders. Of a
// video that is being made the second chunk is a preview.
type fixture struct {
	*memory
	account *azstore.Account
	seen    map[engine.ID]committed // with the files of finish
}

func newFixture(f testing.TB) *fixture {
	f.Helper()
	fix := &fixture{memory: &memory{rows: map[string]string{}, blobs: map[string]bool{}}, seen: map[engine.ID]committed{}}
	var err error
	fix.account, err = azstore.Open(azstore.Config{
		ConnectionString: "DefaultEndpointsProtocol=http;AccountName=account;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:1/account;QueueEndpoint=http://127.0.0.1:2/account;TableEndpoint=http://127.0.0.1:3/account;",
		Transport:        fix.memory,
	})
	if err != nil {
		f.Fatal(err)
	}
	for _, id := range []engine.ID{ourID, theirID} {
		fix.add(f, id)
	}
	return fix
}

// blob makes a blob of a video's and returns its name.
func (fix *fixture) blob(id engine.ID, name string) string {
	name = engine.Prefix(id) + name
	fix.blobs[engine.MediaContainer+"/"+name] = true
	return name
}

func (fix *fixture) row(f testing.TB, id engine.ID, key string, props map[string]any) {
	f.Helper()
	props["PartitionKey"], props["RowKey"] = string(id), key
	for name, value := range props {
		switch value.(type) {
		case string, int:
		default:
			text, err := json.Marshal(value)
			if err != nil {
				f.Fatal(err)
			}
			props[name] = string(text)
		}
	}
	text, err := json.Marshal(props)
	if err != nil {
		f.Fatal(err)
	}
	fix.rows[string(id)+"/"+key] = string(text)
}

func (fix *fixture) add(f testing.TB, id engine.ID) {
	f.Helper()
	fix.row(f, id, "META", map[string]any{"Doc": video.Video{
		Meta: engine.Meta{
			ID: id, State: engine.Ready, Generation: 2, Serving: 1,
			Made: []engine.Made{{
				Step: "stills", Generation: 1,
				Files: []engine.File{{
					Name: "still.jpg", Blob: fix.blob(id, "made/still"), ContentType: "image/jpeg",
					Bytes: blobLength,
				}},
			}},
		},
		Title: "A film", Visibility: video.Public, DurationSeconds: 30,
	}})
	for _, folder := range folders {
		folder.add(f, fix, id)
	}

	c := committed{Presentation: playlist.Presentation{Plan: video.Plan{
		Plan: engine.Plan{Generation: 1}, FPS: video.Rational{Num: 30, Den: 1}, SegmentFrames: 120, Frames: 720,
		DurationSeconds: 24, HasAudio: true,
		Renditions: []video.Rendition{{Name: "720p", Width: 1280, Height: 720}, {Name: "360p", Width: 640, Height: 360}},
		Chunks:     []video.Chunk{{From: 0, To: 240}, {From: 240, To: 480}, {From: 480, To: 720}},
		Sound:      []video.SoundPortion{{First: 0, End: 3}, {First: 3, End: 6}},
	}}}
	chunk := func(n int, renditions ...string) video.ChunkOutput {
		out := video.ChunkOutput{Frames: 240}
		for _, name := range renditions {
			out.Renditions = append(out.Renditions, video.RenditionOutput{
				Name: name, Blob: fix.blob(id, fmt.Sprintf("chunk/%d/%s", n, name)), Init: video.Range{Length: 100}, Codecs: "avc1.64001f",
				Segments: []video.Segment{{
					Frames: 120, Range: video.Range{Offset: 100, Length: 200},
				}, {
					Frames: 120, Range: video.Range{Offset: 300, Length: 200},
				}},
			})
		}
		return out
	}
	for n := range 3 {
		whole := chunk(n, "720p", "360p")
		c.Chunks = append(c.Chunks, &whole)
	}
	c.Chunks[0].Poster = fix.blob(id, "chunk/0/poster")
	sound := func(first int) video.AudioPart {
		part := video.AudioPart{First: first, Blob: fix.blob(id, fmt.Sprint("sound/", first)), Init: video.Range{Length: 100}, Codecs: "mp4a.40.2", Channels: 2}
		for range 3 {
			part.Segments = append(part.Segments, video.AudioSegment{Samples: 192512, Range: video.Range{Offset: 100, Length: 200}})
		}
		return part
	}
	c.Parts = []video.AudioPart{sound(0), sound(3)}
	name := func(file string) string { return fix.blob(id, "finish/"+file) }
	c.finish = &video.FinishOutput{
		Storyboard: name("storyboard.vtt"), Sprite: name("storyboard.jpg"), Download: name("download.mp4"),
	}
	fix.seen[id] = c
}

// withPreview adds the preview of a chunk, of which all there is to be, where previews are built in.
var withPreview func(c *committed, all committed)

// service is the playback of the fixture while a video is at a stage: nothing is
// committed, some is, all is and finish is missing, all of it.
func (fix *fixture) service(stage int) *Service {
	videos := videostore.New(fix.account, azq.Open(fix.account, azq.Options{Queues: workflow.Specs}))
	core := &httpapi.Server{Parts: httpapi.Parts{Videos: videos, Blobs: blobstore.New(fix.account)}}
	var features []web.Feature
	for _, folder := range folders {
		features = append(features, folder.feature(core))
	}
	s := New(videos, core.Blobs, features)
	s.views = recent.New(maxViews, func(_ context.Context, key viewKey) (c committed, _ error) {
		c, found := fix.seen[key.id]
		if !found || key.generation != 1 {
			return committed{}, nil
		}
		switch stage {
		case 0:
			c.Chunks, c.Parts = make([]*video.ChunkOutput, 3), nil
		case 1:
			c.Chunks = []*video.ChunkOutput{c.Chunks[0], nil, nil}
			c.Parts = c.Parts[:1]
		}
		if stage < 3 {
			c.finish = nil
		}
		c.AudioDone = stage > 1
		if c.preview = c.Presentation; withPreview != nil && stage > 0 {
			withPreview(&c, fix.seen[key.id])
		}
		return c, nil
	})
	return s
}

// ask is one request to the handler.
func (fix *fixture) ask(stage int, method, id, path, query string) *httptest.ResponseRecorder {
	gin.SetMode(gin.TestMode)
	engine := gin.New()
	service := fix.service(stage)
	engine.Use(problem.WithAnswers(web.Sum(service.features).Problems), access.Identify(access.Core, access.Open{}, access.Links{}), access.Enforce(access.Core, videostore.New(fix.account, azq.Open(fix.account, azq.Options{Queues: workflow.Specs})), nil))
	service.Register(engine)
	r := httptest.NewRequest(method, "/v/", nil)
	r.URL = &url.URL{Path: "/v/" + id + "/" + path, RawQuery: query}
	w := httptest.NewRecorder()
	engine.ServeHTTP(w, r)
	return w
}

// TestPathsAreServed: the fixture has what every kind of path names, or FuzzPath would see
// nothing but 404.
func TestPathsAreServed(t *testing.T) {
	t.Parallel()
	fix := newFixture(t)
	for stage, paths := range []string{
		"files/stills/still.jpg",
		"poster.jpg master.m3u8 720p.m3u8 audio.m3u8?from=0 720p/init.mp4 720p/1.m4s?g=1 audio/0.m4s",
		"poster.jpg master.m3u8 360p.m3u8?from=2 720p/5.m4s audio/5.m4s",
		"poster.jpg master.m3u8 720p.m3u8 audio.m3u8 720p/5.m4s audio/5.m4s?g=1 storyboard.vtt storyboard.jpg download.mp4",
	} {
		for _, folder := range folders {
			paths += " " + folder.served
		}
		for _, path := range strings.Fields(paths) {
			name, query, _ := strings.Cut(path, "?")
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				if w := fix.ask(stage, method, string(ourID), name, query); w.Code != http.StatusOK || method == http.MethodGet && w.Body.Len() == 0 {
					t.Errorf("%s %s at stage %d: %d with %d bytes %s", method, path, stage, w.Code, w.Body.Len(), w.Body)
				}
			}
		}
	}
	if len(fix.odd) != 0 {
		t.Errorf("storage is asked for %v", fix.odd)
	}
}

// FuzzPath asks for any path below any video's address, while it is made and after. The
// handler answers what it has or a 4xx, and whatever a path spells, storage is asked for
// nothing but blobs of the video that the address names.
func FuzzPath(f *testing.F) {
	type seed struct{ path, query string }
	seeds := []seed{
		{
			"master.m3u8", "",
		}, {
			"master.m3u8", "from=1&preview=1",
		}, {
			"720p.m3u8", "",
		}, {
			"audio.m3u8", "from=2",
		}, {
			"360p.m3u8", "from=9223372036854775807&preview=1",
		},
		{
			"720p/init.mp4", "g=1",
		}, {
			"720p/3.m4s", "g=1",
		}, {
			"360p/3.m4s", "g=1&preview=1&from=1",
		}, {
			"audio/init.mp4", "g=1",
		}, {
			"audio/4.m4s", "g=1",
		},
		{
			"720p/-1.m4s", "",
		}, {
			"720p/+1.m4s", "g=2",
		}, {
			"720p/9223372036854775807.m4s", "",
		}, {
			"720p/99999999999999999999.m4s", "",
		}, {
			"audio/9223372036854775807.m4s", "g=0",
		},
		{"poster.jpg", ""}, {"storyboard.vtt", "g=1"}, {"storyboard.jpg", ""}, {"download.mp4", ""},
		{"files/stills/still.jpg", ""}, {"files/stills/", "g=1"}, {"files/", "g=99999"},
		{
			"../" + string(theirID) + "/clip", "",
		}, {
			"..%2f..", "",
		}, {
			"/", "",
		}, {
			"", "g=x",
		}, {
			"\x00", "%",
		}, {
			"720p/0.m4s/", "from=-1",
		}, {
			".m3u8", "",
		},
	}
	for _, folder := range folders {
		for _, path := range append(strings.Fields(folder.served), folder.seeds...) {
			seeds = append(seeds, seed{path, ""})
		}
	}
	for _, seed := range seeds {
		for stage := range 4 {
			f.Add(string(ourID), seed.path, seed.query, stage, stage == 2)
		}
	}
	f.Add(string(theirID), "720p/0.m4s", "", 3, false)
	f.Add("nonsense", "master.m3u8", "", 3, false)
	f.Add("../"+string(theirID)+"/../aaaa", "master.m3u8", "", 3, false)
	f.Add(strings.Repeat("c", 26), "master.m3u8", "", 3, false)
	fix := newFixture(f)
	f.Fuzz(func(t *testing.T, id, path, query string, stage int, head bool) {
		fix.mu.Lock()
		fix.asked, fix.odd = nil, nil
		fix.mu.Unlock()
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		w := fix.ask(stage&3, method, id, path, query)
		id, _, _ = strings.Cut(id, "/") // as the router reads it
		if w.Code < 200 || w.Code >= 500 {
			t.Errorf("%q of %q with %q: %d %s", path, id, query, w.Code, w.Body)
		}
		for _, name := range fix.asked {
			if !strings.HasPrefix(name, engine.MediaContainer+"/"+engine.Prefix(engine.ID(id))) || !fix.blobs[name] {
				t.Errorf("%q of %q with %q reads %s", path, id, query, name)
			}
		}
		for _, request := range fix.odd {
			t.Errorf("%q of %q with %q asks storage for %s", path, id, query, request)
		}
		if kind := w.Header().Get("Content-Type"); kind == playlist.ContentType && id != string(ourID) && id != string(theirID) {
			t.Errorf("%q plays", id)
		}
	})
}
