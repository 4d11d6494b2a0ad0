package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/access"
)

const (
	linkKey    = "playback-key-one-0123456789abcdef"
	newLinkKey = "playback-key-two-0123456789abcdef"
)

// linkOf is where a private video is, for who shows nothing but the address.
func linkOf(t *testing.T, id string, life time.Duration, keys ...string) string {
	t.Helper()
	l := access.Links{Life: life}
	for _, key := range keys {
		l.Keys = append(l.Keys, []byte(key))
	}
	base := l.Base(video.Video{Meta: engine.Meta{ID: engine.ID(id)}, Visibility: video.Private})
	if !strings.HasPrefix(base, "/v/"+id+"/~") {
		t.Fatal(base)
	}
	return base
}

// TestLinksPlay: with an address that has a token anyone who has it plays one private
// video; with one that is spoilt, over, of another video or of a key that is gone,
// there is no such video. Keys rotate.
func TestLinksPlay(t *testing.T) {
	t.Parallel()
	for _, anonymous := range []string{"on", "off"} {
		c := openCommunity(t, map[string]string{"WEBROLE_ANONYMOUS": anonymous, "WEBROLE_PLAYBACK_KEYS": newLinkKey + " " + linkKey})
		id, other := c.announce(owner, video.Private), c.announce(owner, video.Private)
		ask := func(path string) answer { return c.as(visitor, "GET", path, nil) }
		for _, key := range []string{linkKey, newLinkKey} {
			base := linkOf(t, id, time.Hour, key)
			ask(base+"/master.m3u8").want(t, 404, "not_playable_yet") // let in
			token := strings.TrimPrefix(base, "/v/"+id+"/")
			end, mac, _ := strings.Cut(token, ".")
			spoilt := []string{
				token[:len(token)-1], token + "a", strings.ToUpper(token), "~" + mac, "~." + mac, end + ".", "~ffffffffff." + mac, "~", "~-1." + mac,
				strings.TrimPrefix(linkOf(t, other, time.Hour, key), "/v/"+other+"/"),
				strings.TrimPrefix(linkOf(t, id, -3*time.Hour, key), "/v/"+id+"/"),
				strings.TrimPrefix(linkOf(t, id, time.Hour, "a key that is no longer there ..."), "/v/"+id+"/"),
			}
			for _, bad := range spoilt {
				ask("/v/"+id+"/"+bad+"/master.m3u8").want(t, 404, "not_found")
			}
			ask("/v/"+id+"/x/"+token+"/master.m3u8").want(t, 404, "not_found")
			ask("/v/"+other+"/"+token+"/master.m3u8").want(t, 404, "not_found")
			c.as(owner, "GET", "/v/"+id+"/~spoilt/master.m3u8", nil).want(t, 404, "not_playable_yet") // who may without it still may
			if a := ask("/api/v1/videos/" + id + "/" + token); a.StatusCode == http.StatusOK {
				t.Errorf("a token opens the API: %s", a.body)
			}
		}
	}
}

// TestLinksArePrivateOnly: only those who see a private video are given its token, and
// other videos need none. Without keys there are none.
func TestLinksArePrivateOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, map[string]string{"WEBROLE_PLAYBACK_KEYS": linkKey, "WEBROLE_PLAYBACK_LIFE": "2h"})
	f.chunk(0, 2)
	f.chunk(1, 1)
	f.audio()
	f.finish()
	get := func() answer { return f.call(http.MethodGet, "/videos/"+string(f.id), nil) }
	if a := get(); bytes.Contains(a.body, []byte("/~")) {
		t.Errorf("a public video has tokens: %s", a.body)
	}
	f.call(http.MethodPatch, "/videos/"+string(f.id), `{"visibility":"private"}`, "If-Match", "*").want(t, 200, "")
	body := get().body
	if n := bytes.Count(body, []byte("/v/"+string(f.id)+"/~")); n < 4 || n != bytes.Count(body, []byte("/v/")) {
		t.Errorf("%d addresses with tokens: %s", n, body)
	}
	again := get().body
	if !bytes.Equal(body, again) {
		t.Error("the next answer has another token: no cache would know the address")
	}
	base := linkOf(t, string(f.id), 2*time.Hour, linkKey)
	master := f.get(base + "/master.m3u8")
	master.want(t, 200, "")
	if bytes.Contains(master.body, []byte("~")) {
		t.Errorf("the playlist has a token: %s", master.body)
	}
	segment := f.get(base + "/240p/init.mp4?g=1")
	segment.want(t, 200, "")
	kept := segment.Header.Get("Cache-Control")
	if !strings.HasPrefix(kept, "public, max-age=") || strings.Contains(kept, "31536000") {
		t.Errorf("kept by caches: %q", kept)
	}
	none := start(t, nil)
	v := none.create(map[string]any{"visibility": "private"})
	if a := none.call(http.MethodGet, "/videos/"+v.Id, nil); bytes.Contains(a.body, []byte("/~")) {
		t.Errorf("tokens without keys: %s", a.body)
	}
}
