package media_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/mediatest"
)

// storage serves one file with range requests. cut, when it returns n > 0,
// cuts the connection after n bytes of the answer.
type storage struct {
	path string
	cut  func(request int64) int
	n    atomic.Int64
}

func (s *storage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n := s.cut(s.n.Add(1)); n > 0 {
		w = &cutting{ResponseWriter: w, left: n}
	}
	http.ServeFile(w, r, s.path)
}

type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if len(p) >= c.left {
		_, _ = c.ResponseWriter.Write(p[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

// What comes over the network is the same as from a file, also when
// connections break; and when the source cannot be read, it is not blamed.
func TestNetworkSourceGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	for _, clip := range mediatest.Clips() {
		switch clip.Name {
		case "mp4-30", "ts-open-gop", "mkv-44.1k":
		default:
			continue
		}
		t.Run(clip.Name, func(t *testing.T) {
			t.Parallel()
			path := clip.Make(t, t.TempDir())
			local, info := probe(t, tool, path)
			plan, err := media.Plan(info, media.DefaultLimits)
			if err != nil {
				t.Fatal(err)
			}
			plan = manySeams(plan)
			want := chunkBytes(t, tool, local, plan, 2)
			for name, cut := range map[string]func(int64) int{
				"steady":           func(int64) int { return 0 },
				"every other cut":  func(n int64) int { return int(n%2) * 30_000 },
				"small cuts first": func(n int64) int { return max(0, 5-int(n)) * 5_000 },
			} {
				store := &storage{path: path, cut: cut}
				server := httptest.NewServer(store)
				src := ffmpeg.Source{URL: server.URL + "/source?sig=x"}
				if _, err := tool.Probe(t.Context(), src); err != nil {
					t.Errorf("%s: Probe: %v", name, err)
				}
				if got := chunkBytes(t, tool, src, plan, 2); !bytes.Equal(got, want) {
					t.Errorf("%s: other bytes after %d requests", name, store.n.Load())
				}
				server.Close()
			}
			t.Run("away", func(t *testing.T) {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					http.Error(w, "gone", http.StatusForbidden) // the signature has expired
				}))
				defer server.Close()
				src := ffmpeg.Source{URL: server.URL + "/source"}
				if _, err := media.EncodeChunk(t.Context(), tool, src, plan, 2, t.TempDir(), nil); err == nil || errors.As(err, new(*video.Failure)) {
					t.Errorf("EncodeChunk of a source that is away: %v", err)
				}
				if _, err := media.EncodePortion(t.Context(), tool, src, plan, 1, t.TempDir(), nil); err == nil || errors.As(err, new(*video.Failure)) {
					t.Errorf("EncodePortion of a source that is away: %v", err)
				}
			})
		})
	}
}

// A server that stops in the middle and stays away never makes a short video
// pass for a whole one, nor a good source for a broken one.
func TestOutageIsNotTheSourcesFault(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	tool.ReconnectSeconds = 1 // or the test takes a minute
	path := mediatest.Clips()[0].Make(t, t.TempDir())
	src, info := probe(t, tool, path)
	plan, err := media.Plan(info, media.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	plan = manySeams(plan)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	store := &outage{data: data, until: int64(len(data)) * 6 / 10}
	server := httptest.NewServer(store)
	defer server.Close()
	src.URL = server.URL + "/source"
	last := len(plan.Chunks) - 1
	plan.Chunks = append(plan.Chunks[:1:1], video.Chunk{From: plan.Chunks[1].From, To: plan.Chunks[last].To})
	_, err = media.EncodeChunk(t.Context(), tool, src, plan, 1, t.TempDir(), nil)
	if err == nil || errors.As(err, new(*video.Failure)) {
		t.Errorf("got %v, want an error that may pass", err)
	}
}

// outage serves the first part of a file and breaks every connection there.
type outage struct {
	data  []byte
	until int64
}

func (o *outage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from := int64(0)
	if h := r.Header.Get("Range"); len(h) > 7 {
		from, _ = strconv.ParseInt(h[6:len(h)-1], 10, 64)
	}
	size := int64(len(o.data))
	w.Header().Set("Accept-Ranges", "bytes")
	w.Header().Set("Content-Range", "bytes "+strconv.FormatInt(from, 10)+"-"+strconv.FormatInt(size-1, 10)+"/"+strconv.FormatInt(size, 10))
	w.Header().Set("Content-Length", strconv.FormatInt(size-from, 10))
	w.WriteHeader(http.StatusPartialContent)
	if from < o.until {
		_, _ = w.Write(o.data[from:o.until])
		_ = http.NewResponseController(w).Flush()
	}
	panic(http.ErrAbortHandler)
}

func chunkBytes(t *testing.T, tool *ffmpeg.Tool, src ffmpeg.Source, plan video.Plan, index int) []byte {
	t.Helper()
	c, err := media.EncodeChunk(t.Context(), tool, src, plan, index, t.TempDir(), nil)
	if err != nil {
		t.Fatalf("EncodeChunk: %v", err)
	}
	var all []byte
	for _, path := range c.Renditions {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}
