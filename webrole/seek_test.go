package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

func (f *fixture) seek(at float64) api.Seek {
	f.t.Helper()
	return decode[api.Seek](f.t, f.call(http.MethodPost, "/videos/"+string(f.id)+"/seek", map[string]any{"at": at}), http.StatusOK)
}

// TestSeekAsksForWhatIsMissing: the chunk of that second, the next one and their sound
// are asked for once, in the urgent queues, whatever the window has promised. The
// playlist begins with that chunk as soon as it is there.
func TestSeekAsksForWhatIsMissing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil, func(p *video.Plan) {
		p.Frames, p.DurationSeconds, p.Chunks, p.Sound = 5000, 200, nil, nil
		for i := range int64(25) {
			p.Chunks = append(p.Chunks, video.Chunk{From: i * 200, To: (i + 1) * 200}) // 8 s
		}
		for i := range 10 {
			p.Sound = append(p.Sound, video.SoundPortion{First: 5 * i, End: 5*i + 5}) // 20 s
		}
	})
	first, sound := f.queue(workflow.EncodeFirst).Length, f.queue(workflow.AudioFirst).Length

	got := f.seek(162) // the portion of sound from 158 s on ends after the next chunk, at 176 s
	if want := "/v/" + string(f.id) + "/master.m3u8?from=20"; got.Made || got.Master != want || got.From != 160 {
		t.Errorf("seek: %+v, want %s from 160 on, which is not made", got, want)
	}
	if n := f.queue(workflow.EncodeFirst).Length - first; n != 2 {
		t.Errorf("%d chunks are asked for, want 2", n)
	}
	if n := f.queue(workflow.AudioFirst).Length - sound; n != 1 {
		t.Errorf("%d portions of sound are asked for, want 1", n)
	}
	f.seek(162)
	f.seek(167.9)
	if n := f.queue(workflow.EncodeFirst).Length - first; n != 2 {
		t.Errorf("asked again at once: %d messages, want 2", n)
	}
	f.play("master.m3u8?from=20").want(t, http.StatusNotFound, "not_playable_yet")

	f.chunk(20, 2)
	f.portion(40, 5)
	if got := f.seek(162); !got.Made {
		t.Errorf("chunk and sound are there: %+v", got)
	}
	if text := string(f.play("240p.m3u8?from=20").body); strings.Count(text, "#EXT-X-GAP") != 40 || strings.Count(text, "#EXTINF") != 42 {
		t.Errorf("40 gaps, two segments:\n%s", text)
	}
	if got := f.seek(1); got.Made || strings.Contains(got.Master, "from") {
		t.Errorf("the beginning is not made: %+v", got)
	}
	f.chunk(0, 2)
	f.portion(0, 5)
	if got := f.seek(1); !got.Made || strings.Contains(got.Master, "from") {
		t.Errorf("the beginning is made: %+v", got)
	}

	for _, bad := range []any{-1, "1", nil} {
		f.call(http.MethodPost, "/videos/"+string(f.id)+"/seek", map[string]any{"at": bad}).want(t, http.StatusBadRequest, "invalid_body")
	}
	f.play("master.m3u8?from=x").want(t, http.StatusBadRequest, "invalid_parameter")
	f.play("master.m3u8?from=-1").want(t, http.StatusBadRequest, "invalid_parameter")
	f.play("master.m3u8?from=99999").want(t, http.StatusNotFound, "not_playable_yet")
	if got := f.seek(1e9); !strings.HasSuffix(got.Master, "from=24") {
		t.Errorf("behind the end: %+v, want the last chunk", got)
	}
	f.call(http.MethodPost, "/videos/"+string(f.id)+"/cancel", nil).want(t, http.StatusAccepted, "")
	before := f.queue(workflow.EncodeFirst).Length
	f.seek(100)
	if n := f.queue(workflow.EncodeFirst).Length; n != before {
		t.Errorf("a cancelled video asks for %d chunks", n-before)
	}
}
func init() {
	parts = append(parts, part{
		routes: `seers POST /api/v1/videos/:id/seek
`,
		visits: []visit{
			{"seekVideo", func(w *world) func() answer {
				return func() answer {
					return w.call(http.MethodPost, "/videos/"+string(w.id)+"/seek", map[string]any{"at": 1})
				}
			}},
		},
	})
}
