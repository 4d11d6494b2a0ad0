package rideout_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/workflow"
)

// office is a proxy of the kind that stands in offices: while it is broken it answers with a
// page of its own, in Latin-1.
type office struct {
	broken   atomic.Bool
	requests atomic.Int64
	messages atomic.Int64 // sent, renewed, put back or deleted: what a loop does
	pages    atomic.Int64
}

// stand puts the proxy before the three endpoints of a connection string.
func (o *office) stand(t *testing.T, connection string) string {
	return regexp.MustCompile(`http://127\.0\.0\.1:\d+`).ReplaceAllStringFunc(connection, func(endpoint string) string {
		target, err := url.Parse(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		// The transport's own idle connections end before the emulator ends them, at 5 s.
		transport := &http.Transport{IdleConnTimeout: 3 * time.Second, MaxIdleConnsPerHost: 64}
		t.Cleanup(transport.CloseIdleConnections)
		on := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		}}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			o.requests.Add(1)
			if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/messages") {
				o.messages.Add(1)
			}
			if o.broken.Load() {
				o.pages.Add(1)
				w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
				w.WriteHeader([]int{http.StatusBadGateway, http.StatusForbidden}[o.pages.Load()%2])
				_, _ = w.Write([]byte("<p>La passerelle est d\xe9faillante, r\xe9essayez plus tard</p>"))
				return
			}
			on.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		return server.URL
	})
}

// A proxy answers everything with pages in Latin-1 for a while, another program sends 50 KB of
// JSON that is no item of ours, and five operators redrive one item at once. The films become
// ready, the JSON is poison once, and when all is done nothing comes back (H2, H7, H10, H16).
func TestStrangersMakeNothingLoop(t *testing.T) {
	emulator := ownEmulator(t)
	way := &office{}
	s := stacktest.Start(t, stack.Options{Workers: 2, ConnectionString: way.stand(t, emulator.ConnectionString()), Env: []string{"WEBROLE_RATE_LIMIT=0"}})
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	var ids []string
	film := clip(t)
	for n := range 2 {
		v, err := user.Announce(t.Context(), client.NewVideo{Title: fmt.Sprint("film ", n)})
		if err != nil {
			t.Fatal(err)
		}
		if err := user.Put(t.Context(), v.Id, bytes.NewReader(film), int64(len(film))); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, v.Id)
	}
	way.broken.Store(true)
	broken := time.Now()
	azuritetest.Eventually(t, time.Minute, func() error {
		if time.Since(broken) < 10*time.Second || way.pages.Load() < 20 {
			return errors.New("too few pages were answered")
		}
		return nil
	})
	way.broken.Store(false)
	account, err := azstore.Open(azstore.Config{ConnectionString: emulator.ConnectionString()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.CloseIdle)
	foreign := fmt.Sprintf(`{"order":7,"customer":"caf\u00e9","lines":%q}`, strings.Repeat("x", 50_000))
	forever := azqueue.EnqueueMessageOptions{TimeToLive: new(int32(-1))}
	if _, err := account.Queue(workflow.Probe).EnqueueMessage(t.Context(), foreign, &forever); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if _, err := user.AwaitReady(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	poison := awaitPoison(t, user) // the watch looks at each of the 34 queues within 31 s
	if sent := redriveAtOnce(t, user, poison.Id, 5); sent != 1 {
		t.Errorf("%d of 5 redrives of one item sent it", sent)
	}
	if again := awaitPoison(t, user); again.Id == poison.Id || !strings.Contains(again.Reason, "not a work item") {
		t.Errorf("after the redrive the poison is %+v", again)
	}
	azuritetest.Eventually(t, time.Minute, func() error { // nothing comes back
		messages, requests := way.messages.Load(), way.requests.Load()
		time.Sleep(10 * time.Second) // in which requests are counted
		messages, requests = way.messages.Load()-messages, way.requests.Load()-requests
		t.Logf("%d pages in Latin-1; at rest %d requests about messages and %d in all", way.pages.Load(), messages, requests)
		if messages > 0 || requests > 1500 {
			return fmt.Errorf("in 10 s there are %d requests about messages, %d in all", messages, requests)
		}
		return nil
	})
}

// awaitPoison waits for the one poison item.
func awaitPoison(t *testing.T, user *journey.User) (poison client.Poison) {
	t.Helper()
	azuritetest.Eventually(t, time.Minute, func() error {
		list, err := user.API().ListPoisonWithResponse(t.Context(), nil)
		if err != nil || list.JSON200 == nil || len(list.JSON200.Items) != 1 {
			return fmt.Errorf("want one poison item: %v, %w", list, err)
		}
		poison = list.JSON200.Items[0]
		return nil
	})
	return poison
}

// redriveAtOnce returns how many of several operators were told that they sent the item.
func redriveAtOnce(t *testing.T, user *journey.User, id string, operators int) int64 {
	t.Helper()
	var all sync.WaitGroup
	var sent atomic.Int64
	for range operators {
		all.Go(func() {
			answer, err := user.API().RedrivePoisonWithResponse(t.Context(), id)
			switch {
			case err != nil:
				t.Error(err)
			case answer.StatusCode() < 300:
				sent.Add(1)
			case answer.StatusCode() != http.StatusConflict && answer.StatusCode() != http.StatusNotFound:
				t.Errorf("a redrive beside others is %d: %s", answer.StatusCode(), answer.Body)
			}
		})
	}
	all.Wait()
	return sent.Load()
}
