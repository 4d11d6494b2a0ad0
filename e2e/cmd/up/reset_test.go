package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

const event = "Reset__Full"

// What is stored is gone after a reset: videos, also those of a burst that was under way,
// messages and runners. The addresses and the number of workers stay, a second reset is as good
// as one, and without a stack there is only the folder to empty.
func TestResetEmptiesTheStack(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	c.workers = "1"
	out, err := c.run(t.Context())
	if err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	base := regexp.MustCompile(`http://\S+`).FindString(out)
	user, err := journey.New(base)
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	before := c.pid(t, stack.Azurite)
	fill(t, user)
	c.workers = "" // the stack keeps what it was started with
	for range 2 {
		c.must(t, "-reset")
		if videos, messages, runners := stored(t, user); videos > 0 || messages > 0 || runners > 0 {
			t.Errorf("after a reset there are %d videos, %d messages and %d runners", videos, messages, runners)
		}
		if now := c.pid(t, stack.Azurite); now == before {
			t.Error("Azurite was not started anew")
		} else {
			before = now
		}
	}
	if c.pid(t, stack.Worker(1)) == "" || c.pid(t, stack.Worker(2)) != "" {
		t.Error("the stack has another number of workers than before")
	}
	fill(t, user)
	c.must(t, "-down")
	for range 2 {
		c.must(t, "-reset")
		if left, err := os.Stat(filepath.Join(c.dir, "data")); !os.IsNotExist(err) {
			t.Errorf("after a reset of a stack that is down there is %v, %v", left, err)
		}
	}
}

// fill leaves videos, messages and a runner, and a burst under way.
func fill(t *testing.T, user *journey.User) {
	t.Helper()
	if _, err := user.Register(t.Context(), event, strings.NewReader("bib,name,sex,age\n7,Ada,F,36\n")); err != nil {
		t.Fatal(err)
	}
	burst, err := user.API().LabBurstWithResponse(t.Context(), client.LabBurst{})
	if err != nil {
		t.Fatal(err)
	}
	if burst.StatusCode() >= http.StatusBadRequest {
		t.Fatalf("burst: %s", burst.Body)
	}
	stacktest.Eventually(t, "there are a video, a message and a runner", func() bool {
		videos, messages, runners := stored(t, user)
		return videos > 0 && messages > 0 && runners > 0
	})
}

// stored is how many there are of what a stack keeps.
func stored(t *testing.T, user *journey.User) (videos int, messages int64, runners int) {
	t.Helper()
	list, err := user.API().ListVideosWithResponse(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if list.JSON200 == nil {
		t.Fatalf("videos: %s", list.Body)
	}
	queues, err := user.API().ListQueuesWithResponse(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if queues.JSON200 == nil {
		t.Fatalf("queues: %s", queues.Body)
	}
	for _, q := range queues.JSON200.Items {
		messages += q.Length
	}
	race, err := user.Runners(t.Context(), event, client.ListRegistrationsParams{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.JSON200.Items), messages, len(race.Items)
}
