package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/webrole/internal/api"
)

// TestClipOfAFinish: find your own finish by your bib (T7).
func TestClipOfAFinish(t *testing.T) {
	t.Parallel()
	f := ready(t)
	at := eventPath(newYork) + "/1234/clips"
	f.call(http.MethodPost, at, `{}`).want(t, 404, "not_found")
	f.call(http.MethodPost, eventPath("nowhere")+"/1234/clips", `{}`).want(t, 400, "invalid_event")
	f.register(newYork, `[{"bib":1234,"name":"John","sex":"M","age":55,"finishedAt":"2011-11-06T14:03:05.25Z"},
		{"bib":7,"name":"Ann","sex":"F","age":50,"finishedAt":"2011-11-06T14:03:10.5Z"},
		{"bib":8,"name":"Bea","sex":"F","age":50,"finishedAt":"2011-11-06T14:03:12Z"},
		{"bib":9,"name":"Lost","sex":"X","age":50}]`).want(t, http.StatusOK, "")
	f.call(http.MethodPost, at, `{}`).want(t, 404, "moment_not_found")
	f.call(http.MethodPatch, "/videos/"+string(f.id), `{"race":{"event":"`+newYork+`","firstFrameAt":"2011-11-06T14:03:00Z"}}`, "If-Match", "*").want(t, http.StatusOK, "")
	f.index(string(f.id))

	for _, c := range []struct{ bib, body, id string }{
		{"1234", `{"beforeSeconds":2,"afterSeconds":1}`, "g1-81-75"}, // 5.25 s − 2 s is shown by frame 81
		{"1234", `{}`, "g1-6-250"},                                   // 0.25 s to 10.25 s
		{"1234", `{"beforeSeconds":30,"afterSeconds":0}`, "g1-0-131"},
		{"1234", `{"beforeSeconds":30,"afterSeconds":30,"videoId":"` + string(f.id) + `"}`, "g1-0-300"}, // the whole
		{"7", `{}`, "g1-137-163"},                                                                       // to the end
	} {
		clip := decode[api.Clip](t, f.call(http.MethodPost, eventPath(newYork)+"/"+c.bib+"/clips", c.body), http.StatusAccepted)
		if clip.Id != c.id || clip.VideoId != string(f.id) {
			t.Errorf("bib %s, %s: clip %s of %s, want %s", c.bib, c.body, clip.Id, clip.VideoId, c.id)
		}
	}
	for _, c := range []struct {
		bib, body string
		status    int
		code      string
	}{
		{"8", `{}`, 404, "moment_not_found"}, // after the end
		{"9", `{}`, 404, "moment_not_found"},
		{"10", `{}`, 404, "not_found"},
		{"0", `{}`, 400, "invalid_parameter"},
		{"1234", `{"videoId":"` + strings.Repeat("b", 26) + `"}`, 404, "moment_not_found"},
		{"1234", `{"videoId":"x"}`, 400, "invalid_body"},
		{"1234", `{"beforeSeconds":0,"afterSeconds":0}`, 400, "invalid_body"},
		{"1234", `{"beforeSeconds":31}`, 400, "invalid_body"},
	} {
		f.call(http.MethodPost, eventPath(newYork)+"/"+c.bib+"/clips", c.body).want(t, c.status, c.code)
	}
	if n := f.messages("encode-high"); n != 5 {
		t.Errorf("%d messages in encode-high, want 5", n)
	}
	f.call(http.MethodPatch, "/videos/"+string(f.id), `{"visibility":"private"}`, "If-Match", "*").want(t, http.StatusOK, "")
	f.call(http.MethodPost, at, `{}`).want(t, 404, "moment_not_found")
}

func init() {
	parts = append(parts, part{
		routes: `uploaders POST /api/v1/events/:event/registrations/:bib/clips
`,
		visits: []visit{
			{"createFinishClip", func(w *world) func() answer {
				w.endClips()
				after := 2 + float64(w.runners)/1000 // another clip every time
				return func() answer {
					return w.call(http.MethodPost, "/events/"+w.event+"/registrations/7/clips", map[string]any{"afterSeconds": after})
				}
			}},
		},
	})
}
