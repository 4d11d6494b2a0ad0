package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

// TestStrangersLearnNothing: a private video and one that never was are the same to
// anyone who may not see them, on every route: the same bytes but for ids, the same
// headers, and the same requests to storage, which is what the time of an answer is
// made of.
func TestStrangersLearnNothing(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	tap := azuritetest.NewTap(t)
	c := openCommunity(t, map[string]string{"AZURE_STORAGE_CONNECTION_STRING": tap.ConnectionString(), "WEBROLE_PLAYBACK_KEYS": linkKey, "WEBROLE_QUOTA_WAITING": "0"})
	asked := 0
	for base, routes := range c.listeners() {
		for _, route := range routes {
			if !strings.Contains(route.Path, ":id") {
				continue
			}
			for _, who := range []string{visitor, viewer, stranger} {
				// Of several tries the cheapest counts: a key is read again every 5 s.
				var cost [2]int64
				var said [2]string
				for try := range 3 {
					for i, id := range []string{c.announce(owner, video.Private), string(engine.NewID())} { // not asked for before
						before := tap.Requests()
						status, text := c.said(who, route.Method, base+addressOf(route, fillWith(id)), id)
						spent := tap.Requests() - before
						if try == 0 || spent < cost[i] {
							cost[i] = spent
						}
						said[i] = fmt.Sprint(status, " ", text)
					}
				}
				asked++
				if cost[0] != cost[1] {
					t.Errorf("%s %s as %s: %d requests to storage for a private video, %d for none", route.Method, route.Path, who, cost[0], cost[1])
				}
				if said[0] != said[1] {
					t.Errorf("%s %s as %s: a private video\n%s\nnone\n%s", route.Method, route.Path, who, said[0], said[1])
				}
			}
		}
	}
	if asked < 60 {
		t.Errorf("only %d routes and people were tried", asked)
	}
}

// How long answers are compared: the quickest of so many pairs, which take turns; the others
// show what else the machine does. Twice as long and a little more would be a row read for
// one and not for the other, which the requests above show exactly; the clock shows what no
// request to storage is. While the quickest are apart there are more pairs: what else the
// machine does goes away, and a difference in the work stays.
const (
	timedPairs  = 11
	mostPairs   = 300
	timedFactor = 2
	timedSlack  = 5 * time.Millisecond
)

// TestStrangersWaitAlike: on every route the answer about a private video takes as long as
// the one about a video that never was.
func TestStrangersWaitAlike(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	c := openCommunity(t, map[string]string{"WEBROLE_PLAYBACK_KEYS": linkKey, "WEBROLE_QUOTA_WAITING": "0"})
	var ids [timedPairs][2]string
	for i := range ids {
		ids[i] = [2]string{c.announce(owner, video.Private), string(engine.NewID())}
	}
	apart := func(private, none time.Duration) bool {
		return private > timedFactor*none+timedSlack || none > timedFactor*private+timedSlack
	}
	measure := func(who, base string, route gin.RouteInfo) (private, none time.Duration) {
		quickest := [2]time.Duration{time.Hour, time.Hour}
		for n := 0; n < timedPairs || n < mostPairs && apart(quickest[0], quickest[1]); n++ {
			for turn := range 2 {
				which := (n + turn) % 2
				id := ids[n%timedPairs][which]
				begin := time.Now()
				c.said(who, route.Method, base+addressOf(route, fillWith(id)), id)
				quickest[which] = min(quickest[which], time.Since(begin))
			}
		}
		return quickest[0], quickest[1]
	}
	asked, largest, where := 0, 0.0, ""
	for base, routes := range c.listeners() {
		for _, route := range routes {
			if !strings.Contains(route.Path, ":id") {
				continue
			}
			for _, who := range []string{visitor, viewer, stranger} {
				asked++
				private, none := measure(who, base, route)
				name := fmt.Sprintf("%s %s as %s: %v for a private video, %v for none", route.Method, route.Path, who, private, none)
				if apart(private, none) {
					t.Error(name)
				}
				if ratio := float64(max(private, none)) / float64(min(private, none)); ratio > largest {
					largest, where = ratio, name
				}
			}
		}
	}
	t.Logf("the quickest of %d pairs or more for %d routes and people; furthest apart: %s", timedPairs, asked, where)
	if asked < 60 {
		t.Errorf("only %d routes and people were tried", asked)
	}
}

// said is the whole answer, with the id and what is new in each answer taken out.
func (c *community) said(who, method, url, id string) (status int, text string) {
	c.t.Helper()
	req := c.request(method, url, nil)
	if key := c.keys[who]; key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	req.Header.Set("X-Request-Id", "same")
	resp, err := c.client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // reading only
	var body, head bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		c.t.Fatal(err)
	}
	resp.Header.Del("Date")
	if err := resp.Header.Write(&head); err != nil {
		c.t.Fatal(err)
	}
	if resp.StatusCode == http.StatusOK && !strings.Contains(url, "/watch/") && !strings.Contains(url, "/embed/") {
		c.t.Errorf("%s %s as %s: 200", method, url, who)
	}
	return resp.StatusCode, strings.ReplaceAll(head.String()+body.String(), id, "ID")
}
