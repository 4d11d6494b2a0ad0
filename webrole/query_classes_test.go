package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// cost is what one request of a user made the web role ask the table service.
type cost struct {
	requests, rows int
	classes        [tablestore.Scan + 1]int
	truth          int // requests to table "videos"
}

// visit is one operation of the API. Prepare makes what it needs; what the
// function that it returns asks is measured.
type visit struct {
	operation string
	prepare   func(w *world) (ask func() answer)
}

// world is a catalogue of some size, and one race.
type world struct {
	*fixture
	event   string   // of a race, escaped for a path
	words   []string // for paths
	listed  int      // videos
	runners int
	file    string // path of what a step left
}

// part is what the tests of all routes know of a feature. The file of its tests adds it.
type part struct {
	routes  string // lines of the table of TestMatrix
	visits  []visit
	lists   []list
	world   func(*world)                                      // makes what is visited
	grow    func(w *world, videos []video.Video, runners int) // makes that larger
	library func(*library)                                    // makes a second item
	index   func(*server, engine.ID, indexrows.Current) error // what the index step does
	after   func(*library)                                    // what the damages of TestUnreadableRowsHideNothingElse leave
	busy    error                                             // of tables that are too busy
	private func(video string) []private                      // requests below the address of a private video
	streams []stream
}

// private is a request that is answered to the owner alone.
type private struct {
	method, path string
	body         any
	headers      []string
	status       int // for the owner
}

// stream is a request whose body may come slowly, in two pieces.
type stream struct{ path, kind, first, rest string }

var parts []part

func allVisits() []visit {
	all := slices.Clone(visits)
	for _, p := range parts {
		all = append(all, p.visits...)
	}
	return all
}

func get(path string) func(*world) func() answer {
	return func(w *world) func() answer {
		path := strings.NewReplacer(append(w.words, "{id}", string(w.id), "{event}", w.event, "{file}", w.file)...).Replace(path)
		return func() answer {
			if strings.HasPrefix(path, "/v/") {
				return w.get(path)
			}
			return w.call(http.MethodGet, path, nil)
		}
	}
}

// getUnseen asks for what those who look within a second share, so that it is read anew.
func getUnseen(path string) func(*world) func() answer {
	return func(w *world) func() answer {
		w.call(http.MethodPatch, "/videos/"+string(w.id), map[string]any{"description": string(engine.NewID())}, "If-Match", "*").want(w.t, http.StatusOK, "")
		return get(path)(w)
	}
}

// onNew asks about a video that was just announced.
func onNew(method, path string, body any, headers ...string) func(*world) func() answer {
	return func(w *world) func() answer {
		id := w.create(map[string]any{"title": "Another"}).Id
		return func() answer { return w.call(method, strings.ReplaceAll(path, "{id}", id), body, headers...) }
	}
}

