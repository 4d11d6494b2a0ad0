package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/captions"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

func (f *fixture) captions() string { return "/videos/" + string(f.id) + "/captions" }

// sendCaptions posts a file, as curl would.
func (f *fixture) sendCaptions(language, file string, headers ...string) answer {
	f.t.Helper()
	return f.call(http.MethodPost, f.captions()+"/"+language, []byte(file), append([]string{"Content-Type", "text/vtt"}, headers...)...)
}

// makeCaptions does what the captions step does: a file of one cue.
func (f *fixture) makeCaptions(language, text string) {
	f.t.Helper()
	key, err := captions.Key(f.id, language)
	if err != nil {
		f.t.Fatal(err)
	}
	claim, err := f.videos.Claim(f.t.Context(), key, "message", "worker-1", time.Time{})
	if err != nil {
		f.t.Fatal(err)
	}
	whole := "WEBVTT\n\n" + text
	out := captions.Output{
		Blob: f.put(fmt.Sprintf("%s-%d.vtt", language, len(text)), []byte(whole)), Bytes: int64(len(whole)), Cues: 1, LeftOut: 2, Charset: "windows-1252",
	}
	if err := claim.Commit(f.t.Context(), videostore.Commit{Output: out}); err != nil {
		f.t.Fatal(err)
	}
}

// Captions from the request to what a player reads: sent twice they are one work
// item, and another file takes the place of the one before when it is made.
func TestCaptions(t *testing.T) {
	t.Parallel()
	f := ready(t)
	const cue = "00:00:01.000 --> 00:00:02.000\nHello\n"
	master := string(f.play("master.m3u8").body)
	f.call(http.MethodGet, f.captions()+"/en", nil).want(t, 404, "not_found")
	sent := decode[api.Captions](t, f.sendCaptions("EN_us", "WEBVTT\n\n"+cue), http.StatusAccepted)
	if sent.Language != "en-US" || sent.Name != "American English" || sent.State != api.CaptionsQueued || sent.Links.Media != nil || sent.Links.Self != "/api/v1"+f.captions()+"/en-US" {
		t.Errorf("sent: %+v", sent)
	}
	f.sendCaptions("en-us", "WEBVTT\n\n"+cue).want(t, http.StatusAccepted, "")
	if n := f.messages("finish"); n != 1 {
		t.Errorf("sent twice: %d messages, want 1", n)
	}
	f.call(http.MethodGet, f.captions()+"/en-US", nil).want(t, 404, "captions_not_ready")
	f.play("captions/en-US.vtt").want(t, 404, "not_found")
	if got := string(f.play("master.m3u8").body); got != master {
		t.Errorf("the master names captions that are not made:\n%s", got)
	}

	f.makeCaptions("en-US", cue)
	shown := decode[api.CaptionsList](t, f.call(http.MethodGet, f.captions(), nil), http.StatusOK).Items[0]
	if *shown.Cues != 1 || *shown.LeftOut != 2 || *shown.Charset != "windows-1252" {
		t.Errorf("shown: %+v", shown)
	}
	made := f.call(http.MethodGet, f.captions()+"/en-US", nil)
	if want := "WEBVTT\n\n" + cue; made.StatusCode != http.StatusOK || string(made.body) != want || made.Header.Get("Content-Type") != "text/vtt; charset=utf-8" {
		t.Errorf("made: %d %q %v", made.StatusCode, made.body, made.Header)
	}
	if got := f.play("captions/en-US.vtt"); string(got.body) != string(made.body) || got.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("played: %d %q %v", got.StatusCode, got.body, got.Header)
	}
	got := string(f.play("master.m3u8").body)
	const media = `#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="subs",NAME="American English",LANGUAGE="en-US",DEFAULT=NO,AUTOSELECT=YES,URI="captions/en-US.m3u8"` + "\n"
	if strings.Count(got, media) != 1 || strings.Count(got, `,SUBTITLES="subs"`+"\n") != strings.Count(got, "#EXT-X-STREAM-INF") {
		t.Errorf("master:\n%s", got)
	}
	want := "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:12\n#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:VOD\n#EXTINF:12.000000,\nen-US/0.vtt\n#EXT-X-ENDLIST\n"
	if diff := cmp.Diff(want, string(f.play("captions/en-US.m3u8").body)); diff != "" {
		t.Errorf("playlist (-want +got):\n%s", diff)
	}
	if got := f.play("captions/en-US/0.vtt"); got.StatusCode != http.StatusOK || string(got.body) != string(made.body) {
		t.Errorf("segment: %d %q", got.StatusCode, got.body)
	}

	// Another file: the first is served until the second is made.
	const other = "00:00:01.000 --> 00:00:02.000\nGoodbye\n"
	again := decode[api.Captions](t, f.sendCaptions("en-US", other), http.StatusAccepted)
	if again.State != api.CaptionsQueued || again.Links.Media == nil || *again.Cues != 1 {
		t.Errorf("another file: %+v", again)
	}
	if got := f.call(http.MethodGet, f.captions()+"/en-US", nil); string(got.body) != string(made.body) {
		t.Errorf("meanwhile: %d %q", got.StatusCode, got.body)
	}
	f.makeCaptions("en-US", other)
	if got := f.call(http.MethodGet, f.captions()+"/en-US", nil); !strings.Contains(string(got.body), "Goodbye") {
		t.Errorf("afterwards: %d %q", got.StatusCode, got.body)
	}

	f.sendCaptions("de", cue).want(t, http.StatusAccepted, "")
	list := decode[api.CaptionsList](t, f.call(http.MethodGet, f.captions(), nil), http.StatusOK)
	if len(list.Items) != 2 || list.Items[0].Name != "Deutsch" || list.Items[1].State != api.CaptionsReady {
		t.Errorf("list: %+v", list)
	}
	f.call(http.MethodDelete, f.captions()+"/en-US", nil).want(t, http.StatusNoContent, "")
	f.call(http.MethodDelete, f.captions()+"/en-US", nil).want(t, 404, "not_found")
	f.play("captions/en-US.vtt").want(t, 404, "not_found")
	f.call(http.MethodDelete, "/videos/"+string(f.id), nil).want(t, http.StatusAccepted, "")
	f.call(http.MethodGet, f.captions(), nil).want(t, 404, "not_found")
	f.sendCaptions("de", cue).want(t, 404, "not_found")
}

func TestCaptionsThatAreNotTaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil) // captions may be sent before the video is ready
	f.sendCaptions("xx-notalanguage", "x").want(t, 400, "invalid_parameter")
	f.sendCaptions("und", "x").want(t, 400, "invalid_parameter")
	f.sendCaptions("a%2Fb", "x").want(t, 400, "invalid_parameter")
	f.sendCaptions("en", strings.Repeat("x", 1<<20+1)).want(t, 413, "body_too_large")
	f.call(http.MethodPost, f.captions()+"/en", map[string]any{"text": "x"}).want(t, 415, "unsupported_content_type")
	f.call(http.MethodGet, "/videos/"+strings.Repeat("b", 26)+"/captions", nil).want(t, 404, "not_found")
	for _, path := range []string{"captions/en", "captions/en/0.m3u8", "captions/en/-1.vtt", "captions/en/1.vtt", "captions/en/0/1.vtt", "captions/..%2f.vtt"} {
		f.play(path).want(t, 404, "not_found")
	}

	// A file without cues fails, and says why.
	f.sendCaptions("en", "x").want(t, http.StatusAccepted, "")
	key, err := captions.Key(f.id, "en")
	if err != nil {
		t.Fatal(err)
	}
	claim, err := f.videos.Claim(t.Context(), key, "message", "worker-1", time.Time{})
	if err == nil {
		err = claim.Fail(t.Context(), &engine.Failure{Code: captions.Invalid, Detail: "no cues"})
	}
	if err != nil {
		t.Fatal(err)
	}
	f.call(http.MethodGet, f.captions()+"/en", nil).want(t, 409, "invalid_captions")
	list := decode[api.CaptionsList](t, f.call(http.MethodGet, f.captions(), nil), http.StatusOK)
	if len(list.Items) != 1 || list.Items[0].State != api.CaptionsFailed || list.Items[0].Error.Detail != "no cues" {
		t.Errorf("list: %+v", list)
	}
	// Who sends it again gets it tried again.
	again := decode[api.Captions](t, f.sendCaptions("en", "x"), http.StatusAccepted)
	if again.State != api.CaptionsQueued || again.Error != nil {
		t.Errorf("again: %+v", again)
	}
	for i := range 49 {
		f.sendCaptions(fmt.Sprintf("en-x-%03d", i+100), "x").want(t, http.StatusAccepted, "")
	}
	f.sendCaptions("de", "x").want(t, 409, "state_conflict")
}

func init() {
	parts = append(parts, part{
		routes: `seers GET /api/v1/videos/:id/captions
seers GET /api/v1/videos/:id/captions/:language
owners POST /api/v1/videos/:id/captions/:language
owners DELETE /api/v1/videos/:id/captions/:language
`,
		private: func(video string) []private {
			return []private{
				{"POST", video + "/captions/en", []byte("WEBVTT\n\n00:00.000 --> 00:01.000\nHello\n"), []string{"Content-Type", "text/vtt"}, 202},
				{"GET", video + "/captions", nil, nil, 200},
				{"DELETE", video + "/captions/en", nil, nil, 204},
			}
		},
		visits: []visit{
			{"createCaptions", func(w *world) func() answer {
				return func() answer { return w.sendCaptions("de", fmt.Sprint(w.runners)) }
			}},
			{"listCaptions", get("/videos/{id}/captions")},
			{"getCaptions", get("/videos/{id}/captions/en")},
			{"deleteCaptions", func(w *world) func() answer {
				w.sendCaptions("fr", "x").want(w.t, http.StatusAccepted, "")
				return func() answer { return w.call(http.MethodDelete, "/videos/"+string(w.id)+"/captions/fr", nil) }
			}},
			{"playCaptions", get("/v/{id}/captions/en.vtt")},
			{"playCaptionsPlaylist", get("/v/{id}/captions/en.m3u8")},
			{"playCaptionsSegment", get("/v/{id}/captions/en/0.vtt")},
		},
		lists: []list{
			{"listCaptions", "/videos/{id}/captions", []damage{{workflow.VideosTable, "{id} CAPTIONS:en", 1}}},
		},
		world: func(w *world) {
			w.sendCaptions("en", "x").want(w.t, http.StatusAccepted, "")
			w.makeCaptions("en", "00:00:01.000 --> 00:00:02.000\nx\n")
		},
		library: func(l *library) {
			l.sendCaptions("de", "x").want(l.t, http.StatusAccepted, "")
		},
	})
}
