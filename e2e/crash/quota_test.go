package crash_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// A web role that is killed in the middle of an upload has reserved a place. The place
// stays taken for the client who goes on through another web role, and is given back
// when none is.
func TestQuotaOfAKilledWebRole(t *testing.T) {
	t.Parallel()
	l := newLaneOn(t, world.connection, 6*time.Second, "CUTROOM_ABANDON_AFTER=8s")
	l.worker("purger", "WORKERROLE_POOLS=light=2,heavy=0")
	const quota = "WEBROLE_QUOTA_WAITING=1"
	one, err := l.AddWeb(t.Context(), quota)
	if err != nil {
		t.Fatal(err)
	}
	two, err := l.AddWeb(t.Context(), quota)
	if err != nil {
		t.Fatal(err)
	}
	announce := func(web string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.WebURL(web)+"/api/v1/videos", strings.NewReader(`{"title":"a"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // reading only
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("Location") + string(body)
	}
	status, said := announce(one)
	if status != http.StatusCreated {
		t.Fatal(status, said)
	}
	location, _, _ := strings.Cut(said, "{")

	reader, writer := io.Pipe()
	broken := make(chan error, 1)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, l.WebURL(one)+location+"/content", reader)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 1 << 20
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			err = fmt.Errorf("answered %d", resp.StatusCode)
			_ = resp.Body.Close()
		}
		broken <- err
	}()
	if _, err := writer.Write(make([]byte, 64<<10)); err != nil { // it has begun to read
		t.Fatal(err)
	}
	if err := l.Kill(one, os.Kill); err != nil {
		t.Fatal(err)
	}
	_ = writer.CloseWithError(io.ErrUnexpectedEOF) // net/http waits for it
	if err := <-broken; err == nil || strings.HasPrefix(err.Error(), "answered") {
		t.Fatalf("the upload did not break: %v", err)
	}
	if status, said := announce(two); status != http.StatusTooManyRequests || !strings.Contains(said, `"videos_waiting"`) {
		t.Fatalf("the place of the broken upload: %d %s", status, said)
	}
	l.await(time.Minute, "the place is given back", func() bool {
		status, _ := announce(two)
		return status == http.StatusCreated
	})
	if status, said := announce(two); status != http.StatusTooManyRequests {
		t.Errorf("a second video in one place: %d %s", status, said)
	}
}