// onFailed asks about a video whose processing failed.
func onFailed(path string) func(*world) func() answer {
	return func(w *world) func() answer {
		id := w.create(map[string]any{"title": "Another"}).Id
		w.call(http.MethodPut, "/videos/"+id+"/content", movie(100)).want(w.t, http.StatusAccepted, "")
		_, err := w.videos.Change(w.t.Context(), engine.ID(id), "", func(v *video.Video) ([]engine.OutboxMessage, error) {
			v.State, v.Error = engine.Failed, &engine.Failure{Code: "test", Detail: "test"}
			return nil, nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
		return func() answer { return w.call(http.MethodPost, "/videos/"+id+path, nil) }
	}
}

// visits has every operation that users have. Queries are asked for as many
// results in a small catalogue as in a large one: pageOf at most.
var visits = []visit{
	{"createVideo", func(w *world) func() answer {
		return func() answer { return w.call(http.MethodPost, "/videos", map[string]any{"title": "New"}) }
	}},
	{"createVideo", func(w *world) func() answer {
		key := string(engine.NewID())
		return func() answer {
			return w.call(http.MethodPost, "/videos", map[string]any{"title": "New"}, "Idempotency-Key", key)
		}
	}},
	{"listVideos", get("/videos?limit=5")},
	{"listVideos", get("/videos?channel=Harbour&limit=5")},
	{"listVideos", get("/videos?channel=Harbour&sort=title&limit=5")},
	{"getVideo", get("/videos/{id}")},
	{"editVideo", onNew(http.MethodPatch, "/videos/{id}", `{"title":"Changed"}`, "If-Match", "*")},
	{"deleteVideo", onNew(http.MethodDelete, "/videos/{id}", nil)},
	{"putContent", onNew(http.MethodPut, "/videos/{id}/content", movie(100))},
	{"getUpload", onNew(http.MethodGet, "/videos/{id}/upload", nil)},
	{"beginUpload", onNew(http.MethodPost, "/videos/{id}/upload", map[string]any{"sizeBytes": 100})},
	{"completeUpload", func(w *world) func() answer {
		id := w.create(map[string]any{"title": "Another"}).Id
		w.putParts(w.begin(id, map[string]any{"sizeBytes": 100}), movie(100), 0)
		return func() answer { return w.call(http.MethodPost, "/videos/"+id+"/upload/complete", nil) }
	}},
	{"retryVideo", onFailed("/retry")},
	{"reprocessVideo", onFailed("/reprocess")},
	{"cancelVideo", onNew(http.MethodPost, "/videos/{id}/cancel", nil)},
	{"listSteps", get("/videos/{id}/steps")},
	{"playMaster", get("/v/{id}/master.m3u8")},
	{"playRendition", get("/v/{id}/240p.m3u8")},
	{"playInit", get("/v/{id}/240p/init.mp4?g=1")},
	{"playSegment", get("/v/{id}/240p/1.m4s?g=1")},
	{"playPoster", get("/v/{id}/poster.jpg")},
	{"playStoryboard", get("/v/{id}/storyboard.vtt")},
	{"playSprite", get("/v/{id}/storyboard.jpg")},
	{"download", get("/v/{id}/download.mp4")},
	{"playFile", get("{file}")},
}

const pageOf = 5

// TestQueryClasses records, on the wire, what every operation asks of the tables
// (T5): none scans a table, and none asks for more in a catalogue, and a race,
// of three times the size. A page of videos costs one point read of the truth for
// each video on it, of one that is being made, too.
func TestQueryClasses(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	wire := azuritetest.NewWire(t)
	w := newWorld(t, wire)
	mustCoverAPI(t)

	small := w.grow(160, 100).measure(wire)
	large := w.grow(480, 300).measure(wire)
	for i, v := range allVisits() {
		was, is := small[i], large[i]
		// A quarter is what read-ahead makes of lists that end sooner or later.
		if is.requests > was.requests*5/4 || is.rows > was.rows*5/4 {
			t.Errorf("%s: %d requests for %d rows in a small catalogue, %d for %d in a large one", v.operation, was.requests, was.rows, is.requests, is.rows)
		}
		if v.operation == "listVideos" || v.operation == "searchVideos" {
			if is.truth > pageOf {
				t.Errorf("%s: %d requests to the videos' table for a page of %d", v.operation, is.truth, pageOf)
			}
		}
		t.Logf("%-20s %3d requests (%d point, %d row range, %d partition range), %3d rows", v.operation,
			is.requests, is.classes[tablestore.Point], is.classes[tablestore.RowRange], is.classes[tablestore.PartitionRange], is.rows)
	}
}

// newWorld makes a role whose tables are behind the wire, a video that plays and
// has a clip, and a race that it shows.
func newWorld(t *testing.T, wire *azuritetest.Wire) *world {
	w := &world{fixture: newFixture(t, map[string]string{"AZURE_STORAGE_CONNECTION_STRING": wire.ConnectionString()}), event: "City%20Run__Full"}
	w.chunk(0, 2)
	w.chunk(1, 1)
	w.audio()
	w.finish()
	name := workflow.Declaration.Only(engine.AfterReady).Name
	w.commit(name, 0, nil, videostore.Commit{Files: []engine.File{{
		Name: "notes.txt", Blob: w.put("notes.txt", []byte("la")), ContentType: "text/plain", Bytes: 2,
	}}})
	w.file = "/v/" + string(w.id) + "/files/" + name + "/notes.txt"
	for _, p := range parts {
		if p.world != nil {
			p.world(w)
		}
	}
	w.index(string(w.id))
	return w
}

// mustCoverAPI fails for operations of the document that no visit has: anyone who
// adds a route says here what it costs.
func mustCoverAPI(t *testing.T) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths.Map() {
		for _, operation := range item.Operations() {
			name := operation.OperationID
			known := slices.ContainsFunc(allVisits(), func(v visit) bool { return v.operation == name })
			// Operators' routes, and those that the web role only passes on.
			unasked := slices.ContainsFunc(operation.Tags, func(tag string) bool { return tag == "ops" || tag == "health" || tag == "lab" })
			if !known && !unasked {
				t.Errorf("%s (%s) has no visit", name, path)
			}
		}
	}
}

// needles is how many of the newest videos queries ask for. The others are older
// and of other words, so that a query has the same results however many there are;
// the channel, the actor and the common words are the same.
const needles = 24

// grow makes the catalogue and the race larger.
func (w *world) grow(videos, runners int) *world {
	w.t.Helper()
	newest := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var all []video.Video
	var group errgroup.Group
	group.SetLimit(8)
	for range videos {
		title := "straw in the haystack"
		if w.listed < needles {
			title = "needle in the haystack"
		}
		v := video.Video{
			Meta: engine.Meta{
				ID: engine.NewID(), Owner: video.LocalOwner, Channel: "Harbour", Priority: engine.Normal,
				State: engine.Ready, Playable: true, Generation: 1, Serving: 1,
				CreatedAt: newest.Add(-time.Duration(w.listed) * time.Minute),
			},
			Title: fmt.Sprintf("%s %d", title, w.listed), Actors: []string{"Ann Actor"},
			Tags: strings.Fields(title)[:1], Visibility: video.Public,
		}
		if w.listed%4 == 1 { // a newer generation of it is being made
			v.State, v.Generation, v.Items = engine.Processing, 2, 3
		}
		w.listed++
		all = append(all, v)
		group.Go(func() error {
			_, err := w.videos.Create(w.t.Context(), v)
			return err
		})
	}
	_, err := catalog.New(w.account).Load(w.t.Context(), all)
	if err := errors.Join(group.Wait(), err); err != nil {
		w.t.Fatal(err)
	}
	for _, p := range parts {
		if p.grow != nil {
			p.grow(w, all, runners)
		}
	}
	w.runners += runners
	return w
}

// measure makes every visit and returns its cost.
func (w *world) measure(wire *azuritetest.Wire) []cost {
	w.t.Helper()
	var costs []cost
	for _, v := range allVisits() {
		ask := v.prepare(w)
		wire.Take()
		if a := ask(); a.StatusCode >= http.StatusBadRequest {
			w.t.Errorf("%s: %d %s", v.operation, a.StatusCode, a.body)
		}
		var c cost
		for _, call := range wire.Take() {
			c.requests++
			if !strings.HasSuffix(call.Table, "quotas") { // as many as the quota allows, whatever the catalogue
				c.rows += call.Rows
			}
			c.classes[call.Class]++
			if strings.HasSuffix(call.Table, workflow.VideosTable) {
				c.truth++
			}
			if call.Class == tablestore.Scan {
				w.t.Errorf("%s scans a table: %s", v.operation, call.Text)
			}
		}
		costs = append(costs, c)
	}
	return costs
}
