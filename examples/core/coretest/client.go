package coretest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/examples/core"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
)

// Client asks a web role.
type Client struct {
	*testing.T
	URL string // of all subjects
}

var client = &http.Client{Transport: &http.Transport{}}

// Ask returns the status and the body of an answer. A path that begins with /ops is that of the
// role, and any other is below all subjects.
func (c Client) Ask(method, path string, body []byte) (int, []byte) {
	c.Helper()
	address := c.URL + path
	if strings.HasPrefix(path, "/ops") {
		base, _ := url.Parse(c.URL)
		address = base.Scheme + "://" + base.Host + path
	}
	request, err := http.NewRequestWithContext(context.Background(), method, address, bytes.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		c.Fatal(err)
	}
	return answer.StatusCode, content
}

// Want is Ask for one status.
func (c Client) Want(status int, method, path string, body []byte) []byte {
	c.Helper()
	got, content := c.Ask(method, path, body)
	if got != status {
		c.Fatalf("%s %s: %d, want %d: %s", method, path, got, status, content)
	}
	return content
}

// Decode is Want for 200 and an answer in JSON.
func Decode[T any](c Client, method, path string, body []byte) (result T) {
	c.Helper()
	content := c.Want(200, method, path, body)
	if err := json.Unmarshal(content, &result); err != nil {
		c.Fatalf("%s %s: %v: %s", method, path, err, content)
	}
	return result
}

// Upload sends a file.
func (c Client) Upload(name string, content []byte) core.Shown {
	c.Helper()
	return Decode[core.Shown](c, "POST", "?name="+url.QueryEscape(name), content)
}

// UploadSoon is Upload to a role that may not have made its tables yet.
func (c Client) UploadSoon(name string, content []byte) (now core.Shown) {
	c.Helper()
	azuritetest.Eventually(c, 20*time.Second, func() error {
		status, answer := c.Ask("POST", "?name="+url.QueryEscape(name), content)
		if status != http.StatusOK {
			return fmt.Errorf("%d: %s", status, answer)
		}
		return json.Unmarshal(answer, &now)
	})
	return now
}

// Ended waits until a subject is ready, has failed or was cancelled.
func (c Client) Ended(id engine.ID) (now core.Shown) {
	c.Helper()
	azuritetest.Eventually(c, 60*time.Second, func() error {
		if now = Decode[core.Shown](c, "GET", "/"+string(id), nil); !now.State.Terminal() {
			return fmt.Errorf("it is %s", now.State)
		}
		return nil
	})
	return now
}

// Page is a page of the list.
type Page struct {
	Items         []core.Listed
	NextPageToken string
}

// Listed waits until the list has these subjects, as they are now and the newest first.
func (c Client) Listed(want ...core.Shown) {
	c.Helper()
	azuritetest.Eventually(c, 20*time.Second, func() error {
		items := Decode[Page](c, "GET", "", nil).Items
		same := slices.EqualFunc(items, want, func(l core.Listed, s core.Shown) bool {
			return l.ID == s.ID && l.Name == s.Name && l.State == s.State
		})
		if !same {
			return fmt.Errorf("the list has %v, want %v", items, want)
		}
		return nil
	})
}
