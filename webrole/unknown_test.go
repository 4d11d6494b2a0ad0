package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

// membersOnly is a visibility of a later release.
const membersOnly video.Visibility = "members"

// TestUnknownIsHidden: a video with a visibility that this release does not know is as
// private as there is, and one with such a state is not shown to operators either, who can
// delete it. The rows of the indexes still say that it is public and ready.
func TestUnknownIsHidden(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*video.Video){
		"visibility": func(v *video.Video) { v.Visibility = membersOnly },
		"state":      func(v *video.Video) { v.State = "archived" },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := newLibrary(t, azuritetest.NewWire(t))
			rec, err := l.videos.Change(t.Context(), l.id, "", func(v *video.Video) ([]engine.OutboxMessage, error) {
				change(v)
				return nil, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if catalog.Listed(rec.Subject) || rec.Subject.Searchable() {
				t.Error("the next run of the index lists it")
			}
			for _, list := range allLists() {
				if list.operation != "listVideos" && list.operation != "searchVideos" && list.operation != "getRegistration" {
					continue
				}
				items, err := l.ask(list.path)
				mine := strings.Contains(list.path, "owner=me") && what == "visibility"
				if shown := strings.Contains(strings.Join(items, " "), string(l.id)); err != nil || shown != mine {
					t.Errorf("%s shows it: %v, %v", list.path, shown, err)
				}
			}
			if what == "visibility" {
				cached := l.get("/v/" + string(l.id) + "/240p/0.m4s?g=1").Header.Get("Cache-Control")
				if !strings.HasPrefix(cached, "private") {
					t.Errorf("caches of others may keep it: %q", cached)
				}
				return
			}
			path := "/videos/" + string(l.id)
			for _, asked := range []string{"", "/upload", "/steps", "/journey", "/cost", "/views", "/clips", "/captions", "/captions/en"} {
				l.call(http.MethodGet, path+asked, nil).want(t, http.StatusNotFound, "not_found")
			}
			l.get("/v/"+string(l.id)+"/master.m3u8").want(t, http.StatusNotFound, "not_found")
			l.call(http.MethodPatch, path, `{"title":"x"}`, "If-Match", "*").want(t, http.StatusNotFound, "not_found")
			l.call(http.MethodPost, path+"/clips", `{"startSeconds":1,"durationSeconds":1}`).want(t, http.StatusNotFound, "not_found")
			l.call(http.MethodPost, path+"/seek", `{"at":1}`).want(t, http.StatusNotFound, "not_found")
			l.call(http.MethodPost, path+"/upload/complete", nil).want(t, http.StatusNotFound, "not_found")
			l.call(http.MethodPost, path+"/retry", nil).want(t, http.StatusNotFound, "not_found")
			l.call(http.MethodDelete, path, nil).want(t, http.StatusAccepted, "")
		})
	}
}
